"""One factor of groups, proved from the graph of a model: row i reads entry g(i) of its variables alone.

And the prior of these splits over groups given everything else, or is normal and ties them to each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.transforms import ZeroSumTransform
from pymc.model import Model
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.math import Sum

from pymc_austerity.groups.elimination import MOST_LEFT
from pymc_austerity.groups.group_index import index_of
from pymc_austerity.groups.inverse_by_ops import nodes_between
from pymc_austerity.groups.tied_prior import FactorTies, NotNormalError, find_ties
from pymc_austerity.likelihood import Block, ModelData, NotRowWiseError
from pymc_austerity.likelihood.axis import RowAxis
from pymc_austerity.likelihood.layout import split
from pymc_austerity.likelihood.model_graph import array_of, is_array_leaf
from pymc_austerity.likelihood.precision import in_double
from pymc_austerity.likelihood.row_axis import prove_row_axis
from pymc_austerity.unsupported_model import UnsupportedModelError

#: What to do about groups on another axis.
GROUPS_FIRST = "Where groups lie on another axis, put them first: b[g, 0] with a b of shape (groups, 2)."
#: What to do about effects with their mean taken off, and about those of several variables behind one another.
_REMEDIES = {
    Sum: 'For effects with their mean taken off, write pm.ZeroSumNormal("u", tau, shape=n_groups).',
    Join: 'Write the parts as one variable: pm.Normal("u", mean[part], scale[part], shape=n_groups).',
}
#: What to do about variables that are stacked, each of which belongs to one group.
_ONE_VARIABLE = (
    "Groups are entries of one variable: where each has a variable of its own, write one with the groups first, as "
    'pm.GaussianRandomWalk("u", ..., shape=(groups, times)), in place of pt.stack.'
)
#: What to do about a `pymc.ZeroSumNormal` that is read in another way than by the numbers of groups.
_REMEDY_OF_ZERO_SUMS = (
    "A pm.ZeroSumNormal is moved as groups where it has one axis or two, of which one has at most 12 entries, and all "
    "rows read it as u[g], u[h, g], u[:, g] or u[0, g]. A table pm.Normal(..., shape=(n, m)) in its place is, too, but "
    "its entries need not sum to zero, which is another prior."
)


class GroupsNotFoundError(UnsupportedModelError):
    """A model in which no groups are found; the message says what stands in the way."""


class IndexArray(NamedTuple):
    """An array of whole numbers that an index is made of: g(i) is the sum of several, as in ``u[state + 50 * age]``."""

    number: int  # among the data
    times: int
    most: int | None  # of numbers along an axis, the last
    table: np.ndarray | None  # what they are looked up in; None where they are the numbers themselves

    def read(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return what the array adds to the number of the group of each row."""
        numbers = np.asarray(arrays[self.number]).astype(np.int64)
        if self.table is not None:  # a number that it does not have is of a new group, and refused where rows are read
            numbers = np.take(self.table, numbers, mode="wrap").astype(np.int64)
        return self.times * numbers


IndexArrays = tuple[IndexArray, ...]


class Factor(NamedTuple):
    """One factor: its variables, its index among the data, an offset, places in θ, and prior terms.

    Where rows read it by several indices, as the ratings of two players, there is a number and an offset for each.

    It is `pooled` where its prior reads other free variables, a scale for example.  `ties` are those of groups whose
    prior does not split.
    """

    names: tuple[str, ...]
    indices: tuple[IndexArrays, ...]
    offsets: tuple[int, ...]
    own: np.ndarray
    log_prior: Variable
    terms: frozenset[Variable]
    pooled: bool
    ties: FactorTies | None


def prove_factor(model: Model, data: ModelData, rows: Sequence[Variable], nodes: Sequence[Apply]) -> Factor:
    """Show for one factor that its groups are independent given the rest."""
    sources = [node.inputs[0] for node in nodes]
    found = [index for node in nodes if (index := index_of(node)) is not None]
    indices = list({index.key: index for index in found}.values())
    above = set(ancestors(sources))
    lengths = {b.name: b.shape[0] if b.shape else 0 for b in data.likelihood.blocks}
    reached = [v for v in model.value_vars if v in above]
    n_groups = max((lengths[v.name] for v in reached if v.type.ndim), default=0)
    members = [v for v in reached if v.type.ndim and lengths[v.name] == n_groups]
    by = f"the groups by {' and '.join(dict.fromkeys(index.name for index in indices))}"
    if len({index._replace(offset=0).key for index in indices}) < len(indices):
        raise GroupsNotFoundError(f"Rows read several entries of one variable as {by}, as x[t] and x[t - 1].")
    if n_groups < 2 or not members:
        raise GroupsNotFoundError(f"What is indexed as {by} depends on no free variable with an entry for each.")
    names = [model.values_to_rvs[v].name for v in members]
    cut = {node.outputs[0]: node.outputs[0].type() for node in nodes}
    if set(members) & set(ancestors(graph_replace(rows, cut, strict=False))):
        raise GroupsNotFoundError(f"The rows read {names} in other ways too than as {by}.")
    seeds = dict.fromkeys(members, RowAxis(0))
    for source in dict.fromkeys(sources):
        ops = [node.op for of in members for node in nodes_between(of, source)]
        remedies = [remedy for kind, remedy in _REMEDIES.items() if any(isinstance(op, kind) for op in ops)]
        if any(isinstance(model.rvs_to_transforms[model.values_to_rvs[of]], ZeroSumTransform) for of in members):
            remedies = [_REMEDY_OF_ZERO_SUMS]
        along = _ONE_VARIABLE if len(members) > 1 and _REMEDIES[Join] in remedies else GROUPS_FIRST
        what = f"What the rows read of {names}"
        _require_split(source, seeds, n_groups, what, (remedies or [GROUPS_FIRST])[0], along)
    # What the rows read may have a prior with a parameter for each group, such as a scale of its own.
    beside = _beside(model, members, [v for v in model.value_vars if v.type.ndim and lengths[v.name] == n_groups])
    with_beside = [v for v in model.value_vars if v in (*members, *beside)]
    reason: GroupsNotFoundError | None = None
    for of in (members, with_beside):
        try:
            prior, terms, pooled = _prior_by_group(model, data, of, n_groups)
        except GroupsNotFoundError as error:
            reason = error
        else:
            members, ties, reason = of, None, None
            break
    else:
        members, pooled = with_beside, True
    own = _places(data.likelihood.blocks, members, n_groups)
    # Few of which rows read several move together, if their prior is normal; of more, those without rows in common do.
    if reason is not None or (len(indices) > 1 and own.size <= MOST_LEFT):
        try:
            prior, terms, ties = _prior_together(model, data, members, own)
        except NotNormalError as why:
            if reason is not None:
                raise GroupsNotFoundError(f"{reason} And taken together the prior of {names} {why}.") from why
    numbers = tuple(
        tuple(
            IndexArray(data.number_of_leaf(leaf), times, index.ends.get(leaf), index.tables.get(leaf))
            for leaf, times in index.leaves.items()
        )
        for index in indices
    )
    offsets = tuple(index.offset for index in indices)
    return Factor(tuple(v.name for v in members), numbers, offsets, own, prior, terms, pooled, ties)


def _beside(model: Model, members: Sequence[Variable], candidates: Sequence[Variable]) -> list[Variable]:
    """Return variables with an entry for each group that prior terms of `members` read, and no row does."""
    graphs = model.logp(sum=False)
    of_members = [graph for graph in graphs if not set(members).isdisjoint(ancestors([graph]))]
    read = set(ancestors(of_members))
    return [v for v in candidates if v in read and v not in members]


def _require_split(
    graph: Variable,
    seeds: Mapping[Variable, RowAxis],
    n_groups: int,
    what: str,
    remedy: str = GROUPS_FIRST,
    along: str = GROUPS_FIRST,
) -> None:
    """Show that entry g of a graph reads entry g of the variables alone; `along` is the remedy for other axes."""
    # Data with an entry for each group, such as covariates, are aligned with them; as many entries may also be
    # chance, as those of the numbers that place three entries in a factor of a covariance where there are three groups.
    leaves = [v for v in ancestors([graph]) if is_array_leaf(v) and v.type.ndim and array_of(v).shape[0] == n_groups]
    covariates = [v for v in leaves if np.dtype(v.type.dtype).kind == "f"]
    # One number for each group, as in pt.concatenate([pt.zeros((n_groups, 1)), b], axis=1).
    filled = [v for v in ancestors([graph]) if _is_filled(v) and v.type.shape[:1] == (n_groups,)]
    reasons = []
    for aligned in (leaves + filled, covariates + filled, leaves, covariates):
        try:
            axis = prove_row_axis(graph, {**dict.fromkeys(aligned, RowAxis(0)), **seeds})
            break
        except NotRowWiseError as error:
            reasons.append(error)
    else:
        raise GroupsNotFoundError(f"{what} does not split over groups: {reasons[0]}. {remedy}") from reasons[0]
    if axis != RowAxis(0):
        raise GroupsNotFoundError(f"{what} does not have the groups on its first axis. {along}")


def _is_filled(var: Variable) -> bool:
    """Whether a variable is an array of one number."""
    return var.owner is not None and isinstance(var.owner.op, Alloc) and all(var.owner.inputs[0].type.broadcastable)


def prior_terms(model: Model, data: ModelData, members: Sequence[Variable]) -> dict[Variable, Variable]:
    """Return the terms of the prior that read some variables, and their graphs."""
    terms = [v for v in (*model.basic_RVs, *model.potentials) if v not in data.terms.all]
    graphs = {term: model.logp(vars=[term], sum=False)[0] for term in terms}
    return {term: graph for term, graph in graphs.items() if not set(members).isdisjoint(ancestors([graph]))}


def _prior_by_group(
    model: Model, data: ModelData, members: Sequence[Variable], n_groups: int
) -> tuple[Variable, frozenset[Variable], bool]:
    """Return the vector of prior terms that read the groups, in θ, their terms, and whether others are read."""
    graphs, vectors = prior_terms(model, data, members), []
    for term, graph in graphs.items():
        _require_split(graph, dict.fromkeys(members, RowAxis(0)), n_groups, f"The prior term of {term.name!r}")
        vectors.append(graph.sum(axis=tuple(range(1, graph.ndim))) if graph.ndim > 1 else graph)
    total = sum(vectors[1:], start=vectors[0])
    pooled = bool((set(model.value_vars) - set(members)) & set(ancestors([total])))
    return in_theta(model, data, total), frozenset(graphs), pooled


def in_theta(model: Model, data: ModelData, graph: Variable) -> Variable:
    """Return a graph in terms of θ."""
    likelihood = data.likelihood
    blocks = {b.name: value for b, value in zip(likelihood.blocks, split(likelihood.theta, likelihood.blocks))}
    values = {v: blocks[v.name] for v in model.value_vars}
    (found,) = in_double(graph_replace([graph], {**values, **data.stand_ins()}, strict=False))
    return found


def _prior_together(
    model: Model, data: ModelData, members: Sequence[Variable], own: np.ndarray
) -> tuple[Variable, frozenset[Variable], FactorTies]:
    """Return the same where the prior ties groups to each other, each with the same part of it, and what ties them.

    Raises NotNormalError where the prior is not normal given the rest.
    """
    of = {term: graph.sum() for term, graph in prior_terms(model, data, members).items()}
    total = in_theta(model, data, pt.add(*of.values()) if len(of) > 1 else next(iter(of.values())))
    return pt.full((len(own),), total / len(own)), frozenset(of), find_ties(data, total, own)


def _places(blocks: Sequence[Block], members: Sequence[Variable], n_groups: int) -> np.ndarray:
    names = [v.name for v in members]
    own = [np.arange(b.start, b.stop).reshape(n_groups, -1) for b in blocks if b.name in names]
    return np.concatenate(own, axis=1)
