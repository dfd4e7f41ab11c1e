"""Comparisons of runs: what differs beyond Monte Carlo error, shared random numbers, and how they are printed."""

import arviz as az
import numpy as np
import pytest
import xarray as xr

from pymc_austerity.diagnostics import compare
from pymc_austerity.diagnostics.shared_randomness import correlation_of_draws

CHAINS, DRAWS = 4, 1_000
SHAPE = (CHAINS, DRAWS)


def moving(seed, k=40, rho=0.5):
    """Draws of stationary autoregressive chains of standard normal numbers, independent ones for no correlation."""
    draws = np.random.default_rng(seed).normal(size=(*SHAPE, k))
    for t in range(1, DRAWS if rho else 1):
        draws[:, t] = rho * draws[:, t - 1] + np.sqrt(1 - rho**2) * draws[:, t]
    return draws


def independent(seed, k=1):
    return moving(seed, k, rho=0.0)


def close_to(draws, seed, by=0.1):
    """Draws of the same law, correlated with others in the same place."""
    return np.sqrt(1 - by**2) * draws + by * moving(seed)


@pytest.fixture
def table(sampling_result):
    """Compare runs of one variable, of which the last is the reference."""

    def table(level=0.01, **draws):
        results = {name: sampling_result({"x": x[..., 0] if x.shape[2:] == (1,) else x}) for name, x in draws.items()}
        return compare(results, reference=list(draws)[-1], level=level)

    return table


@pytest.fixture
def compared(table):
    return lambda draws, reference: table(ours=draws, NUTS=reference)


def of(table, column):
    return table.xs("ours", level="run")[column]


def unit_spread(values, within):
    return abs(values.std() - 1) < within


def test_table_by_hand(sampling_result):
    """Independent draws have the textbook errors of a mean and of a standard deviation, from both runs."""
    reference, other = independent(1)[..., 0] * 2 + 5, independent(2)[..., 0] * 3 + 6
    results = {
        "NUTS": sampling_result({"slope": reference}, seconds=2.0),
        "other": sampling_result({"slope": other}, seconds=0.5),
    }
    found = compare(results, reference="NUTS")
    row = found.loc[("slope", "other")]
    ess = float(az.ess(results["other"])["slope"])
    by_hand = {
        "mean": other.mean(), "sd": other.std(), "shift": (other.mean() - reference.mean()) / reference.std(),
        "sd_ratio": other.std() / reference.std(), "ess": ess, "ess_per_s": ess / 0.5,
    }  # fmt: skip
    assert row[list(by_hand)].to_dict() == pytest.approx(by_hand)
    assert found.loc[("slope", "NUTS"), "ess_per_s"] == pytest.approx(float(az.ess(reference)) / 2)
    n = CHAINS * DRAWS
    assert row["shift_mcse"] == pytest.approx(np.sqrt((1 + 1.5**2) / n), rel=0.1)
    assert row["sd_ratio_mcse"] == pytest.approx(1.5 / np.sqrt(n), rel=0.1)


def test_errors_are_calibrated(compared):
    """Differences over their errors have unit spread; over errors that ignore autocorrelation, not.

    The distances of agreeing runs are what their error says, or smaller: the size of the median is too small for tails.
    """
    found = compared(moving(5, 200, 0.8), moving(6, 200, 0.8))
    # 200 standardised values: their spread has standard error 1/sqrt(400) = 0.05.
    assert unit_spread(of(found, "shift") / of(found, "shift_mcse"), 0.2)
    assert unit_spread((of(found, "sd_ratio") - 1) / of(found, "sd_ratio_mcse"), 0.2)
    assert (of(found, "shift") / np.sqrt(2 / (CHAINS * DRAWS))).std() > 2
    assert 0.55 < (of(found, "ks") / of(found, "ks_mcse")).mean() < 1.1


@pytest.mark.slow
def test_only_real_differences_are_flagged(table):
    """A shift by 0.2 moves the distribution function by 0.08; a spread of 1.2 by 0.04, which is close to the 0.039 that
    4,000 draws each can show at this level.
    """
    runs = {
        "same": independent(8, 100), "slow": moving(9, 100, 0.9), "shifted": independent(10, 100) + 0.2,
        "wide": independent(11, 100) * 1.2, "both": independent(12, 100) * 1.2 + 0.2, "reference": independent(7, 100),
    }  # fmt: skip
    differs = table(**runs)["differs"].groupby("run").agg(set)
    assert differs["same"] == differs["slow"] == differs["reference"] == {""}
    assert differs["shifted"] == {"mean, distribution"}
    assert differs["wide"] <= {"sd", "sd, distribution"}
    assert differs["both"] <= {"mean, sd", "mean, sd, distribution"}


def test_level_is_divided_among_all_questions(table):
    """A mean that is 2.45 standard errors off (p = .014) is seen as one of 6 questions at the level .1, not of 9."""
    a, b = independent(1, 3), independent(2, 3)
    a[..., 0] += (b - a)[..., 0].mean() + 2.45 * np.sqrt(2 / (CHAINS * DRAWS))
    for n_parameters, seen in ((2, True), (3, False)):
        found = table(0.1, a=a[..., :n_parameters], b=b[..., :n_parameters])["differs"][("x[0]", "a")]
        assert ("mean" in found) == seen


def test_a_difference_of_shape_alone_is_flagged(table):
    """Mean and standard deviation agree; a distance over its error that ignores autocorrelation would not."""
    uniform = np.random.default_rng(20).uniform(-np.sqrt(3), np.sqrt(3), size=(*SHAPE, 1))
    found = table(uniform=uniform, slow=moving(22, 1, 0.9), NUTS=independent(21)).loc["x"]
    assert found["differs"][["uniform", "slow"]].to_list() == ["distribution", ""]
    # sup|F - Φ| of a uniform law with unit variance is 0.057, at x = ±1.07.
    assert found.loc["uniform", "ks"] == pytest.approx(0.057, abs=0.03)
    assert found.loc["slow", "ks_mcse"] > 2 * found.loc["uniform", "ks_mcse"]


def test_a_stuck_chain_is_flagged_and_a_constant_is_not(compared):
    draws = independent(13, 2)
    draws[..., 1] = 3.0
    stuck = np.broadcast_to([0.5, 3.0], draws.shape)
    assert list(of(compared(stuck, draws), "differs")) == ["mean, sd, distribution", ""]


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_draws_that_are_no_numbers_are_flagged(compared, wrong):
    right, draws = independent(2, 2), independent(1, 2)
    draws[0, 3, 1] = wrong
    for pair in ((draws, right), (right, draws)):
        assert list(of(compared(*pair), "differs")) == ["", "not finite"]


@pytest.mark.filterwarnings("ignore:Found chain dimension")
@pytest.mark.parametrize(("n_draws", "words"), [(3, "the chains of 'ours' have 3 draws"), (0, "has no draws")])
def test_too_few_draws_are_not_compared(compared, n_draws, words):
    with pytest.raises(ValueError, match=words):
        compared(independent(1)[:, :n_draws], independent(2))


def test_rows_per_draw_of_counting_steps_and_of_nuts(sampling_result):
    x, y = {"x": independent(14)[..., 0]}, {"y": np.zeros(500)}
    counts = {"NUTS": ("n_steps", 7), "ours": ("n_rows", 40), "other": ("accept", 1)}
    results = {run: sampling_result(x, {name: np.full(SHAPE, n)}, y) for run, (name, n) in counts.items()}
    rows = compare(results, reference="NUTS").loc["x", "rows_per_draw"]
    assert rows[["NUTS", "ours"]].to_list() == [3500, 40]
    assert np.isnan(rows["other"])


def test_layout_follows_parameters_and_runs(sampling_result):
    draws = independent(15, 3)
    settings = {"dims": {"beta": ["column"]}, "coords": {"column": ["u", "v", "w"]}}
    results = {run: sampling_result({"beta": draws, "other": draws[..., 0]}, **settings) for run in ("a", "b")}
    found = compare(results, reference="b", var_names=["beta"])
    assert list(found.index) == [(f"beta[{column}]", run) for column in ("u", "v", "w") for run in ("a", "b")]
    assert found.xs("b", level="run")["shift"].isna().all()


def test_unmatched_coordinates_are_refused(sampling_result):
    draws = independent(17, 2)

    def run(labels):
        return sampling_result({"beta": draws[..., : len(labels)]}, dims={"beta": ["k"]}, coords={"k": list(labels)})

    for other, named in (("vu", r"beta\[v\]"), ("u", r"\['beta\[v\]'\]")):
        with pytest.raises(ValueError, match=f"'b' and the reference 'a' differ .*{named}"):
            compare({"a": run("uv"), "b": run(other)}, reference="a")


@pytest.mark.parametrize("level", [0, 1, -0.1])
def test_level_is_a_probability(table, level):
    with pytest.raises(ValueError, match="level: must lie strictly between 0 and 1"):
        table(level, a=independent(18), b=independent(18))


def test_independent_runs_share_nothing():
    """At any correlation once in ten thousand comparisons; none of twenty."""
    runs = ([xr.Dataset({"x": (("chain", "draw", "k"), moving(2 * s + k))}) for k in (0, 1)] for s in range(20))
    assert not any(correlation_of_draws(*pair)[1] for pair in runs)


@pytest.mark.parametrize("length", [DRAWS, 600])
def test_runs_that_share_random_numbers_are_told(compared, length):
    """Their errors are those of independent runs, and said to be too large."""
    reference = moving(100)
    found = compared(close_to(reference, 101)[:, :length], reference)
    assert found.sharing == ("ours",)
    assert "are of independent runs, and too large" in repr(found)
    assert (of(found, "correlation") > 0.98).all()
    assert (found["differs"] == "").all()
    independent_runs = compared(moving(102)[:, :length], reference)
    assert independent_runs.sharing == ()
    ratio = of(independent_runs, "shift_mcse") / of(found, "shift_mcse")
    assert abs(ratio.mean() - 1) < 0.05


def test_a_line_a_parameter_in_eighty_columns(sampling_result, table):
    names = ["a coordinate of which the name is very long indeed", "male"]
    settings = {"dims": {"b": ["k"]}, "coords": {"k": names}}
    draws = moving(500)[..., :2]
    runs = {name: sampling_result({"b": x}, seconds=2.0, **settings) for name, x in (("a", draws), ("b", draws + 1))}
    found = compare(runs, reference="a")
    text, html = repr(found), found._repr_html_()
    assert max(map(len, text.splitlines())) <= 80
    assert sum(line.startswith("b[") for line in text.splitlines()) == 2
    assert all(word in text for word in ("shift", "sd ratio", "differs", "mean, distribution", "+1.0", "share random"))
    assert "nan" not in (text + html).lower()
    assert "very long indeed" in html
    assert type(found.loc["b[male]"]).__name__ == "DataFrame"
    assert "shift_mcse" in found.round(3)
    many = np.random.default_rng(1).normal(size=(2, 50, 80))
    assert "… and 20 more lines" in repr(table(a=many, b=many))
