"""The log-likelihood of each set of rows as a vector over a batch of them, with the proof that it is one."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from pymc.model import Model
from pymc.pytensorf import rvs_in_graph
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.scan.op import Scan

from pymc_austerity.likelihood.axis import LAG, LENGTH, NotRowWiseError, OneEntryARowError, RowAxis
from pymc_austerity.likelihood.batch_density import batch_term, shapes_without_draws
from pymc_austerity.likelihood.model_graph import sum_within_rows, variables_in
from pymc_austerity.likelihood.rebuild import BatchRebuild
from pymc_austerity.likelihood.row_axis import prove_row_axis
from pymc_austerity.likelihood.row_leaves import RowLeaf, computed_from_constants, find_row_leaves
from pymc_austerity.likelihood.row_numbers import NumberedRows, RowNumbering
from pymc_austerity.likelihood.row_terms import Candidates, SetTerms
from pymc_austerity.likelihood.sparse_rows import find_sparse_products, said_of_sparse
from pymc_austerity.likelihood.term_refusals import refuse_joint, refuse_types, said_of_lag, said_of_part
from pymc_austerity.unsupported_model import UnsupportedModelError

_log = logging.getLogger("pymc_austerity")

#: Sets of at most so many rows are part of the prior.  A draw of some 200 rows would evaluate their density as often,
#: and what few rows say is less normal than an expansion takes it for: measured with a second group of 10 to 1,000 rows
#: beside one of 4,000.
FEW_ROWS = 300
#: The number of a row's set is a byte.
_MOST_SETS = 255
_REMEDY = (
    "Compute statistics over rows outside the model and pass the result as data; a model whose rows depend on "
    "each other can be sampled with pymc_austerity.PartialPosteriorPaths or pm.NUTS."
)


class RowSet(NamedTuple):
    """Rows that share an axis."""

    terms: SetTerms  # the terms of the model that are summed over these rows
    rows: Variable  # vector: the log-likelihood of the rows of a batch, a graph of value variables and batches
    leaves: tuple[RowLeaf, ...]  # the data arrays that it reads
    numbered: tuple[NumberedRows, ...]  # data that have to number the rows


def row_sets(model: Model, candidates: Candidates) -> tuple[RowSet, ...]:
    """Choose the sets of rows that are subsampled, and show that each splits into rows.

    The longest must split.  Others that do not, or have few rows, are evaluated in full at every draw unless the user
    named them.
    """
    kept: list[RowSet] = []
    for own in candidates.sets:
        # A sum over what proves to be no rows belongs to the prior where there are other rows.
        spare = own is not candidates.sets[-1] and all(term.summed is not None for term in own.terms)
        needed = candidates.chosen or not (kept or spare)
        if kept and not needed and (own.n_rows <= FEW_ROWS or len(kept) == _MOST_SETS):
            _log.info(own.in_full("there are fewer than it takes for drawing them to cost less"))
            continue
        try:
            kept.append(_along_some_axis(model, own))
        except UnsupportedModelError as error:
            if needed:
                raise
            _log.info(own.in_full(str(error).rstrip(".")))
    if len(kept) > 1:
        parts = ", ".join(f"{s.terms.n_rows:,} of {s.terms.names}" for s in kept)
        total = sum(s.terms.n_rows for s in kept)
        _log.info(f"The rows of {len(kept)} sets are drawn as those of one population of {total:,}: {parts}.")
    return tuple(kept)


def _along_some_axis(model: Model, terms: SetTerms) -> RowSet:
    """Split terms into rows along the axis that they have, or else along another."""
    try:
        return row_set(model, terms)
    except NotRowWiseError:
        for other in terms.along_other_axes():
            with suppress(UnsupportedModelError):
                return row_set(model, other)
        if (others := terms.without_sums()) is None:
            raise
        return row_set(model, others)


def row_set(model: Model, terms: SetTerms, free: Mapping[Variable, Variable] | None = None) -> RowSet:
    """Sum row-wise terms of a model into one vector over a batch.

    `free` has what stands for each free variable; their values do by default.

    Raises NotRowWiseError for a term that does not split, with the reason and the remedy, and UnsupportedModelError
    where no data are read by row.
    """
    for term in terms.terms:
        if term.value is not None:
            refuse_joint(term.variable)
    # What rows are given: free variables, and observed ones that have no entry for each row.
    given = [rv for rv in model.basic_RVs if rv not in terms.all]
    known = {rv: model.rvs_to_values[rv] for rv in given if rv in model.observed_RVs}
    graphs = {t.name: [t.graph] if t.value is None else [t.graph, t.value] for t in terms.terms}
    for graph in graphs.values():
        graph += [known[v] for v in variables_in(graph, given) if v in known]
    read = {name: variables_in(of_term, given) for name, of_term in graphs.items()}
    if free is None:
        free = dict(zip(model.free_RVs, model.replace_rvs_by_values(model.free_RVs), strict=True))
    summed = partial(_summed, model, terms, free)
    try:
        return summed(read)
    except UnsupportedModelError as error:
        for name, of_term in read.items():
            if (lag := said_of_lag(of_term, terms.n_rows, given)) is not None:
                raise NotRowWiseError(f"{name!r} does not split into rows: {lag}.") from error
        computed = computed_from_constants([v for of_term in read.values() for v in of_term])
        if computed and LAG not in str(error):
            stop = [*given, *computed]
            with suppress(UnsupportedModelError):
                return summed({t: variables_in(g, stop) for t, g in graphs.items()}, computed)
        for name, of_term in read.items():
            if (part := said_of_sparse(of_term) or said_of_part(of_term, terms.n_rows, given)) is not None:
                raise NotRowWiseError(f"{name!r} does not split into rows: {part}.") from error
        raise


def _summed(
    model: Model,
    terms: SetTerms,
    free: Mapping[Variable, Variable],
    read: Mapping[str, list[Variable]],
    computed: Mapping[Variable, Variable] = MappingProxyType({}),
) -> RowSet:
    found = find_row_leaves(read, terms.n_rows, model.free_RVs, computed=computed)
    refuse_types(found.values())
    products = find_sparse_products(read, terms.n_rows)
    found |= {leaf.source: leaf for _, leaves in products.values() for leaf in leaves}
    data = [leaf for leaf in found.values() if not leaf.marks_rows and not leaf.numbers_rows]
    if not data:
        raise UnsupportedModelError(
            f"None of {sorted(read)} reads an array with {terms.n_rows} rows: there is nothing to subsample."
        )
    batches = _Batches(terms.n_rows, data[0].batch.shape[0], found, [])
    # Before pm.logp, which would derive densities for random variables that it still finds in the graph.
    others = dict(free) | {var: value for var, value in computed.items() if var not in found}
    counted_by = {dims[t.axis] for t in terms.terms if (dims := model.named_vars_to_dims.get(t.name))}
    others |= {model.dim_lengths[name]: batches.length for name in counted_by if name is not None}
    rebuild = batches.rebuild(found, others)
    for var, (product, leaves) in products.items():
        rebuild.define(var, product.of_batch(leaves, rebuild))
    for rv in model.observed_RVs:  # where one observed variable is the mean of another
        rebuild.define(rv, rebuild(model.rvs_to_values[rv]))
    rows = []
    for term in terms.terms:
        is_potential = term.value is None
        build = partial(rebuild, term.graph) if is_potential else partial(batch_term, rebuild, term, batches.length)
        row = _proved_rows(term.name, build, batches)
        if drawn := sorted(v.name or "a draw without a name" for v in rvs_in_graph(row)):
            raise UnsupportedModelError(
                f"The log density of {term.name!r} reads {drawn[-1]} as a draw, which PyMC "
                "refuses too: it is no variable of this model, or a function reads it that is not given it. Take "
                "variables of this model, and give a CustomDist what its function reads: "
                f"pm.CustomDist({term.name!r}, b, logp=lambda value, b: ...)."
            )
        rows.append(row)
    total = sum(rows[1:], start=rows[0])
    return RowSet(terms, total, batches.read_by(total), tuple(batches.numbered))


class _Batches(NamedTuple):
    """The batches that take the place of the data arrays of a set."""

    n_rows: int  # length of the arrays
    length: Variable  # length of the batch
    leaves: dict[Variable, RowLeaf]  # with those in functions that the user gave, as they are found
    numbered: list[NumberedRows]  # data by which rows choose an entry of their own, as they are found

    def rebuild(self, found: Mapping[Variable, RowLeaf], others: Mapping[Variable, Variable]) -> BatchRebuild:
        """Return what makes graphs again with the batches in place of `found`, and `others` replaced too."""
        arrays = {var: leaf.in_graph for var, leaf in found.items() if not leaf.marks_rows}
        masks = {var: leaf.batch for var, leaf in found.items() if leaf.marks_rows}
        numbering = RowNumbering(set(self.leaves.values()), self.n_rows, self.length, self.numbered)
        return BatchRebuild({**arrays, **others}, self.n_rows, self.length, masks, numbering)

    def without_scans(self, term: Variable) -> Variable:
        """Write out the scans over rows in a density, as that of `pymc.GARCH11` has one."""
        batches = {leaf.batch for leaf in self.leaves.values()}
        nodes = [node for node in io_toposort([], [term]) if isinstance(node.op, Scan)]
        rebuild = self.rebuild({}, {})
        for node in nodes:
            if batches & set(ancestors(node.inputs)):
                for old, new in zip(node.outputs, rebuild.written_out(node), strict=True):
                    rebuild.define(old, new)
        return rebuild(term) if nodes else term

    def axis_of(self, term: Variable) -> RowAxis | None:
        """Return the axis of a term that has its rows, proved from the graph."""
        return prove_row_axis(term, {leaf.batch: RowAxis(0) for leaf in self.leaves.values()} | {self.length: LENGTH})

    def read_by(self, rows: Variable) -> tuple[RowLeaf, ...]:
        """Return the leaves, of masks and numbers of rows only those that are read."""
        read = set(ancestors([rows]))
        spare = {leaf for leaf in self.leaves.values() if leaf.marks_rows or leaf.numbers_rows}
        spare.update(*(numbers.leaves for numbers in self.numbered))
        return tuple(leaf for leaf in dict.fromkeys(self.leaves.values()) if leaf not in spare or leaf.batch in read)


def _proved_rows(name: str, build: Callable[[], Variable], batches: _Batches) -> Variable:
    """Build one row-wise term as a vector over the batch, and prove from the graph that it is one."""
    try:
        term, axis = _proved(name, build, batches)
    except OneEntryARowError as error:
        raise OneEntryARowError(
            f"{name!r} does not split into rows: {error}. They grow with the data, and each draw would have to "
            "move all of them. Sum or integrate them out of the likelihood where that has a closed form "
            "(pm.Mixture for labels, pm.StudentT for scales). Effects of a common prior are moved each by itself by "
            "steps that move groups, such as PenaltyMH. Or sample with pm.NUTS."
        ) from error
    except NotRowWiseError as error:
        raise NotRowWiseError(f"{name!r} does not split into rows: {error}. {_REMEDY}") from error
    except NotImplementedError as error:
        raise NotRowWiseError(
            f"PyMC has no log density of {name!r} ({str(error).partition('. ')[0]}). Give it one, as logp= of "
            "pm.CustomDist, or dist= from which PyMC derives it."
        ) from error
    except Exception as error:  # whatever an unknown op makes of a batch, the model is refused
        raise NotRowWiseError(
            f"{name!r} could not be rebuilt for a batch of rows ({type(error).__name__}: {error}). {_REMEDY}"
        ) from error
    if axis is None:
        raise NotRowWiseError(f"{name!r} does not depend on the rows of any array. {_REMEDY}")
    return sum_within_rows(term, axis.axis)


def _proved(name: str, build: Callable[[], Variable], batches: _Batches) -> tuple[Variable, RowAxis | None]:
    term = batches.without_scans(shapes_without_draws(build()))
    if term.type.ndim == 0:
        raise NotRowWiseError("it is summed over the rows before it can be split: return one entry per row")
    try:
        return term, batches.axis_of(term)
    except NotRowWiseError:
        hidden = find_row_leaves({name: variables_in([term])}, batches.n_rows, (), batches.leaves.values())
        if not hidden:
            raise
    # A function that the user gave, such as the logp of a CustomDist, may read data that are not in the model.
    batches.leaves.update(hidden)
    term = batches.rebuild(hidden, {})(term)
    return term, batches.axis_of(term)
