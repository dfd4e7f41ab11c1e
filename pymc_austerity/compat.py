"""What differs between PyMC 5.28 with ArviZ 0.x and PyMC 6 with ArviZ 1.x, and nothing else."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.compile.builders as _builders
import pytensor.gradient as _gradient
import xarray as xr
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.util import get_random_generator
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable

try:
    from pytensor.conditional.op import IfElse as IfElse
except ImportError:  # PyTensor 2
    from pytensor.ifelse import IfElse as IfElse

try:
    from pytensor.tensor.linalg import SolveBase as SolveBase
except ImportError:  # PyTensor 2
    from pytensor.tensor.slinalg import SolveBase as SolveBase

_pushforward = getattr(_gradient, "pushforward", None) or _gradient.Rop

#: Ops whose inner graph follows the types of their inputs (PyTensor 3 only).
DEFERRED_SYMBOLIC_OPS: tuple[type, ...] = (_builders.SymbolicOp,) if hasattr(_builders, "SymbolicOp") else ()


def inner_graph(op: Any) -> tuple[list[Any], list[Any]]:
    """Return inputs and outputs of the graph within an op, free to be changed: PyTensor 3 keeps it frozen."""
    graph = op.fgraph.unfreeze() if hasattr(op.fgraph, "unfreeze") else op.fgraph
    return list(graph.inputs), list(graph.outputs)


def replace_parts(graph: Variable, mapping: Mapping[Variable, Variable]) -> Variable:
    """Return a graph with parts of it replaced, and all else in it as it is.

    PyTensor 2 refuses parts that lie behind others that are replaced, and both versions copy a random variable that
    shares a constant with one that depends on such a part: those are replaced by themselves.
    """
    within = set(ancestors([graph], blockers=list(mapping)))
    found = {old: new for old, new in mapping.items() if old in within}
    if not found:
        return graph
    random = [var for var in within if var.owner and isinstance(var.owner.op, RandomVariable | SymbolicRandomVariable)]
    found |= {rv: rv for rv in random if found.keys().isdisjoint(ancestors([rv]))}
    before = ancestors([i for old in found if old.owner is not None for i in old.owner.inputs])
    behind = {old: found.pop(old) for old in set(before) & set(found)}
    if not behind:
        return graph_replace([graph], found, strict=False)[0]
    places = {old: old.type() for old in found}
    graph = replace_parts(graph_replace([graph], places, strict=False)[0], behind)
    return graph_replace([graph], {places[old]: new for old, new in found.items()}, strict=False)[0]


def pushforward(output: Any, at: Any, direction: Any) -> Any:
    """Return the forward-mode derivative of `output` by `at` along `direction`; zero where it does not depend on it."""
    derivative = _pushforward(output, at, direction, disconnected_outputs="ignore", return_disconnected="none")
    return output.zeros_like() if derivative is None else derivative


def as_sampling_result(groups: Mapping[str, xr.Dataset]) -> Any:
    """Return groups as ``pm.sample`` does: ``arviz.InferenceData`` with ArviZ 0.x, ``xarray.DataTree`` with 1.x."""
    import arviz as az  # a second to load, which processes that draw the chains never need

    is_old = int(az.__version__.partition(".")[0]) < 1
    return az.InferenceData(**groups) if is_old else xr.DataTree.from_dict(dict(groups))


class ChainSetup:
    """Let a step method prepare for a chain in one place, whichever hook PyMC calls.

    PyMC 6 calls ``setup_chain(rng, tune, draws)`` before each chain, PyMC 5 calls ``set_rng(rng)``.
    """

    chain_length: int | None = None  # draws after tuning; None where PyMC does not tell

    @property
    def vars(self) -> list[Variable]:
        """The value variables that the step moves.

        PyMC asks for them first of all.  It reads the data then, which would end the process where the file of a memory
        map was made shorter.
        """
        if (data := getattr(self, "known_data", None)) is not None:
            data.require_files()
        return self._vars

    @vars.setter
    def vars(self, variables: list[Variable]) -> None:
        self._vars = variables

    def start_chain(self, rng: np.random.Generator) -> None:
        """Forget the previous chain and take `rng` for the next one."""
        raise NotImplementedError

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Prepare for one chain (PyMC 6)."""
        self.chain_length = draws
        self.start_chain(get_random_generator(rng, copy=False))

    def set_rng(self, rng: Any) -> None:
        """Prepare for one chain (PyMC 5)."""
        self.chain_length = None
        self.start_chain(get_random_generator(rng, copy=False))
