"""The rules that turn what was measured into verdicts: distrust has to be shown, and so has trust."""

import numpy as np
import pytest

from pymc_austerity.diagnostics.decision_verdicts import (
    BALANCE_ERROR,
    LARGEST_MEAN_SHIFT,
    MEAN_SHIFT,
    judge_means,
    judge_spot_check,
    judge_spread,
)
from pymc_austerity.diagnostics.measured_error import MeanShift
from pymc_austerity.diagnostics.verdicts import (
    CARE,
    DO_NOT_TRUST,
    NOT_KNOWN,
    TRUST,
    grade,
    judge_acceptance,
    judge_chains,
    judge_level,
    judge_location,
    judge_movement,
    judge_record,
    judge_scale,
    overall,
)

FINE, UNKNOWN = (0.0, 0.0, 0.0), (np.nan, np.nan, np.nan)
SURE = tuple(times * BALANCE_ERROR[1] for times in (2, 1.5, 3))
STEADY, WIDE = MeanShift("", 0.0, -0.1, 0.1), MeanShift("", 2.0, -40.0, 90.0)
VAGUE, BEYOND = 1.1 * LARGEST_MEAN_SHIFT, -MEAN_SHIFT[1] - 0.02


def spot_check(typical, worst=FINE):
    return judge_spot_check(typical, FINE, worst, 100, "r")


def means(value, half=0.005, judge=judge_means):
    return judge(MeanShift("mu", value, value - half, value + half), "Read more rows.")


def spread(value, half=0.005):
    return means(value, half, judge_spread)


def location(*numbers):
    return judge_location(MeanShift("b", *numbers), "")


def scale(whole, *entry):
    return judge_scale(MeanShift("b", *entry), whole)


@pytest.mark.parametrize(
    ("judge", "verdict", "cases"),
    [
        (judge_acceptance, TRUST, [(0.3,)]),
        # One chain and few draws are no reason to trust, nor is an R-hat that is not defined.
        (judge_chains, DO_NOT_TRUST, [(np.nan, 4, 4), (1.2, 50, 4), (1.3, 50, 4)]),
        (judge_chains, NOT_KNOWN, [(np.nan, np.nan, 1), (1.0, 150, 4), (1.03, 150, 4)]),
        (judge_chains, CARE, [(1.03, 900, 4)]),
        (judge_chains, TRUST, [(1.005, 5000, 4)]),
        # A worst state is judged by what is sure about it.
        (spot_check, TRUST, [((0.001, 0.0, 0.01),), (FINE, (0.5, 0.0, 0.9))]),
        (spot_check, NOT_KNOWN, [((0.01, 0.0, 5 * BALANCE_ERROR[1]),)]),
        (spot_check, CARE, [((0.03, 0.021, 0.05), None)]),
        (spot_check, DO_NOT_TRUST, [(SURE,), (FINE, (0.7, 0.6, 0.9))]),
        (means, CARE, [(0.9 * MEAN_SHIFT[1],)]),
        (spread, TRUST, [(0.0,), (0.9 * MEAN_SHIFT[1],)]),
        *((judge, TRUST, [(0.0,)]) for judge in (means, spread)),
        *((judge, DO_NOT_TRUST, [(BEYOND,)]) for judge in (means, spread)),
        *((judge, NOT_KNOWN, [(0.0, VAGUE), (MEAN_SHIFT[1], VAGUE)]) for judge in (means, spread)),
        (judge_movement, TRUST, [(5.0,), (np.inf,)]),
        (judge_movement, CARE, [(20.0,), (0.0015,)]),
        (judge_movement, DO_NOT_TRUST, [(31.0,), (1e-6,), (0.0,)]),
        (judge_level, TRUST, [(5.0, 10)]),
        (judge_level, CARE, [(60.0, 10)]),
        (judge_level, DO_NOT_TRUST, [(1_000.0, 10)]),
        (location, TRUST, [(1.0, -0.1, 2.0)]),
        (location, NOT_KNOWN, [(6.0, -0.1, 12.0)]),
        (location, DO_NOT_TRUST, [(1.0, 0.9, 2.0)]),
        (scale, TRUST, [(STEADY, 0.0, -0.8, 3.0)]),
        (scale, NOT_KNOWN, [(WIDE, 0.0, -0.8, 3.0)]),
        (scale, DO_NOT_TRUST, [(WIDE, 2.0, 1.0, 3.0)]),
        (judge_record, TRUST, [((0.3, 0.5, 0.05), UNKNOWN)]),
        (judge_record, DO_NOT_TRUST, [((0.0, 1.0, 0.0), UNKNOWN), (FINE, (np.log(200), np.log(20_000), 0.1))]),
    ],
)
def test_verdicts(judge, verdict, cases):
    assert [judge(*case).verdict for case in cases] == [verdict] * len(cases)


def test_limits_are_inclusive_and_may_run_either_way():
    assert [grade(x, (0.1, 0.3)) for x in (0.1, 0.2, 0.4)] == [TRUST, CARE, DO_NOT_TRUST]
    assert [grade(x, (0.3, 0.1)) for x in (0.3, 0.2, 0.05)] == [TRUST, CARE, DO_NOT_TRUST]
    assert grade(np.nan, (0.1, 0.3)) == NOT_KNOWN


def test_the_worst_finding_decides():
    assert overall([judge_acceptance(0.3), judge_chains(1.2, 50, 4), judge_chains(1.005, 5000, 4)]) == DO_NOT_TRUST
    assert overall([]) == TRUST
