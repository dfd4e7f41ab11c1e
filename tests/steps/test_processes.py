"""Chains in other processes: the same draws however they are started, and what survives when one must stop."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pymc as pm
import pytest
from toy import shift_model

import pymc_austerity as pma

pytestmark = pytest.mark.contract

ROWS = np.random.default_rng(0).normal(1.0, 1.0, size=1_000)
QUIET = {"progressbar": False, "compute_convergence_checks": False, "chains": 2}


@pytest.fixture(scope="module")
def step_and_model():
    model = shift_model(ROWS)
    return pma.ApproxMH(proxy=None, epsilon=0.05, batch_size=50, model=model), model


def _draws(step_and_model, seed=11, **kwargs):
    step, model = step_and_model
    with model:
        idata = pm.sample(100, tune=150, step=step, random_seed=seed, **{**QUIET, **kwargs})
    return np.stack([idata.posterior["mu"], idata.sample_stats["n_rows"], idata.sample_stats["scaling"]])


@pytest.fixture(scope="module")
def in_turn(step_and_model):
    return _draws(step_and_model, cores=1)


def test_the_same_seed_gives_the_same_draws_again(step_and_model, in_turn):
    assert np.array_equal(_draws(step_and_model, cores=1), in_turn)
    assert not np.array_equal(_draws(step_and_model, cores=1, seed=12), in_turn)
    assert not np.array_equal(in_turn[:, 0], in_turn[:, 1])
    assert len(np.unique(in_turn[0])) > 20


def test_forked_chains_draw_what_chains_in_turn_draw(step_and_model, in_turn):
    assert np.array_equal(_draws(step_and_model, cores=2, mp_ctx="fork"), in_turn)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_chains_of_processes_started_afresh_draw_what_chains_in_turn_draw(step_and_model, in_turn, start):
    assert np.array_equal(_draws(step_and_model, cores=2, mp_ctx=start), in_turn)


def test_more_chains_than_cores_draw_what_chains_in_turn_draw(step_and_model):
    in_turn = _draws(step_and_model, cores=1, chains=4)
    assert in_turn.shape[1] == len({tuple(mu) for mu in in_turn[0]}) == 4
    assert np.array_equal(_draws(step_and_model, cores=2, chains=4, mp_ctx="fork"), in_turn)


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
    assert np.array_equal(_draws(ours, cores=2, mp_ctx="fork"), in_turn)
    assert np.array_equal(_draws(ours, cores=2, mp_ctx="spawn"), in_turn)


@pytest.mark.slow
def test_chains_that_meet_an_impossible_row_return_what_they_drew():
    """In a process of its own, which would not survive a signal that reaches too far."""
    script = """
    import logging, numpy as np, pymc as pm, pymc_austerity as pma

    logging.getLogger("pymc_austerity").addHandler(logging.StreamHandler())
    rows = np.append(np.random.default_rng(6).uniform(-0.3, 0.3, size=999), 0.45)
    with pm.Model():
        mu = pm.Normal("mu", 0, 1)
        pm.Uniform("y", mu - 0.5, mu + 0.5, observed=rows)
        step = pma.ApproxMH(proxy=None, epsilon=0.5, batch_size=10, proposal=pma.RandomWalk(scale=0.02))
        for seed in range(4):
            idata = pm.sample(
                20_000, tune=0, chains=2, cores=2, mp_ctx="fork", step=step, initvals={"mu": 0.0},
                random_seed=seed, progressbar=False, compute_convergence_checks=False,
            )
            print("draws:", idata.posterior.sizes["draw"], flush=True)
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=300)
    draws = [int(line.split()[1]) for line in ran.stdout.splitlines() if line.startswith("draws:")]
    assert ran.returncode == 0, ran.stderr
    assert len(draws) == 4
    assert all(0 < n < 20_000 for n in draws)
    assert "is not finite at the current point" in ran.stderr


@pytest.mark.slow
def test_nothing_reaches_the_program_that_samples_in_processes_of_its_own():
    script = """
    import numpy as np, pymc as pm, pymc_austerity as pma, signal, sys
    from concurrent.futures import ProcessPoolExecutor
    from itertools import product
    from multiprocessing import get_context

    rows = np.append(np.random.default_rng(6).uniform(-0.3, 0.3, size=999), 0.45)

    def sample(cores_and_seed):
        cores, seed = cores_and_seed
        with pm.Model():
            mu = pm.Normal("mu", 0, 1)
            pm.Uniform("y", mu - 0.5, mu + 0.5, observed=rows)
            step = pma.ApproxMH(proxy=None, epsilon=0.5, batch_size=10, proposal=pma.RandomWalk(scale=0.02))
            idata = pm.sample(
                20_000, tune=0, chains=2, cores=cores, mp_ctx="fork", step=step, initvals={"mu": 0.0},
                random_seed=seed, progressbar=False, compute_convergence_checks=False,
            )
        return idata.posterior.sizes["draw"]

    signal.signal(signal.SIGINT, lambda *_: sys.exit("a signal reached the program"))
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        print("draws:", *pool.map(sample, product([1, 2], range(2))), flush=True)
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    draws = [int(n) for n in ran.stdout.split("draws:")[1].split()]
    assert len(draws) == 4
    assert all(0 < n < 20_000 for n in draws)


@pytest.mark.slow
def test_no_process_of_a_chain_outlives_a_program_that_was_ended(tmp_path):
    """Forked processes wait for the next word of the program, and hold their copy of the data."""
    script = """
    import multiprocessing, os, signal
    import numpy as np, pymc as pm, pymc_austerity as pma

    def end(trace, draw):
        if draw.draw_idx == 20:
            print(*[child.pid for child in multiprocessing.active_children()], flush=True)
            os.kill(os.getpid(), signal.SIGTERM)

    with pm.Model():
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=np.random.default_rng(0).normal(size=2_000))
        step = pma.ExactMH(proxy=None, progressbar=False)
        pm.sample(
            100_000, tune=0, chains=2, cores=2, mp_ctx="fork", step=step, callback=end, progressbar=False,
        )
    """
    said = tmp_path / "said"
    with said.open("w") as out:  # a pipe would stay open, and be waited for, as long as a process is left
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], stdout=out, stderr=subprocess.DEVNULL, timeout=300
        )
    assert ran.returncode == -signal.SIGTERM
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
