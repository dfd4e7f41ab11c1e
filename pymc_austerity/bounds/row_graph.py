"""The row terms as a graph of affine predictors of θ."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor import scalar
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import AllocEmpty, Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.special import LogSoftmax
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.type import discrete_dtypes

from pymc_austerity.likelihood import RowLikelihood, keeps_affine
from pymc_austerity.likelihood.model_graph import is_elementwise


class NoRemainderBoundError(NotImplementedError):
    """No bound on what a Taylor expansion leaves of a row is known; the message names what stands in the way."""


@dataclass(frozen=True, eq=False)
class RowGraph:
    """Row terms, simplified, with what they read of θ."""

    output: Variable  # vector of row terms, without the checks of parameters
    moving: frozenset[Variable]  # variables that depend on θ
    predictors: tuple[Variable, ...]  # affine functions of θ through which alone the output reads it
    softmaxes: tuple[Variable, ...]  # logarithms of a softmax over the last axis of further such functions
    known: tuple[Variable, ...]  # what else the output reads


def simplified_rows(likelihood: RowLikelihood) -> Variable:
    """Return the row terms without checks of parameters, in numerically stable forms."""
    rows = rewrite_graph(_unchecked(likelihood.row_log_likelihood), include=("canonicalize", "stabilize"))
    return rewrite_graph(rows, include=("none",), custom_rewrite=dfs_rewriter(_pick_from_join))


@node_rewriter([Subtensor])
def _pick_from_join(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Put in place of a part of joined vectors the vector that it is.

    Effects are coefficients joined with the ones that stand for their indicators, and a product of the two is affine.
    """
    joined = node.inputs[0].owner
    if joined is None or not isinstance(joined.op, Join) or node.inputs[0].type.ndim != 1:
        return None
    vectors = [v for v in joined.inputs if v.type.ndim]
    lengths = [v.type.shape[0] for v in vectors]
    if None in lengths or not all(isinstance(v, Constant) for v in node.inputs[1:]):
        return None
    storage: list[list[Any]] = [[None]]
    node.op.perform(node, [np.arange(sum(lengths)), *(v.data for v in node.inputs[1:])], storage)
    for vector, stop in zip(vectors, np.cumsum(lengths)):
        if np.array_equal(storage[0][0], np.arange(stop - vector.type.shape[0], stop)):
            return [vector]
    return None


def row_graph(likelihood: RowLikelihood) -> RowGraph:
    """Simplify the row terms and find the affine predictors that they read."""
    output, theta = simplified_rows(likelihood), likelihood.theta
    moving, affine = {theta}, {theta}
    for node in io_toposort([theta], [output]):
        if isinstance(node.op, Shape | Shape_i | AllocEmpty):
            continue
        which = [i for i, var in enumerate(node.inputs) if var in moving]
        if which:
            moving.update(node.outputs)
            smooth = not _is_discrete(node.outputs[0])  # a cast to whole numbers is a rounding
            if smooth and all(node.inputs[i] in affine for i in which) and keeps_affine(node.op, which):
                affine.update(node.outputs)
    opened: set[Variable] = set()
    while True:
        found = _read_by(output, moving, affine, opened)
        more = {eta for eta in found.predictors if _is_sum_of(eta, moving, set(found.predictors))}
        if not more:
            return found
        opened |= more


def _read_by(output: Variable, moving: set[Variable], affine: set[Variable], opened: set[Variable]) -> RowGraph:
    """Return what the output reads of θ, with the sums `opened` taken apart."""
    predictors: dict[Variable, None] = {}
    softmaxes: dict[Variable, None] = {}
    known: dict[Variable, None] = {}
    seen: set[Variable] = set()
    ahead = [output]
    while ahead:
        var = ahead.pop()
        if var in seen:
            continue
        seen.add(var)
        if var not in moving:
            known[var] = None
        elif _is_last_axis_softmax(var) and var.owner.inputs[0] in affine:
            softmaxes[var] = None
        elif var in affine and var not in opened and not only_shifts_or_scales(var, moving):
            predictors[var] = None
        else:
            ahead += reversed(var.owner.inputs)
    return RowGraph(output, frozenset(moving), tuple(predictors), tuple(softmaxes), tuple(known))


def _is_sum_of(eta: Variable, moving: set[Variable], predictors: set[Variable]) -> bool:
    """Return whether a predictor is a sum of others and at most one more.

    Derivatives by numbers that are read in other places too cancel there, as those of a negative binomial by its
    dispersion α do between log α − η and log α.
    """
    if not is_elementwise(eta, scalar.Add, scalar.Sub):
        return False
    parts = [_core(v, moving) for v in eta.owner.inputs if v in moving]
    return sum(v not in predictors for v in parts) <= 1


def _is_discrete(var: Variable) -> bool:
    return getattr(var.type, "dtype", "float64") in discrete_dtypes


def _core(var: Variable, moving: set[Variable]) -> Variable:
    while only_shifts_or_scales(var, moving):
        var = next(v for v in var.owner.inputs if v in moving)
    return var


def only_shifts_or_scales(var: Variable, moving: set[Variable] | frozenset[Variable]) -> bool:
    """Return whether a variable is another times a known number plus a known number, in perhaps other dimensions."""
    if var.owner is None:
        return False
    op = var.owner.op
    if isinstance(op, DimShuffle):
        return True
    if not isinstance(op, Elemwise) or _is_discrete(var):
        return False
    affine = (scalar.Add, scalar.Sub, scalar.Neg, scalar.Mul, scalar.TrueDiv, scalar.Identity, scalar.Cast)
    return isinstance(op.scalar_op, affine) and sum(v in moving for v in var.owner.inputs) == 1


def _is_last_axis_softmax(var: Variable) -> bool:
    if not (var.owner and isinstance(var.owner.op, LogSoftmax)) or var.owner.op.axis is None:
        return False
    axes = np.atleast_1d(var.owner.op.axis) % var.type.ndim
    return axes.tolist() == [var.type.ndim - 1]


def _unchecked(graph: Variable) -> Variable:
    """Return the graph without assertions."""
    inside = FunctionGraph(outputs=[graph], clone=False)
    for node in inside.toposort():
        if isinstance(node.op, CheckAndRaise):
            inside.replace(node.outputs[0], node.inputs[0], import_missing=True)
    return inside.outputs[0]
