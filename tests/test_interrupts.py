"""A signal in the middle of compiled code is handled when that has returned, whichever signal it is."""

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from pymc_austerity import interrupts
from pymc_austerity.interrupts import uninterrupted

#: numba calls Python to make what is returned, with the signal pending that the function sent to its own process.
WITHIN = """
import ctypes, signal, sys, types
from collections import namedtuple

# The package without its __init__, which imports PyMC.
package = types.ModuleType("pymc_austerity")
package.__path__ = [sys.argv[1]]
sys.modules["pymc_austerity"] = package

import numpy as np
from numba import njit

from pymc_austerity.interrupts import uninterrupted

send = ctypes.CDLL(None)["raise"]
send.argtypes, send.restype = [ctypes.c_int], ctypes.c_int
Pair = namedtuple("Pair", ["left", "right"])

@njit
def pairs(x, number):
    send(number)
    return Pair(x, Pair(x, 2 * x))

@njit
def arrays(x, number):
    send(number)
    return np.zeros(3), x

def stop(*_):
    raise SystemExit

def late(*_):
    raise TimeoutError

call = uninterrupted if sys.argv[2] == "protected" else lambda function, *arguments: function(*arguments)
for function, number, handler, raised in [
    (arrays, signal.SIGINT, signal.default_int_handler, KeyboardInterrupt),
    (arrays, signal.SIGTERM, stop, SystemExit),
    (pairs, signal.SIGINT, signal.default_int_handler, KeyboardInterrupt),
    (pairs, signal.SIGTERM, stop, SystemExit),
    (arrays, signal.SIGALRM, late, TimeoutError),
    (pairs, signal.SIGUSR1, late, TimeoutError),
    (pairs, max(signal.valid_signals()), late, TimeoutError),
]:
    signal.signal(number, signal.SIG_IGN)
    function(1.0, int(number))  # compile
    signal.signal(number, handler)
    try:
        call(function, 1.0, int(number))
    except BaseException as error:
        print(type(error) is raised, flush=True)
"""


def _within(how):
    command = [sys.executable, "-c", WITHIN, str(Path(interrupts.__file__).parent), how]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_signal_is_raised_after_compiled_code():
    """Deterministic: the compiled function sends the signal itself."""
    ran = _within("protected")
    assert (ran.returncode, ran.stdout.split()) == (0, ["True"] * 7), ran.stderr
    # Negative control: numba raises SystemError over arrays, and the process does not survive a named tuple.
    ran = _within("unprotected")
    assert ran.returncode < 0
    assert ran.stdout.split() == ["False", "False"]


#: What compiled code does for a step, interrupted a number of times.  The program that interrupts sends one signal for
#: each "ready", which is said where the signal is caught: neither can be ahead of the other.
STORM = """
import time
import numpy as np, pymc as pm, pymc_austerity as pma
from pymc_austerity.diagnostics.spot_check import RepeatedTest, evaluate_pair
from pymc_austerity.kernel import with_data

rng = np.random.default_rng(0)
with pm.Model() as model:
    pm.Poisson("y", pm.Gamma("mu", 2, 1) * np.ones(5_000), observed=rng.poisson(1.0, size=5_000))
step = pma.PenaltyMH(model=model, rng=1, progressbar=False)
point, decider = model.initial_point(), step.decider
repeated = RepeatedTest(decider, rng)

def work_until(end):
    # A function of its own: where a loop jumps back, CPython's table of exceptions leaves the `try` around it out.
    while time.monotonic() < end:
        work()

def draw():
    global point
    point, _ = step.step(point)

def judge():
    proposed = decider.propose(decider.parts.theta0, decider.parts.others0, step.chain.state, rng)
    pair = evaluate_pair(decider, proposed)
    if pair is not None:
        repeated(pair, 20, step.chain.looks)

def learn():
    with_data(decider, step.known_data)

for _ in range(20):
    draw(), judge()
learn()
for work, times in [(draw, 20), (judge, 20), (learn, 4)]:
    for _ in range(times):
        end = time.monotonic() + 3
        try:
            print("ready", flush=True)
            work_until(end)
            print("lost", work.__name__, flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
"""


def _storm():
    """Send a signal for each time that the process is ready; return what else it says, and how it ended."""
    moments = random.Random(1)
    command = [sys.executable, "-c", STORM]
    said = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = threading.Timer(300, process.kill)
        deadline.start()
        for line in process.stdout:
            if line == "ready\n":
                time.sleep(moments.uniform(0, 0.003))
                process.send_signal(signal.SIGINT)
            else:
                said.append(line.strip())
        errors = process.stderr.read()
        deadline.cancel()
    return said, process.returncode, errors


@pytest.mark.slow
def test_ctrl_c_is_a_keyboard_interrupt_everywhere():
    said, code, errors = _storm()
    assert code == 0, errors
    assert len(said) == 44
    # Python drops what is raised in the callback of a weak reference, which numba has for its functions, and says so.
    assert 44 - said.count("interrupted") <= min(errors.count("Exception ignored in"), 3), errors


def test_signals_meanwhile_are_handed_on_afterwards():
    done, handled = [], []

    def call(x):
        signal.raise_signal(signal.SIGUSR2)
        signal.raise_signal(signal.SIGINT)
        done.append((x, list(handled)))
        return x

    numbers = signal.SIGINT, signal.SIGUSR2
    replaced = signal.signal(signal.SIGUSR2, lambda *signal: handled.append(signal[0]))
    before = [signal.getsignal(number) for number in numbers]
    try:
        with pytest.raises(KeyboardInterrupt):
            uninterrupted(call, 3)
        assert (done, handled) == ([(3, [])], [signal.SIGUSR2])
        assert [signal.getsignal(number) for number in numbers] == before
        assert uninterrupted(np.add, 1, 2) == 3
    finally:
        signal.signal(signal.SIGUSR2, replaced)


def test_an_error_of_the_call_is_raised_and_other_threads_call_as_ever():
    before, found = signal.getsignal(signal.SIGINT), []
    with pytest.raises(ZeroDivisionError):
        uninterrupted(lambda: 1 / 0)
    assert signal.getsignal(signal.SIGINT) is before
    thread = threading.Thread(target=lambda: found.append(uninterrupted(np.add, 1, 2)))
    thread.start()
    thread.join()
    assert found == [3]
