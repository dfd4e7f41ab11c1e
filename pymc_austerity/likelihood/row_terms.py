"""Decide which terms of a model are summed over rows, and refuse data that would give a wrong sum."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomGeneratorType
from pytensor.tensor.shape import SpecifyShape

from pymc_austerity.likelihood.rebuild import NotRowWiseError, array_of, find_row_leaves, is_array_leaf

_log = logging.getLogger("pymc_austerity")

#: A second group of rows longer than this share of the longest could as well be the one that was meant.
_AMBIGUOUS_SHARE = 0.1
#: Terms outside the rows are evaluated in full at every draw; from this many entries on, a user should know.
_LARGE_REMAINDER = 5_000


@dataclass(frozen=True)
class RowTerms:
    """The terms of a model with one contribution per row.

    Attributes
    ----------
    n_rows : int
        Number of rows N.
    observed : dict
        From observed random variable to the shape of its data.
    potentials : tuple of Variable
        Potentials with one entry per row.
    """

    n_rows: int
    observed: dict[Variable, tuple[int, ...]]
    potentials: tuple[Variable, ...]

    @property
    def all(self) -> tuple[Variable, ...]:
        """Observed variables and potentials together."""
        return (*self.observed, *self.potentials)


def choose_row_terms(model: Model, observed: str | Sequence[str] | None, point: Mapping[str, np.ndarray]) -> RowTerms:
    """Choose the observed variables and potentials whose rows are subsampled.

    Parameters
    ----------
    model : pymc.Model
    observed : str, sequence of str, or None
        The user's choice; by default the observed variables and potentials with the most rows.
    point : mapping of str to array
        Values of the free variables, used to find the shape of potentials.

    Raises
    ------
    ValueError
        No observed variable, an unknown name, rows of several lengths that could each be meant, missing values.
    NotRowWiseError
        A variable that is one draw over all rows, or a likelihood already summed or subsampled by the user.
    """
    names = None if observed is None else [observed] if isinstance(observed, str) else list(observed)
    shapes = _term_shapes(model, point)
    by_name = {term.name: term for term in shapes}
    if names is not None and (unknown := [n for n in names if n not in by_name]):
        raise ValueError(
            f"observed={names}: {unknown} is neither an observed variable nor a potential of the model. "
            f"Choose from {sorted(by_name)}."
        )
    _refuse_missing(model)
    lengths = {term: shape[0] for term, shape in shapes.items() if shape and term in model.observed_RVs}
    if names is not None:
        lengths = {by_name[n]: (shapes[by_name[n]] or (1,))[0] for n in names}
    elif not lengths:
        lengths = {p: shape[0] for p, shape in shapes.items() if shape}
    if not lengths or max(lengths.values()) < 2:
        raise _no_rows(model, point)
    n_rows = max(lengths.values())
    _refuse_ambiguous(lengths, n_rows, chosen=names is not None)
    if names is None:
        lengths |= _potentials_with_rows(model, shapes)
        n_rows = _longest(lengths, n_rows)
    chosen = [term for term, n in lengths.items() if n == n_rows]
    for rv in chosen:
        if rv in model.observed_RVs:
            _refuse_joint(rv)
    terms = RowTerms(
        n_rows,
        {rv: shapes[rv] for rv in chosen if rv in model.observed_RVs},
        tuple(p for p in chosen if p in model.potentials),
    )
    _warn_about_remainder(model, terms, shapes)
    return terms


def _potentials_with_rows(model: Model, shapes: Mapping[Variable, tuple[int, ...]]) -> dict[Variable, int]:
    """Return the lengths of the potentials that read rows; one that reads none belongs to the prior."""
    lengths = {p: shapes[p][0] for p in model.potentials if shapes[p] and shapes[p][0] > 1}
    return {p: n for p, n in lengths.items() if find_row_leaves({p.name: [p]}, n, model.free_RVs)}


def _longest(lengths: Mapping[Variable, int], n_observed: int) -> int:
    """Return the most rows there are, and say so where they are those of a potential: censored rows, for example."""
    n_rows = max(lengths.values())
    if n_rows > n_observed:
        names = {n: sorted(term.name for term, m in lengths.items() if m == n) for n in (n_rows, n_observed)}
        _log.info(
            f"The {n_rows:,} rows of {names[n_rows]} are subsampled; the {n_observed:,} of {names[n_observed]} are "
            "evaluated in full at every draw. observed=[...] chooses others."
        )
    return n_rows


def _term_shapes(model: Model, point: Mapping[str, np.ndarray]) -> dict[Variable, tuple[int, ...]]:
    shapes = {rv: _value_shape(model.rvs_to_values[rv]) for rv in model.observed_RVs}
    if model.potentials:
        # A potential is a free expression: its shape is known for sure only from its value.
        shapes_of = [p.shape for p in _by_value(model, model.potentials)]
        values = model.compile_fn(shapes_of, inputs=model.value_vars, on_unused_input="ignore")(point)
        shapes |= {p: tuple(map(int, v)) for p, v in zip(model.potentials, values, strict=True)}
    return shapes


def _by_value(model: Model, graphs: Sequence[Variable]) -> list[Variable]:
    return model.replace_rvs_by_values(list(graphs))


def _value_shape(value: Variable) -> tuple[int, ...]:
    if is_array_leaf(value):
        return array_of(value).shape
    return tuple(map(int, pt.as_tensor(value.shape).eval()))


def _refuse_missing(model: Model) -> None:
    for rv in model.observed_RVs:
        name = rv.name.removesuffix("_observed")
        if name != rv.name and f"{name}_unobserved" in model.named_vars:
            raise ValueError(
                f"Observed variable {name!r} has missing values, which PyMC imputes with one latent value each. "
                "Rows would then share no common form and cannot be subsampled. "
                "Drop the rows with missing values, or sample with pm.NUTS."
            )
        is_given_total_size = type(rv.owner.op).__name__ == "MinibatchRandomVariable"
        drawn = (isinstance(v.type, RandomGeneratorType) for v in ancestors([model.rvs_to_values[rv]]))
        if is_given_total_size or any(drawn):
            how = "was given total_size" if is_given_total_size else "reads rows drawn at random (pm.Minibatch)"
            raise NotRowWiseError(
                f"Observed variable {rv.name!r} {how}, so the model already subsamples its rows. "
                "Give the model all rows (no pm.Minibatch, no total_size): the step draws its own batches."
            )


def _refuse_ambiguous(lengths: Mapping[Variable, int], n_rows: int, *, chosen: bool) -> None:
    limit = 0 if chosen else _AMBIGUOUS_SHARE * n_rows
    if any(limit < n < n_rows for n in lengths.values()):
        found = {term.name: n for term, n in lengths.items()}
        raise ValueError(
            f"The variables {found} (name: number of rows) do not share a row axis, so it is unclear which rows to "
            "subsample. Name those of one length with observed=[...]; the others are then evaluated in full at "
            "every draw."
        )


def _refuse_joint(rv: Variable) -> None:
    op, inner = rv.owner.op, rv
    while isinstance(op, SpecifyShape):
        inner = inner.owner.inputs[0]
        op = inner.owner.op
    if rv.type.ndim - op.ndim_supp == 0:
        raise NotRowWiseError(
            f"Observed variable {rv.name!r} is a single draw of {op} over all rows (a time series, a Gaussian "
            "process or another joint distribution): row i depends on the other rows, so a batch of rows says "
            "nothing exact about the rest. Use pymc_austerity.PartialPosteriorPaths, which needs no rows that "
            "split, or pm.NUTS."
        )


def _no_rows(model: Model, point: Mapping[str, np.ndarray]) -> ValueError:
    """Explain why a model has no rows: nothing observed, or summed before it can be split."""
    for potential in model.potentials:
        data = [array_of(v) for v in ancestors([potential]) if is_array_leaf(v)]
        longest = max((a.shape[0] for a in data if a.ndim), default=0)
        latent = [rv.name for rv in model.free_RVs if _entries(model, rv, point) == longest]
        if longest > 1 and latent:
            return NotRowWiseError(
                f"Potential {potential.name!r} reads an array with {longest} rows, and {latent} has an entry for each "
                "of them, which grow with the data: each draw would have to move all of them. Sum or integrate them "
                "out of the likelihood where that has a closed form (pm.Mixture for labels), or sample with pm.NUTS."
            )
        if longest > 1:
            return NotRowWiseError(
                f"Potential {potential.name!r} reads an array with {longest} rows but is a single number: the "
                "likelihood was summed before it can be split. Leave out the .sum(), so that the potential has "
                "one entry per row."
            )
    if model.observed_RVs:
        return ValueError(
            f"The observed variables {[rv.name for rv in model.observed_RVs]} have no row axis with at least two rows: "
            "there is nothing to subsample. Use pm.NUTS or pm.Metropolis for this model."
        )
    return ValueError(
        "The model has no observed variable, so there are no rows to subsample. "
        "Pass observed= to the likelihood, or use pm.NUTS to sample from the prior."
    )


def _entries(model: Model, rv: Variable, point: Mapping[str, np.ndarray]) -> int:
    return int(np.size(point[model.rvs_to_values[rv].name]))


def _warn_about_remainder(model: Model, terms: RowTerms, shapes: Mapping[Variable, tuple[int, ...]]) -> None:
    rest = [term for term in shapes if term not in terms.all]
    sizes = {term.name: int(np.prod(shapes[term])) for term in rest}
    for potential in (p for p in model.potentials if p in rest):
        arrays = [array_of(v).size for v in ancestors([potential]) if is_array_leaf(v)]
        sizes[potential.name] = max([sizes[potential.name], *arrays])
    large = {name: size for name, size in sizes.items() if size >= _LARGE_REMAINDER}
    if large:
        warnings.warn(
            f"{large} (name: number of entries) is not subsampled but evaluated in full at every draw, which will "
            "dominate the cost. Only variables that share one row axis are subsampled together.",
            UserWarning,
            stacklevel=2,
        )


def shared_inputs(graphs: Sequence[Variable]) -> list[SharedVariable]:
    """Return the shared arrays that `graphs` read, in a fixed order."""
    return [v for v in dict.fromkeys(ancestors(graphs)) if isinstance(v, SharedVariable) and is_array_leaf(v)]
