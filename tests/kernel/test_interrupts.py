"""A Ctrl-C in the middle of compiled code is raised when that has returned, and ends nothing else."""

import signal
import threading

import numpy as np
import pytest

from pymc_austerity.kernel import uninterrupted


def test_a_signal_meanwhile_is_handed_on_afterwards():
    done = []

    def call(x):
        signal.raise_signal(signal.SIGINT)
        done.append(x)
        return x

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        uninterrupted(call, 3)
    assert done == [3]
    assert signal.getsignal(signal.SIGINT) is before
    assert uninterrupted(np.add, 1, 2) == 3


def test_an_error_of_the_call_is_raised_and_handlers_are_back():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError):
        uninterrupted(lambda: 1 / 0)
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_call_as_ever():
    found = []
    thread = threading.Thread(target=lambda: found.append(uninterrupted(np.add, 1, 2)))
    thread.start()
    thread.join()
    assert found == [3]
