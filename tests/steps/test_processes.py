"""Chains in other processes: the same draws however they are started, and what survives when one must stop."""

import gc
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import time
import weakref
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from copy import copy
from multiprocessing import active_children, get_context

import numpy as np
import pymc as pm
import pytest
from numba.core.registry import CPUDispatcher
from pymc.exceptions import SamplingError
from toy import shift_model

import pymc_austerity as pma
from pymc_austerity.acceptance.decision import ROWS_SPENT
from pymc_austerity.compile.lean_njit import LeanDispatcher
from pymc_austerity.diagnostics.built_steps import find_decider
from pymc_austerity.steps.draw_statistics import DrawStats, begin_run
from pymc_austerity.steps.process import WORKER, stopped_chain

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("compiled_as_built")]

ROWS = np.random.default_rng(0).normal(1.0, 1.0, size=1_000)
QUIET = {"progressbar": False, "compute_convergence_checks": False, "chains": 2}


@pytest.fixture(scope="module")
def step_and_model():
    model = shift_model(ROWS)
    return pma.ApproxMH(proxy=None, epsilon=0.05, batch_size=50, model=model), model


def _draws(step_and_model, **kwargs):
    step, model = step_and_model
    with model:
        idata = pm.sample(100, tune=150, step=step, random_seed=11, **{**QUIET, **kwargs})
    return np.stack([idata.posterior["mu"], idata.sample_stats["n_rows"], idata.sample_stats["scaling"]])


@pytest.fixture(scope="module")
def in_turn(step_and_model):
    return _draws(step_and_model, cores=1)


@pytest.mark.slow
def test_a_memory_map_travels_with_its_rows(tmp_path):
    """Of a copy-on-write map, changed in memory, other processes read the file."""
    np.save(tmp_path / "x.npy", 3 * ROWS)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="c")
    mapped /= 3
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 10) + mapped, 1, observed=ROWS)
    step = pma.ApproxMH(proxy=None, epsilon=0.05, batch_size=50, model=model)
    rows, sent = (each.decider.parts.stored.arrays for each in (step, pickle.loads(pickle.dumps(step))))
    assert all(map(np.array_equal, rows, sent))
    os.truncate(tmp_path / "x.npy", 4_000)
    with pytest.raises(ValueError, match=r"x\.npy had 8,128 bytes"):
        _draws((step, model), cores=1)  # PyMC reads the data before it starts a chain
    with pytest.raises(ValueError, match=r"x\.npy had 8,128 bytes"):
        pma.ApproxMH(proxy=None, model=model)


def test_two_and_four_processes_draw_what_chains_in_turn_draw(step_and_model):
    in_turn = _draws(step_and_model, cores=1, chains=4)
    assert in_turn.shape[1] == len({tuple(mu) for mu in in_turn[0]}) == 4
    assert len(np.unique(in_turn[0])) > 40
    for cores in (2, 4):
        assert np.array_equal(_draws(step_and_model, cores=cores, chains=4, mp_ctx="fork"), in_turn)


@pytest.mark.slow
def test_a_proxy_travels_to_other_processes():
    rng = np.random.default_rng(2)
    x = rng.normal(size=800)
    with pm.Model() as model:
        mu = pm.Gamma("mu", 2, 1)
        pm.Poisson("y", mu * pm.math.exp(0.5 * x), observed=rng.poisson(np.exp(0.5 * x)))
    ours = pma.PenaltyMH(batch_size=50, proposal=pma.SurrogateHMC(), model=model), model
    in_turn = _draws(ours, cores=1)
    assert len(np.unique(in_turn[0])) > 100
    assert (in_turn[1] < 800).all()
    assert np.array_equal(_draws(ours, cores=2, mp_ctx="spawn"), in_turn)


def _built():
    model = shift_model(ROWS)
    step = pma.ExactMH(proxy=None, model=model, progressbar=False)
    step.step(model.initial_point())
    return model, step


@pytest.mark.slow
def test_a_process_keeps_no_model():
    def code():
        gc.collect()
        return sum(type(o) in (CPUDispatcher, LeanDispatcher) for o in gc.get_objects())

    model, step = _built()
    decider = step.decider
    del step
    gc.collect()
    assert find_decider(model) is decider
    gone = [weakref.ref(o) for o in (model, decider, decider.parts.stored)]
    del model, decider
    for _ in range(2):  # the graphs that are kept are those of this model then
        _built()
    before = code()
    assert [o() for o in gone] == [None] * 3
    for _ in range(2):
        _built()
    assert code() == before


def test_a_thread_whose_chain_was_replaced_is_refused(step_and_model):
    step, model = step_and_model
    point = model.initial_point()

    def begin_and_draw():
        step.start_chain(np.random.default_rng(1))
        return step.step(point)

    with ThreadPoolExecutor(1) as other:
        begin_and_draw()
        other.submit(begin_and_draw).result()
        with pytest.raises(SamplingError, match="Build a step for each thread"):
            step.step(point)
        other.submit(step.step, point).result()
    begin_and_draw()
    assert len(step.step(point)) == 2


def test_a_step_for_each_thread_draws_what_chains_in_turn_draw(step_and_model, in_turn):
    step, model = step_and_model
    steps = [step_and_model, (copy(step), model)]
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda step: _draws(step, cores=1), steps))
    assert all(np.array_equal(draws, in_turn) for draws in found)


def _stopped(step, said):
    outcome = step.chain.transition(step.decider.parts.theta0, np.empty(0), 1.0)
    outcome = outcome._replace(status=ROWS_SPENT)
    said.write_bytes(pickle.dumps(stopped_chain({}, outcome, 5, False, step.decider.reported)))


def test_a_stopped_chain_interrupts_what_records_it(step_and_model, tmp_path):
    said = tmp_path / "said"
    process = get_context("fork").Process(target=_stopped, args=(step_and_model[0], said), name=f"{WORKER}0")
    process.start()
    process.join(60)
    stopped = pickle.loads(pickle.loads(pickle.dumps(said.read_bytes())))
    assert dict(stopped) == {}
    for again in (pickle.loads(pickle.dumps(stopped)), copy(stopped)):
        assert (type(again), again.why) == (type(stopped), stopped.why)
    for has_draws, error in ((True, KeyboardInterrupt), (False, SamplingError)):
        begin_run()
        if has_draws:
            kept = DrawStats()
            kept.tuning = False
            pickle.loads(pickle.dumps(kept)).items()
        for take_up in (stopped.items, lambda: stopped.get("warning")):
            with pytest.raises(error, match=None if has_draws else "The rows of the pool for this chain are spent"):
                take_up()


@pytest.mark.parametrize("cores", [1, 2])
def test_a_run_that_ends_while_all_chains_tune_says_why(cores):
    """PyMC would say "Not enough samples to build a trace" of the second run too, whose step had drawn before."""
    runs = _draws_beside_an_impossible_row(cores, [1, 2], tunes=[0, 20_000])
    assert next(runs) > 0
    with pytest.raises(SamplingError, match=r"log-likelihood of row \d+ .* Widen"):
        next(runs)


def _draws_beside_an_impossible_row(cores, seeds, tunes=(0, 0)):
    """Yield of each run with one step the draws of a chain."""
    rows = np.append(np.random.default_rng(6).uniform(-0.3, 0.3, size=999), 0.45)
    with pm.Model():
        mu = pm.Normal("mu", 0, 1)
        pm.Uniform("y", mu - 0.5, mu + 0.5, observed=rows)
        step = pma.ApproxMH(proxy=None, epsilon=0.5, batch_size=10, proposal=pma.RandomWalk(scale=0.02))
        for seed, tune in zip(seeds, tunes):
            options = {"cores": cores, "mp_ctx": "fork", "initvals": {"mu": 0.0}, "random_seed": seed, **QUIET}
            yield pm.sample(20_000, tune=tune, step=step, **options).posterior.sizes["draw"]


def _exit_code(program, *arguments):
    """Run a program in a process of its own, forked from this one, where all is imported and compiled."""
    process = get_context("fork").Process(target=program, args=arguments)
    process.start()
    process.join(300)
    process.kill()  # where it has not ended
    process.join()
    return process.exitcode


def _draws_of_two_runs(cores):
    return list(_draws_beside_an_impossible_row(cores, range(2)))


def _samples_in_processes_of_its_own(said, log):
    # The chains write to it in processes of their own.
    logging.getLogger("pymc_austerity").addHandler(logging.FileHandler(log))
    signal.signal(signal.SIGINT, lambda *_: sys.exit("a signal reached the program"))
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        alone, in_two = pool.map(_draws_of_two_runs, [1, 2])
    said.write_text(json.dumps(alone + in_two))


@pytest.mark.slow
def test_an_impossible_row_returns_what_was_drawn(tmp_path):
    """In a process of its own, which would not survive a signal that reaches too far."""
    said, log = tmp_path / "said", tmp_path / "log"
    assert _exit_code(_samples_in_processes_of_its_own, said, log) == 0
    draws = json.loads(said.read_text())
    assert len(draws) == 4
    assert all(0 < n < 20_000 for n in draws)
    assert log.read_text().count("is not finite at the current point") >= 4


def _is_ended(said):
    """Sample until a draw at which this process ends itself; say which processes its chains have."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def end(trace, draw):
        if draw.draw_idx == 20:
            said.write_text(" ".join(str(child.pid) for child in active_children()))
            os.kill(os.getpid(), signal.SIGTERM)

    model = shift_model(ROWS)
    step = pma.ExactMH(proxy=None, progressbar=False, model=model)
    with model:
        pm.sample(100_000, tune=0, cores=2, mp_ctx="fork", step=step, callback=end, **QUIET)


@pytest.mark.slow
def test_no_chain_outlives_its_program(tmp_path):
    """Forked processes wait for the next word of the program, and hold their copy of the data."""
    said = tmp_path / "said"
    assert _exit_code(_is_ended, said) == -signal.SIGTERM
    left = [int(pid) for pid in said.read_text().split()]
    assert len(left) == 2
    for _ in range(100):
        left = [pid for pid in left if _is_running(pid)]
        if not left:
            break
        time.sleep(0.1)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def _is_running(pid):
    """Whether a process runs; one that has ended may still be in the table until it is fetched."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")
