"""The compiled transition: the numbers of the model, the rows it says it read, no compilation once warm."""

import numpy as np
import pytest
from numba import njit
from numba.core import event
from toy import AnyTest, Toggle, shift_model, walk

import pymc_austerity as pma
from pymc_austerity.acceptance.all_rows import Exact
from pymc_austerity.acceptance.sequential import SequentialT
from pymc_austerity.rows import CHUNK


def _values(n_rows):
    return np.random.default_rng(n_rows).normal(size=n_rows) / np.sqrt(n_rows)


@pytest.fixture(scope="module", params=[Exact(), SequentialT(0.0, 1_000)], ids=["exact", "epsilon-0"])
def full_step(request):
    """A model and a step that reads all rows."""
    model = shift_model(_values(50))
    return model, AnyTest(request.param, proposal=Toggle(), model=model, rng=0)


@pytest.mark.parametrize("n_rows", [2, CHUNK, CHUNK + 1, 2 * CHUNK + 7])
def test_log_ratio_of_all_rows_is_that_of_the_model(full_step, n_rows):
    model, step = full_step
    model.set_data("x", _values(n_rows) + 0.5)
    step.start_chain(np.random.default_rng(1))
    expected = _values(n_rows).sum() - 0.5
    up, down = (step.step({"mu": np.array(at)})[1][0] for at in (0.0, 1.0))
    assert up["log_ratio"] == pytest.approx(expected)
    assert down["log_ratio"] == pytest.approx(-expected)
    assert up["accept"] == pytest.approx(np.exp(min(0.0, expected)))
    assert (up["n_rows"], up["full_data"], up["log_ratio_sd"]) == (n_rows, True, 0.0)


def test_nothing_compiles_after_the_first_step():
    model = shift_model(_values(3_000))
    step = pma.ApproxMH(proxy=None, epsilon=0.05, batch_size=200, model=model, rng=1)
    walk(step, {"mu": np.array(0.0)}, 1)
    with event.install_recorder("numba:compile") as warm:
        walk(step, {"mu": np.array(0.0)}, 300)
        model.set_data("x", np.ones(5_000))
        step.start_chain(np.random.default_rng(2))
        walk(step, {"mu": np.array(0.0)}, 300)
    with event.install_recorder("numba:compile") as cold:
        njit(lambda x: x + 1)(1)
    assert not warm.buffer
    assert cold.buffer


@pytest.mark.parametrize("mode", ["FAST_COMPILE", "JAX"])
def test_a_compilation_mode_other_than_numba_is_refused(mode):
    with pytest.raises(ValueError, match=f"'mode': '{mode}'.* NUMBA.*Leave the mode out"):
        pma.ApproxMH(proxy=None, model=shift_model(_values(10)), compile_kwargs={"mode": mode})
