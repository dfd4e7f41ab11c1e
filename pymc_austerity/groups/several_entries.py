"""Effects of which a row reads several entries, as the ratings of two players: ``tau * (z[home] - z[away])``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytensor.graph.basic import Apply, Variable, equal_computations
from pytensor.scalar import Add, Neg, Sub
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.type import TensorType

from pymc_austerity.groups.group_index import RowIndex, followed, is_factor, taken_by_group


def by_several_indices(
    taken: Mapping[Apply, tuple[Variable, RowIndex, int]],
    clients: Mapping[Variable, Sequence[Apply]],
    terms: Sequence[Variable],
) -> dict[Apply, tuple[Variable, Variable, RowIndex, list[tuple[int, Variable]]]]:
    """Return what rows read of effects that they read by several indices, as the ratings of two players.

    That is with what multiplies it, and no more: of ``home + tau * z[i] - tau * z[j]`` entries of ``tau * z``.  Beside
    it are the effects, their index and further entries of a sum that is multiplied as a whole.
    """
    found = {}
    for node, (effects, index, axis) in taken.items():
        if axis == 0:
            at, entries = sum_of_entries(node, clients, terms) or (node.outputs[0], [(1, index)])
            read, scaled = followed(at, effects, clients, terms, is_factor)
            if len(entries) > 1 and read is at:  # each is an entry by itself
                (read, scaled), entries = followed(node.outputs[0], effects, clients, terms, is_factor), [(1, index)]
            found[node] = read, scaled, entries[0][1], entries[1:]
    return {
        node: of
        for node, of in found.items()
        if of[3]
        or any(equal_computations([of[1]], [known[1]]) and _differ(of[2], known[2]) for known in found.values())
    }


def _differ(index: RowIndex, other: RowIndex) -> bool:
    one, and_other = (list(of) if isinstance(of, tuple) else [of] for of in (index, other))
    return len(one) != len(and_other) or not equal_computations(one, and_other)


def sum_of_entries(
    node: Apply, clients: Mapping[Variable, Sequence[Apply]], ends: Sequence[Variable]
) -> tuple[Variable, list[tuple[int, Variable]]] | None:
    """Return the sum that entries of a vector end in, as ``z[home] - z[away]``, and sign and index of each, first a +.

    None where they are added to nothing of their kind.
    """
    at, entries = node.outputs[0], _signed_entries(node.outputs[0], node.inputs[0], clients)
    while at not in ends and len(clients.get(at, ())) == 1:
        above = _signed_entries(clients[at][0].outputs[0], node.inputs[0], clients)
        if above is None:
            break
        at, entries = clients[at][0].outputs[0], above
    if entries is None or len(entries) < 2:
        return None
    entries.sort(key=lambda entry: -entry[0])
    return (at, entries) if entries[0][0] > 0 else None


def _signed_entries(
    var: Variable, of: Variable, clients: Mapping[Variable, Sequence[Apply]]
) -> list[tuple[int, Variable]] | None:
    """Return sign and index of the entries of a vector that a graph is the sum of; None where it is something else."""
    node, is_vector = var.owner, isinstance(var.type, TensorType) and var.type.ndim == 1
    if node is None or not is_vector or len(clients.get(var, ())) > 1:
        return None
    if (taken := taken_by_group(node)) is not None:
        return [(1, taken[1])] if taken[0] is of and isinstance(taken[1], Variable) else None
    op = node.op.scalar_op if isinstance(node.op, Elemwise) else None
    if not isinstance(op, Add | Sub | Neg):
        return None
    signs = [-1 if isinstance(op, Neg) or (isinstance(op, Sub) and k) else 1 for k in range(len(node.inputs))]
    parts = [_signed_entries(part, of, clients) for part in node.inputs]
    if any(part is None for part in parts):
        return None
    return [(sign * own, index) for sign, part in zip(signs, parts, strict=True) for own, index in part or ()]
