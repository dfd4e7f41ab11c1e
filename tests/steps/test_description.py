"""What a step says of itself, and for how long it is tuned."""

from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma
from pymc_austerity.acceptance import Barker, ConcentrationBound, FixedBatch, ScalableSubsampling, SequentialT
from pymc_austerity.acceptance.uncorrected import AlwaysAccept
from pymc_austerity.groups.group_decider import expected_rows
from pymc_austerity.steps.description import describe_step

RNG = np.random.default_rng(0)
X, GROUP = RNG.normal(size=(4_000, 2)), RNG.integers(0, 20, 4_000)
OUTCOME = RNG.random(4_000) < 1 / (1 + np.exp(-X[:, 0]))


def slopes():
    with pm.Model() as model:
        intercept, b = pm.Normal("intercept"), pm.Normal("b", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=intercept + X @ b, observed=OUTCOME)
    return model


NOISE = "the noise of a batch is taken for normal"


def annealed():
    return pma.PenaltyMH(proxy=None, temperature=pma.Annealing(start=5, steps=500))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "said", "tune"),
    [
        (pma.PenaltyMH, f"PenaltyMH(intercept, b): approximate ({NOISE}), about 200 of 4,000 rows a draw", 300),
        (lambda: pma.ExactMH(proxy=None), "ExactMH(intercept, b): exact, reads all 4,000 rows a draw", None),
        (lambda: pma.PenaltyMH(thin=10), "about 2,000 of 4,000 rows a draw", 300),
        (annealed, "200 or more of 4,000 rows a draw", None),
    ],
)
def test_a_step_says_what_it_is_and_how_long_it_is_tuned(make, said, tune):
    """Moves on a surrogate are tuned in 300 draws; random walks, and temperatures that fall, take PyMC's number."""
    with slopes():
        step = make()
    shown = repr(step)
    assert said in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80
    assert step.default_tune_steps == tune


@pytest.mark.slow
def test_moves_of_groups_by_bounds():
    """They are exact; where the bounds do not reach as far as some moves go, a draw reads so many rows or more."""
    with pm.Model():
        effect = pm.Normal("effect", 0, pm.HalfNormal("scale"), shape=20)
        pm.Bernoulli("y", logit_p=X[:, 0] + effect[GROUP], observed=OUTCOME)
        step = pma.MHSS(progressbar=False)
    decider = step.decider
    assert repr(step).startswith("MHSS(scale, effect): exact, about ")
    assert decider.parts.bounded
    expected, may_read_more = expected_rows(decider)
    assert not may_read_more
    assert 0 < step.predicted_rows < decider.n_rows
    costs = decider.prepared.costs._replace(drawn=np.inf)
    beyond = replace(decider, prepared=decider.prepared._replace(costs=costs))
    assert expected_rows(beyond) == (expected, True)


def test_distinct_rows_are_called_so():
    with pm.Model():
        p = pm.Beta("p", 1, 1)
        pm.Bernoulli("y", p, observed=np.arange(5_000) % 4 == 0)
        assert "reads all 2 distinct rows a draw" in repr(pma.ExactMH(proxy=None))


@pytest.mark.slow
def test_gibbs_says_what_it_is():
    with pm.Model():
        x = pm.Bernoulli("x", 0.5, shape=3)
        pm.Potential("factors", x[pm.Data("index", np.array([0, 1, 2]))] * 0.1)
        step = pma.ApproxGibbs([x], factors=np.array([0, 1, 2]), batch_size=2)
    said = "(each look errs with probability 0.05), 3 factors, 2 or more at each look at a variable"
    assert " ".join(repr(step).split()) == f"ApproxGibbs(x): approximate {said}"


@pytest.mark.parametrize(
    ("test", "said"),
    [
        (pma.ExactBarker(), ""),
        (ScalableSubsampling(), ""),
        (Barker(100), NOISE),
        (SequentialT(0, 500), ""),
        (ConcentrationBound(0.01), "a decision errs with probability 0.01 at most"),
        (FixedBatch(500), "biased: the noise of a batch is not corrected"),
        (AlwaysAccept(), "biased: every proposal is taken"),
    ],
)
def test_tests_say_how_they_err(test, said):
    assert test.error == said


def test_many_variables_are_counted():
    with pm.Model() as model:
        for k in range(9):
            pm.HalfNormal(f"b{k}")
    shown = describe_step("MHSS", model.value_vars, "", "reads all 9 rows")
    assert shown == "MHSS(b0, b1, b2, b3, b4, b5, 3 more): exact, reads all 9 rows"


@pytest.mark.skipif(version("pymc") < "6", reason="PyMC 5 does not ask")
@pytest.mark.slow
def test_pymc_tunes_as_long_as_a_step_asks():
    with slopes():
        run = pm.sample(
            draws=50, step=pma.PenaltyMH(), chains=2, cores=1, random_seed=1, progressbar=False,
            discard_tuned_samples=False, compute_convergence_checks=False,
        )  # fmt: skip
    assert run["warmup_posterior"].sizes["draw"] == 300
