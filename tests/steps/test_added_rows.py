"""Rows that are added to a table: a step keeps what it knows of the others, or learns anew and says so."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

import pymc_austerity as pma
from pymc_austerity.bounds.remainder_bounds import RemainderBounds
from pymc_austerity.proxy.full_pass import FullPass
from pymc_austerity.proxy.remainder_sizes import remainder_sizes
from pymc_austerity.rows import Rows, weighted
from pymc_austerity.rows import grown as grown_rows
from pymc_austerity.rows.grown import GrownRows

N, DOUBLINGS = 2_000, 5
SLOPES = np.array([0.8, -0.5, 0.3])
RUN = {"cores": 1, "chains": 2, "progressbar": False, "compute_convergence_checks": False}


def table(n, seed=1, slopes=SLOPES):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(slopes)))
    return x, (rng.random(n) < expit(x @ slopes)).astype(int)


def logistic(x, y, shift=0.0):
    with pm.Model() as model:
        data = pm.Data("x", x), pm.Data("y", y), pm.Data("shift", shift)
        pm.Bernoulli("o", logit_p=data[0] @ pm.Normal("b", 0, 1, shape=3) + data[2], observed=data[1])
    return model


def grown(step, model, x, y):
    pm.set_data({"x": x, "y": y}, model=model)
    step.follow_data()
    return step.decider


@pytest.fixture(params=["PenaltyMH", "MHSS"])
def step_of_half(request):
    """A step that was built on the first half of a table, its model, and the table."""
    x, y = table(2 * N)
    model = logistic(x[:N], y[:N])
    with model:
        return getattr(pma, request.param)(progressbar=False), model, x, y


@pytest.mark.slow
def test_doubling_five_times_is_a_fit_of_everything():
    """Means and sds are those of a step that was built on all rows, within Monte Carlo error."""
    x, y = table(N * 2**DOUBLINGS, seed=5)
    kept, found = [], {}
    with logistic(x[:N], y[:N]) as model:
        growing = pma.PenaltyMH(progressbar=False)
        for k in range(1, DOUBLINGS + 1):
            before, n = growing.decider.parts.prepared.kept.psi, N * 2**k
            decider = grown(growing, model, x[:n], y[:n])
            kept.append(np.array_equal(before, decider.parts.prepared.kept.psi))
        for name, built in {"grown": growing, "anew": pma.PenaltyMH(progressbar=False)}.items():
            idata = pm.sample(6_000, tune=300, step=built, random_seed=3, **RUN)
            found[name] = idata["posterior"]["b"].to_numpy().reshape(-1, 3)
    assert sum(kept) >= 3
    sd = found["anew"].std(axis=0)
    assert np.abs(found["grown"].mean(axis=0) - found["anew"].mean(axis=0)).max() < 0.08 * sd.max()
    np.testing.assert_allclose(found["grown"].std(axis=0), sd, rtol=0.06)


def known_and_true(step, model, x, y):
    """Return sums, weights and bounds of a step whose rows were added to, and what passes over all rows find."""
    decider = grown(step, model, x, y)
    prepared, like, rows = decider.parts.prepared, decider.parts.likelihood, (decider.parts.fixed, decider.parts.stored)
    kept = prepared.kept
    sums = FullPass(like, prepared.expansion.coordinates)(kept.psi, *rows)
    pairs = [
        (prepared.expansion.gradient, sums.gradient),
        (prepared.expansion.hessian, sums.hessian),
        (kept.value, sums.value),
    ]
    if prepared.table is not None:
        sizes = remainder_sizes(decider.density.both_sides, kept.pairs, np.empty(0), kept.psi, *rows)
        pairs.append((prepared.table.weight, weighted.row_table(sizes, 0.2).weight))
    else:
        whitened, drawn = decider.bound_constants
        factor = np.linalg.cholesky(kept.factor @ kept.factor.T)
        bounds = RemainderBounds(like)(kept.psi, factor, whitened.radius, *rows)
        bounds[drawn.always] = 0.0
        pairs.append((drawn.size, bounds))
    return pairs


def agree(pairs):
    return all(np.allclose(found, true, rtol=1e-4, atol=1e-7 * np.abs(true).max()) for found, true in pairs)


@pytest.mark.slow
def test_what_is_kept_is_what_all_rows_say(step_of_half, monkeypatch):
    """And of the first rows a pass sees those alone that are weighed or bounded again, and the sample for averages."""
    seen, evaluate = [], FullPass.__call__

    def noted(self, psi, fixed, rows, **options):
        seen.append(rows)
        return evaluate(self, psi, fixed, rows, **options)

    monkeypatch.setattr(FullPass, "__call__", noted)
    assert agree(known_and_true(*step_of_half))
    assert isinstance(seen[0], GrownRows)
    assert seen[0].n_known == N
    assert type(step_of_half[0].decider.parts.stored) is Rows  # what was known is not held any more


@pytest.mark.parametrize("planted", ["sums", "weights"])
def test_what_is_kept_would_be_missed(planted, monkeypatch):
    """Controls: without the sums of the first rows, or with their weights for the sizes, nothing agrees."""
    if planted == "sums":
        monkeypatch.setattr(GrownRows, "each", lambda self, work, advance=None: iter([work(self.new)]))
    else:
        monkeypatch.setattr(grown_rows, "sizes_drawn_by", lambda drawn_by, floor: drawn_by.weight)
    x, y = table(2 * N)
    with logistic(x[:N], y[:N]) as model:
        step = pma.PenaltyMH(progressbar=False)
    assert not agree(known_and_true(step, model, x, y))


@pytest.mark.parametrize("step_of_half", ["PenaltyMH"], indirect=True)
def test_a_posterior_that_moved_far_is_learnt_anew(step_of_half, caplog):
    step, model, x, y = step_of_half
    more, of_more = table(N, seed=2, slopes=-SLOPES)
    before = step.decider.parts.prepared.kept.psi
    with caplog.at_level("INFO", "pymc_austerity"):
        decider = grown(step, model, np.concatenate([x[:N], more]), np.append(y[:N], of_more))
    assert "2,000 rows were added to 2,000: the posterior has moved by" in caplog.text
    assert np.abs(decider.parts.prepared.kept.psi - before).max() > 0.1
    assert np.abs(decider.parts.prepared.kept.psi).max() < 0.2


@pytest.mark.parametrize("step_of_half", ["PenaltyMH"], indirect=True)
@pytest.mark.parametrize("change", ["row", "fixed", "fewer"])
def test_other_changes_are_learnt_anew(step_of_half, change, caplog):
    step, model, x, y = step_of_half
    if change == "row":
        y = np.append(1 - y[:1], y[1:])
    elif change == "fixed":
        pm.set_data({"shift": 0.1}, model=model)
    else:
        x, y = x[: N - 1], y[: N - 1]
    with caplog.at_level("INFO", "pymc_austerity"):
        grown(step, model, x, y)
    assert "were added" not in caplog.text
