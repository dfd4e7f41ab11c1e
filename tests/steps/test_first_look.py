"""What a step says while it is built of chains that would read most of the rows, or hardly move."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma
from pymc_austerity.acceptance import DECIDED, Reads
from pymc_austerity.kernel import Chain
from pymc_austerity.steps import first_look

N = 5_000


@pytest.mark.parametrize(
    ("n_rows", "accepted", "reads", "said", "tried"),
    [
        (200, 1.0, Reads.BATCHES, None, 40),
        (4_500, 1.0, Reads.BATCHES, "A step reads most of the rows, 90% of 5,000 a decision in 5 transitions", 5),
        (200, 0.0, Reads.BATCHES, "A step hardly moves: 0% of the moves were accepted in 40 transitions", 40),
        (N, 0.0, Reads.ALL, None, 0),
    ],
    ids=["ordinary", "most of the rows", "still", "all rows by design"],
)
def test_what_is_said(n_rows, accepted, reads, said, tried, monkeypatch, caplog):
    calls = []

    class Chain:
        def __init__(self, decider, rng):
            pass

        def transition(self, theta, others, temperature):
            calls.append(temperature)
            return SimpleNamespace(status=DECIDED, theta=theta, n_rows=n_rows, accepted=accepted)

    monkeypatch.setattr(first_look, "Chain", Chain)
    monkeypatch.setattr(first_look, "_of_batches", lambda *of: [])
    monkeypatch.setattr(first_look, "_seconds_of_rows", lambda decider: 1.0)
    decider = SimpleNamespace(
        draws_of_surrogate=lambda: np.zeros((1, 2)), test=SimpleNamespace(reads=reads),
        row_source=SimpleNamespace(complete=True), proposal=pma.RandomWalk(),
        parts=SimpleNamespace(
            stored=np.empty(N), prepared=SimpleNamespace(), others0=np.empty(0),
            temperature=SimpleNamespace(final=1.0),
        ),
    )  # fmt: skip
    first_look.look_ahead(decider, "A step")
    assert len(calls) == tried
    assert caplog.text == "" if said is None else said in caplog.text


@pytest.mark.parametrize(("n_rows", "said"), [(2_500, True), (200_000, False)])
def test_nuts_is_named_where_it_is_as_quick(n_rows, said, caplog):
    caplog.set_level("INFO", logger="pymc_austerity")
    x = np.random.default_rng(3).normal(size=n_rows)
    with pm.Model():
        pm.StudentT("y", 4, mu=pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * x, sigma=1, observed=x + np.cos(9 * x))
        pma.PenaltyMH(progressbar=False)
    assert ("NUTS is about as quick" in caplog.text) == said


@pytest.mark.slow
def test_batches_that_miss_the_rows_that_matter_are_announced(caplog):
    """The effect of an exposure is known from five rows."""
    rng = np.random.default_rng(2)
    x, exposed = rng.normal(size=N), 1.0 * (np.arange(N) < 5)
    with pm.Model():
        eta = pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * x + pm.Normal("c", 0, 3) * exposed
        pm.Bernoulli("y", logit_p=eta, observed=rng.random(N) < 1 / (1 + np.exp(-x - 3 * exposed)))
        pma.PenaltyMH(rows=pma.Uniform(), progressbar=False)
    assert "draws batches whose means are not normal" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("step", [pma.PenaltyMH, pma.ExactMH])
def test_an_expansion_that_misses_the_posterior_is_announced(step, caplog):
    """Of rows that tell a + exp(b) alone."""
    y = np.random.default_rng(23).normal(0.5, 1, N)
    with pm.Model():
        b = pm.Normal("b", 0, 1)
        pm.Normal("y", pm.Normal("a", 0, 1) + pm.math.exp(b), 1, observed=y)
        step(progressbar=False)
    assert f"{step.__name__} will have few effective draws" in caplog.text


@pytest.mark.slow
def test_tails_that_an_expansion_misses_are_announced(caplog):
    """Of the effect of a rare exposure, all of whose rows are cases: 30 effective draws of 800."""
    rng = np.random.default_rng(3010)
    X = rng.normal(size=(N, 4))
    X[:, 0] = rng.random(N) < 0.004
    cases = rng.random(N) < 1 / (1 + np.exp(1 - X[:, 1:].sum(axis=1) / 2))
    with pm.Model():
        eta = X @ pm.Normal("b", 0, 10, shape=4) + pm.Normal("a", 0, 5)
        pm.Bernoulli("y", logit_p=eta, observed=cases | (X[:, 0] == 1))
        pma.PenaltyMH(progressbar=False)
    assert "PenaltyMH will have few effective draws" in caplog.text


@pytest.mark.slow
def test_an_expansion_that_meets_the_posterior_is_not(caplog):
    """Of all rows, and of a sample of more rows than are looked at, whose noise is taken away."""
    rng = np.random.default_rng(1)
    for n in (N, 4 * first_look._ROWS):
        x = rng.normal(size=n)
        with pm.Model():
            eta = pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * x
            pm.Bernoulli("y", logit_p=eta - 5, observed=rng.random(n) < 1 / (1 + np.exp(5 - x)))
            pma.PenaltyMH(progressbar=False)
            pma.ExactMH(progressbar=False)
    assert "few effective draws" not in caplog.text
    assert "draws batches" not in caplog.text


@pytest.mark.slow
def test_draws_that_are_tried_are_of_all_parameters(monkeypatch):
    """Without the indicators compiled code wrote beyond the arrays of θ, which ended the process at 30 coefficients."""
    rng, sizes, transition = np.random.default_rng(3), [], Chain.transition
    X = rng.normal(size=(N, 6))

    def noted(self, theta, *at):
        sizes.append(len(theta))
        return transition(self, theta, *at)

    monkeypatch.setattr(Chain, "transition", noted)
    with pm.Model():
        included, beta = pm.Bernoulli("included", 0.5, shape=6), pm.Normal("beta", 0, 1, shape=6)
        pm.Normal("y", X @ (included * beta), 1, observed=X[:, 0] + rng.normal(size=N))
        pma.PenaltyMH(proposal=pma.ReversibleJump("beta", "included"), progressbar=False)
    assert set(sizes) == {12}
