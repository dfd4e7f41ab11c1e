"""Which terms of a model are summed over rows."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Variable

from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood import term_refusals
from pymc_austerity.likelihood.model_graph import (
    array_of,
    is_array_leaf,
    longest_first,
    plain_draw,
    row_axis_in,
    variables_in,
)
from pymc_austerity.likelihood.row_leaves import find_row_leaves
from pymc_austerity.likelihood.summed_terms import SumOfRows, sums_of_rows
from pymc_austerity.user_input import did_you_mean, shown

_log = logging.getLogger("pymc_austerity")


class Term(NamedTuple):
    """An observed variable or a potential of a model, with one contribution per row."""

    variable: Variable  # the random variable, or the potential
    value: Variable | None  # the value variable of an observed variable; None of a potential
    lengths: tuple[int, ...]  # lengths of the axes along which its entries are, or may be, independent
    axis: int  # that of its rows
    summed: SumOfRows | None = None  # a potential that is a sum over its rows, as a vector

    @property
    def graph(self) -> Variable:
        """The observed variable, or the potential with an entry for each row."""
        return self.variable if self.summed is None else self.summed.rows

    @property
    def name(self) -> str:
        """Its name in the model."""
        return str(self.variable.name)


@dataclass(frozen=True)
class SetTerms:
    """The terms of a model with one contribution per row of the same set of rows."""

    n_rows: int  # number of rows of the set
    terms: tuple[Term, ...]  # observed variables first

    @property
    def all(self) -> tuple[Variable, ...]:
        """Observed variables and potentials."""
        return tuple(term.variable for term in self.terms)

    @property
    def names(self) -> list[str]:
        """Their names, sorted."""
        return sorted(term.name for term in self.terms)

    def along_other_axes(self) -> list[SetTerms]:
        """Return the same terms with the entries along another axis as rows, for each that all of them have."""
        common = set.intersection(*(set(term.lengths) for term in self.terms)) - {1, self.n_rows}
        return [
            SetTerms(n, tuple(t._replace(axis=row_axis_in(t.lengths, n) or 0) for t in self.terms))
            for n in sorted(common, reverse=True)
        ]

    def without_sums(self) -> SetTerms | None:
        """Return the same terms without potentials that are sums, where there are others and such."""
        others = tuple(t for t in self.terms if t.summed is None)
        return SetTerms(self.n_rows, others) if 0 < len(others) < len(self.terms) else None

    def in_full(self, reason: str) -> str:
        """Return a line that says that these rows are evaluated in full at every draw, and why."""
        return f"The {self.n_rows:,} rows of {self.names} are evaluated in full at every draw: {reason}."


@dataclass(frozen=True)
class RowTerms:
    """The terms of a model that are subsampled: one set of rows, or several of different length."""

    sets: tuple[SetTerms, ...]  # in the order in which their rows are numbered

    @property
    def n_rows(self) -> int:
        """Number of rows N of all sets together."""
        return sum(s.n_rows for s in self.sets)

    @property
    def along_another_axis(self) -> bool:
        """Whether rows are along another axis than the one that is tried first."""
        return any(longest_first(term.lengths or (1,)) != s.n_rows for s in self.sets for term in s.terms)

    @property
    def all(self) -> tuple[Variable, ...]:
        """Observed variables and potentials of all sets."""
        return tuple(term for s in self.sets for term in s.all)

    def log_densities(self, model: Model) -> list[Variable]:
        """Return the log densities of all terms as graphs of the values of the model's variables, entries apart."""
        graphs = dict(zip(self.all, model.logp(vars=list(self.all), sum=False), strict=True))
        summed = [t for s in self.sets for t in s.terms if t.summed is not None]
        rows = model.replace_rvs_by_values([t.graph for t in summed])
        return list((graphs | dict(zip((t.variable for t in summed), rows, strict=True))).values())


@dataclass(frozen=True)
class Candidates:
    """Terms that may be subsampled."""

    sets: tuple[SetTerms, ...]  # by length, the longest first
    chosen: bool  # whether the user named them
    shapes: dict[Variable, tuple[int, ...]]  # of all observed variables and potentials of the model


def candidate_terms(
    model: Model, observed: str | Sequence[str] | None, point: Mapping[str, np.ndarray], *, several: bool
) -> Candidates:
    """Find the observed variables and potentials whose rows may be subsampled, as `row_likelihood` is asked to."""
    term_refusals.refuse_named_dimensions(model)
    shapes = _term_shapes(model, point)
    may_be_sums = [p for p in model.potentials if not getattr(p.tag, "is_prior", False)]
    summed = sums_of_rows(model, may_be_sums, point)
    summed = {p: of for p, of in summed.items() if of.n_rows > (_number_of_rows(p, shapes[p]) if shapes[p] else 1)}
    shapes |= {p: (of.n_rows,) for p, of in summed.items()}
    named = _named_terms(observed, {term.name: term for term in shapes})
    term_refusals.refuse_missing(model, shapes)
    lengths = {t: _number_of_rows(t, shapes[t]) for t in named or model.observed_RVs if named or shapes[t]}
    if not lengths:
        each = {p: _number_of_rows(p, shapes[p]) for p in model.potentials}
        lengths = _potentials_with_rows(model, shapes, summed) or each
    if not lengths or max(lengths.values()) < 2:
        raise term_refusals.no_rows(model)
    if not several:
        term_refusals.refuse_ambiguous(lengths, chosen=named is not None)
    if named is None:
        lengths |= _potentials_with_rows(model, shapes, summed)
    found = sorted({n for n in lengths.values() if n > 1}, reverse=True)
    sets = [_set_of(model, {t: shapes[t] for t, m in lengths.items() if m == n}, n, summed) for n in found]
    for left_out in () if several else sets[1:]:
        _log.info(left_out.in_full("this step reads one set of rows"))
    return Candidates(tuple(sets if several else sets[:1]), named is not None, shapes)


def _named_terms(observed: Any, by_name: Mapping[str, Variable]) -> list[Variable] | None:
    """Return the terms named in ``observed=``, or None where there is no choice."""
    if observed is None:
        return None
    iterable = isinstance(observed, Iterable) and not isinstance(observed, Variable)
    names = [observed] if isinstance(observed, str) or not iterable else list(observed)
    if not all(isinstance(n, str) for n in names):
        raise TypeError(
            f"observed= wants names of observed variables or potentials, such as 'y', and got {shown(observed)}."
        )
    if not names:
        raise ValueError("observed=[] names nothing whose rows could be subsampled. Leave it out, or name a variable.")
    if unknown := [n for n in names if n not in by_name]:
        raise ValueError(
            f"observed={names}: {unknown} is neither an observed variable nor a potential of the model. "
            f"{did_you_mean(str(unknown[0]), sorted(by_name))}"
        )
    return [by_name[n] for n in names]


def _set_of(
    model: Model, shapes: dict[Variable, tuple[int, ...]], n_rows: int, summed: Mapping[Variable, SumOfRows]
) -> SetTerms:
    observed = [t for t in shapes if t in model.observed_RVs]
    terms = []
    for t in (*observed, *(t for t in shapes if t not in observed)):
        lengths = _independent(t, shapes[t]) if t in observed else shapes[t]
        axis = row_axis_in(lengths, n_rows) or 0
        terms.append(Term(t, model.rvs_to_values.get(t), lengths, axis, summed.get(t)))
    return SetTerms(n_rows, tuple(terms))


def _independent(term: Variable, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lengths of the axes of a term along which its entries are, or may be, independent."""
    is_random = term.owner is not None and hasattr(plain_draw(term).owner.op, "ndim_supp")
    return shape[: len(shape) - plain_draw(term).owner.op.ndim_supp] if is_random else shape


def _number_of_rows(term: Variable, shape: tuple[int, ...]) -> int:
    """Return the length of the row axis: the first, unless it is short beside another (outcomes by rows)."""
    return longest_first(_independent(term, shape) or shape or (1,))


def _potentials_with_rows(
    model: Model, shapes: Mapping[Variable, tuple[int, ...]], summed: Mapping[Variable, SumOfRows]
) -> dict[Variable, int]:
    """Return the lengths of the potentials that read rows; one that reads none belongs to the prior."""
    may = [p for p in model.potentials if not getattr(p.tag, "is_prior", False)]
    lengths = {p: n for p in may if (n := _number_of_rows(p, shapes[p])) > 1}
    graphs = {p: summed[p].rows if p in summed else p for p in lengths}
    read = {p: {p.name: variables_in([graph], model.free_RVs)} for p, graph in graphs.items()}
    found = {p: find_row_leaves(read[p], n, model.free_RVs) for p, n in lengths.items()}
    return {p: n for p, n in lengths.items() if not all(leaf.marks_rows for leaf in found[p].values())}


def _term_shapes(model: Model, point: Mapping[str, np.ndarray]) -> dict[Variable, tuple[int, ...]]:
    shapes = {rv: _value_shape(model.rvs_to_values[rv]) for rv in model.observed_RVs}
    if model.potentials:
        # A potential is a free expression: its shape is known for sure only from its value.
        shapes_of = [p.shape for p in model.replace_rvs_by_values(model.potentials)]
        values = model.compile_fn(shapes_of, inputs=model.value_vars, mode=BY_NUMPY, on_unused_input="ignore")(point)
        shapes |= {p: tuple(map(int, v)) for p, v in zip(model.potentials, values, strict=True)}
    return shapes


def _value_shape(value: Variable) -> tuple[int, ...]:
    if is_array_leaf(value):
        return array_of(value).shape
    return tuple(map(int, pt.as_tensor(value.shape).eval(mode=BY_NUMPY)))
