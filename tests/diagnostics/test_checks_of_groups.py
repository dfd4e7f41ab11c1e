"""What is said of a run of groups, by records that show a fault and one that shows none."""

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma


@pytest.fixture
def model():
    with pm.Model() as model:
        pm.Normal("mean")
        effect = pm.Normal("effect", shape=3)
        pm.Normal("y", effect[np.arange(30) % 3], 1e6, observed=np.zeros(30))  # which leaves the prior as it is
    return model


@pytest.fixture
def judge(sampling_result, model):
    """Judge a run whose effects were changed in some way."""

    def judge(change=None, accepted=0.5, refreshed=0.9):
        rng = np.random.default_rng(4)
        mean, draws = rng.normal(size=(4, 600)), rng.normal(size=(4, 600, 3))
        if change is not None:
            change(draws)
        stats = {"accepted": np.full((4, 600), accepted), "refresh_accept": np.full((4, 600), refreshed)}
        idata = sampling_result({"mean": mean, "effect": draws}, sample_stats=stats)
        return pma.reliability(idata, model)

    return judge


def test_a_run_without_fault_and_moves_that_are_seldom_accepted(judge):
    found = judge()
    assert found.verdict == "trust"
    assert list(found.checks.index) == ["chains", "acceptance", "refresh", "groups", "slowest", "location", "scale"]
    assert judge(accepted=0.001).checks.loc["acceptance", "verdict"] != "trust"
    assert judge(refreshed=0.1).checks.loc["refresh", "verdict"] != "trust"


def test_a_group_that_stayed_and_the_slowest_are_named(judge):
    def spoil(draws):
        draws[2, :, 1] = 0.7
        draws[:, :, 2] = np.cumsum(draws[:, :, 2], axis=1)

    found = judge(spoil)
    assert found.verdict == "do not trust"
    assert "effect[1]" in found.checks.loc["groups", "reason"]
    assert "effect[0]" not in found.checks.loc["groups", "reason"]
    assert found.checks.loc["slowest", "reason"].startswith("Fewest effective draws: effect[2]")
    assert found.checks.loc["slowest", "verdict"] == "not known"
