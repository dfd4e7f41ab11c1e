"""Which entries of ψ a predictor reads of each row, where rows pick them by whole numbers in their data.

A sparse product reads Σ_k v_ik ψ[j_ik], an effect of a group ψ[g_i]: only these entries of ∂η_i/∂ψ can differ from
zero, and the graph says which they are.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import grad
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, walk
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pymc_austerity.compile.graph_compiler import AS_WRITTEN
from pymc_austerity.likelihood.affine import row_predictor
from pymc_austerity.likelihood.model_graph import bounds_of, constant_of, plain_indices, values_read
from pymc_austerity.likelihood.row_likelihood import RowLikelihood

#: Ops whose outcome holds entries of their first argument as they are.
_SELECTS = (DimShuffle, Reshape, SpecifyShape, Subtensor)
#: Rows that read at most one in so many of the entries of ψ, and ψ of at least so many, are worth it.
_FEW, _MANY = 8, 200


class RowEntries(NamedTuple):
    """The derivative of a predictor η by ψ, row by row."""

    columns: Variable  # matrix of int64: the entries of ψ that a row picks.  One that it picks twice counts twice
    values: Variable  # matrix: the derivative by each of them
    rest: Variable  # η as a function of ψ, without what rows pick
    read_by_all: np.ndarray  # entries of ψ that `rest` reads


def find_row_entries(eta: Variable, psi: Variable, batches: Sequence[Variable]) -> RowEntries | None:
    """Return the entries of ψ that a predictor η of `row_predictor` picks row by row, where they are few of many."""
    n_psi = psi.type.shape[0]
    if n_psi is None or n_psi < _MANY:
        return None
    picked = _picked(eta, psi, set(batches))
    sizes = [int(np.prod(var.type.shape[1:])) for var in picked if None not in var.type.shape[1:]]
    if not picked or len(sizes) < len(picked):
        return None
    free = [var.type() for var in picked]
    (rest,) = graph_replace([eta], dict(zip(picked, free, strict=True)), strict=False)
    read_by_all = _read(rest, psi)
    if _FEW * (sum(sizes) + read_by_all.size) > n_psi:
        return None
    # η is affine: its derivatives are the same wherever they are taken.
    zeros = {var: pt.zeros_like(old) for var, old in zip(free, picked, strict=True)}
    rest, *slopes = graph_replace([rest, *grad(rest.sum(), free)], zeros, strict=False)
    # Row i of what is picked is of row i of the batch, and so is its derivative.
    columns = [_numbers_like(var, psi).reshape((-1, size)) for var, size in zip(picked, sizes, strict=True)]
    values = [slope.reshape((-1, size)) for slope, size in zip(slopes, sizes, strict=True)]
    return RowEntries(pt.concatenate(columns, axis=1), pt.concatenate(values, axis=1), rest, read_by_all)


class PickedEntries(NamedTuple):
    """Entries of ψ that rows pick by whole numbers in their data."""

    numbers: np.ndarray  # a row picks one of these lines, or several, shape (G, K)
    one_each: bool  # whether it picks one
    by: frozenset[Variable]  # the data that pick it


def entries_read(likelihood: RowLikelihood) -> tuple[list[PickedEntries], np.ndarray]:
    """Return the entries of ψ that rows pick by their data, and those that all rows read, or may."""
    rows, psi = likelihood.of_psi(likelihood.row_log_likelihood)
    data = set(likelihood.batches)
    known = [(var, _lines(var, psi, data)) for var in _picked(rows, psi, data, any)]
    picked = {var: lines for var, lines in known if lines is not None}
    (rest,) = graph_replace([rows], {var: var.type() for var in picked}, strict=False)
    return _joined(list(picked.values())), _read(rest, psi)


def _lines(picked: Variable, psi: Variable, data: set[Variable]) -> PickedEntries | None:
    """Return the entries that rows pick at a node as lines of a matrix; None for indices of other kinds."""
    indices, numbers = plain_indices(picked.owner), _numbers_of(picked.owner.inputs[0], psi)
    by_data = {k: data & set(ancestors([i])) for k, i in enumerate(indices) if isinstance(i, Variable)}
    axes = [k for k, found in by_data.items() if found]
    for k in range(len(indices)):  # as many axes stay, for the others to keep their places
        index = indices[k]
        if k in axes:
            continue
        if isinstance(index, slice):
            if bounds_of(index) != (None, None, None):
                return None
        elif (fixed := constant_of(index)) is None:
            return None
        else:
            numbers = np.take(numbers, [fixed], axis=k)
    lines = np.moveaxis(numbers, axes, range(len(axes)))
    one_each = all(indices[k].type.ndim == 1 for k in axes)
    n_lines = int(np.prod(lines.shape[: len(axes)]))
    return PickedEntries(lines.reshape(n_lines, -1), one_each, frozenset().union(*(by_data[k] for k in axes)))


def _joined(found: list[PickedEntries]) -> list[PickedEntries]:
    """Join what rows pick by the same data; entries that they pick by several are picked several times."""
    joined: dict[Any, PickedEntries] = {}
    for lines in found:
        key = lines.by, len(lines.numbers)
        if (before := joined.get(key)) is not None:
            both = np.unique(np.concatenate([before.numbers, lines.numbers], axis=1), axis=1)
            lines = lines._replace(numbers=both, one_each=before.one_each and lines.one_each)
        joined[key] = lines
    distinct: dict[bytes, PickedEntries] = {}
    for lines in joined.values():
        same = lines.numbers.tobytes()
        distinct[same] = lines._replace(one_each=lines.one_each and same not in distinct)
    return list(distinct.values())


def reads_few_entries(likelihood: RowLikelihood) -> bool:
    """Return whether a row reads few of many parameters, picked by its data, through one predictor."""
    rows, psi = likelihood.of_psi(likelihood.row_log_likelihood)
    eta = row_predictor(rows, psi, likelihood.batches)
    return eta is not None and find_row_entries(eta, psi, likelihood.batches) is not None


def _picked(
    eta: Variable, psi: Variable, data: set[Variable], which: Callable[[Iterable[bool]], bool] = all
) -> list[Variable]:
    """Return the parts of η that are entries of ψ whose numbers, all or any of them, are data of the rows."""

    def inputs(var: Variable) -> list[Variable]:
        return [] if var.owner is None or _is_picked(var, psi, data, which) else list(var.owner.inputs)

    return [var for var in dict.fromkeys(walk([eta], inputs, bfs=False)) if _is_picked(var, psi, data, which)]


def _is_picked(var: Variable, psi: Variable, data: set[Variable], which: Callable[[Iterable[bool]], bool]) -> bool:
    if var.owner is None or not isinstance(var.owner.op, AdvancedSubtensor):
        return False
    source, *numbers = var.owner.inputs
    if not _selects(source, psi) or _depend(numbers, psi):
        return False
    return which(not data.isdisjoint(ancestors([number])) for number in numbers)


def _selects(var: Variable, psi: Variable) -> bool:
    """Whether a variable holds entries of ψ as they are."""
    while var is not psi:
        if var.owner is None or not isinstance(var.owner.op, _SELECTS) or _depend(var.owner.inputs[1:], psi):
            return False
        var = var.owner.inputs[0]
    return True


def _numbers_like(picked: Variable, psi: Variable) -> Variable:
    """Return the numbers of the entries of ψ in the place of these."""
    source, *numbers = picked.owner.inputs
    return picked.owner.op(pt.constant(_numbers_of(source, psi)), *numbers)


def _numbers_of(selection: Variable, psi: Variable) -> np.ndarray:
    evaluate = pytensor.function([psi], selection, mode=AS_WRITTEN)
    return np.asarray(evaluate(np.arange(psi.type.shape[0], dtype=float))).astype(np.int64)


def _read(graph: Variable, psi: Variable) -> np.ndarray:
    """Return the entries of ψ that a graph reads, or more."""

    def inputs(var: Variable) -> list[Variable]:
        return [] if _selects(var, psi) else values_read(var)

    selected = [var for var in walk([graph], inputs, bfs=False) if _selects(var, psi)]
    return np.unique(np.concatenate([np.empty(0, np.int64), *(np.ravel(_numbers_of(var, psi)) for var in selected)]))


def _depend(graphs: Sequence[Variable], psi: Variable) -> bool:
    """Whether graphs depend on the values of ψ, and not on its shape alone."""
    return psi in walk(graphs, values_read, bfs=False)
