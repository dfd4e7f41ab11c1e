"""A Ctrl-C in the middle of compiled code is raised when that has returned, and ends nothing else."""

import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from pymc_austerity.kernel import uninterrupted

SCRIPT = """
import collections, os, signal, threading
import numpy as np, pymc as pm, pymc_austerity as pma

{build}
point = model.initial_point()
for _ in range(20):
    point, _ = step.step(point)
wanted, sent = threading.Event(), threading.Event()

def interrupt():
    rng = np.random.default_rng(1)
    for _ in range({times}):
        wanted.wait()
        wanted.clear()
        threading.Event().wait(rng.uniform(1e-4, 2e-3))
        os.kill(os.getpid(), signal.SIGINT)
        sent.set()

threading.Thread(target=interrupt, daemon=True).start()
raised = collections.Counter()
for _ in range({times}):
    sent.clear()
    try:
        wanted.set()
        while not sent.is_set():
            point, _ = step.step(point)
        raised["lost"] += 1
    except BaseException as error:
        raised[type(error).__name__] += 1
print(*raised.items())
"""
ROWS = """
with pm.Model() as model:
    pm.Normal("y", pm.Normal("mu"), 1.0, observed=np.random.default_rng(0).normal(size=5_000))
step = pma.ExactMH(proxy=None, model=model, rng=1, progressbar=False)
"""
FACTORS = """
code = np.arange(2_000) % 4
with pm.Model() as model:
    x = pm.Bernoulli("x", 0.5, shape=4)
    pm.Normal("y", x[code], 1.0, observed=np.random.default_rng(0).normal(size=2_000))
step = pma.ApproxGibbs([x], factors=code, model=model, rng=1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("build", [ROWS, FACTORS], ids=["rows", "factors"])
def test_ctrl_c_within_a_draw_is_nothing_but_a_ctrl_c(build):
    """In a process of its own, which once ended by a segmentation fault."""
    script = textwrap.dedent(SCRIPT).format(build=build, times=300)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["('KeyboardInterrupt',", "300)"], ran.stderr


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
