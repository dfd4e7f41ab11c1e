"""From a PyMC model to a log prior and a log-likelihood that takes a batch of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from pymc_austerity.compile.addresses import Addresses, addresses, tuple_of
from pymc_austerity.compile.graph_compiler import stabilised
from pymc_austerity.compile.second_derivatives import twice_differentiable
from pymc_austerity.likelihood.layout import Block, layout, split
from pymc_austerity.likelihood.model_graph import is_array_leaf
from pymc_austerity.likelihood.precision import in_double
from pymc_austerity.likelihood.prior_laws import Law, prior_laws
from pymc_austerity.likelihood.row_data import DataSource, union_of
from pymc_austerity.likelihood.row_set import row_sets
from pymc_austerity.likelihood.row_terms import RowTerms, candidate_terms
from pymc_austerity.likelihood.term_refusals import warn_about_remainder, warn_of_many
from pymc_austerity.unsupported_model import UnsupportedModelError


@dataclass(frozen=True)
class RowLikelihood:
    """The log density of a model, split into a log prior and one term per row of the data."""

    n_rows: int  # number of rows N of the table
    blocks: tuple[Block, ...]  # layout of θ, the variables that the step moves
    other_blocks: tuple[Block, ...]  # that of the variables that other steps move
    theta: Variable  # the flat float64 vector that stands for θ in the graphs
    others: Variable  # that of the variables that other steps move
    batches: tuple[Variable, ...]  # one symbolic batch per data array
    fixed: tuple[Variable, ...]  # stand-ins for the shared variables that are not indexed by row
    log_prior: Variable  # scalar: everything that is not row-wise, with the Jacobians of the transforms
    row_log_likelihood: Variable  # vector: ℓ_i(θ) for the rows of the batch
    read: frozenset[str]  # names of the variables that the row-wise terms read
    #: From the name of a variable in θ to its conditional prior, where that is of a family known to `prior_laws`.
    laws: dict[str, Law]
    #: The last of `batches`, where each row stands for several of the table and its term is m_i ℓ_i(θ).
    counts: Variable | None = None
    #: The rows with their kinks rounded, which a proxy expands in their place; None where they have none.
    rounded: Variable | None = None

    def counted(self) -> RowLikelihood:
        """Return the likelihood whose rows come with a count behind their data, by which their term is multiplied."""
        counts = pt.dvector("counts")
        return replace(
            self, batches=(*self.batches, counts), row_log_likelihood=counts * self.row_log_likelihood, counts=counts
        )

    def of_expanded(self) -> RowLikelihood:
        """Return the likelihood of what a proxy expands."""
        return replace(self, row_log_likelihood=self.expanded, rounded=None)

    @property
    def expanded(self) -> Variable:
        """What a proxy expands: the rows, or what stands in for those with kinks."""
        return self.row_log_likelihood if self.rounded is None else self.rounded

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

    def of_psi(self, graph: Variable) -> tuple[Variable, Variable]:
        """Return a graph as one of a single vector ψ in place of θ and others, and that vector."""
        psi, d = self.psi_vector("psi"), self.theta_size
        (graph,) = graph_replace([graph], {self.theta: psi[:d], self.others: psi[d:]}, strict=False)
        return graph, psi

    def fixed_at(self, fixed: Sequence[np.ndarray]) -> Addresses:
        """Return where values of the `fixed` lie, for compiled code."""
        return addresses(fixed, tuple_of(self.fixed))

    def rows_at(self, arrays: Sequence[np.ndarray]) -> Addresses:
        """Return where the arrays of some rows lie, for compiled code."""
        return addresses(arrays, tuple_of(self.batches))


def row_likelihood(
    model: Model,
    variables: Sequence[Variable] | None = None,
    observed: str | Sequence[str] | None = None,
    initial_point: Mapping[str, np.ndarray] | None = None,
    *,
    several: bool = True,
) -> tuple[RowLikelihood, DataSource, RowTerms]:
    """Split the log density of a model into a log prior and row-wise terms, and prove the split.

    The data arrays of the model have an axis as long as there are rows: the first, or another that the graph shows to
    be theirs.  `variables` are the value variables that form θ, all free ones by default; `observed` names the terms
    whose rows are subsampled, by default all that split.  `initial_point` gives the shapes.  Unless `several` sets of
    rows of different length are taken together, only the longest is.

    Raises NotRowWiseError where the likelihood does not split.
    """
    point = model.initial_point() if initial_point is None else initial_point
    candidates = candidate_terms(model, observed, point, several=several)
    sets = row_sets(model, candidates)
    terms = RowTerms(tuple(s.terms for s in sets))
    warn_of_many(len(terms.all))
    rest = {term: shape for term, shape in candidates.shapes.items() if term not in terms.all}
    warn_about_remainder(model, rest, point)
    rows, batches = union_of(sets)
    likelihood, fixed = _split_density(model, terms, rows, batches, variables, point)
    return likelihood, DataSource(sets, fixed), terms


def _split_density(
    model: Model,
    terms: RowTerms,
    rows: Variable,
    batches: tuple[Variable, ...],
    variables: Sequence[Variable] | None,
    point: Mapping[str, np.ndarray],
) -> tuple[RowLikelihood, tuple[Variable, ...]]:
    """Return the log prior and the row terms as graphs of θ, and the shared variables that are not indexed by row."""
    theta_vars = list(model.value_vars if variables is None else variables)
    if not theta_vars:
        raise UnsupportedModelError("The model has no free variable to sample: give one a prior, pm.Normal('beta').")
    other_vars = [v for v in model.value_vars if v not in theta_vars]
    blocks, other_blocks = layout(theta_vars, point), layout(other_vars, point)
    # Of known length, or derivatives would compare it with that of the model's variables in compiled code.
    theta = pt.dvector("theta", shape=(blocks[-1].stop,))
    others = pt.dvector("others", shape=(other_blocks[-1].stop if other_blocks else 0,))
    prior = model.logp(vars=[v for v in (*model.basic_RVs, *model.potentials) if v not in terms.all])
    sources = [v for v in dict.fromkeys(ancestors([prior, rows])) if isinstance(v, SharedVariable) and is_array_leaf(v)]
    fixed = {s: s.type(s.name) for s in sources}
    values = dict(zip([*theta_vars, *other_vars], [*split(theta, blocks), *split(others, other_blocks)], strict=True))
    laws = prior_laws(model, theta_vars)
    graphs = [prior, rows, *(graph for law in laws.values() for graph in law[1:])]
    log_prior, row_terms, *parameters = in_double(graph_replace(graphs, {**values, **fixed}, strict=False))
    log_prior, row_terms = twice_differentiable(log_prior), stabilised(row_terms)
    if not {theta, others} & set(ancestors([row_terms])):
        raise UnsupportedModelError(
            f"The rows of {[term.name for term in terms.all]} read no free variable of the model: their log-likelihood "
            "is the same everywhere, and there is nothing to subsample. Check what the outcome depends on."
        )
    by_law = zip(*[iter(parameters)] * 3, strict=True)
    likelihood = RowLikelihood(
        n_rows=terms.n_rows,
        blocks=blocks,
        other_blocks=other_blocks,
        theta=theta,
        others=others,
        batches=batches,
        fixed=tuple(fixed.values()),
        log_prior=log_prior,
        row_log_likelihood=row_terms,
        read=frozenset(v.name for v in model.value_vars if v in set(ancestors([rows]))),
        laws={name: Law(law.family, *graphs) for (name, law), graphs in zip(laws.items(), by_law, strict=True)},
    )
    return likelihood, tuple(fixed)
