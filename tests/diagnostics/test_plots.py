"""What figures show: every draw and every decision, told apart without colour, and nothing left out unsaid."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

import pymc_austerity as pma
from pymc_austerity.diagnostics.plots import COLOURS


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def counted(panel):
    """Sum of the heights of a panel's bars."""
    return sum(bar.get_height() for bar in panel.patches)


@pytest.fixture
def usage(sampling_result):
    """Plot the rows read of a run of 600 draws."""

    def plot(rows, **options):
        stats = {"n_rows": rows, "full_data": rows == 5000}
        return pma.plot_data_usage(sampling_result({"x": np.zeros((2, 300))}, stats, {"y": np.zeros(5000)}), **options)

    return plot


@pytest.fixture
def rows():
    return np.random.default_rng(1).integers(100, 5001, size=(2, 300))


def test_usage_shows_every_draw_their_mean_and_all_rows(usage, rows):
    histogram, course = usage(rows)
    assert counted(histogram) == 600
    np.testing.assert_array_equal([line.get_ydata() for line in course.lines[:2]], rows)
    assert [line.get_xdata()[0] for line in histogram.lines] == [pytest.approx(rows.mean()), 5000]
    labels = [text.get_text() for text in histogram.get_legend().get_texts()]
    assert labels == [f"mean {rows.mean():,.0f}", "all rows 5,000"]
    assert course.lines[-1].get_ydata()[0] == 5000
    assert histogram.get_xscale() == histogram.get_yscale() == course.get_yscale() == "log"


def test_usage_of_draws_that_read_nothing_or_all_the_same(usage, rows):
    rows[0, :7] = 0
    histogram, course = usage(rows)
    assert counted(histogram) == 593
    assert "7 draws that read none" in histogram.get_xlabel()
    assert np.isnan(course.lines[0].get_ydata()[:7]).all()
    assert counted(usage(np.full((2, 300), 50), total_rows=50)[0]) == 600


@pytest.fixture
def results(sampling_result):
    def run(seed, mean=0.0):
        draws = {"beta": mean + np.random.default_rng(seed).normal(size=(2, 500, 3))}
        return sampling_result(draws, dims={"beta": ["column"]}, coords={"column": ["u", "v", "w"]})

    return {"ours": run(1), "NUTS": run(2), "shifted": run(3, mean=8.0)}


def test_comparison_has_a_panel_of_densities_for_each_parameter(results):
    panels = pma.plot_comparison(results, reference="NUTS")
    assert [panel.get_title() for panel in panels] == ["beta[u]", "beta[v]", "beta[w]"]
    assert [text.get_text() for text in panels[0].get_legend().get_texts()] == ["NUTS", "ours", "shifted"]
    low, high = panels[0].get_xlim()
    strays = results["shifted"]["posterior"]["beta"].values[..., 0]
    assert low < strays.min() < strays.max() < high
    bars = [bar for bar in panels[0].patches if hasattr(bar, "get_height")]
    assert sum(bar.get_height() * bar.get_width() for bar in bars) == pytest.approx(1)

    with pytest.warns(UserWarning, match="3 parameters, of which the first 2 are drawn"):
        panels = pma.plot_comparison(results, reference="NUTS", max_panels=2)
    assert [panel.get_title() for panel in panels] == ["beta[u]", "beta[v]"]


def test_given_axes_are_used_and_must_suffice(results, usage, rows):
    _, axes = plt.subplots(1, 3)
    assert list(pma.plot_comparison(results, reference="NUTS", axes=axes)) == list(axes)
    with pytest.raises(ValueError, match="axes: 3 parameters need as many axes, got 2"):
        pma.plot_comparison(results, reference="NUTS", axes=axes[:2])
    assert list(usage(rows, axes=axes[:2])) == list(axes[:2])
    with pytest.raises(ValueError, match="axes: two are needed.*got 3"):
        usage(rows, axes=axes)


@pytest.fixture
def decided(sampling_result):
    """Plot the decisions of a run of 300, changed in some way."""
    rng = np.random.default_rng(1)
    threshold, ratio = np.log(rng.random((2, 150))), rng.normal(-2, 2, size=(2, 150))
    full = np.abs(ratio - threshold) < 0.3
    sd = np.where(full, 0.0, 0.5)
    stats = {"threshold": threshold, "log_ratio": ratio, "log_ratio_sd": sd, "full_data": full}

    def plot(change=lambda stats: stats):
        changed = change(stats)
        draws = next(iter(changed.values())).shape
        return pma.plot_decisions(sampling_result({"x": np.zeros(draws)}, changed)), ratio

    return plot


def test_every_decision_stands_over_its_threshold(decided):
    ax, ratio = decided()
    partial, full = (container[0] for container in ax.containers)
    assert len(partial.get_xdata()) + len(full.get_xdata()) == 300
    drawn = np.sort(np.concatenate([partial.get_ydata(), full.get_ydata()]))
    np.testing.assert_allclose(drawn, np.sort(ratio.ravel()))
    assert partial.get_marker() != full.get_marker()  # told apart without colour


def test_decisions_that_are_not_shown_are_named(decided):
    some = np.arange(150) < 7
    ax, _ = decided(lambda of: of | {"threshold": np.where(some, np.nan, of["threshold"])})
    assert "14 draws without a decision" in ax.get_xlabel()
    ax, _ = decided(lambda of: {name: np.tile(value, (1, 20)) for name, value in of.items()})
    assert sum(len(container[0].get_xdata()) for container in ax.containers) <= 400
    with pytest.raises(ValueError, match="no threshold in its sample_stats"):
        decided(lambda of: {"lp": np.zeros((2, 4))})


def test_spot_check_shows_every_state_and_the_verdict():
    states = pd.DataFrame({"back": [0.1, 0.5, 1.0], "there": [0.12, 0.5, 0.97], "error_se": [0.01, 0.0, 0.02]})
    ax = pma.plot_spot_check(pma.Reliability("trust", pd.DataFrame(), states, 3.0))
    assert ax.get_title() == "trust"
    points = ax.containers[0][0]
    np.testing.assert_allclose(points.get_xdata(), states["back"])
    np.testing.assert_allclose(points.get_ydata(), states["there"])


def test_errors_fall_with_the_rows_unless_there_is_a_bias(sampling_result):
    """Like the root of the rows; the dashed line is what the reference itself cannot tell."""

    def run(seed, mean=0.0, rows=100):
        draws = mean + np.random.default_rng(seed).normal(size=(2, 2000, 3))
        return sampling_result({"x": draws}, {"n_rows": np.full((2, 2000), rows)})

    results = {"exact": run(1, rows=1000), "fair": run(2), "biased": run(3, mean=0.5, rows=10)}
    fair, biased, noise = pma.plot_error(results, reference="exact").lines
    assert [line.get_xdata()[-1] for line in (fair, biased)] == [2 * 2000 * 100, 2 * 2000 * 10]
    assert fair.get_ydata()[-1] < 0.06 < 0.3 < fair.get_ydata()[0]
    assert biased.get_ydata()[-1] == pytest.approx(0.5, abs=0.05)
    assert noise.get_ydata()[0] == pytest.approx(0.0158, rel=0.1)  # 1/√4000
    assert fair.get_linestyle() != biased.get_linestyle()
    assert to_rgb(fair.get_color()) == to_rgb(COLOURS[0])
    results["silent"] = sampling_result({"x": np.zeros((2, 10, 3))}, {"lp": np.zeros((2, 10))})
    with pytest.raises(ValueError, match="'silent' has neither n_rows nor n_steps"):
        pma.plot_error(results, reference="exact")
