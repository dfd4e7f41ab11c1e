import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from pymc_austerity.diagnostics.plots import COLOURS, plot_comparison, plot_data_usage


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def counted(panel):
    """Sum of the heights of a panel's bars."""
    return sum(bar.get_height() for bar in panel.patches)


class TestPlotDataUsage:
    @pytest.fixture
    def rows(self):
        return np.random.default_rng(1).integers(100, 5001, size=(2, 300))

    @pytest.fixture
    def idata(self, sampling_result, rows):
        stats = {"n_rows": rows, "full_data": rows == 5000}
        return sampling_result({"x": np.zeros((2, 300))}, stats, {"y": np.zeros(5000)})

    def test_every_draw_is_in_the_histogram_and_in_the_course(self, idata, rows):
        histogram, course = plot_data_usage(idata)
        assert counted(histogram) == 600
        np.testing.assert_array_equal([line.get_ydata() for line in course.lines[:2]], rows)

    def test_mean_and_all_rows_are_marked(self, idata, rows):
        histogram, course = plot_data_usage(idata)
        assert [line.get_xdata()[0] for line in histogram.lines] == [pytest.approx(rows.mean()), 5000]
        labels = [text.get_text() for text in histogram.get_legend().get_texts()]
        assert labels == [f"mean {rows.mean():,.0f}", "all rows 5,000"]
        assert course.lines[-1].get_ydata()[0] == 5000
        assert histogram.get_xscale() == histogram.get_yscale() == course.get_yscale() == "log"

    def test_draws_that_read_nothing_are_named(self, sampling_result, rows):
        rows[0, :7] = 0
        idata = sampling_result({"x": np.zeros((2, 300))}, {"n_rows": rows})
        histogram, course = plot_data_usage(idata, total_rows=5000)
        assert counted(histogram) == 593
        assert "7 draws that read none" in histogram.get_xlabel()
        assert np.isnan(course.lines[0].get_ydata()[:7]).all()

    def test_constant_counts_can_be_drawn(self, sampling_result):
        idata = sampling_result({"x": np.zeros((2, 300))}, {"n_rows": np.full((2, 300), 50)})
        histogram, _ = plot_data_usage(idata, total_rows=50)
        assert counted(histogram) == 600

    def test_given_axes_are_used_and_must_be_two(self, idata):
        _, axes = plt.subplots(1, 2)
        assert list(plot_data_usage(idata, axes=axes)) == list(axes)
        _, axes = plt.subplots(1, 3)
        with pytest.raises(ValueError, match="axes: two are needed.*got 3"):
            plot_data_usage(idata, axes=axes)


class TestPlotComparison:
    @pytest.fixture
    def results(self, sampling_result):
        def run(seed, mean=0.0):
            return sampling_result(
                {"beta": mean + np.random.default_rng(seed).normal(size=(2, 500, 3))},
                dims={"beta": ["column"]},
                coords={"column": ["u", "v", "w"]},
            )

        return {"ours": run(1), "NUTS": run(2), "shifted": run(3, mean=8.0)}

    def test_a_panel_for_each_parameter(self, results):
        panels = plot_comparison(results, reference="NUTS")
        assert [panel.get_title() for panel in panels] == ["beta[u]", "beta[v]", "beta[w]"]
        labels = [text.get_text() for text in panels[0].get_legend().get_texts()]
        assert labels == ["NUTS", "ours", "shifted"]

    def test_a_run_that_strays_is_inside_the_panel(self, results):
        (panel,) = plot_comparison(results, reference="NUTS", var_names=["beta"], max_panels=4)[:1]
        low, high = panel.get_xlim()
        draws = results["shifted"]["posterior"]["beta"].values[..., 0]
        assert low < draws.min()
        assert high > draws.max()

    def test_areas_are_densities(self, results):
        panel = plot_comparison(results, reference="NUTS")[0]
        area = sum(bar.get_height() * bar.get_width() for bar in panel.patches if hasattr(bar, "get_height"))
        assert area == pytest.approx(1)

    def test_runs_differ_in_line_style_and_in_lightness(self, results):
        """Colour is never the only difference."""
        panel = plot_comparison(results, reference="NUTS")[0]
        outlines = [patch for patch in panel.patches if not hasattr(patch, "get_height")]
        assert len({outline.get_linestyle() for outline in outlines}) == len(outlines) == 2
        luminance = [np.dot(to_rgb(colour), (0.2126, 0.7152, 0.0722)) for colour in COLOURS[:2]]
        assert max(luminance) < to_rgb("0.8")[0] - 0.2

    def test_too_many_panels_are_announced(self, results):
        with pytest.warns(UserWarning, match="3 parameters, of which the first 2 are drawn"):
            panels = plot_comparison(results, reference="NUTS", max_panels=2)
        assert [panel.get_title() for panel in panels] == ["beta[u]", "beta[v]"]

    def test_given_axes_are_used_and_must_suffice(self, results):
        _, axes = plt.subplots(1, 3)
        assert list(plot_comparison(results, reference="NUTS", axes=axes)) == list(axes)
        with pytest.raises(ValueError, match="axes: 3 parameters need as many axes, got 2"):
            plot_comparison(results, reference="NUTS", axes=axes[:2])

    def test_the_reference_must_be_there(self, results):
        with pytest.raises(ValueError, match="reference: 'exact' is not among the runs"):
            plot_comparison(results, reference="exact")
