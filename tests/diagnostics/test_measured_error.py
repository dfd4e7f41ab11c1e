"""Errors of decisions as they are measured, and how far moves out of balance shift means and spreads."""

import numpy as np
import pytest
from evidence import stationary_law
from scipy import special, stats

from pymc_austerity.diagnostics.judged_decisions import wrong_decisions
from pymc_austerity.diagnostics.measured_error import (
    Repeats,
    control_coefficient,
    error_of,
    flow_of,
    mean_error,
    mean_shift,
    spread_shift,
    typical_error,
    worst_error,
)
from pymc_austerity.diagnostics.row_shape import batch_shape, row_shape

STATES = np.linspace(-4, 4, 81)
WIDTH = STATES[1] - STATES[0]
LAW = stats.norm.pdf(STATES) / stats.norm.pdf(STATES).sum()
LOG_RATIOS = np.log(LAW) - np.log(LAW)[:, None]
TO_THE_RIGHT, OUTWARDS = (np.sign(to - to[:, None]) for to in (STATES, np.abs(STATES)))


def acceptance(bias, moves):
    """Barker's acceptance with some moves accepted too often, by so much where the states are alike."""
    return special.expit(LOG_RATIOS) + bias * moves * np.exp(-(LOG_RATIOS**2))


def matrix(accept, sd):
    moves = stats.norm.pdf(STATES - STATES[:, None], scale=sd) * WIDTH * accept
    np.fill_diagonal(moves, 0.0)
    return moves + np.diag(1 - moves.sum(axis=1))


def measured(bias, moves, sd, function):
    """Return by how much the mean of a function is shifted, 20,000 proposals, and what is measured at them."""
    rng, accept = np.random.default_rng(5), acceptance(bias, moves)
    shift = (stationary_law(matrix(accept, sd)) - LAW) @ function
    here = rng.choice(STATES.size, 20_000, p=LAW)
    there = np.clip(np.rint(here + rng.normal(0, sd / WIDTH, here.size)).astype(int), 0, 80)
    log_ratio = LOG_RATIOS[here, there]
    weights = np.exp(-np.maximum(log_ratio, 0)), np.exp(np.minimum(log_ratio, 0))
    error = accept[here, there] * weights[0] - accept[there, here] * weights[1]
    correlation = (LAW * function) @ matrix(acceptance(0.0, moves), sd) @ function / (LAW @ function**2)
    return shift, STATES[here][:, None], STATES[there][:, None], (error, log_ratio, np.array([1 / (1 - correlation)]))


@pytest.mark.parametrize("sd", [0.3, 1.0])
def test_the_shift_is_that_of_the_stationary_law(sd):
    expected, old, new, found_there = measured(0.003, TO_THE_RIGHT, sd, STATES)
    found = mean_shift(new - old, *found_there, ["x"], 1e-4)
    assert found.low < expected < found.high
    assert found.shown > expected / 2
    # A chain that moves by small steps is shifted further by the same error.
    assert (expected > 0.02) == (sd == 0.3)


@pytest.mark.parametrize(("bias", "sign"), [(0.006, 1), (-0.006, -1), (0.0, 0)])
def test_the_spread_is_that_of_the_stationary_law(bias, sign):
    """Moves outwards that are accepted too often, or too seldom; the control is in balance."""
    shift, old, new, found_there = measured(bias, OUTWARDS, 0.6, STATES**2 - LAW @ STATES**2)
    found = spread_shift(old, new, *found_there, 1e-4)
    assert np.sign(shift) == sign or abs(shift) < 1e-9
    # The square of a walk does not forget at one rate, as the formula takes it to.
    assert found.value == pytest.approx(shift / 2, rel=0.15, abs=1e-12)
    assert (found.shown > abs(shift) / 4) == (sign != 0)


def test_shared_thresholds_take_out_the_noise_without_bias():
    """Of a test that compares with the threshold of the exact one, but is wrong in 2% of the runs."""
    rng, n = np.random.default_rng(1), 200
    same, wrong = rng.random((400, n)) < 0.4, rng.random((400, n)) < 0.02
    repeats = [
        Repeats(n, int(accepted.sum()), int(exact.sum()), int((accepted & exact).sum()), 10 * n, n, 10 * n)
        for accepted, exact in zip(same ^ wrong, same)
    ]
    coefficient = control_coefficient(repeats)
    assert coefficient == pytest.approx(0.96, abs=0.01)  # 1 − 2·flip
    errors, ses = np.array([error_of(r, 0.4, coefficient) for r in repeats]).T
    # Of 40% acceptances 2% are lost and of 60% rejections 2% are gained.
    assert errors.mean() == pytest.approx(0.02 * 0.6 - 0.02 * 0.4, abs=4 * errors.std() / 20)
    assert errors.std() == pytest.approx(np.sqrt(np.mean(ses**2)), rel=0.15)
    plain = np.array([error_of(r, 0.4, 0.0)[0] for r in repeats])
    assert plain.std() > 2.5 * errors.std()


def test_a_test_in_balance_has_no_error():
    """However few moves it accepts."""
    rng, n, log_ratio = np.random.default_rng(6), 40_000, -0.7
    forth, back = (rng.binomial(n, p) for p in (0.3 * np.exp(log_ratio), 0.3))
    runs = [Repeats(n, int(k), 0, 0, n, n, n) for k in (forth, back)]
    flow = flow_of(*runs, (np.exp(log_ratio), 1.0), log_ratio, 0.0)
    assert flow.back == pytest.approx(0.3 * np.exp(log_ratio), abs=4 * flow.se)
    assert abs(flow.error) < 4 * flow.se < 0.02
    mirrored = flow_of(*runs[::-1], (1.0, np.exp(log_ratio)), -log_ratio, 0.0)
    assert mirrored.error == pytest.approx(-flow.error)
    impossible = Repeats(100, 0, 0, 0, 0, 0, 0)  # a move from which no way leads back is not weighed
    assert flow_of(impossible, None, (0.0, 0.0), -np.inf, 0.0) == (0.0, 0.0, 0.0)
    too_often = flow_of(runs[0]._replace(accepted=forth + n // 10), runs[1], (0.5, 1.0), log_ratio, 0.0)
    assert too_often.error == pytest.approx(flow.error + 0.1)


def test_typical_error_is_free_of_monte_carlo_error_and_covered():
    rng = np.random.default_rng(2)
    errors = np.hypot(0.05, 0.03) * rng.normal(size=(100, 150))  # of true ones of .05, and standard errors of .03
    found = [typical_error(of, np.full(150, 0.03), rng, 0.05) for of in errors]
    assert np.mean([e.value for e in found]) == pytest.approx(0.05, abs=0.001)
    assert sum(e.low <= 0.05 <= e.high for e in found) >= 87  # of 100 at 95%; fewer with probability 0.0004
    assert typical_error(errors[-1], np.zeros(150), rng, 0.05).low > 0.05  # without the correction
    rng = np.random.default_rng(3)  # the mean error
    inside = [mean_error(rng.normal(0.01, 0.05, size=100), 0.05) for _ in range(300)]
    assert 270 <= sum(e.low <= 0.01 <= e.high for e in inside) <= 297


def test_the_worst_of_many_noisy_errors_is_no_error():
    rng = np.random.default_rng(4)
    se = 0.05
    noisy = rng.normal(0, se, size=200)
    assert np.abs(noisy).max() > 0.1  # what would be reported without measuring anew
    finalists = np.argsort(-np.abs(noisy))[:5]
    ses, again_ses = np.full(200, se), np.full(5, se / 3)
    worst = worst_error(noisy, ses, finalists, rng.normal(0, se / 3, 5), again_ses, (100, 1000), 0.05)
    assert worst.value < 0.06
    assert worst.low == 0
    planted = worst_error(noisy, ses, finalists, np.array([0.4, 0, 0, 0, 0]), again_ses, (100, 1000), 0.05)
    assert planted.low > 0.3

    # No difference in n runs bounds the error by about 3/n.
    nothing = np.zeros(50)
    worst = worst_error(nothing, nothing, np.arange(5), np.zeros(5), np.zeros(5), (100, 1000), 0.05)
    assert worst.high == 0.03


def test_skewness_and_spread_are_those_of_drawn_batches():
    rng = np.random.default_rng(6)
    terms, n = rng.exponential(size=400), 80
    shape = row_shape(terms)
    assert (shape.sd, shape.skewness) == pytest.approx((terms.std(), stats.skew(terms)))
    assert shape.kurtosis == pytest.approx(stats.kurtosis(terms, fisher=False))
    batches = np.array([rng.choice(terms, n, replace=False) for _ in range(20_000)])
    means, variances = batches.mean(axis=1), batches.var(axis=1, ddof=1)
    assert shape.mean_skewness(n, 400) == pytest.approx(stats.skew(means), abs=0.06)
    assert shape.variance_spread(n, 400) == pytest.approx(variances.std() / variances.mean(), rel=0.05)
    assert shape.noise(n, 400, 1.0) == pytest.approx(400 * means.std(), rel=0.03)
    # Without the finite population the skewness would be 1.7 times as large.
    assert abs(shape.skewness) / np.sqrt(n) > 1.4 * stats.skew(means)


def test_weights_make_alike_what_they_were_made_for():
    terms = np.random.default_rng(7).lognormal(0, 2, size=3_000)
    even = row_shape(terms, terms.mean() / terms)
    assert row_shape(terms).kurtosis > 100
    assert even.sd == pytest.approx(0, abs=1e-9)
    assert even.replacement


def test_rows_all_alike_and_one_that_carries_everything():
    assert row_shape(np.full(10, 2.0)).largest == 0
    terms = np.zeros(1_000)
    terms[3] = 5.0
    shape = row_shape(terms)
    assert shape.largest > 0.99
    assert batch_shape([(shape, 100.0)], 1_000, 1.0).variance_spread > 2


def test_wrong_decisions_are_estimated_from_their_stops():
    """Δ ~ N(−τ²/2, τ²) as at stationarity, looks of growing precision, a stop at two standard errors."""
    rng = np.random.default_rng(8)
    n, tau, information = 40_000, 2.0, 0.05
    delta, threshold = rng.normal(-(tau**2) / 2, tau, n), np.log(rng.random(n))
    total, precision = np.zeros(n), 0.0
    estimate, sd, stopped = np.zeros(n), np.zeros(n), np.zeros(n, bool)
    for look in range(40):
        total += rng.normal(information * delta, np.sqrt(information))
        precision += information
        now = ~stopped & ((np.abs(total / precision - threshold) * np.sqrt(precision) > 1.6) | (look == 39))
        estimate[now], sd[now] = total[now] / precision, 1 / np.sqrt(precision)
        stopped |= now
    wrong = (estimate > threshold) != (delta > threshold)
    rate = np.mean(np.exp(np.minimum(0, delta)))
    estimated = wrong_decisions(estimate, sd, threshold, rate).mean()
    assert wrong.mean() > 0.03
    assert estimated == pytest.approx(wrong.mean(), rel=0.1)
    # The tail probability of the last look alone would claim half as many at most.
    assert stats.norm.sf(np.abs(estimate - threshold) / sd).mean() < 0.8 * wrong.mean()
    zero = np.zeros(3)  # decisions on all rows are right
    assert (wrong_decisions(np.array([1.0, -1.0, -np.inf]), zero, np.array([-1.0, -1.0, np.nan]), 0.3) == 0).all()
