"""A PyMC model as a step reads it: the split log density, the data, and the initial point as flat vectors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from pymc.model import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable

from pymc_austerity.likelihood import finite_rows
from pymc_austerity.likelihood.axis import NotRowWiseError
from pymc_austerity.likelihood.derived_model import numbered_model, with_rows_taken
from pymc_austerity.likelihood.finite_rows import RowValues, with_infinite_data
from pymc_austerity.likelihood.index_range import compile_index_check, compile_index_check_of_batches
from pymc_austerity.likelihood.joined_model import joined_model
from pymc_austerity.likelihood.layout import Coordinates, flatten
from pymc_austerity.likelihood.long_tables import with_long_tables
from pymc_austerity.likelihood.model_arrays import ModelArrays, ModelKey, arrays_of_model
from pymc_austerity.likelihood.model_graph import array_of, leaf_identity
from pymc_austerity.likelihood.repeats import with_entries_taken, with_numbers_for_repeats
from pymc_austerity.likelihood.row_data import DataSource
from pymc_austerity.likelihood.row_likelihood import RowLikelihood, row_likelihood
from pymc_austerity.likelihood.row_terms import RowTerms
from pymc_austerity.likelihood.term_refusals import warn_of_wrapped
from pymc_austerity.rows import Rows
from pymc_austerity.rows.merged import merge_rows, with_counts
from pymc_austerity.tried_setup import once
from pymc_austerity.unsupported_model import UnsupportedModelError
from pymc_austerity.user_input import finite_values

_log = logging.getLogger("pymc_austerity")


@dataclass(frozen=True, eq=False)
class ModelData:
    """What a step knows of its model."""

    #: That of `joined_model`, `with_rows_taken` or `numbered_model`, where it is read in place of the user's, which is
    #: held by nothing here; and why the last is, for a model that is sampled by groups or not at all.
    derived: Model | None
    one_entry_a_row: NotRowWiseError | None
    likelihood: RowLikelihood
    terms: RowTerms  # the variables of the model that are row-wise
    point: Mapping[str, np.ndarray]  # the initial point
    rows: Rows  # the table, or its distinct rows with their counts where `likelihood` takes these
    fixed: tuple[np.ndarray, ...]  # values of the shared variables that are not indexed by row
    theta0: np.ndarray  # the initial point of the variables of the step
    others0: np.ndarray  # that of all others
    coordinates: Coordinates  # how a point of the user's model lies in θ
    _source: DataSource
    _arrays: ModelArrays
    _check_indices: Callable[[], None]
    _written: frozenset[Variable] = frozenset()  # data containers whose values are written into a derived model

    def containers(self) -> list[tuple[str, np.dtype, tuple[int, ...]]]:
        """Return name, type and shape of a row of each data container that the rows are in.

        Data that are written into the model itself, in which no other rows can take their place, are refused.
        """
        found = []
        for leaf, array in zip(self._source.leaves, self.rows.arrays, strict=True):
            if not isinstance(leaf.source, SharedVariable) or not leaf.source.name:
                raise UnsupportedModelError(
                    f"Data array {leaf.label} is written into the model, and data= puts other rows in its place. Hold "
                    "it in a container: pm.Data(name, array)."
                )
            if leaf.axis or leaf.unfolded:
                raise ValueError(
                    f"Data container {leaf.source.name!r} of shape {leaf.source.get_value(borrow=True).shape} does not "
                    "have one row of the data for each entry of its first axis, and data= brings rows so. Give it "
                    "rows first, and transpose or reshape it in the model."
                )
            found.append((leaf.source.name, array.dtype, array.shape[1:]))
        return found

    def row_check(self, model: Model) -> Callable[[tuple[np.ndarray, ...]], tuple[int, str] | None]:
        """Return what finds the first of other rows that the model cannot take: its number, and what is wrong with it.

        That is an index out of range, or data at infinity that leave it no log-likelihood.
        """
        batches = {leaf.source: leaf.batch for leaf in self._source.leaves}
        wrong_index = compile_index_check_of_batches(model, self.terms, self.point, batches)
        values = self._row_values()

        def wrong_row(arrays: tuple[np.ndarray, ...]) -> tuple[int, str] | None:
            return wrong_index(arrays) or values.first_not_finite(Rows(arrays), False)

        return wrong_row

    def _row_values(self) -> RowValues:
        point = self.theta0, self.others0, self.fixed
        return RowValues(self.likelihood, point, [leaf.label for leaf in self._source.leaves])

    def require_finite_pieces(self, pieces: Iterable[Rows], place: Callable[[int], str]) -> None:
        """Refuse other rows without a finite log-likelihood at the initial point; `place` says where a row is."""
        start, values = 0, self._row_values()
        for rows in pieces:
            if (found := values.first_not_finite(rows, True)) is not None:
                row = start + found[0]
                raise UnsupportedModelError(f"Row {row} of the blocks ({place(row)}): {found[1]}")
            start += len(rows)

    def merged(self) -> ModelData:
        """Return the data with a count for rows that repeat each other, where that leaves fewer than half of them."""
        merged = merge_rows(self.rows)
        if merged is None:
            return self
        _log.info(
            f"{len(self.rows):,} rows are merged to {len(merged):,} distinct ones with their counts; rows that are "
            "read are counted in these. merge_rows=False leaves them as they are."
        )
        return replace(self, likelihood=self.likelihood.counted(), rows=merged)

    def stand_ins(self) -> dict[Variable, Variable]:
        """Return what takes the place of the shared variables that are not indexed by row, in graphs of θ."""
        return dict(zip(self._source.fixed, self.likelihood.fixed, strict=True))

    def number_of_leaf(self, leaf: Variable) -> int:
        """Return the number of the data array that a constant or a shared variable of the model has become."""
        identities = [leaf_identity(known.source) for known in self._source.leaves]
        return identities.index(leaf_identity(leaf))

    def require_files(self) -> None:
        """Refuse data whose mapped files became shorter; see `require_whole`."""
        for leaf in self._source.leaves:
            array_of(leaf.source)

    @property
    def key(self) -> ModelKey:
        """The model and the data that draws belong to."""
        return self._arrays.key

    def as_data_of(self, model: Model, coordinates: Coordinates, numbers: Collection[Variable]) -> ModelData:
        """Return the data with the key of the model that the user wrote, of which this one was derived.

        `numbers` are those of groups: what is not among the data here was written into the derived model.
        """
        arrays = arrays_of_model(model, [self.likelihood.log_prior, self.likelihood.row_log_likelihood])
        read = {*self._source.fixed, *(leaf.source for leaf in self._source.leaves)}
        written = self._written | (frozenset(numbers) - read)
        return replace(self, coordinates=coordinates, _arrays=arrays, _written=written)

    def was_replaced(self) -> bool:
        """Return whether ``pm.set_data`` put other arrays into the model, without looking into them."""
        return self._arrays.was_replaced()

    def changed(self) -> ModelData | None:
        """Return the data as ``pm.set_data`` left them, or None where they are what they were.

        Data that do not go with the model, and an array that was changed in place, are refused.
        """
        if (arrays := self._arrays.changed()) is None:
            return None
        self._require_as_written(arrays.differing(self._arrays))
        self._check_indices()
        table = Rows(self._source.row_arrays())
        rows = table if self.likelihood.counts is None else with_counts(table)
        new = replace(self, rows=rows, fixed=self._source.fixed_arrays(), _arrays=arrays)
        new.require_finite_rows()
        return new

    def _require_as_written(self, changed: Mapping[str, Variable]) -> None:
        """Refuse other values of data that are written into the model that is read in place of the user's."""
        for name, leaf in changed.items():
            if leaf in self._written:
                raise ValueError(
                    f"{name} was replaced by pm.set_data. The step was built for the numbers as they were, to find the "
                    "groups of the model, and would sample another model. Build the step again."
                )

    def require_finite_rows(self, *, thorough: bool = False) -> None:
        """Refuse rows without a finite log-likelihood at the initial point, and show their data.

        Of very many rows those whose data are finite are evaluated only if `thorough`.
        """
        odd = sorted(name for name, value in self.point.items() if not np.isfinite(value).all())
        if odd:
            raise UnsupportedModelError(
                f"The initial point of {odd} is not finite (unconstrained), so no row has a log-likelihood there. "
                "Look at the parameters of their priors, or give initval= or initial_point=."
            )
        thorough = thorough or len(self.rows) <= finite_rows.MOST_EVALUATED
        if thorough or len(with_infinite_data(self.rows)):
            self._row_values().require_finite(self.rows, [term.name for term in self.terms.all], thorough)


def read_model(
    model: Model,
    variables: Sequence[Variable],
    observed: str | Sequence[str] | None,
    initial_point: Mapping[str, np.ndarray] | None,
    *,
    several: bool = True,
    number_rows: bool = False,
    join: bool = False,
) -> ModelData:
    """Split the log density of a model, and take up its data; the arguments are those of `row_likelihood`.

    Of a model with an entry of a variable for each row that of `numbered_model` is read instead, if `number_rows`; of
    one with many outcomes that are alike that of `joined_model`, if `join`.
    """
    given = (observed, initial_point, several, number_rows, join)
    return once("model", (model, *variables, *given), lambda: _read(model, variables, *given))


def _read(
    model: Model,
    variables: Sequence[Variable],
    observed: str | Sequence[str] | None,
    initial_point: Mapping[str, np.ndarray] | None,
    several: bool,
    number_rows: bool,
    join: bool,
) -> ModelData:
    point = model.initial_point()
    if initial_point is not None:
        shapes = {name: np.shape(value) for name, value in point.items()}
        for name, value in finite_values("initial_point=", initial_point, shapes).items():
            point[name] = value.astype(np.asarray(point[name]).dtype)
    by_itself: NotRowWiseError | None = None
    all_of_it = join and observed is None and len(variables) == len(model.value_vars)
    joined = once("joined", (model,), lambda: joined_model(model)) if all_of_it else None
    derived, written = model, frozenset[Variable]()
    if joined is not None:
        point, variables, derived = joined.point(point), joined.model.value_vars, joined.model
    if number_rows:
        derived, written = with_long_tables(derived)
        derived = with_entries_taken(derived)
    derived = with_rows_taken(derived, observed, point)
    read = partial(row_likelihood, variables=variables, observed=observed, initial_point=point, several=several)
    numbered = partial(numbered_model, observed=observed)
    refused: NotRowWiseError | None = None
    otherwise: list[Callable[[Model], Model]]
    try:
        found = read(derived)
        # The columns of a table of units and times with effects of units are rows, too, but each reads all effects.
        otherwise = [numbered] if number_rows and found[2].along_another_axis else []
    except NotRowWiseError as error:
        refused = error
        otherwise = [with_numbers_for_repeats, numbered] if number_rows else [with_numbers_for_repeats]
    for write in otherwise:
        with suppress(UnsupportedModelError):  # outcomes of several lengths have no model with numbers of rows
            if (other := write(derived)) is not derived:
                found, derived = read(other), other
                by_itself = refused if write is numbered else None
                break
    else:
        if refused is not None:
            raise refused
    likelihood, source, terms = found
    if joined is not None:
        likelihood = replace(likelihood, blocks=joined.with_parts(likelihood.blocks))
    check_indices = compile_index_check(derived, terms, point)
    check_indices()
    arrays = arrays_of_model(model, [likelihood.log_prior, likelihood.row_log_likelihood])
    rows = Rows(source.row_arrays())
    data = ModelData(
        None if derived is model else derived,
        by_itself,
        likelihood,
        terms,
        point,
        rows,
        source.fixed_arrays(),
        flatten(point, likelihood.blocks),
        flatten(point, likelihood.other_blocks),
        Coordinates(likelihood.blocks),
        source,
        arrays,
        check_indices,
        written,
    )
    warn_of_wrapped(source.leaves)
    data.require_finite_rows()
    return data
