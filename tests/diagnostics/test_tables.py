import arviz as az
import numpy as np
import pytest

from pymc_austerity.diagnostics import compare, data_usage

CHAINS, DRAWS = 4, 1000


def independent(seed, n_parameters, mean=0.0, sd=1.0):
    """Independent normal draws, shape (chain, draw, parameter)."""
    return mean + sd * np.random.default_rng(seed).normal(size=(CHAINS, DRAWS, n_parameters))


def autocorrelated(seed, n_parameters, correlation):
    """Draws of stationary standard normal AR(1) chains, shape (chain, draw, parameter)."""
    draws = independent(seed, n_parameters)
    for t in range(1, DRAWS):
        draws[:, t] = correlation * draws[:, t - 1] + np.sqrt(1 - correlation**2) * draws[:, t]
    return draws


class TestDataUsage:
    @pytest.fixture
    def idata(self, sampling_result):
        rows = np.array([[100, 100, 200, 400], [100, 300, 800, 1000]])
        draws = np.random.default_rng(0).normal(size=(2, 4, 2))
        return sampling_result(
            {"slow": np.cumsum(draws[..., 0], axis=1), "quick": draws[..., 1]},
            {"n_rows": rows, "full_data": rows == 1000},
            {"y": np.zeros(1000)},
        )

    def test_arithmetic(self, idata):
        usage = data_usage(idata)
        assert usage["mean"] == 375
        assert usage["median"] == 250
        assert usage["q90"] == pytest.approx(np.quantile([100, 100, 200, 400, 100, 300, 800, 1000], 0.9))
        assert usage["max"] == usage["total_rows"] == 1000
        assert usage["share"] == 0.375
        assert usage["full_scans"] == 1 / 8

    def test_effective_size_is_the_smallest_of_arviz(self, sampling_result):
        posterior = {"slow": autocorrelated(0, 1, 0.9)[..., 0], "quick": independent(0, 1)[..., 0]}
        rows = np.full((CHAINS, DRAWS), 250)
        idata = sampling_result(posterior, {"n_rows": rows, "full_data": rows == 1000}, {"y": np.zeros(1000)})
        usage = data_usage(idata)
        sizes = {name: float(az.ess(draws)) for name, draws in posterior.items()}
        assert sizes["slow"] < sizes["quick"] / 5
        assert usage["ess"] == pytest.approx(sizes["slow"])
        assert usage["ess_per_million_rows"] == pytest.approx(sizes["slow"])  # 4,000 draws of 250 rows
        assert data_usage(idata, var_names=["quick"])["ess"] == pytest.approx(sizes["quick"])

    def test_total_rows_overrides_the_observed_data(self, idata):
        usage = data_usage(idata, total_rows=10_000)
        assert usage["total_rows"] == 10_000
        assert usage["share"] == 0.0375
        # Whether a draw read everything is for the step to say, not for the count.
        assert usage["full_scans"] == 1 / 8

    def test_rows_are_those_that_the_step_drew_from(self, sampling_result):
        """Of outcomes of different length all, and not as many as the longest has."""
        rows = np.full((2, 4), 200)
        stats = {"n_rows": rows, "full_data": rows > 200, "total_rows": np.full((2, 4), 1500)}
        draws = {"mean": np.random.default_rng(0).normal(size=(2, 4))}
        idata = sampling_result(draws, stats, {"y": np.zeros(1000), "z": np.zeros(500)})
        assert data_usage(idata)["total_rows"] == 1500
        assert data_usage(idata, total_rows=10_000)["share"] == 0.02

    def test_several_steps_add_up(self, sampling_result):
        rows = np.stack([np.full((2, 4), 30), np.full((2, 4), 70)], axis=-1)
        full = np.zeros((2, 4, 2), dtype=bool)
        full[0, 0] = [False, True]
        usage = data_usage(
            sampling_result(
                {"mean": np.random.default_rng(0).normal(size=(2, 4))}, {"n_rows": rows, "full_data": full}
            ),
            total_rows=100,
        )
        assert usage["mean"] == usage["max"] == 100
        assert usage["full_scans"] == 1 / 8

    def test_passes_before_sampling_add_up_over_steps(self, sampling_result):
        rows = np.full((2, 4, 2), 30)
        stats = {"n_rows": rows, "full_data": rows > 30, "setup_passes": np.broadcast_to([4.5, 1.0], rows.shape)}
        stats["setup_seconds"] = np.broadcast_to([2.0, 3.0], rows.shape)
        draws = {"mean": np.random.default_rng(0).normal(size=(2, 4))}
        usage = data_usage(sampling_result(draws, stats, seconds=7.0), total_rows=100)
        assert (usage["setup_passes"], usage["setup_seconds"], usage["sampling_seconds"]) == (5.5, 5.0, 7.0)

    def test_a_run_that_read_nothing_has_no_efficiency(self, sampling_result):
        stats = {"n_rows": np.zeros((2, 4), dtype=int), "full_data": np.zeros((2, 4), dtype=bool)}
        idata = sampling_result({"mean": np.random.default_rng(0).normal(size=(2, 4))}, stats)
        assert np.isnan(data_usage(idata, total_rows=10)["ess_per_million_rows"])

    def test_a_run_without_counts_is_refused(self, sampling_result):
        with pytest.raises(ValueError, match=r"no n_rows in its sample_stats \(found \['lp'\]\)"):
            data_usage(sampling_result({"mean": np.zeros((2, 4))}, {"lp": np.zeros((2, 4))}))


class TestCompare:
    def test_arithmetic(self, sampling_result):
        reference = independent(1, 1)[..., 0] * 2 + 5
        other = independent(2, 1)[..., 0] * 3 + 6
        results = {
            "NUTS": sampling_result({"slope": reference}, seconds=2.0),
            "other": sampling_result({"slope": other}, seconds=0.5),
        }
        table = compare(results, reference="NUTS")
        row = table.loc[("slope", "other")]
        assert row["mean"] == pytest.approx(other.mean())
        assert row["sd"] == pytest.approx(other.std())
        assert row["shift"] == pytest.approx((other.mean() - reference.mean()) / reference.std())
        assert row["sd_ratio"] == pytest.approx(other.std() / reference.std())
        assert row["ess"] == pytest.approx(float(az.ess(results["other"])["slope"]))
        assert row["ess_per_s"] == pytest.approx(row["ess"] / 0.5)
        assert table.loc[("slope", "NUTS"), "ess_per_s"] == pytest.approx(float(az.ess(reference)) / 2)
        # Independent draws: the textbook errors of a mean and of a standard deviation, from both runs.
        n = CHAINS * DRAWS
        assert row["shift_mcse"] == pytest.approx(np.sqrt((1 + 1.5**2) / n), rel=0.1)
        assert row["sd_ratio_mcse"] == pytest.approx(1.5 / np.sqrt(n), rel=0.1)

    def test_error_of_the_standard_deviation_is_that_of_arviz(self, sampling_result):
        draws = autocorrelated(4, 1, 0.7)[..., 0]
        if int(az.__version__.split(".")[0]) < 1:
            pytest.skip("arviz.mcse(method='sd') of ArviZ 0.23 raises under current NumPy")
        other = autocorrelated(5, 1, 0.7)[..., 0]
        results = {"a": sampling_result({"x": draws}), "b": sampling_result({"x": other})}
        errors = [float(az.mcse(of, method="sd")) for of in (draws, other)]
        expected = np.hypot(errors[0] * other.std() / draws.std(), errors[1]) / draws.std()
        assert compare(results, reference="a").loc[("x", "b"), "sd_ratio_mcse"] == pytest.approx(expected, rel=1e-3)

    def test_errors_are_calibrated(self, sampling_result):
        """Differences over their errors have unit spread; over errors that ignore autocorrelation, not."""
        n_parameters = 200
        first, second = (autocorrelated(seed, n_parameters, 0.8) for seed in (5, 6))
        results = {"a": sampling_result({"x": first}), "b": sampling_result({"x": second})}
        table = compare(results, reference="a").xs("b", level="run")
        # 200 standardised values: their spread has standard error 1/sqrt(400) = 0.05.
        assert abs((table["shift"] / table["shift_mcse"]).std() - 1) < 0.2
        assert abs(((table["sd_ratio"] - 1) / table["sd_ratio_mcse"]).std() - 1) < 0.2
        assert (table["shift"] / np.sqrt(2 / first[..., 0].size)).std() > 2

    def test_only_real_differences_are_flagged(self, sampling_result):
        n_parameters = 100
        reference = sampling_result({"x": independent(7, n_parameters)})
        runs = {
            "same": independent(8, n_parameters),
            "same, slow": autocorrelated(9, n_parameters, 0.9),
            "shifted": independent(10, n_parameters, mean=0.2),
            "wide": independent(11, n_parameters, sd=1.2),
            "both": independent(12, n_parameters, mean=0.2, sd=1.2),
        }
        results = {"reference": reference} | {run: sampling_result({"x": x}) for run, x in runs.items()}
        differs = compare(results, reference="reference")["differs"].groupby("run").agg(set)
        assert differs["same"] == {""}
        assert differs["same, slow"] == {""}
        # A shift by 0.2 moves the distribution function by 0.08; a spread of 1.2 moves it by 0.04, which is close to
        # the 0.039 that 4,000 draws each can show at this level.
        assert differs["shifted"] == {"mean, distribution"}
        assert differs["wide"] <= {"sd", "sd, distribution"}
        assert differs["both"] <= {"mean, sd", "mean, sd, distribution"}
        assert differs["reference"] == {""}

    @pytest.mark.slow
    def test_level_is_divided_among_all_questions(self, sampling_result):
        """At level 1/2 at most about half of all agreeing comparisons show any flag."""
        flagged = 0
        for seed in range(40):
            results = {
                "a": sampling_result({"x": independent(2 * seed, 20)}),
                "b": sampling_result({"x": independent(2 * seed + 1, 20)}),
            }
            flagged += (compare(results, reference="a", level=0.5)["differs"] != "").any()
        # Bonferroni at 1/2 with 60 nearly independent questions flags with probability 1 - exp(-1/2) = 0.39.
        # Binomial(40, 0.39) lies in 4..28 with probability 1 - 3e-5; undivided, it would be 40 of 40. Mean and
        # distribution often flag together, which lowers the probability a little.
        assert 4 <= flagged <= 28

    def test_a_difference_of_shape_alone_is_flagged(self, sampling_result):
        """Mean and standard deviation agree; a distance over its error that ignores autocorrelation would not."""
        uniform = np.random.default_rng(20).uniform(-np.sqrt(3), np.sqrt(3), size=(CHAINS, DRAWS))
        slow = autocorrelated(22, 1, 0.9)[..., 0]
        runs = {"NUTS": independent(21, 1)[..., 0], "uniform": uniform, "slow": slow}
        table = compare({run: sampling_result({"x": x}) for run, x in runs.items()}, reference="NUTS").loc["x"]
        assert table.loc["uniform", "differs"] == "distribution"
        # sup|F - Φ| of a uniform law with unit variance is 0.057, at x = ±1.07.
        assert table.loc["uniform", "ks"] == pytest.approx(0.057, abs=0.03)
        assert table.loc["slow", "differs"] == ""
        assert table.loc["slow", "ks_mcse"] > 2 * table.loc["uniform", "ks_mcse"]

    def test_distances_of_agreeing_runs_are_what_their_error_says(self, sampling_result):
        """Half of the distances of autocorrelated runs lie below Kolmogorov's median, 0.83/0.87 of the mean."""
        first, second = (sampling_result({"x": autocorrelated(seed, 200, 0.8)}) for seed in (23, 24))
        table = compare({"a": first, "b": second}, reference="a").xs("b", level="run")
        # The effective size of the median is too small for the tails: the comparison is conservative, never liberal.
        assert 0.55 < (table["ks"] / table["ks_mcse"]).mean() < 1.1

    def test_a_stuck_chain_is_flagged_and_a_constant_is_not(self, sampling_result):
        reference = {"x": independent(13, 1)[..., 0], "constant": np.full((CHAINS, DRAWS), 3.0)}
        stuck = {"x": np.full((CHAINS, DRAWS), 0.5), "constant": np.full((CHAINS, DRAWS), 3.0)}
        results = {"NUTS": sampling_result(reference), "stuck": sampling_result(stuck)}
        differs = compare(results, reference="NUTS")["differs"]
        assert differs[("x", "stuck")] == "mean, sd, distribution"
        assert differs[("constant", "stuck")] == ""

    def test_rows_per_draw_of_counting_steps_and_of_nuts(self, sampling_result):
        x = {"x": independent(14, 1)[..., 0]}
        y = {"y": np.zeros(500)}
        results = {
            "NUTS": sampling_result(x, {"n_steps": np.full((CHAINS, DRAWS), 7)}, y),
            "ours": sampling_result(x, {"n_rows": np.full((CHAINS, DRAWS), 40)}, y),
            "other": sampling_result(x, {"accept": np.ones((CHAINS, DRAWS))}, y),
        }
        rows = compare(results, reference="NUTS").loc["x", "rows_per_draw"]
        assert rows["NUTS"] == 3500
        assert rows["ours"] == 40
        assert np.isnan(rows["other"])

    def test_layout_follows_parameters_and_runs(self, sampling_result):
        draws = independent(15, 3)
        settings = {"dims": {"beta": ["column"]}, "coords": {"column": ["u", "v", "w"]}}
        results = {run: sampling_result({"beta": draws, "other": draws[..., 0]}, **settings) for run in ("a", "b")}
        table = compare(results, reference="b", var_names=["beta"])
        assert list(table.index) == [(f"beta[{column}]", run) for column in ("u", "v", "w") for run in ("a", "b")]
        assert table.xs("b", level="run")["shift"].isna().all()

    def test_whole_numbers_and_switches_have_moments(self, sampling_result):
        draws = independent(16, 1)[..., 0]
        results = {
            run: sampling_result({"count": np.round(draws).astype(int), "switch": draws > 0}) for run in ("a", "b")
        }
        table = compare(results, reference="a")
        assert table.loc[("switch", "b"), "mean"] == pytest.approx((draws > 0).mean())
        assert table.loc[("count", "b"), "sd_ratio"] == 1

    def test_unmatched_coordinates_are_refused(self, sampling_result):
        draws = independent(17, 2)
        results = {
            "a": sampling_result({"beta": draws}, dims={"beta": ["k"]}, coords={"k": ["u", "v"]}),
            "b": sampling_result({"beta": draws}, dims={"beta": ["k"]}, coords={"k": ["v", "u"]}),
            "c": sampling_result({"beta": draws[..., :1]}, dims={"beta": ["k"]}, coords={"k": ["u"]}),
        }
        with pytest.raises(ValueError, match=r"'b' and the reference 'a' differ .*beta\[v\]"):
            compare({run: results[run] for run in "ab"}, reference="a")
        with pytest.raises(ValueError, match=r"'c' and the reference 'a' differ .*\['beta\[v\]'\]"):
            compare({run: results[run] for run in "ac"}, reference="a")

    @pytest.mark.parametrize("level", [0, 1, -0.1])
    def test_level_is_a_probability(self, sampling_result, level):
        result = sampling_result({"x": independent(18, 1)[..., 0]})
        with pytest.raises(ValueError, match="level: must lie strictly between 0 and 1"):
            compare({"a": result, "b": result}, reference="a", level=level)
