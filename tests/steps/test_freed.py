"""What a step learnt of a model is freed with it, and what PyTensor told numba of its graphs."""

import gc
import weakref

import numba
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numba.core.codegen import JITCodeLibrary
from pytensor.graph.basic import Apply

import pymc_austerity as pma
from pymc_austerity.compile import graph_compiler

N = 600


def sampled(build):
    """Sample a model, and return weak references to what was made for it."""
    rng = np.random.default_rng(1)
    x, y, g = rng.normal(size=N), (rng.random(N) < 0.5).astype(float), rng.integers(0, 5, N)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2.0)
        # Moves of groups take long to compile, so one step alone makes them.
        u = pm.Normal("u", 0, pm.HalfNormal("s"), shape=5)[g] if build is pma.GroupMH else 0.01 * g
        pm.Bernoulli("y", logit_p=b * x + u, observed=y)
        step = build(progressbar=False)
        options = {"draws": 20, "tune": 20, "chains": 1, "cores": 1, "progressbar": False, "random_seed": 1}
        pm.sample(step=step, compute_convergence_checks=False, **options)
    made = {"model": model, "step": step, "chain": step.chain, "decider": step.decider, "x": x, "y": y, "g": g}
    return {name: weakref.ref(thing) for name, thing in made.items()}


def alive(made):
    for _ in range(3):  # what a finaliser of the first held is freed by the next
        gc.collect()
    return [name for name, thing in made.items() if thing() is not None]


@pytest.mark.slow
@pytest.mark.parametrize("step", [pma.PenaltyMH, pma.GroupMH])
def test_models_steps_and_data_are_freed(step):
    assert alive(sampled(step)) == []


@pytest.mark.slow
def test_a_step_that_is_kept_would_be_seen():
    kept = []

    def build(**options):
        kept.append(pma.ExactMH(proxy=None, **options))
        return kept[0]

    assert {"step", "chain", "decider"} <= set(alive(sampled(build)))


COMPILED, CODE = type(numba.njit(lambda: None)), JITCodeLibrary


@pytest.mark.slow
def test_a_model_built_again_is_not_compiled_again(monkeypatch):
    """As in a study of many data sets, where each would leave machine code; kept for a few graphs only, it is."""
    build, compiled = graph_compiler._compile_graph, []
    monkeypatch.setattr(graph_compiler, "_compiled", [])
    monkeypatch.setattr(graph_compiler, "_compile_graph", lambda *a, **k: compiled.append(1) or build(*a, **k))
    counts = []
    for kept in (graph_compiler._KEPT, 4):
        monkeypatch.setattr(graph_compiler, "_KEPT", kept)
        for _ in range(2):
            compiled.clear()
            assert alive(sampled(pma.PenaltyMH)) == []
            counts.append(len(compiled))
    assert counts[0] > 4
    assert counts[1] == 0
    assert counts[3] > 0


def there_are(kind):
    return {id(thing) for thing in gc.get_objects() if issubclass(type(thing), kind)}


def left_of_a_graph(scale, kind=COMPILED):
    """Compile a graph that nothing else is like, call it, and count the things of a kind that stay without it."""
    x = pt.vector("x")

    def build(factor):
        graph = pt.sum(pt.exp(pt.sin(x * factor) - pt.sqr(x)) / (1 + pt.abs(x)))
        compiled = graph_compiler.compile_part([x], [graph], mode="NUMBA")
        assert np.isfinite(compiled(np.ones(3))).all()
        graph_compiler._compiled.clear()

    build(scale)  # what is made once for all graphs
    for _ in range(3):
        gc.collect()
    before = there_are(kind)
    for k in range(2):
        build(scale + k)
    for _ in range(3):
        gc.collect()
    return len(there_are(kind) - before)


@pytest.mark.slow
def test_what_numba_was_told_of_a_graph_is_freed_with_it():
    assert left_of_a_graph(1.25) <= 3


@pytest.mark.slow
def test_graphs_that_numba_remembers_would_be_seen(monkeypatch):
    monkeypatch.setattr(graph_compiler, "_release_with", lambda *graph: None)
    assert left_of_a_graph(1.75) > 20


@pytest.mark.slow
@pytest.mark.skipif(pytensor.__version__ < "3", reason="PyTensor 2 remembers operations with their graphs")
def test_a_graph_is_freed_with_its_function():
    assert left_of_a_graph(2.25, Apply) == 0


@pytest.mark.slow
def test_a_graph_that_pytensor_has_prepared_would_be_seen(monkeypatch):
    monkeypatch.setattr(graph_compiler, "_NoLinker", graph_compiler._NumPyLinker)
    assert left_of_a_graph(2.75, Apply) > 0


def test_the_machine_code_of_a_graph_is_freed_with_it(nothing_on_disk, monkeypatch):
    assert left_of_a_graph(3.25, CODE) <= 2
    monkeypatch.setattr(graph_compiler, "_release_with", lambda *graph: None)
    assert left_of_a_graph(3.75, CODE) > 5
