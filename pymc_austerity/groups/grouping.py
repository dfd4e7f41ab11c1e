"""Find the groups of a model in its graph, and put those of several factors together."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations
from types import MappingProxyType

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors, apply_ancestors
from pytensor.scalar import Mul
from pytensor.tensor.math import Dot

from pymc_austerity.groups.effects_read import is_affine
from pymc_austerity.groups.elimination import places_left
from pymc_austerity.groups.factor import GROUPS_FIRST, Factor, GroupsNotFoundError, IndexArrays, prove_factor
from pymc_austerity.groups.group_index import index_of
from pymc_austerity.groups.scaled_columns import are_columns, find_columns
from pymc_austerity.groups.tied_prior import MOST_TIED, Ties, ties_together
from pymc_austerity.likelihood import Block, ModelData
from pymc_austerity.likelihood.model_graph import array_of
from pymc_austerity.unsupported_model import UnsupportedModelError

#: Levels that do not learn from each other, with so many parameters or fewer in all, are coefficients beside a factor.
_FEW_PARAMETERS = 12


class NoGroupsError(GroupsNotFoundError):
    """A model without anything that could be groups."""


class ProductOfEffectsError(UnsupportedModelError):
    """Rows read products of the effects of two factors, whose posterior no quadratic follows."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of a model, those of several factors one after the other."""

    names: tuple[str, ...]  # value variables with an entry for each group on their first axis
    #: For each factor, what holds the group g(i) of row i; several of a factor of which rows read several groups, as in
    #: ``rating[home] - rating[away]``.
    indices: tuple[IndexArrays, ...]
    offsets: tuple[int, ...]  # for each of these, what the model adds to these numbers, as in ``u[g - 1]``
    factors: tuple[int, ...]  # the factor of each of them
    #: int64 (F + 1,): the groups of factor f are ``first[f]`` to ``first[f + 1] - 1``; those of the first factor are
    #: the most.
    first: np.ndarray
    size: np.ndarray  # int64 (G,): parameters of each group
    #: int64 (G, K): where the parameters of each group lie in θ; behind the last of a group of fewer than K stands its
    #: first again.
    own: np.ndarray
    shared: np.ndarray  # int64 (P,): where everything else lies: φ
    read: np.ndarray  # int64 (R,): those of `shared` that the rows read
    #: Vector of G terms, log p(u_g | φ): what of the log prior reads the parameters of groups.  Where their prior ties
    #: them to each other, all have the same part of it.
    log_prior: Variable
    ties: Ties  # between groups that the prior ties to each other
    tied: tuple[bool, ...]  # for each factor, whether its groups move together: tied by the prior or, if few, by rows
    left: np.ndarray  # int64 (G + 1,): the `places_left`
    #: int64 (S, 3): the first group of a factor, the one behind its last, and the number of a parameter of them that
    #: sums to zero over these groups.
    zero_sums: np.ndarray
    pooled: bool = True  # whether the prior of some groups reads what is shared, so that they learn from each other

    @property
    def moves_together(self) -> np.ndarray:
        """Return for each factor whether one decision is made for all of its groups, shape (F,)."""
        return np.array(self.tied) | np.isin(self.first[:-1], self.zero_sums[:, 0]) | self._columns

    @property
    def too_many_to_sum(self) -> bool:
        """Whether rows read several of effects that sum to zero, and these are too many to have a joint precision."""
        of_sums = np.isin(self.first[:-1], self.zero_sums[:, 0]) & ~np.array(self.tied)
        return any(self.factors.count(f) > 1 for f in np.flatnonzero(of_sums))

    @property
    def _columns(self) -> np.ndarray:
        """Return for each factor whether it is columns beside groups, which follow where these go, shape (F,)."""
        return are_columns(self.first) & (len(self.tied) > 1)

    @property
    def together(self) -> np.ndarray:
        """Return the numbers g K + k of what moves together, but one for each sum that is zero."""
        size = self.own.shape[1]
        summed = [np.arange(start * size, end * size) for start, end, _ in self.zero_sums]
        summed += [np.arange(g * size, (g + 1) * size) for g in self.first[:-1][self._columns]]
        padded = np.flatnonzero(np.arange(size) >= self.size[:, None])
        fixed = (self.zero_sums[:, 1] - 1) * size + self.zero_sums[:, 2]
        at = self.ties.at[~np.isin(self.ties.at, fixed)]
        free = np.concatenate([np.empty(0, np.int64), *summed])
        return np.concatenate([at, np.setdiff1d(free, np.concatenate([at, padded, fixed]))])

    def of_rows(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the group of each row by each index, shape (F, N); a model may count from the end, from −1 down."""
        for of in (of for index in self.indices for of in index if of.most is not None):
            if arrays[of.number].max(initial=0) > of.most or arrays[of.number].min(initial=0) < 0:
                raise UnsupportedModelError(
                    f"Numbers of {self.names} that rows read lie outside 0 to {of.most}, the entries along their axis: "
                    "the data that pm.set_data put into the model count others."
                )
        return np.array(
            [
                np.where(numbers < 0, self.first[f + 1], self.first[f]) + numbers
                for f, numbers in zip(self.factors, self._numbers(arrays), strict=True)
            ]
        )

    def warn_of_missing(self, arrays: Sequence[np.ndarray]) -> None:
        """Warn of rows whose group has the number −1, as pandas codes a missing category, beside groups from 0 up."""
        for numbers in self._numbers(arrays):
            if numbers.size and numbers.min() == -1 and numbers.max() >= 0:
                warnings.warn(
                    f"Some rows read {list(self.names)} by the number -1, which is the last group: pandas writes a "
                    "missing category so. Leave these rows out, or give them a category of their own.",
                    UserWarning,
                    stacklevel=2,
                )

    def _numbers(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the number of the group of each row as the model writes it, by each index."""
        zeros = np.zeros(len(arrays[0]), np.int64)
        return [zeros + by + sum(of.read(arrays) for of in index) for index, by in zip(self.indices, self.offsets)]


def find_groups(model: Model, data: ModelData, zero_sums: Mapping[str, int] = MappingProxyType({})) -> Groups:
    """Find the groups of a model, those of all factors, the finest first; `data` has all free variables in θ.

    `zero_sums` are names of variables whose entries sum to zero, so many one after the other.

    Raises GroupsNotFoundError with the reason for each factor that was looked at.
    """
    rows = data.terms.log_densities(model)
    factors = _read_together(model, _factors(rows, data.likelihood.n_rows).values())
    found, reasons = [], []
    for nodes in factors.values():
        try:
            found.append(prove_factor(model, data, rows, nodes))
        except GroupsNotFoundError as error:
            reasons.append(str(error))
    _refuse_products(model, rows, found)
    few = _few_parameters([0 if f.pooled or not zero_sums.keys().isdisjoint(f.names) else f.own.size for f in found])
    ordered = sorted(range(len(found)), key=lambda k: (few[k], -len(found[k].own)))
    taken = _apart([found[k] for k in ordered if k == ordered[0] or not few[k]])
    of_found = {name for factor in found for name in factor.names}
    columns = find_columns(model, data, rows, of_found, sum(len(factor.own) for factor in taken))
    if columns is not None and (found or {v.name for read in factors for v in read} <= {*columns.names}):
        with suppress(ProductOfEffectsError):
            _refuse_products(model, rows, [*taken, columns])
            taken = _apart([*taken, columns])
    if not taken and factors:
        raise GroupsNotFoundError(" ".join(dict.fromkeys(reasons)))
    if not taken:
        raise NoGroupsError(
            "No variable of the model is indexed on its first axis by an array of whole numbers with an entry for each "
            f"row, as u[g] is. {GROUPS_FIRST}"
        )
    left_out = set(zero_sums).difference(*(factor.names for factor in taken))
    if left_out:
        raise GroupsNotFoundError(f"The effects {sorted(left_out)}, which sum to zero, are no factor by themselves.")
    groups = _together(data, taken, zero_sums)
    groups.warn_of_missing(data.rows.arrays)
    return groups


def _few_parameters(sizes: Sequence[int]) -> list[bool]:
    """Whether factors have few parameters, those with the fewest first; 0 for those that are never coefficients."""
    order = sorted((size, k) for k, size in enumerate(sizes) if size)
    so_far = np.cumsum([size for size, _ in order])
    few = {k for (_, k), total in zip(order, so_far) if total <= _FEW_PARAMETERS}
    return [k in few for k in range(len(sizes))]


def _apart(found: Sequence[Factor]) -> list[Factor]:
    """Return factors that have no variable and no prior term in common."""
    taken: list[Factor] = []
    for factor in found:
        if all(not set(factor.names) & set(t.names) and not factor.terms & t.terms for t in taken):
            taken.append(factor)
    return taken


def _together(data: ModelData, taken: Sequence[Factor], zero_sums: Mapping[str, int]) -> Groups:
    """Put factors together, the finest first."""
    n_groups, sizes = ([of.own.shape[axis] for of in taken] for axis in (0, 1))
    first, tied = np.cumsum([0, *n_groups]), tuple(f.ties is not None for f in taken)
    size = np.repeat(sizes, n_groups)
    left = places_left(first, size, tied, [len(f.indices) > 1 for f in taken])
    if any(tied) and left[-1] > MOST_TIED:
        raise GroupsNotFoundError(
            f"Beside the groups of {', '.join(taken[0].names)} there are {left[-1]:,} effects of factors of which some "
            f"have a prior that ties them to each other, and at most {MOST_TIED:,} are moved."
        )
    ties = [(f.ties, start, len(f.own.T)) for f, start in zip(taken, first.tolist()) if f.ties is not None]
    own = np.concatenate([np.hstack([f.own, np.repeat(f.own[:, :1], max(sizes) - k, 1)]) for f, k in zip(taken, sizes)])
    shared = np.setdiff1d(np.arange(data.likelihood.theta_size), own)
    places = {b.name: np.arange(b.start, b.stop) for b in data.likelihood.blocks}
    read = [places[name] for name in data.likelihood.read]
    return Groups(
        tuple(name for f in taken for name in f.names),
        tuple(index for f in taken for index in f.indices),
        tuple(offset for f in taken for offset in f.offsets),
        tuple(k for k, f in enumerate(taken) for _ in f.indices),
        first,
        size,
        own,
        shared,
        np.intersect1d(shared, np.concatenate(read)),
        taken[0].log_prior if len(taken) == 1 else pt.concatenate([f.log_prior for f in taken]),
        ties_together(ties, max(sizes), left),
        tied,
        left,
        np.array(
            [
                (at, at + zero_sums[name], k)
                for f, start in zip(taken, first.tolist())
                for k, name in enumerate(_names_of_columns(data.likelihood.blocks, f))
                if name in zero_sums
                for at in range(start, start + len(f.own), zero_sums[name])
            ],
            dtype=np.int64,
        ).reshape(-1, 3),
        pooled=any(f.pooled for f in taken),
    )


def _names_of_columns(blocks: Sequence[Block], factor: Factor) -> list[str]:
    """Return the names of the variables that the parameters of a group of a factor are entries of."""
    sizes = [(b.name, (b.stop - b.start) // len(factor.own)) for b in blocks if b.name in factor.names]
    return [name for name, size in sizes for _ in range(size)]


def _factors(rows: Sequence[Variable], n_rows: int) -> dict[Hashable, list[Apply]]:
    """Return the places where something is indexed by group numbers, by the array that holds these."""
    factors: dict[Hashable, list[Apply]] = {}
    for node in dict.fromkeys(v.owner for v in ancestors(rows) if v.owner is not None):
        index = index_of(node)
        if index is not None and all(array_of(leaf).shape == (n_rows,) for leaf in index.leaves):
            factors.setdefault(index.key, []).append(node)
    return factors


def _read_together(model: Model, places: Iterable[list[Apply]]) -> dict[frozenset[Variable], list[Apply]]:
    """Put places together, by several arrays of numbers, that read the same variables, or entries of the same array."""
    together: list[tuple[frozenset[Variable], list[Apply]]] = []
    for nodes in places:
        read = _vectors_read(model, nodes)
        alike = [k for k, (of, known) in enumerate(together) if of == read or _have_in_common(known, nodes)]
        parts = [*(together[k] for k in alike), (read, nodes)]
        first = alike[0] if alike else len(together)
        together = [of for k, of in enumerate(together) if k not in alike]
        together.insert(first, (frozenset().union(*(of for of, _ in parts)), [n for _, own in parts for n in own]))
    return dict(together)


def _vectors_read(model: Model, nodes: Sequence[Apply]) -> frozenset[Variable]:
    """Return the variables with entries that are read at some places."""
    above = set(ancestors([node.inputs[0] for node in nodes]))
    return frozenset(v for v in model.value_vars if v.type.ndim and v in above)


def _have_in_common(nodes: Sequence[Apply], others: Sequence[Apply]) -> bool:
    """Whether entries of one array are taken at both of some places, as for a team at home and away."""
    return not {node.inputs[0] for node in nodes}.isdisjoint(node.inputs[0] for node in others)


def _refuse_products(model: Model, rows: Sequence[Variable], found: Sequence[Factor]) -> None:
    """Raise ProductOfEffectsError where rows read effects of one factor times those of another."""
    own = [{v for v in model.value_vars if v.name in factor.names} for factor in found]
    for node in apply_ancestors(rows):
        op = getattr(node.op, "core_op", node.op)
        if not isinstance(getattr(op, "scalar_op", op), Mul | Dot):
            continue
        above = [set(ancestors([side])) for side in node.inputs]
        for a, b in permutations(range(len(found)), 2):
            by = any(own[a] & read and not own[b] & read for read in above)
            times = [side for side, read in zip(node.inputs, above) if own[b] & read]
            if by and times and (node.outputs[0].type.ndim > 1 or is_affine(times[0], sorted(own[b], key=str))):
                raise ProductOfEffectsError(
                    f"Rows read the product of {', '.join(found[a].names)} and {', '.join(found[b].names)}, effects "
                    "of two factors. Such a posterior has several modes, or, where a prior fixes the signs, one that "
                    "lies far from most of it. Sample with pm.NUTS; proposal= makes one decision over all parameters "
                    "all the same. Where one of them is a scale for each kind of group, write (tau[kind] * z)[g], with "
                    "a kind for each group."
                )
