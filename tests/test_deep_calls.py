"""Calls that go deep: with room for their frames nothing is mapped and unmapped at every turn of a loop."""

import inspect
import resource
from threading import Thread

import pymc as pm
import pytest

import pymc_austerity as pma
from pymc_austerity.deep_calls import goes_deep

#: Calls at each depth, and depths at which a piece of the stack ends somewhere.
CALLS, DEPTHS = 1_000, range(1, 260)


def leaf(a, b):
    return a + b


def loop_at(depth):
    """Page faults of a loop of calls so far down, which nobody sees but the system."""
    if depth > 0:
        return loop_at(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for k in range(CALLS):
        leaf(k, k)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def faults():
    return [loop_at(depth) for depth in DEPTHS]


def test_with_room_no_depth_is_one_at_which_every_call_maps_memory():
    goes_deep(faults)()  # the piece is touched once
    assert max(goes_deep(faults)()) < CALLS / 10
    # What it is for: without, at some depth every call does. Below the room that conftest makes there is none.
    assert max(without_room(faults)) >= CALLS


def without_room(function):
    """Call a function in a thread, whose stack begins anew."""
    found = []
    thread = Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


class Seen(Exception):
    """What there was to see has been seen."""


@pytest.mark.parametrize(
    ("module", "make"),
    [
        ("row_step", lambda x: pma.ExactMH()),
        ("groups", lambda x: pma.GroupMH()),
        ("gibbs", lambda x: pma.ApproxGibbs([x], factors=[[0], [0], [0]])),
    ],
    ids=["rows", "groups", "gibbs"],
)
def test_steps_are_set_up_with_room(monkeypatch, module, make):
    found = []

    def reads(*_, **__):
        faults()
        found.append(max(faults()))
        raise Seen

    def build():
        with pm.Model():
            x = pm.Bernoulli("x", 0.5) if module == "gibbs" else pm.Normal("x")
            pm.Normal("y", x, 1, observed=[0.0, 1.0, 0.5])
            with pytest.raises(Seen):
                make(x)

    monkeypatch.setattr(f"pymc_austerity.steps.{module}.read_model", reads)
    without_room(build)
    assert found[0] < CALLS / 10


def test_a_function_is_called_as_before_and_looks_as_before():
    @goes_deep
    def add(a, *rest, b=1):
        """Add."""
        return a + sum(rest) + b

    assert (add(1), add(1, 2, b=3)) == (2, 6)
    assert str(inspect.signature(add)) == "(a, *rest, b=1)"
    assert add.__doc__ == "Add."
