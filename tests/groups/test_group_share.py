"""How many groups are refreshed a draw."""

import pytest

from pymc_austerity.groups.group_decider import share_refreshed


@pytest.mark.parametrize(
    ("n_rows", "carried", "share"),
    [
        (1_000_000, 34_000, 0.2),  # effects keep step with what is shared, whatever their rows cost
        (10_000, 5_000, 0.7),  # the refresh is cheap beside the carried move
        (0, 5_000, 0.7),  # groups without rows
        (30_000, 5_000, 0.25),
    ],
)
def test_share_lies_between_its_limits_and_in_proportion_to_what_the_carried_move_costs(n_rows, carried, share):
    assert share_refreshed(n_rows, carried) == share
