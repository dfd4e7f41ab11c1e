"""PyTensor's compiler and rewriter, as the functions of a sampler need them."""

from collections.abc import Callable
from contextlib import suppress
from types import FunctionType
from typing import Any
from weakref import finalize

import numpy as np
import pytensor
import pytensor.tensor as pt
from numba.extending import overload
from pytensor.compile import Mode, get_mode, optdb
from pytensor.graph.basic import Apply, Constant, Variable, clone, equal_computations
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import explicit_graph_inputs
from pytensor.link.basic import Container, PerformLinker
from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.scalar import Add, Mul
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot, softplus

from pymc_austerity.compile.cache import cached
from pymc_austerity.compile.code_key import name_graph
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.compile.second_derivatives import twice_differentiable
from pymc_austerity.compile.special_functions import rewrite_polygamma

_REWRITES = "pymc_austerity"
#: Fails in PyTensor 3.3.8, and prints a traceback, where a constant index meets an axis of more than 127 entries.
_FAILING = "local_subtensor_merge_slice"
_BY_UFUNCS, _FEW_OPERANDS = "by_ufuncs", "few_operands"
#: Operands of a sum or a product of arrays that NumPy evaluates at once: 32 with the result.
_MOST_OPERANDS = 31


class _NumPyLinker(PerformLinker):
    """Lets NumPy evaluate one operation after the other, also those that an operation such as a softmax is made of.

    For those PyTensor's own linker calls a compiler of C where there is one, once for each.
    """

    def make_all(self, *storage: Any, **named: Any) -> Any:
        """Return what evaluates each operation."""
        with pytensor.config.change_flags(cxx=""):
            return super().make_all(*storage, **named)


class _NoLinker(PerformLinker):
    """Leaves a rewritten graph as it is: its function does nothing.

    PyTensor's own linkers compile what operations such as fused loops are made of, and PyTensor keeps that for good.
    """

    def make_all(self, input_storage: Any = None, output_storage: Any = None, storage_map: Any = None) -> Any:
        """Return a function that does nothing, and where inputs and outputs would lie."""
        inputs = [Container(v, storage) for v, storage in zip(self.fgraph.inputs, input_storage, strict=True)]
        return tuple, inputs, [Container(v, [None]) for v in self.fgraph.outputs], [], []


#: For what is evaluated a few times, on few rows or on chunks of many: to compile it would take longer.
BY_NUMPY = (
    Mode(linker=_NumPyLinker(), optimizer="fast_compile").including(_FEW_OPERANDS, _BY_UFUNCS).excluding(_FAILING)
)
#: For a large graph that is evaluated once or twice: to rewrite it would take longer.
AS_WRITTEN = Mode(linker=_NumPyLinker(), optimizer=None).including(_FEW_OPERANDS)


# With fast mathematics LLVM merges operations where they are compiled together, and not where their code comes from
# disk: the last digits of a density, and so the draws, would depend on what was compiled before.
@pytensor.config.change_flags(numba__fastmath=False)
def compile_log_density(inputs: Any, outputs: Any, mode: Any = None, **options: Any) -> Any:
    """Compile a log density to a function; a parameter outside its domain gives −∞, as in ``pymc.compile``.

    Not by ``pymc.compile`` itself, which would update the generators of random variables that the graph only asks
    for their shape (components of a mixture, in PyMC 5), and so keep them in the function.
    """
    return pytensor.function(inputs, outputs, mode=_checked(mode), on_unused_input="ignore", **options)


def _checked(mode: Any) -> Mode:
    """Return a mode that lets densities be −∞ outside the domain of a parameter, with the rewrites of this module."""
    return get_mode(mode).including("local_check_parameter_to_ninf_switch", _REWRITES).excluding(_FAILING)


def compile_part(inputs: Any, outputs: Any, **options: Any) -> Any:
    """Compile a log density as `compile_log_density` does, for compiled code to call: its outputs are a tuple.

    The same for the same graph: what PyTensor has registered with numba for a graph stays until the process ends.
    """
    graphs = outputs if isinstance(outputs, list | tuple) else [outputs]
    kind = options, [v.type for v in inputs], [v.type for v in graphs]
    for known in tuple(_compiled):
        known_kind, known_inputs, known_graphs, compiled = known
        if kind == known_kind and equal_computations(graphs, known_graphs, inputs, known_inputs):
            break
    else:
        compiled = cached(_compile_graph(inputs, outputs, **options))
        known = kind, inputs, graphs, compiled
    _compiled[:] = [*(other for other in _compiled if other is not known), known][-_KEPT:]
    return compiled


#: The graphs that were asked for last, the newest at the end: options and types, inputs, outputs and the function.
_compiled: list[tuple[Any, Any, Any, Any]] = []
_KEPT = 16


@pytensor.config.change_flags(numba__fastmath=False)  # as above
def _compile_graph(inputs: Any, outputs: Any, mode: Any = None, **options: Any) -> Any:
    """Return the numba function of a rewritten graph, known by PyTensor's key of it.

    PyTensor itself puts a function around it, to keep that on disk, and numba makes machine code of all that a function
    calls once more for each function that calls it.
    """
    if not hasattr(numba_basic, "numba_funcify_and_cache_key"):  # which only extensions of PyTensor are told of
        return compile_log_density(inputs, outputs, mode, **options).vm.jit_fn
    # The rewrites of the mode's own linker, but another in its place, which compiles nothing.
    own = _checked(mode)
    query = own.provided_optimizer.including(*own.linker.required_rewrites)
    rewrites = Mode(linker=_NoLinker(), optimizer=query.excluding(*own.linker.incompatible_rewrites))
    rewritten = pytensor.function(inputs, outputs, mode=rewrites, on_unused_input="ignore", **options).maker.fgraph
    graph, key = numba_basic.numba_funcify_and_cache_key(rewritten)
    # numba files code under the name of its source, which is that of a temporary file.
    written = graph.py_func
    code = written.__code__.replace(co_filename="<graph>")
    function = FunctionType(code, written.__globals__, written.__name__, written.__defaults__, written.__closure__)
    if key is not None:
        name_graph(function, key)
    compiled = njit(function)
    _release_with(function, compiled)
    return compiled


def _release_with(graph: FunctionType, compiled: Any) -> None:
    """Let what PyTensor has told numba of the operations of a graph go when the function of the graph goes.

    What numba is told stays until the process ends, and holds some 300 compiled functions for a model.
    """
    typing = compiled.typingctx  # as extensions of numba are handed it
    typing.refresh()
    told = []
    for value in graph.__globals__.values():
        # PyTensor puts a function around each operation, to keep it on disk.
        operation = getattr(getattr(value, "py_func", None), "__globals__", {}).get("jitable_func", value)
        if isinstance(operation, FunctionType) and "<locals>" in operation.__qualname__:  # made for this graph
            with suppress(ValueError, AttributeError):  # numba was told nothing of it, or keeps it elsewhere
                kind = typing.resolve_value_type(operation)
                told += [kind, *kind.templates]
    finalize(graph, _empty, told).atexit = False


def _empty(told: list[Any]) -> None:
    """Empty what nothing calls any more; its places in numba's lists stay."""
    for kind in told:
        for name, value in tuple(vars(kind).items()):
            if isinstance(value, dict):
                value.clear()
            elif isinstance(value, staticmethod):
                setattr(kind, name, None)
        for cell in getattr(kind.key, "__closure__", None) or ():
            cell.cell_contents = None


def interpret_log_density(inputs: Any, outputs: Any) -> Any:
    """Make a function of a log density as `compile_log_density` does, for a graph that is evaluated a few times.

    NumPy evaluates one operation after the other: to compile them would take longer.
    """
    # Put together, operations would be one that NumPy does not know, and that Python evaluates entry by entry.
    rewritten = Mode(linker=_NumPyLinker(), optimizer="fast_run").excluding("fusion", "inplace", "BlasOpt")
    return compile_log_density(inputs, outputs, rewritten.including(_BY_UFUNCS, _FEW_OPERANDS))


@node_rewriter([softplus])
def _use_ufuncs(fgraph: Any, node: Apply) -> list[Variable]:
    """Write log(1 + eˣ) by functions of NumPy; PyTensor's own is evaluated by Python, entry by entry."""
    (x,) = node.inputs
    written = pt.maximum(x, 0) + pt.log1p(pt.exp(-pt.abs(x)))
    return [pt.cast(written, node.outputs[0].type.dtype)]


@node_rewriter([Elemwise])
def _split_long_sums(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Write a sum or a product of many arrays, which PyTensor puts into one operation, by parts."""
    if len(node.inputs) <= _MOST_OPERANDS or not isinstance(node.op.scalar_op, Add | Mul):
        return None
    while len(parts := node.inputs) > _MOST_OPERANDS:
        some = [node.op(*parts[i : i + _MOST_OPERANDS]) for i in range(0, len(parts), _MOST_OPERANDS)]
        node = node.op.make_node(*some)
    return list(node.outputs)


def stabilised(graph: Variable) -> Variable:
    """Return a log density in the form in which its derivatives are finite wherever it is.

    PyTensor puts log(1 − sigmoid(η)) and its like into stable form when it compiles.  What is differentiated before is
    derived from the unstable form, and then 0/0 beyond η = 37.
    """
    graph = twice_differentiable(graph)
    # By hand, as PyTensor 2 copies the inputs with the graph.
    _, (graph,) = clone(list(explicit_graph_inputs([graph])), [graph], copy_inputs=False)
    # Stable forms first: the canonical form of PyTensor 2 hides −sigmoid(η), which is to be recognised, as a product.
    for include in (("stabilize",), ("canonicalize", "stabilize")):
        # Not without what says how to differentiate (`pytensor.gradient.undefined_grad` and its like).
        graph = rewrite_graph(graph, include=include, clone=False, exclude=("local_view_op",))
    return rewrite_graph(graph, include=("none",), clone=False, custom_rewrite=dfs_rewriter(_keep_tail))


@node_rewriter([pt.log1p])
def _keep_tail(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Write log(1 ± erf x) by erfc: PyTensor has made log1p of it, which is log 0 from six standard deviations on."""
    (of,) = node.inputs
    sign = 1.0
    while of.owner is not None and of.owner.op in (pt.neg, pt.mul):
        constants = [v for v in of.owner.inputs if isinstance(v, Constant) and np.all(v.data == -1)]
        others = [v for v in of.owner.inputs if v not in constants]
        if len(others) != 1:
            return None
        sign, of = -sign, others[0]
    return [pt.log(pt.erfc(-sign * of.owner.inputs[0]))] if of.owner is not None and of.owner.op == pt.erf else None


class Product(Dot):
    """The product of two matrices, in compiled code by numba's own ``np.dot``.

    PyTensor 3 reads operands of any strides in place.  Here they are contiguous or transposed, and that generality
    costs numba a minute and more to compile, the larger part of a cold start.
    """


@node_rewriter([Dot])
def _use_product(fgraph: Any, node: Apply) -> list[Variable] | None:
    dtype = node.outputs[0].type.dtype
    if type(node.op) is not Dot or dtype not in ("float64", "float32"):
        return None
    # BLAS knows operands of one type; whole numbers and data of single precision are converted.
    return list(Product().make_node(*[pt.cast(i, dtype) for i in node.inputs]).outputs)


def as_blas_reads(x: np.ndarray) -> np.ndarray:
    """Return a matrix that BLAS can read, contiguous or transposed: the same, or a copy."""
    return x if x.flags.c_contiguous or x.flags.f_contiguous else np.ascontiguousarray(x)


@overload(as_blas_reads)
def _as_blas_reads(x):  # type: ignore[no-untyped-def]
    if x.layout in "CF":
        return lambda x: x
    return lambda x: np.ascontiguousarray(x)


@numba_basic.register_funcify_default_op_cache_key(Product)
def _compile_product(op: Product, node: Apply, **options: Any) -> tuple[Callable[..., Any], int]:
    @numba_basic.numba_njit
    def product(x, y):  # type: ignore[no-untyped-def]
        return np.dot(as_blas_reads(x), as_blas_reads(y))

    return product, 2


# After everything that knows the operations, and before they are put together and made to work in place (49 and 75).
optdb.register("use_product", dfs_rewriter(_use_product), _REWRITES, position=48.9)
optdb.register("use_compiled_polygamma", rewrite_polygamma, _REWRITES, position=48.9)
optdb.register("use_ufuncs", dfs_rewriter(_use_ufuncs), _BY_UFUNCS, position=48.9)
optdb.register("split_long_sums", dfs_rewriter(_split_long_sums), _FEW_OPERANDS, position=48.9)
