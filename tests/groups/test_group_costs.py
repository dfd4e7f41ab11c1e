"""The carried move reads as many rows as make an accepted move cheapest, exactly where that is not much dearer."""

import numpy as np
import pytest
from scipy.special import ndtr

from pymc_austerity.acceptance import NoisePenalty, ScalableSubsampling
from pymc_austerity.groups.group_costs import GroupCosts, cheapest, choose_carried_rows, share_refreshed


@pytest.mark.parametrize(("noise", "rest"), [(5_000.0, 5_000.0), (200.0, 100_000.0)])
def test_no_other_number_of_rows_is_cheaper(noise, rest):
    n, cost = cheapest(noise, 10.0, 1e6, rest)
    others = np.geomspace(10, 1e6, 1_000)
    assert np.exp(cost) <= (1 + 1e-2) * ((rest + others) / (2 * ndtr(-np.sqrt(noise / others) / 2))).min()
    assert 10 < n < 1e6


def test_rows_are_drawn_by_bounds_where_these_ask_for_few():
    few, widening = choose_carried_rows(GroupCosts(10.0, 50.0, 50.0, 300.0, 300.0), 5_000.0, 100_000)
    assert isinstance(few, ScalableSubsampling)
    assert widening > 1
    many, _ = choose_carried_rows(GroupCosts(10.0, 50_000.0, 50_000.0, 300.0, 30.0), 5_000.0, 100_000)
    assert many == NoisePenalty(500)
    noisy, _ = choose_carried_rows(GroupCosts(10.0, 50.0, 50.0, 3e5, 300.0), 5_000.0, 100_000)
    unknown, _ = choose_carried_rows(GroupCosts(np.inf, np.inf, np.inf, np.inf, 300.0), 5_000.0, 100_000)
    assert noisy == unknown
    assert isinstance(noisy, NoisePenalty)


def test_a_penalty_reads_no_more_than_half_of_the_rows_at_first():
    test, _ = choose_carried_rows(GroupCosts(np.inf, np.inf, np.inf, np.inf, 1e9), 1e6, 30_000)
    assert test.batch_size <= 15_000


@pytest.mark.parametrize(
    ("n_rows", "carried", "share"),
    [
        (1_000_000, 34_000, 0.3),  # effects keep step with what is shared, whatever their rows cost
        (7_000, 5_000, 1.0),  # the refresh is cheap beside the carried move
        (0, 5_000, 1.0),  # groups without rows
        (10_000, 5_000, 0.75),
    ],
)
def test_share_that_is_refreshed_has_limits(n_rows, carried, share):
    """Between them it is in proportion to what the carried move costs."""
    assert share_refreshed(n_rows, carried) == share
