"""Decide which terms of a model are summed over rows, and refuse data that would give a wrong sum."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pymc.model import Model
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomGeneratorType

from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood.assigned_rows import is_assigned
from pymc_austerity.likelihood.rebuild import NotRowWiseError, plain_draw
from pymc_austerity.likelihood.row_leaves import array_of, find_row_leaves, is_array_leaf, row_axis_in
from pymc_austerity.unsupported_model import UnsupportedModelError
from pymc_austerity.user_input import did_you_mean, shown

_log = logging.getLogger("pymc_austerity")

#: Where only one set of rows can be subsampled, one longer than this share of the longest could as well be meant.
_AMBIGUOUS_SHARE = 0.1
#: An axis that is longer than the first by this factor has the rows.
_MUCH_LONGER = 10
#: Terms outside the rows are evaluated in full at every draw; from this many entries on, a user should know.
_LARGE_REMAINDER = 5_000


@dataclass(frozen=True)
class SetTerms:
    """The terms of a model with one contribution per row of the same set of rows.

    Attributes
    ----------
    n_rows : int
        Number of rows of the set.
    observed : dict
        From observed random variable to the lengths of the axes along which its draws are independent.
    potentials : dict
        From potential with one entry per row to its shape.
    """

    n_rows: int
    observed: dict[Variable, tuple[int, ...]]
    potentials: dict[Variable, tuple[int, ...]]

    @property
    def all(self) -> tuple[Variable, ...]:
        """Observed variables and potentials together."""
        return (*self.observed, *self.potentials)

    def axis(self, term: Variable) -> int:
        """Return the axis along which a term has its rows."""
        return row_axis_in((self.observed | self.potentials)[term], self.n_rows) or 0

    def along_other_axes(self) -> list[SetTerms]:
        """Return the same terms with the entries along another axis as rows, for each that all of them have."""
        common = set.intersection(*map(set, (self.observed | self.potentials).values())) - {1, self.n_rows}
        return [replace(self, n_rows=n) for n in sorted(common, reverse=True)]

    @property
    def names(self) -> list[str]:
        """Their names, sorted."""
        return sorted(term.name for term in self.all)


@dataclass(frozen=True)
class RowTerms:
    """The terms of a model that are subsampled: one set of rows, or several of different length.

    Attributes
    ----------
    sets : tuple of SetTerms
        In the order in which their rows are numbered.
    """

    sets: tuple[SetTerms, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows N of all sets together."""
        return sum(s.n_rows for s in self.sets)

    @property
    def all(self) -> tuple[Variable, ...]:
        """Observed variables and potentials of all sets."""
        return tuple(term for s in self.sets for term in s.all)


@dataclass(frozen=True)
class Candidates:
    """Terms that may be subsampled.

    Attributes
    ----------
    sets : tuple of SetTerms
        By length, the longest first.
    chosen : bool
        Whether the user named them.
    shapes : dict
        Of all observed variables and potentials of the model.
    """

    sets: tuple[SetTerms, ...]
    chosen: bool
    shapes: dict[Variable, tuple[int, ...]]


def _names_of(observed: Any) -> list[str] | None:
    """Return the names in ``observed=``, or None where there is no choice.

    Raises
    ------
    TypeError, ValueError
        For what is no name, or no name at all.
    """
    if observed is None or isinstance(observed, str):
        return None if observed is None else [observed]
    if (
        isinstance(observed, Variable)
        or not isinstance(observed, Iterable)
        or not all(isinstance(n, str) for n in observed)
    ):
        raise TypeError(
            f"observed= wants names of observed variables or potentials, such as 'y', and got {shown(observed)}."
        )
    if not (names := list(observed)):
        raise ValueError("observed=[] names nothing whose rows could be subsampled. Leave it out, or name a variable.")
    return names


def candidate_terms(
    model: Model, observed: str | Sequence[str] | None, point: Mapping[str, np.ndarray], *, several: bool
) -> Candidates:
    """Find the observed variables and potentials whose rows may be subsampled.

    Parameters
    ----------
    model : pymc.Model
    observed : str, sequence of str, or None
        The user's choice; by default all observed variables and potentials with rows.
    point : mapping of str to array
        Values of the free variables, used to find the shape of potentials.
    several : bool
        Whether sets of rows of different length can be subsampled together; otherwise only the longest is.

    Raises
    ------
    ValueError
        No observed variable, an unknown name, missing values, rows of several lengths where one set can be taken.
    NotRowWiseError
        A variable that is one draw over all rows, or a likelihood already summed or subsampled by the user.
    """
    names = _names_of(observed)
    shapes = _term_shapes(model, point)
    by_name = {term.name: term for term in shapes}
    if names is not None and (unknown := [n for n in names if n not in by_name]):
        raise ValueError(
            f"observed={names}: {unknown} is neither an observed variable nor a potential of the model. "
            f"{did_you_mean(str(unknown[0]), sorted(by_name))}"
        )
    _refuse_missing(model)
    lengths = {rv: _number_of_rows(rv, shapes[rv]) for rv in model.observed_RVs if shapes[rv]}
    if names is not None:
        lengths = {by_name[n]: _number_of_rows(by_name[n], shapes[by_name[n]]) for n in names}
    elif not lengths:
        lengths = _potentials_with_rows(model, shapes) or {p: _number_of_rows(p, shapes[p]) for p in model.potentials}
    if not lengths or max(lengths.values()) < 2:
        raise _no_rows(model, point)
    if not several:
        _refuse_ambiguous(lengths, max(lengths.values()), chosen=names is not None)
    if names is None:
        lengths |= _potentials_with_rows(model, shapes)
    found = sorted({n for n in lengths.values() if n > 1}, reverse=True)
    sets = [_set_of(model, {t: shapes[t] for t, m in lengths.items() if m == n}, n) for n in found]
    if not several and len(sets) > 1:
        _log.info(in_full(sets[1:], "this step reads one set of rows"))
    return Candidates(tuple(sets if several else sets[:1]), names is not None, shapes)


def _set_of(model: Model, shapes: dict[Variable, tuple[int, ...]], n_rows: int) -> SetTerms:
    observed = {rv: _independent(rv, shape) for rv, shape in shapes.items() if rv in model.observed_RVs}
    return SetTerms(n_rows, observed, {p: shape for p, shape in shapes.items() if p in model.potentials})


def _independent(term: Variable, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lengths of the axes of a term along which its entries are, or may be, independent."""
    is_random = term.owner is not None and hasattr(plain_draw(term).owner.op, "ndim_supp")
    return shape[: len(shape) - plain_draw(term).owner.op.ndim_supp] if is_random else shape


def _number_of_rows(term: Variable, shape: tuple[int, ...]) -> int:
    """Return the length of the row axis: the first, unless it is short beside another (outcomes by rows)."""
    lengths = _independent(term, shape) or shape or (1,)
    return max(lengths) if max(lengths) > _MUCH_LONGER * lengths[0] else lengths[0]


def in_full(sets: Sequence[SetTerms], reason: str) -> str:
    """Return a line that says which rows are evaluated in full at every draw, and why."""
    rows = " and ".join(f"the {s.n_rows:,} rows of {s.names}" for s in sets)
    return f"{rows[0].upper()}{rows[1:]} are evaluated in full at every draw: {reason}."


def _potentials_with_rows(model: Model, shapes: Mapping[Variable, tuple[int, ...]]) -> dict[Variable, int]:
    """Return the lengths of the potentials that read rows; one that reads none belongs to the prior."""
    may = [p for p in model.potentials if not getattr(p.tag, "is_prior", False)]
    lengths = {p: n for p in may if (n := _number_of_rows(p, shapes[p])) > 1}
    found = {p: find_row_leaves({p.name: [p]}, n, model.free_RVs) for p, n in lengths.items()}
    return {p: n for p, n in lengths.items() if not all(map(is_assigned, found[p]))}


def _term_shapes(model: Model, point: Mapping[str, np.ndarray]) -> dict[Variable, tuple[int, ...]]:
    shapes = {rv: _value_shape(model.rvs_to_values[rv]) for rv in model.observed_RVs}
    if model.potentials:
        # A potential is a free expression: its shape is known for sure only from its value.
        shapes_of = [p.shape for p in _by_value(model, model.potentials)]
        values = model.compile_fn(shapes_of, inputs=model.value_vars, mode=BY_NUMPY, on_unused_input="ignore")(point)
        shapes |= {p: tuple(map(int, v)) for p, v in zip(model.potentials, values, strict=True)}
    return shapes


def _by_value(model: Model, graphs: Sequence[Variable]) -> list[Variable]:
    return model.replace_rvs_by_values(list(graphs))


def _value_shape(value: Variable) -> tuple[int, ...]:
    if is_array_leaf(value):
        return array_of(value).shape
    return tuple(map(int, pt.as_tensor(value.shape).eval(mode=BY_NUMPY)))


def _refuse_missing(model: Model) -> None:
    for rv in model.observed_RVs:
        name = rv.name.removesuffix("_observed")
        if name != rv.name and f"{name}_unobserved" in model.named_vars:
            raise UnsupportedModelError(
                f"Observed variable {name!r} has missing values, which PyMC imputes with one latent value each. "
                "Rows would then share no common form and cannot be subsampled. "
                "Drop the rows with missing values, or sample with pm.NUTS."
            )
        value = model.rvs_to_values[rv]
        drawn = any(isinstance(v.type, RandomGeneratorType) for v in ancestors([value]))
        if drawn or not stands_for_its_own_rows(rv, _value_shape(value)):
            how = "reads rows drawn at random (pm.Minibatch)" if drawn else "was given total_size"
            raise NotRowWiseError(
                f"Observed variable {rv.name!r} {how}, so the model already subsamples its rows. "
                "Give the model all rows (no pm.Minibatch, no total_size): the step draws its own batches."
            )


def has_total_size(rv: Variable) -> bool:
    """Return whether an observed variable was given `total_size`."""
    return isinstance(rv.owner.op, MinibatchRandomVariable)


def stands_for_its_own_rows(rv: Variable, shape: tuple[int, ...]) -> bool:
    """Return whether `total_size`, where there is one, is the number of an observed variable's rows and scales nothing.

    Parameters
    ----------
    rv : Variable
    shape : tuple of int
        Of its data.
    """
    if not has_total_size(rv):
        return True
    given = zip(rv.owner.inputs[1:], shape, strict=True)
    return all(isinstance(total, Constant) and total.data in (None, n) for total, n in given)


def _refuse_ambiguous(lengths: Mapping[Variable, int], n_rows: int, *, chosen: bool) -> None:
    limit = 0 if chosen else _AMBIGUOUS_SHARE * n_rows
    if any(limit < n < n_rows for n in lengths.values()):
        found = {term.name: n for term, n in lengths.items()}
        raise UnsupportedModelError(
            f"The variables {found} (name: number of rows) do not share a row axis, and this step reads one set of "
            "rows. Name those of one length with observed=[...]; the others are then evaluated in full at every draw."
        )


def refuse_joint(rv: Variable) -> None:
    """Refuse an observed variable that is a single draw over all rows."""
    op = plain_draw(rv).owner.op
    if rv.type.ndim - op.ndim_supp == 0 and isinstance(op, CustomDistRV | CustomSymbolicDistRV):
        raise NotRowWiseError(
            f"Observed variable {rv.name!r} is a CustomDist whose signature makes all rows one draw, so that nothing "
            "says that they are independent. Leave the signature out and give it parameters with an entry for each "
            f"row: pm.CustomDist({rv.name!r}, X @ beta, logp=..., observed=...), with X read outside of logp."
        )
    if rv.type.ndim - op.ndim_supp == 0:
        raise NotRowWiseError(
            f"Observed variable {rv.name!r} is a single draw of {op} over all rows (a time series, a Gaussian "
            "process or another joint distribution): row i depends on the other rows, so a batch of rows says "
            "nothing exact about the rest. Use pymc_austerity.PartialPosteriorPaths, which needs no rows that "
            "split, or pm.NUTS."
        )


def _no_rows(model: Model, point: Mapping[str, np.ndarray]) -> UnsupportedModelError:
    """Explain why a model has no rows: nothing observed, or summed before it can be split."""
    for potential in model.potentials:
        data = [array_of(v) for v in ancestors([potential], blockers=model.free_RVs) if is_array_leaf(v)]
        longest = max((max(a.shape) for a in data if a.size and a.ndim), default=0)
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
        return UnsupportedModelError(
            f"The observed variables {[rv.name for rv in model.observed_RVs]} have no row axis with at least two rows: "
            "there is nothing to subsample. Use pm.NUTS or pm.Metropolis for this model."
        )
    return UnsupportedModelError(
        "The model has no observed variable, so there are no rows to subsample. "
        "Pass observed= to the likelihood, or use pm.NUTS to sample from the prior."
    )


def _entries(model: Model, rv: Variable, point: Mapping[str, np.ndarray]) -> int:
    return int(np.size(point[model.rvs_to_values[rv].name]))


def warn_about_remainder(model: Model, terms: RowTerms, shapes: Mapping[Variable, tuple[int, ...]]) -> None:
    """Warn where much of a model lies outside the rows that are subsampled."""
    rest = [term for term in shapes if term not in terms.all]
    sizes = {term.name: int(np.prod(shapes[term])) for term in rest}
    for potential in (p for p in model.potentials if p in rest):
        arrays = [array_of(v).size for v in ancestors([potential]) if is_array_leaf(v)]
        sizes[potential.name] = max([sizes[potential.name], *arrays])
    large = {name: size for name, size in sizes.items() if size >= _LARGE_REMAINDER}
    if large:
        warnings.warn(
            f"{large} (name: number of entries) is not subsampled but evaluated in full at every draw, which will "
            "dominate the cost. What splits into rows is subsampled unless observed= leaves it out.",
            UserWarning,
            stacklevel=2,
        )


def shared_inputs(graphs: Sequence[Variable]) -> list[SharedVariable]:
    """Return the shared arrays that `graphs` read, in a fixed order."""
    return [v for v in dict.fromkeys(ancestors(graphs)) if isinstance(v, SharedVariable) and is_array_leaf(v)]
