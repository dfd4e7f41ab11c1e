"""What NumPy is to evaluate is evaluated by NumPy, whatever it is made of."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile import Mode
from pytensor.link.c.op import COp

from pymc_austerity.compile import graph_compiler
from pymc_austerity.compile.graph_compiler import BY_NUMPY, compile_log_density, compile_part, interpret_log_density

X = np.linspace(-1, 1, 6).reshape(3, 2)


def softmax(x):
    return pt.special.softmax(x, axis=1)


def mixture(x):
    return pm.logp(pm.NormalMixture.dist(w=pt.special.softmax(x[0]), mu=x[1], sigma=1.0), x[2, 0])


@pytest.fixture
def compiled_in_c(monkeypatch):
    """Names of the operations for which PyTensor asks for C, whether it has compiled them before or not."""
    found, ask = [], COp.make_c_thunk

    def listen(op, *arguments):
        found.append(str(op))
        return ask(op, *arguments)

    monkeypatch.setattr(COp, "make_c_thunk", listen)
    return found


@pytest.mark.parametrize("write", [softmax, mixture])
def test_no_part_of_an_operation_is_compiled_in_c(write, compiled_in_c):
    x = pt.dmatrix("x")
    expected = interpret_log_density([x], [write(x)])(X)[0]
    found = pytensor.function([x], write(x), mode=BY_NUMPY)(X)
    assert compiled_in_c == []
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(pm.__version__ < "6", reason="PyTensor 2 asks for no C within an operation")
@pytest.mark.skipif(not pytensor.config.cxx, reason="no compiler of C, so that PyTensor asks for none")
def test_pytensors_own_linker_would_have_them_compiled(compiled_in_c):
    x = pt.dmatrix("x")
    other = pt.special.softmax(x, axis=0)  # an operation keeps what was made of it
    pytensor.function([x], other, mode=Mode(linker="py", optimizer="fast_compile"))(X)
    assert compiled_in_c


def compiled(k=2.0, dtype="float64", name="x", **options):
    x = pt.vector(name, dtype=dtype)
    return compile_part([x], [k * x], mode="NUMBA", **options)


def test_a_graph_asked_for_again_outlives_others(monkeypatch):
    """What a model built again needs may be the oldest that is kept, beside graphs that it compiles."""
    monkeypatch.setattr(graph_compiler, "_compiled", [])
    monkeypatch.setattr(graph_compiler, "_KEPT", 2)
    oldest, newer = compiled(2.0), compiled(3.0)
    assert compiled(2.0) is oldest
    compiled(4.0)
    assert compiled(2.0) is oldest
    assert compiled(3.0) is not newer


def test_the_same_graph_is_compiled_once_and_another_anew():
    first = compiled()
    assert compiled(name="of another name") is first
    assert first(np.ones(2))[0].tolist() == [2.0, 2.0]
    for other in (compiled(3.0), compiled(dtype="float32"), compiled(allow_input_downcast=True)):
        assert other is not first
    assert compiled(3.0)(np.ones(2))[0].tolist() == [3.0, 3.0]


@pytest.mark.parametrize("op", [pt.add, pt.mul])
def test_numpy_evaluates_sums_of_any_length(op):
    """NumPy takes 32 operands at once, and PyTensor puts a sum of 100 arrays into one operation."""
    x = pt.dvector("x")
    many = op(*[x / (k + 1) for k in range(100)])
    found = interpret_log_density([x], [many]), compile_log_density([x], [many], BY_NUMPY)
    values = np.linspace(0.5, 2, 7)
    parts = [values / (k + 1) for k in range(100)]
    expected = np.sum(parts, axis=0) if op is pt.add else np.prod(parts, axis=0)
    for function in found:
        np.testing.assert_allclose(function(values)[0], expected, rtol=1e-12)


def test_a_density_is_compiled_without_fast_mathematics(nothing_on_disk):
    """With it, its last digits depend on what it was compiled with, and a second process draws otherwise."""
    x = pt.dvector("x")
    density = [pt.sum(pt.exp(x * x + 3 * x))]
    machine_code = []
    for compiled in (compile_part([x], density), pytensor.function([x], density, mode="NUMBA").vm.jit_fn):
        compiled(np.ones(3))
        machine_code.append(compiled.inspect_llvm(compiled.signatures[0]))
    ours, of_pytensor = machine_code
    assert "reassoc" not in ours
    assert "reassoc" in of_pytensor
