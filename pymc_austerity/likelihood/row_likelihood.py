"""From a PyMC model to a log prior and a log-likelihood that takes a batch of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from pymc_austerity.graph_compiler import stabilised
from pymc_austerity.likelihood.axis import LENGTH, RowAxis
from pymc_austerity.likelihood.layout import Block, layout, split
from pymc_austerity.likelihood.precision import in_double
from pymc_austerity.likelihood.prior_laws import Law, prior_laws
from pymc_austerity.likelihood.rebuild import (
    BatchRebuild,
    NotRowWiseError,
    OneEntryARowError,
    RowLeaf,
    array_of,
    batch_term,
    find_row_leaves,
    shapes_without_draws,
)
from pymc_austerity.likelihood.row_axis import prove_row_axis
from pymc_austerity.likelihood.row_terms import RowTerms, choose_row_terms, shared_inputs

_FINITE_CHUNK = 100_000


@dataclass(frozen=True)
class RowLikelihood:
    """The log density of a model, split into a log prior and one term per row of the data.

    Attributes
    ----------
    n_rows : int
        Number of rows N of the table.
    blocks, other_blocks : tuple of Block
        Layout of θ (the variables that the step moves) and of the variables that other steps move.
    theta, others : Variable
        The flat float64 vectors that stand for them in the graphs.
    batches : tuple of Variable
        One symbolic batch per data array.
    fixed : tuple of Variable
        Stand-ins for the shared variables that are not indexed by row.
    log_prior : Variable
        Scalar: everything that is not row-wise, with the Jacobians of the transforms.
    row_log_likelihood : Variable
        Vector: ℓ_i(θ) for the rows of the batch.
    read : frozenset of str
        Names of the variables that the row-wise terms read.
    laws : dict
        From the name of a variable in θ to its conditional prior, where that is of a family known to `prior_laws`.
    counts : Variable or None
        The last of `batches`, where each row stands for several of the table and its term is m_i ℓ_i(θ).
    """

    n_rows: int
    blocks: tuple[Block, ...]
    other_blocks: tuple[Block, ...]
    theta: Variable
    others: Variable
    batches: tuple[Variable, ...]
    fixed: tuple[Variable, ...]
    log_prior: Variable
    row_log_likelihood: Variable
    read: frozenset[str]
    laws: dict[str, Law]
    counts: Variable | None = None

    def counted(self) -> RowLikelihood:
        """Return the likelihood whose rows come with a count behind their data, by which their term is multiplied."""
        counts = pt.dvector("counts")
        return replace(
            self,
            batches=(*self.batches, counts),
            row_log_likelihood=counts * self.row_log_likelihood,
            counts=counts,
        )

    @property
    def theta_size(self) -> int:
        """D, the length of θ."""
        return self.blocks[-1].stop

    @property
    def psi_blocks(self) -> tuple[Block, ...]:
        """Layout of ψ = (θ, others), the one behind the other."""
        d = self.theta_size
        moved = (b._replace(start=b.start + d, stop=b.stop + d) for b in self.other_blocks)
        return (*self.blocks, *moved)

    def psi_vector(self, name: str) -> Variable:
        """Return a new symbolic vector of the length of ψ."""
        return pt.dvector(name, shape=(self.psi_blocks[-1].stop,))


@dataclass(frozen=True)
class DataSource:
    """Where the arrays come from that a `RowLikelihood` takes: read anew, they follow ``pm.set_data``."""

    leaves: tuple[RowLeaf, ...]
    fixed: tuple[Variable, ...]

    def current(self) -> tuple[np.ndarray, ...]:
        """Return the data arrays as the model holds them now, unchecked."""
        return tuple(array_of(leaf.source) for leaf in self.leaves)

    def row_arrays(self) -> tuple[np.ndarray, ...]:
        """Return the data arrays as they are now, rows on the first axis.

        Raises
        ------
        ValueError
            Arrays of different length, or with entries that are not finite.
        """
        arrays = self.current()
        lengths = {leaf.label: len(a) for leaf, a in zip(self.leaves, arrays, strict=True)}
        if len(set(lengths.values())) > 1:
            raise ValueError(
                f"The data arrays of the model differ in length: {lengths}. Row i of each must belong to the same "
                "observation. Replace all of them in one pm.set_data call."
            )
        for leaf, array in zip(self.leaves, arrays, strict=True):
            _require_finite(leaf.label, array)
        return arrays

    def fixed_arrays(self) -> tuple[np.ndarray, ...]:
        """Return the values of the shared variables that are not indexed by row, laid out as `tuple_of` says."""
        return tuple(np.require(array_of(s), requirements=["C", "A", "W"]) for s in self.fixed)


def row_likelihood(
    model: Model,
    variables: Sequence[Variable] | None = None,
    observed: str | Sequence[str] | None = None,
    initial_point: Mapping[str, np.ndarray] | None = None,
) -> tuple[RowLikelihood, DataSource, RowTerms]:
    """Split the log density of a model into a log prior and row-wise terms, and prove the split.

    Parameters
    ----------
    model : pymc.Model
        A model whose data arrays have their rows on the first axis.
    variables : sequence of Variable, optional
        Value variables that form θ; all free variables by default.
    observed : str or sequence of str, optional
        Names of the observed variables or potentials whose rows are subsampled; by default those with most rows.
    initial_point : mapping of str to array, optional
        Point that gives the shapes; ``model.initial_point()`` by default.

    Returns
    -------
    RowLikelihood, DataSource, RowTerms
        The graphs, the place their data come from, and the variables of the model that are row-wise.

    Raises
    ------
    NotRowWiseError
        The likelihood does not split; the message names the variable, the reason and the remedy.
    ValueError
        There are no rows, it is unclear which rows are meant, or data are missing or not finite.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> with pm.Model() as model:
    ...     slope = pm.Normal("slope")
    ...     y = pm.Normal("y", slope * np.linspace(0, 1, 100), 1, observed=np.zeros(100))
    >>> likelihood, data, terms = row_likelihood(model)
    >>> likelihood.n_rows, len(data.row_arrays())
    (100, 2)
    """
    point = model.initial_point() if initial_point is None else initial_point
    theta_vars = list(model.value_vars if variables is None else variables)
    other_vars = [v for v in model.value_vars if v not in theta_vars]
    terms = choose_row_terms(model, observed, point)
    rows, leaves = _row_graph(model, terms)
    prior = model.logp(vars=[v for v in (*model.basic_RVs, *model.potentials) if v not in terms.all])
    blocks, other_blocks = layout(theta_vars, point), layout(other_vars, point)
    # Of known length, or derivatives would compare it with that of the model's variables in compiled code.
    theta = pt.dvector("theta", shape=(blocks[-1].stop,))
    others = pt.dvector("others", shape=(other_blocks[-1].stop if other_blocks else 0,))
    sources = shared_inputs([prior, rows])
    fixed = {s: s.type(s.name) for s in sources}
    values = dict(zip(theta_vars, split(theta, blocks), strict=True))
    values |= dict(zip(other_vars, split(others, other_blocks), strict=True))
    laws = prior_laws(model, theta_vars)
    parameters = [graph for law in laws.values() for graph in law[1:]]
    log_prior, row_log_likelihood, *parameters = graph_replace(
        [prior, rows, *parameters], {**values, **fixed}, strict=False
    )
    log_prior, row_log_likelihood, *parameters = in_double([log_prior, row_log_likelihood, *parameters])
    by_law = zip(*[iter(parameters)] * 3, strict=True)
    likelihood = RowLikelihood(
        terms.n_rows,
        blocks,
        other_blocks,
        theta,
        others,
        tuple(leaf.batch for leaf in leaves),
        tuple(fixed.values()),
        log_prior,
        stabilised(row_log_likelihood),
        frozenset(v.name for v in model.value_vars if v in set(ancestors([rows]))),
        {name: Law(law.family, *graphs) for (name, law), graphs in zip(laws.items(), by_law, strict=True)},
    )
    return likelihood, DataSource(tuple(leaves), tuple(sources)), terms


def _row_graph(model: Model, terms: RowTerms) -> tuple[Variable, list[RowLeaf]]:
    """Sum the row-wise terms into one vector over the batch, a graph of value variables and batches."""
    values = {rv: model.rvs_to_values[rv] for rv in terms.observed}
    graphs = {rv.name: [rv, value] for rv, value in values.items()} | {p.name: [p] for p in terms.potentials}
    found = find_row_leaves(graphs, terms.n_rows, model.free_RVs)
    leaves = list(dict.fromkeys(found.values()))
    if not leaves:
        raise ValueError(
            f"None of {sorted(graphs)} reads an array with {terms.n_rows} rows: there is nothing to subsample."
        )
    for leaf in leaves:
        _require_finite(leaf.label, array_of(leaf.source))
    n_batch = leaves[0].batch.shape[0]
    replace: dict[Variable, Variable] = {var: leaf.batch for var, leaf in found.items()}
    # Before pm.logp, which would derive densities for random variables that it still finds in the graph.
    replace |= dict(zip(model.free_RVs, model.replace_rvs_by_values(model.free_RVs), strict=True))
    replace |= dict.fromkeys(_row_lengths(model, terms), n_batch)
    rebuild = BatchRebuild(replace, terms.n_rows, n_batch)
    for rv, value in values.items():
        rebuild.define(rv, rebuild(value))  # where one observed variable is the mean of another
    seeds = {leaf.batch: RowAxis(0) for leaf in leaves} | {n_batch: LENGTH}
    rows = [
        _row_vector(rv.name, partial(batch_term, rebuild, rv, values[rv], shape, n_batch), seeds)
        for rv, shape in terms.observed.items()
    ]
    rows += [_row_vector(p.name, partial(rebuild, p), seeds) for p in terms.potentials]
    return sum(rows[1:], start=rows[0]), leaves


def _row_vector(name: str, build: Callable[[], Variable], seeds: Mapping[Variable, RowAxis]) -> Variable:
    """Build one row-wise term as a vector over the batch, and prove from the graph that it is one."""
    remedy = (
        "Compute statistics over rows outside the model and pass the result as data; a model whose rows depend on "
        "each other can be sampled with pymc_austerity.PartialPosteriorPaths or pm.NUTS."
    )
    try:
        term = shapes_without_draws(build())
        if term.type.ndim == 0:
            raise NotRowWiseError("it is summed over the rows before it can be split: return one entry per row")
        axis = prove_row_axis(term, seeds)
    except OneEntryARowError as error:
        raise NotRowWiseError(
            f"{name!r} does not split into rows: {error}. They grow with the data, and each draw would have to move "
            "all of them. Sum or integrate them out of the likelihood where that has a closed form (pm.Mixture for "
            "labels, pm.StudentT for scales), give groups of rows an entry each, or sample with pm.NUTS."
        ) from error
    except NotRowWiseError as error:
        raise NotRowWiseError(f"{name!r} does not split into rows: {error}. {remedy}") from error
    except Exception as error:  # whatever an unknown op makes of a batch, the model is refused
        raise NotRowWiseError(
            f"{name!r} could not be rebuilt for a batch of rows ({type(error).__name__}: {error}). {remedy}"
        ) from error
    if axis != RowAxis(0):
        raise NotRowWiseError(
            f"{name!r} does not have its rows on the first axis (found: {axis}). Put the rows of every array first."
        )
    return term.sum(axis=tuple(range(1, term.type.ndim))) if term.type.ndim > 1 else term


def _row_lengths(model: Model, terms: RowTerms) -> list[Variable]:
    """Return the symbolic dimension lengths of the model that count rows."""
    names = {dims[0] for t in terms.all if (dims := model.named_vars_to_dims.get(t.name))}
    return [model.dim_lengths[name] for name in names if name is not None]


def _require_finite(label: str, array: np.ndarray) -> None:
    if array.dtype.kind not in "fc":
        return
    for start in range(0, len(array), _FINITE_CHUNK):
        chunk = array[start : start + _FINITE_CHUNK]
        if not np.isfinite(chunk).all():
            bad = np.flatnonzero(~np.isfinite(chunk).reshape(len(chunk), -1).all(axis=1)) + start
            raise ValueError(
                f"Data array {label} is not finite in row {bad[0]} (and {len(bad) - 1} more of the next "
                f"{_FINITE_CHUNK}). A batch that meets such a row has no log-likelihood, so every test would "
                "depend on whether it was drawn. Remove or impute these rows."
            )
