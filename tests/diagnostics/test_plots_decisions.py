import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from pymc_austerity.diagnostics.plots import COLOURS
from pymc_austerity.diagnostics.plots_decisions import plot_decisions, plot_error, plot_spot_check
from pymc_austerity.diagnostics.reliability import Reliability


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


class TestPlotDecisions:
    @pytest.fixture
    def stats(self):
        rng = np.random.default_rng(1)
        threshold = np.log(rng.random((2, 150)))
        ratio = rng.normal(-2, 2, size=(2, 150))
        full = np.abs(ratio - threshold) < 0.3
        sd = np.where(full, 0.0, 0.5)
        return {"threshold": threshold, "log_ratio": ratio, "log_ratio_sd": sd, "full_data": full}

    def test_every_decision_stands_over_its_threshold(self, sampling_result, stats):
        ax = plot_decisions(sampling_result({"x": np.zeros((2, 150))}, stats))
        partial, full = (container[0] for container in ax.containers)
        assert len(partial.get_xdata()) + len(full.get_xdata()) == 300
        drawn = np.sort(np.concatenate([partial.get_ydata(), full.get_ydata()]))
        np.testing.assert_allclose(drawn, np.sort(stats["log_ratio"].ravel()))
        # Told apart without colour: another marker.
        assert partial.get_marker() != full.get_marker()

    def test_draws_without_a_decision_are_named(self, sampling_result, stats):
        stats["threshold"][0, :7] = np.nan
        ax = plot_decisions(sampling_result({"x": np.zeros((2, 150))}, stats))
        assert "7 draws without a decision" in ax.get_xlabel()

    def test_many_decisions_are_thinned(self, sampling_result, stats):
        many = {name: np.tile(value, (1, 20)) for name, value in stats.items()}
        ax = plot_decisions(sampling_result({"x": np.zeros((2, 3000))}, many))
        assert sum(len(container[0].get_xdata()) for container in ax.containers) <= 400

    def test_a_run_without_thresholds_is_refused(self, sampling_result):
        with pytest.raises(ValueError, match="no threshold in its sample_stats"):
            plot_decisions(sampling_result({"x": np.zeros((2, 4))}, {"lp": np.zeros((2, 4))}))


def test_spot_check_shows_every_state_and_the_verdict():
    states = pd.DataFrame({"back": [0.1, 0.5, 1.0], "there": [0.12, 0.5, 0.97], "error_se": [0.01, 0.0, 0.02]})
    ax = plot_spot_check(Reliability("trust", pd.DataFrame(), states, 3.0))
    assert ax.get_title() == "trust"
    points = ax.containers[0][0]
    np.testing.assert_allclose(points.get_xdata(), states["back"])
    np.testing.assert_allclose(points.get_ydata(), states["there"])


class TestPlotError:
    @pytest.fixture
    def results(self, sampling_result):
        def run(seed, mean=0.0, rows=100):
            draws = mean + np.random.default_rng(seed).normal(size=(2, 2000, 3))
            return sampling_result({"x": draws}, {"n_rows": np.full((2, 2000), rows)})

        return {"exact": run(1, rows=1000), "fair": run(2), "biased": run(3, mean=0.5, rows=10)}

    def test_errors_fall_like_the_root_of_the_rows_unless_there_is_a_bias(self, results):
        ax = plot_error(results, reference="exact")
        fair, biased = ax.lines[:2]
        assert fair.get_xdata()[-1] == 2 * 2000 * 100
        assert biased.get_xdata()[-1] == 2 * 2000 * 10
        assert fair.get_ydata()[-1] < 0.06 < 0.3 < fair.get_ydata()[0]
        assert biased.get_ydata()[-1] == pytest.approx(0.5, abs=0.05)
        # What the reference itself cannot tell: 1/√4000.
        assert ax.lines[2].get_ydata()[0] == pytest.approx(0.0158, rel=0.1)

    def test_runs_differ_in_line_style(self, results):
        fair, biased = plot_error(results, reference="exact").lines[:2]
        assert fair.get_linestyle() != biased.get_linestyle()
        assert to_rgb(fair.get_color()) == to_rgb(COLOURS[0])

    def test_a_run_that_does_not_tell_what_it_read_is_refused(self, results, sampling_result):
        results["silent"] = sampling_result({"x": np.zeros((2, 10, 3))}, {"lp": np.zeros((2, 10))})
        with pytest.raises(ValueError, match="'silent' has neither n_rows nor n_steps"):
            plot_error(results, reference="exact")
