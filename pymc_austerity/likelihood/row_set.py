"""The log-likelihood of a set of rows as a vector over a batch of them, with the proof that it is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from pymc.model import Model
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_austerity.likelihood.assigned_rows import is_assigned
from pymc_austerity.likelihood.axis import LENGTH, RowAxis
from pymc_austerity.likelihood.lags import said_of_lag
from pymc_austerity.likelihood.rebuild import (
    BatchRebuild,
    NotRowWiseError,
    OneEntryARowError,
    batch_term,
    shapes_without_draws,
)
from pymc_austerity.likelihood.row_axis import prove_row_axis
from pymc_austerity.likelihood.row_leaves import RowLeaf, find_row_leaves
from pymc_austerity.likelihood.row_terms import SetTerms, refuse_joint
from pymc_austerity.likelihood.sparse_rows import find_sparse_products
from pymc_austerity.unsupported_model import UnsupportedModelError

_REMEDY = (
    "Compute statistics over rows outside the model and pass the result as data; a model whose rows depend on "
    "each other can be sampled with pymc_austerity.PartialPosteriorPaths or pm.NUTS."
)


class RowSet(NamedTuple):
    """Rows that share an axis.

    Attributes
    ----------
    rows : Variable
        Vector: the log-likelihood of the rows of a batch, a graph of value variables and batches.
    leaves : tuple of RowLeaf
        The data arrays that it reads.
    """

    rows: Variable
    leaves: tuple[RowLeaf, ...]


def row_set(model: Model, terms: SetTerms) -> RowSet:
    """Sum row-wise terms of a model into one vector over a batch.

    Parameters
    ----------
    model : pymc.Model
    terms : SetTerms

    Raises
    ------
    NotRowWiseError
        A term does not split; the message names the variable, the reason and the remedy.
    ValueError
        No data are read by row.
    """
    for rv in terms.observed:
        refuse_joint(rv)
    graphs = {rv.name: [rv, model.rvs_to_values[rv]] for rv in terms.observed} | {p.name: [p] for p in terms.potentials}
    try:
        return _row_set(model, terms, graphs)
    except UnsupportedModelError as error:
        for name, of_term in graphs.items():
            if (lag := said_of_lag(of_term, terms.n_rows, model.free_RVs)) is not None:
                raise NotRowWiseError(f"{name!r} does not split into rows: {lag}.") from error
        raise


def _row_set(model: Model, terms: SetTerms, graphs: Mapping[str, list[Variable]]) -> RowSet:
    values = {rv: model.rvs_to_values[rv] for rv in terms.observed}
    found = find_row_leaves(graphs, terms.n_rows, model.free_RVs)
    products = find_sparse_products(graphs, terms.n_rows, model.free_RVs)
    found |= {leaf.source: leaf for product in products for leaf in product.leaves}
    data = [leaf for var, leaf in found.items() if not is_assigned(var) and not leaf.numbers_rows]
    if not data:
        raise UnsupportedModelError(
            f"None of {sorted(graphs)} reads an array with {terms.n_rows} rows: there is nothing to subsample."
        )
    n_batch = data[0].batch.shape[0]
    # Before pm.logp, which would derive densities for random variables that it still finds in the graph.
    others = dict(zip(model.free_RVs, model.replace_rvs_by_values(model.free_RVs), strict=True))
    others |= dict.fromkeys(_row_lengths(model, terms), n_batch)
    batches = _Batches(terms.n_rows, n_batch, found)
    rebuild = batches.rebuild(found, others)
    for product in products:
        product.define_in(rebuild)
    for rv, value in values.items():
        rebuild.define(rv, rebuild(value))  # where one observed variable is the mean of another
    rows = [
        batches.vector(rv.name, partial(batch_term, rebuild, rv, values[rv], shape, terms.axis(rv), n_batch))
        for rv, shape in terms.observed.items()
    ]
    rows += [batches.vector(p.name, partial(rebuild, p)) for p in terms.potentials]
    total = sum(rows[1:], start=rows[0])
    return RowSet(total, batches.read_by(total))


class _Batches:
    """The batches that the row-wise terms of a set read, as these turn up.

    Parameters
    ----------
    n_rows : int
    n_batch : Variable
        Length of the batch.
    found : mapping of Variable to RowLeaf
        What `find_row_leaves` found in the model.
    """

    def __init__(self, n_rows: int, n_batch: Variable, found: Mapping[Variable, RowLeaf]):
        self._n_rows = n_rows
        self._n_batch = n_batch
        self._found = dict(found)

    def rebuild(self, found: Mapping[Variable, RowLeaf], others: Mapping[Variable, Variable]) -> BatchRebuild:
        """Return what makes graphs again with the batches in place of `found`, and `others` replaced too."""
        arrays = {var: leaf.in_graph for var, leaf in found.items() if not is_assigned(var)}
        masks = {var: leaf.batch for var, leaf in found.items() if is_assigned(var)}
        numbers = {leaf.batch for leaf in found.values() if leaf.numbers_rows}
        return BatchRebuild({**arrays, **others}, self._n_rows, self._n_batch, masks, numbers)

    def vector(self, name: str, build: Callable[[], Variable]) -> Variable:
        """Build one row-wise term as a vector over the batch, and prove from the graph that it is one."""
        try:
            term, axis = self._proved(name, build)
        except OneEntryARowError as error:
            raise NotRowWiseError(
                f"{name!r} does not split into rows: {error}. They grow with the data, and each draw would have to "
                "move all of them. Sum or integrate them out of the likelihood where that has a closed form "
                "(pm.Mixture for labels, pm.StudentT for scales), give groups of rows an entry each, or sample with "
                "pm.NUTS."
            ) from error
        except NotRowWiseError as error:
            raise NotRowWiseError(f"{name!r} does not split into rows: {error}. {_REMEDY}") from error
        except Exception as error:  # whatever an unknown op makes of a batch, the model is refused
            raise NotRowWiseError(
                f"{name!r} could not be rebuilt for a batch of rows ({type(error).__name__}: {error}). {_REMEDY}"
            ) from error
        if axis is None:
            raise NotRowWiseError(f"{name!r} does not depend on the rows of any array. {_REMEDY}")
        others = tuple(a for a in range(term.type.ndim) if a != axis.axis)
        return term.sum(axis=others) if others else term

    def read_by(self, rows: Variable) -> tuple[RowLeaf, ...]:
        """Return the leaves, without masks and numbers of rows that turned out not to be read."""
        read = set(ancestors([rows]))
        spare = {leaf for var, leaf in self._found.items() if is_assigned(var) or leaf.numbers_rows}
        return tuple(leaf for leaf in dict.fromkeys(self._found.values()) if leaf not in spare or leaf.batch in read)

    def _proved(self, name: str, build: Callable[[], Variable]) -> tuple[Variable, RowAxis | None]:
        term = shapes_without_draws(build())
        if term.type.ndim == 0:
            raise NotRowWiseError("it is summed over the rows before it can be split: return one entry per row")
        try:
            return term, prove_row_axis(term, self._seeds())
        except NotRowWiseError:
            hidden = self._hidden(name, term)
            if not hidden:
                raise
        # A function that the user gave, such as the logp of a CustomDist, may read data that are not in the model.
        self._found |= hidden
        term = self.rebuild(hidden, {})(term)
        return term, prove_row_axis(term, self._seeds())

    def _seeds(self) -> dict[Variable, RowAxis]:
        return {leaf.batch: RowAxis(0) for leaf in self._found.values()} | {self._n_batch: LENGTH}

    def _hidden(self, name: str, term: Variable) -> dict[Variable, RowLeaf]:
        return find_row_leaves({name: [term]}, self._n_rows, (), self._found.values())


def _row_lengths(model: Model, terms: SetTerms) -> list[Variable]:
    """Return the symbolic dimension lengths of the model that count rows."""
    names = {dims[terms.axis(t)] for t in terms.all if (dims := model.named_vars_to_dims.get(t.name))}
    return [model.dim_lengths[name] for name in names if name is not None]
