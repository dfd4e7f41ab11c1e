"""Settings of tests that are out of range are refused with the reason."""

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma
from pymc_austerity.acceptance import Barker, FixedBatch, NoisePenalty, SequentialT


@pytest.mark.parametrize(
    ("test", "settings", "message"),
    [
        (Barker, {"batch_size": 1}, "at least 2 rows"),
        (Barker, {"sigma": np.pi / np.sqrt(3)}, "between 0.3 and π/√3"),
        (NoisePenalty, {"max_variance": np.inf}, "must be positive and finite"),
        (SequentialT, {"epsilon": -0.01}, r"epsilon=-0.01 .* between 0 and 0.5.*stop when it knows least.*0.01"),
        (SequentialT, {"batch_size": 1}, r"batch_size=1 .* at least 2 rows.*standard deviation.*500"),
        (SequentialT, {"alpha": 0.49}, r"alpha=0.49 is not between 0.5"),
        (FixedBatch, {"batch_size": 1}, "over-dispersed"),
    ],
)
def test_settings_out_of_range_are_refused(test, settings, message):
    valid = {"epsilon": 0.01} if test is SequentialT else {}
    with pytest.raises(ValueError, match=message):
        test(**{**valid, "batch_size": 100, **settings})


def test_a_fixed_batch_beyond_the_data_is_all_rows():
    assert FixedBatch(500).looks(100).sizes.tolist() == [100]


def test_exact_step_refuses_another_test():
    with pm.Model():
        pm.Normal("y", pm.Normal("mu"), observed=np.arange(9.0))
        with pytest.raises(TypeError, match="its own step"):
            pma.ExactMH(proxy=None, test=Barker(100))
