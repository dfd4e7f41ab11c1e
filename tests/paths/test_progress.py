import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_austerity.paths.replicates import Replicate, running_moments
from pymc_austerity.paths.runs import ReplicationProgress, Stopping

values = st.lists(st.floats(-1e3, 1e3), min_size=26, max_size=40)


def follow(numbers, order, tolerance):
    progress = ReplicationProgress(Stopping(None, tolerance, None), {}, show=False)
    for index in order:
        progress.add(index, Replicate(1, 1, 0.0, np.asarray(numbers[index])))
    return progress


@given(values, st.randoms(use_true_random=False), st.floats(1.0, 200.0))
def test_order_of_arrival_does_not_move_the_end_of_a_run(numbers, random, tolerance):
    order = list(range(len(numbers)))
    random.shuffle(order)
    assert follow(numbers, order, tolerance).precise_at == follow(numbers, range(len(numbers)), tolerance).precise_at


@given(values)
def test_the_running_error_is_that_of_the_result(numbers):
    progress = follow(numbers, range(len(numbers)), None)
    mean, error = running_moments(np.array(numbers))
    scale = 1e-9 * (1 + np.abs(numbers).max())
    assert float(progress._mean) == pytest.approx(mean[-1], abs=scale)
    assert float(progress._error()) == pytest.approx(error[-1], abs=scale)
