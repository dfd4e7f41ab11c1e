"""What is compiled and what is checked when a step is put together, and again for new data."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

import pymc_austerity as pma
from pymc_austerity.kernel import assembly, parts

X = np.random.default_rng(1).normal(size=(300, 2))
LABELS = (np.random.default_rng(2).random(len(X)) < expit(X @ [1.0, -0.5])).astype(int)


def built(y=LABELS, prior=pm.Normal, **options):
    with pm.Model():
        pm.Bernoulli("obs", logit_p=X @ prior("beta", shape=2), observed=y)
        return pma.PenaltyMH(progressbar=False, **options)


def scaled(make, by_rows):
    """Make the rows of a batch wrong: by a thousandth, or the more of them there are."""

    def changed(*arguments):
        both_sides = make(*arguments)

        def wrong(*at):
            return tuple(side * (1.001 if not by_rows else len(side)) for side in both_sides(*at))

        return wrong

    return changed


@pytest.mark.parametrize("options", [{}, {"proxy": None}])
def test_rows_are_compiled_only_where_they_decide(options):
    made = vars(built(**options).decider.compiled)
    assert ("density" in made, "interpreted" in made) == ((True, False) if options else (False, True))


def test_rows_that_depend_on_their_batch_are_refused(monkeypatch):
    monkeypatch.setattr(parts, "interpret_rows", scaled(parts.interpret_rows, True))
    monkeypatch.setattr(assembly, "_learn", None)
    with pytest.raises(pma.NotRowWiseError):
        built()


def test_sums_that_were_compiled_wrongly_are_refused(monkeypatch):
    monkeypatch.setattr(assembly, "interpret_rows", scaled(assembly.interpret_rows, False))
    with pytest.raises(RuntimeError, match="compiles the model wrongly"):
        built()


def test_rows_without_a_proxy_are_checked_as_compiled(monkeypatch):
    separable = (X[:, 0] > 0).astype(int)
    with pytest.warns(UserWarning, match="No proxy could be built"):
        built(separable, pm.Flat)
    monkeypatch.setattr(parts, "compile_rows", scaled(parts.compile_rows, False))
    with pytest.warns(UserWarning, match="No proxy could be built"), pytest.raises(pma.NotRowWiseError):
        built(separable, pm.Flat)


def test_what_is_learnt_from_new_data_is_what_a_new_step_learns():
    """With what was compiled for the old ones."""
    others = (np.random.default_rng(3).random(len(X)) < expit(X @ [1.0, -0.5])).astype(int)

    def on_data(y):
        with pm.Model() as model:
            pm.Bernoulli("obs", logit_p=X @ pm.Normal("beta", shape=2), observed=pm.Data("y", y))
            return model, pma.PenaltyMH(progressbar=False)

    model, step = on_data(LABELS)
    compiled, old = step.decider.compiled.derivatives, step.decider.parts.prepared
    pm.set_data({"y": others}, model=model)
    step.start_chain(np.random.default_rng(0))
    assert step.decider.compiled.derivatives is compiled
    anew, fresh = step.decider.parts.prepared, on_data(others)[1].decider.parts.prepared
    for name in ("centre", "gradient", "hessian"):
        np.testing.assert_allclose(getattr(anew.expansion, name), getattr(fresh.expansion, name), rtol=1e-6, atol=1e-6)
    assert not np.allclose(anew.expansion.centre, old.expansion.centre, rtol=1e-3)
