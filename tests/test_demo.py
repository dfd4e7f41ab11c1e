import time

import numpy as np
import pandas as pd
import pymc as pm
import pytest

from pymc_austerity import demo
from pymc_austerity.demo.__main__ import Run, effective_draws, figure, main, sample
from pymc_austerity.steps import ExactMH

ROWS = 4_000


@pytest.fixture
def covariates():
    return np.random.default_rng(1).normal(size=(ROWS, 2)) * (1, 50) + (0, 7)


def test_rand_rows():
    X, y = demo.rand_health_insurance()
    assert X.shape == (20_190, 9)
    assert y.shape == (20_190,)
    # 6,308 of the 20,190 had no visit; another column taken for the outcome would not.
    assert (y == 0).sum() == 6308
    assert set(y) == {0, 1}
    assert "mdvis" not in X


OUTCOMES = [
    (np.arange(ROWS) % 2 > 0, "Bernoulli", set()), (np.arange(ROWS) % 7, "NegBinomial", {"alpha"}),
    (np.arange(ROWS) - 1, "Normal", {"sigma"}), (np.linspace(-1, 1, ROWS), "Normal", {"sigma"}),
]  # fmt: skip


@pytest.mark.parametrize(("outcome", "distribution", "others"), OUTCOMES)
def test_regression_fits_the_outcome(covariates, outcome, distribution, others):
    model = demo.regression(pd.DataFrame(covariates, columns=["a", "b"]).assign(constant=1.0), outcome)
    assert {variable.name for variable in model.free_RVs} == {"intercept", "beta"} | others
    assert model.coords["covariate"] == ("a", "b")
    (observed,) = model.observed_RVs
    assert type(observed.owner.op).__name__.startswith(distribution)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.ones((3, 2))}, r"no array y \(found \['X'\]\)"),
        ({"X": np.ones((3, 2)), "y": np.ones(4)}, r"X has shape \(3, 2\) and y \(4,\)"),
        ({"X": np.ones(3), "y": np.ones(3)}, r"X has shape \(3,\)"),
        ({"X": np.ones((0, 2)), "y": np.ones(0)}, r"X has shape \(0, 2\)"),
        ({"X": np.array([["a"]]), "y": np.ones(1)}, "X holds <U1"),
        ({"X": np.ones((2, 1)), "y": np.array([1, np.nan])}, "y holds float64 with NaN"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path, capsys, arrays, message):
    path = tmp_path / "rows.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=message):
        demo.rows_from_file(path)
    # On the command line the same message, without a traceback.
    with pytest.raises(SystemExit):
        main(["--data", str(path)])
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "value"), [("--data", "nowhere.npz"), ("--rows", "50")])
def test_what_cannot_be_read_or_is_too_small_is_named(capsys, option, value):
    with pytest.raises(SystemExit):
        main([option, value])
    assert value in capsys.readouterr().err


def test_a_synthetic_table_has_its_slopes_and_its_size():
    X, y = demo.synthetic(50_000, seed=1)
    assert X.shape == (50_000, 9)
    assert set(y) == {0, 1}
    # The average of x (y − ȳ) has the sign of the slope, nine standard errors and more from zero but in the middle.
    slopes = (X.to_numpy() * (y - y.mean())[:, None]).mean(axis=0)
    assert (np.sign(slopes) == np.sign(np.linspace(-0.8, 0.8, 9))).sum() >= 8
    np.testing.assert_array_equal(X, demo.synthetic(50_000, seed=1)[0])


def test_effective_draws_grow_with_the_seconds(sampling_result):
    draws = np.random.default_rng(3).normal(size=(2, 300))
    run = Run(sampling_result({"mu": draws}), began=30.0, ended=33.0, finished=True, progress="300 of 300")
    seconds, effective = effective_draws(run)
    assert (seconds[0], seconds[-1]) == (30.0 + 3.0 * 4 / 300, 33.0)  # four draws are the fewest that count
    assert effective[0] < effective[-1]
    assert 300 < effective[-1] < 1200


@pytest.fixture(scope="module")
def exact_step():
    rows = np.random.default_rng(1).normal(size=50)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 1), 1, observed=rows)
        return model, ExactMH(proxy=None)


@pytest.mark.parametrize(("drawn", "panels"), [(("MHSS",), 1), (("MHSS", "NUTS"), 13)])
def test_the_figure_has_marginals_where_both_made_draws(drawn, panels, sampling_result):
    rng = np.random.default_rng(0)
    runs = {}
    for name in ("MHSS", "NUTS"):
        idata = sampling_result({"mu": rng.normal(size=(2, 50))}) if name in drawn else None
        runs[name] = Run(idata, 1.0, 2.0, finished=True, progress="50 of 50")
    sheet = figure(runs)
    assert len(sheet.axes) == panels
    assert (sheet.get_figheight() < 5) == (panels == 1)


def test_a_run_that_is_stopped_keeps_what_it_drew(exact_step):
    model, step = exact_step
    options = {"step": step, "tune": 50, "chains": 1, "cores": 1, "progressbar": False, "random_seed": 1}
    with model:
        stopped, whole = (sample(5.0, limit, draws=100, **options) for limit in (5.0, np.inf))
    assert not stopped.finished  # at its first draw, of tuning
    assert stopped.idata is None
    assert stopped.progress == "1 of 150"
    assert whole.finished
    assert whole.progress == "150 of 150"
    assert whole.idata["posterior"].sizes["draw"] == 100
    assert 5.0 < whole.began < whole.ended
    # Building the step counts.
    options = {**options, "tune": 5, "compute_convergence_checks": False}
    with model:
        assert sample(5.0, np.inf, lambda: time.sleep(0.5) or step, draws=5, **{**options, "step": None}).began > 5.5


def test_the_demo_finds_the_slopes_and_reports(tmp_path, capsys, covariates):
    logits = 0.5 + covariates @ (1.0, 0.01)
    y = (np.random.default_rng(2).random(ROWS) < 1 / (1 + np.exp(-logits))).astype(int)
    path = tmp_path / "rows.npz"
    np.savez(path, X=covariates, y=y)
    picture = tmp_path / "made" / "demo.png"
    main(["--data", str(path), "--figure", str(picture)] + ["--chains", "2", "--nuts-tune", "500", "--seconds", "1e6"])
    printed = capsys.readouterr().out
    found = "4,000 rows, 2 covariates", "logistic regression", "MHSS       2 x 2,000", "NUTS       2 x 500"
    for expected in (*found, "0 of 3 parameters differ"):
        assert expected in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_standardised_outside_the_model(covariates):
    """The model must not change when covariates change their units."""
    y = np.arange(ROWS) % 2
    models = [demo.regression(pd.DataFrame(covariates * unit), y) for unit in (1, 1000)]
    points = [model.compile_logp(mode="FAST_COMPILE")(model.initial_point()) for model in models]
    assert points[0] == pytest.approx(points[1])
    assert isinstance(models[0], pm.Model)
