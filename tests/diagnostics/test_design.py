"""The analysis of the sequential test and its design: against the paper, simulation, and planted mistakes."""

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from decisions import decisions
from scipy import integrate, stats
from toy import NoCorrection

import pymc_austerity as pma
from pymc_austerity.acceptance.decision_error import acceptance_error
from pymc_austerity.acceptance.operating_characteristic import (
    looks_of_design,
    operating_characteristic,
    stopping_probabilities,
)
from pymc_austerity.acceptance.sequential import SequentialT

N = 2_000
#: Row terms that are normal, so that the assumptions of the analysis hold.
VALUES = stats.norm.ppf((np.arange(N) + 0.5) / N)
SIGMA = VALUES.std()
SETTINGS = {
    "Pocock": {"epsilon": 0.05, "batch_size": 100},
    "between": {"epsilon": 0.08, "batch_size": 160, "alpha": 0.75},
}


@pytest.mark.parametrize(("epsilon", "error", "look"), [(0.05, 0.305, 16.0), (0.01, 0.0946, 23.3)])
def test_values_of_the_authors_at_a_tie(epsilon, error, look):
    test = pma.analyse_test(13_000, epsilon=epsilon, batch_size=500)
    assert test.worst_error == pytest.approx(error, rel=2e-3)
    assert test.worst_share * 26 == pytest.approx(look, rel=3e-3)
    # Not so for the bound of another epsilon, or looks of another size.
    assert pma.analyse_test(13_000, epsilon=1.1 * epsilon, batch_size=500).worst_error != pytest.approx(error, rel=2e-3)
    assert pma.analyse_test(13_000, epsilon=epsilon, batch_size=450).worst_error != pytest.approx(error, rel=2e-3)


def test_error_at_a_tie_is_half_the_probability_to_stop_early():
    looks = looks_of_design(SequentialT(0.03, 120, alpha=0.7), N)
    below, above = stopping_probabilities(looks, np.zeros(1))
    assert below == pytest.approx(above)
    assert operating_characteristic(looks).worst_error == pytest.approx((below + above).sum() / 2)


def test_rows_with_replacement_are_a_brownian_motion():
    looks = looks_of_design(SequentialT(0.05, 200, replacement=True), N)
    assert looks.information == pytest.approx(looks.shares[:-1])
    assert looks.shares[-1] == pytest.approx(1.9)  # nine looks, then all rows one by one
    rng, n, mu_std = np.random.default_rng(5), 200_000, 1.0
    increments = rng.normal(mu_std * 0.1, np.sqrt(0.1), size=(n, 9))
    z = increments.cumsum(axis=1) / np.sqrt(0.1 * np.arange(1, 10))
    outside = np.abs(z) > looks.bounds
    first = np.where(outside.any(axis=1), outside.argmax(axis=1), -1)
    error = ((first >= 0) & (z[np.arange(n), first] < 0)).mean()
    expected = operating_characteristic(looks).error(mu_std)
    assert abs(error - expected) < 4 * np.sqrt(expected / n)
    assert abs(error - pma.analyse_test(N, epsilon=0.05, batch_size=200).error(mu_std)) > 10 * np.sqrt(expected / n)


def test_limits():
    exact = pma.analyse_test(N, epsilon=0.0)
    assert (exact.worst_error, exact.worst_share) == (0.0, 1.0)
    assert exact.error([0.0, 1.0]) == pytest.approx([0, 0])
    assert exact.share([0.0, 1.0]) == pytest.approx([1, 1])
    first = pma.analyse_test(N, epsilon=0.5, batch_size=200)  # always decides on one batch
    assert first.share([0.0, 3.0]) == pytest.approx([0.1, 0.1])
    assert first.error([0.0, 3.0]) == pytest.approx(stats.norm.sf(np.array([0.0, 3.0]) * np.sqrt(1 / 9)), abs=1e-6)
    assert pma.analyse_test(N, epsilon=1e-4).error(-2.0) == pma.analyse_test(N, epsilon=1e-4).error(2.0)


def test_more_nodes_change_nothing(monkeypatch):
    looks = looks_of_design(SequentialT(0.02, 100, alpha=0.9), 20_000)
    mu_std = np.array([0.0, 0.5, 2.0, 8.0])
    coarse = stopping_probabilities(looks, mu_std)
    monkeypatch.setattr("pymc_austerity.acceptance.operating_characteristic._NODES_PER_SD", 4.0)
    assert np.allclose(coarse, stopping_probabilities(looks, mu_std), rtol=0, atol=1e-9)
    monkeypatch.setattr("pymc_austerity.acceptance.operating_characteristic._NODES_PER_SD", 0.4)
    assert not np.allclose(coarse, stopping_probabilities(looks, mu_std), rtol=0, atol=1e-9)


def _by_quad(test, ratio, noise):
    """Equation 6 and E_u π̄, by an adaptive rule over −log u."""
    error = lambda v: -np.exp(-v) * np.sign(ratio + v) * float(test.error((ratio + v) / noise))  # noqa: E731
    share = lambda v: np.exp(-v) * float(test.share((ratio + v) / noise))  # noqa: E731
    edges = sorted({0.0, 45.0, *(p for k in (-9, -3, -1, 0, 1, 3, 9, 30) if 0 < (p := k * noise - ratio) < 45)})
    pieces = list(pairwise(edges))
    return [sum(integrate.quad(f, a, b, limit=200)[0] for a, b in pieces) for f in (error, share)]


@pytest.mark.parametrize("replacement", [False, True])
def test_quadrature_over_the_uniform_number(replacement):
    test = pma.analyse_test(20_000, epsilon=0.03, batch_size=500, alpha=0.6, replacement=replacement)
    ratio, noise = map(np.ravel, np.meshgrid([-30.0, -2.0, -0.5, 0.0, 1.5], [0.05, 0.3, 3.0, 40.0]))
    error, share = acceptance_error(test, ratio, noise)
    expected = np.array([_by_quad(test, r, s) for r, s in zip(ratio, noise)])
    assert np.allclose(np.stack([error, share], axis=1), expected, rtol=0, atol=1e-5)
    assert (np.abs(error) <= test.worst_error).all()
    error, share = acceptance_error(test, [-1.0, 0.5], [0.0, 0.0])  # without noise one batch decides
    assert error == pytest.approx([0, 0], abs=1e-9)
    assert replacement or share == pytest.approx([0.025, 0.025], rel=1e-6)


def _away(kind, settings, ratio, noise):
    """Return how far acceptance and rows of a compiled test are from the analysis, over what chance allows."""
    n_tests, scale = 10_000, noise * np.sqrt(N - 1) / SIGMA
    (error,), (share,) = acceptance_error(pma.analyse_test(N, **settings), [ratio], [noise])
    accepted, rows = decisions(kind(**settings), VALUES, ratio, n_tests, scale=scale, seed=8)
    of_error, of_share = (4 * of.std() / np.sqrt(n_tests) for of in (accepted, rows / N))
    # The largest error is far from zero, so the check is not of nothing.
    assert ratio != 0 or abs(error) > 3 * of_error
    return (
        abs(accepted.mean() - min(1, np.exp(ratio)) - error) / (of_error + 1e-3),
        abs(rows.mean() / N - share) / (of_share + 2e-3),
    )


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_compiled_test_accepts_as_often_as_analysed(settings):
    for ratio, noise in ((-2.0, 3.0), (0.0, 3.0), (1.0, 20.0)):
        assert max(_away(SequentialT, settings, ratio, noise)) < 1


@pytest.mark.slow
def test_a_missing_finite_population_correction_is_seen():
    assert min(_away(NoCorrection, SETTINGS["Pocock"], 0.0, 3.0)) > 1.5


def test_bound_on_the_total_variation():
    assert pma.total_variation_bound(0.002, eta=0.9) == pytest.approx(0.02)
    assert pma.total_variation_bound(0.5, eta=0.9) == 1.0
    assert [pma.total_variation_bound(error, eta=0.0) for error in (0.0, 0.3, 1.0)] == [0.0, 0.3, 1.0]
    for error, eta in ((-0.1, 0.5), (1.1, 0.5), (0.1, 1.0), (0.1, 1.5), (0.1, -0.1)):
        with pytest.raises(ValueError, match="="):
            pma.total_variation_bound(error, eta=eta)


def test_bound_on_the_total_variation_holds_on_two_states():
    """Independent uniform proposals between two states: the exact chain and the one with errors, as matrices."""
    test = pma.analyse_test(1_000, epsilon=0.2, batch_size=100)
    ratio = -0.7
    (there, back), _ = acceptance_error(test, [ratio, -ratio], [4.0, 4.0])
    exact, wrong = np.array([np.exp(ratio), 1.0]) / 2, np.array([np.exp(ratio) + there, 1.0 + back]) / 2
    distance = abs(wrong[0] / wrong.sum() - exact[0] / exact.sum())
    bound = pma.total_variation_bound(max(abs(there), abs(back)), eta=abs(1 - exact.sum()))
    assert 0.01 < distance <= bound < 1


@lru_cache
def _trial(seed, n_pairs=300):
    """Pairs as a random walk in ten dimensions meets them."""
    rng = np.random.default_rng(seed)
    noise = rng.gamma(16, 0.15, n_pairs)
    return pma.Trial(rng.normal(-(noise**2) / 2, noise), noise, 20_000)


@pytest.mark.slow
def test_average_design_meets_its_tolerance_on_fresh_pairs():
    tolerance = 0.005
    average = pma.design_test(_trial(1), tolerance=tolerance, batch_sizes=[200, 500, 1_000])
    worst = pma.design_test(_trial(1), tolerance=tolerance, kind="worst-case", batch_sizes=[200, 500, 1_000])
    error, share = pma.evaluate_test(_trial(2), **average)
    error_worst, share_worst = pma.evaluate_test(_trial(2), **worst)
    assert 0.7 * tolerance < error <= tolerance
    assert error_worst < error / 3
    assert share < share_worst - 0.05
    assert worst.worst_error <= tolerance < average.worst_error


def test_design_is_the_cheapest_of_its_grid():
    """And as bold as allowed: ε = 1/2 where nothing is close, zero where everything is."""
    trial, grid = _trial(1), {"batch_sizes": [500, 2_000], "alphas": [0.5, 0.8]}
    best = pma.design_test(trial, tolerance=0.01, **grid)
    singles = [
        pma.design_test(trial, tolerance=0.01, batch_sizes=[m], alphas=[a])
        for m in grid["batch_sizes"]
        for a in grid["alphas"]
    ]
    assert best.share == min(d.share for d in singles)
    assert len({round(d.share, 4) for d in singles}) == 4
    bolder, _ = pma.evaluate_test(trial, **(dict(best) | {"epsilon": 1.2 * best.epsilon}))
    assert best.error < 0.01 < bolder
    clear = pma.Trial(np.full(20, -50.0), np.full(20, 0.1), 10_000)
    assert pma.design_test(clear, tolerance=0.01)["epsilon"] == 0.5
    tie = pma.Trial(np.full(20, -0.7), np.full(20, 50.0), 10_000)
    assert pma.design_test(tie, tolerance=1e-10, batch_sizes=[500], alphas=[0.5])["epsilon"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ({"tolerance": 0.0}, ValueError, r"tolerance=0.0 .*epsilon=0"),
        ({"kind": "worst"}, ValueError, r"kind='worst' must be"),
        ({"n_pairs": 10}, TypeError, r"n_pairs.* settings of a trial chain"),
        ({"batch_sizes": []}, ValueError, r"at least one value"),
        ({"alphas": [0.2]}, ValueError, r"alpha=0.2 .*not between 0.5"),
    ],
)
def test_designs_that_make_no_sense_are_refused(arguments, error, told):
    with pytest.raises(error, match=told):
        pma.design_test(_trial(1), **arguments)


@pytest.mark.parametrize(
    "arrays",
    [([], []), ([1.0], [1.0, 2.0]), ([[1.0]], [[1.0]]), ([np.inf], [1.0]), ([1.0], [np.nan]), ([1.0], [-1.0])],
)
def test_trials_that_make_no_sense_are_refused(arrays):
    with pytest.raises(ValueError, match="Trial"):
        pma.Trial(*map(np.array, arrays), n_rows=100)


@pytest.mark.parametrize("sizes", [[500.0], np.array([500], np.int16)])
def test_design_is_a_mapping_for_the_step(sizes):
    design = pma.design_test(_trial(1), tolerance=0.02, batch_sizes=sizes, alphas=[0.5])
    assert dict(design) == {"epsilon": design.epsilon, "batch_size": 500, "alpha": 0.5}
    assert type(design["batch_size"]) is int
    assert len(design) == 3
    assert "average error 0.0" in repr(design)
    assert replace(design, kind="worst-case").kind == "worst-case"
