"""The rows of a model and the draws of a run, brought together: log-likelihoods of chosen rows at draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
from pymc.model import Model
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace

from pymc_austerity.blocks import Blocks, BlockTable, GrownTable, table_read_anew
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.diagnostics import SamplingResult
from pymc_austerity.diagnostics.drawn_states import drawn_points
from pymc_austerity.diagnostics.results import group
from pymc_austerity.diagnostics.same_data import DATA_DIGEST, check_draws_of, check_step_of, is_elsewhere, recorded
from pymc_austerity.groups import ModelWithGroups, as_rows_read
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import (
    Coordinates,
    ModelData,
    RowLikelihood,
    flatten,
    numba_options,
    read_model,
    row_predictor,
)
from pymc_austerity.progress import setup_progress
from pymc_austerity.rows import Rows, Table
from pymc_austerity.steps import RowStep
from pymc_austerity.steps.pooled import open_table
from pymc_austerity.user_input import shown

_one_at_a_time = Lock()
#: Name of the axis of the rows, whose coordinate is their numbers.
ROW = "row"
#: The model as a step reads it, None where its rows were merged; its table of ``data=``; the digest of these rows.
RowsOfStep = tuple[ModelData | None, BlockTable | None, int]


@dataclass(eq=False)
class CompiledRows:
    """A number for each row as a function of other arrays, compiled where it is first asked for, in any process."""

    inputs: Sequence[Variable]
    graph: Variable
    _function: Any = field(default=None, init=False, repr=False)

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        """Return the numbers."""
        with _one_at_a_time:
            if self._function is None:
                self._function = _released(compile_part(self.inputs, [self.graph], **numba_options(None)))
        return uninterrupted(self._function, arrays)

    def __reduce__(self) -> Any:
        return CompiledRows, (self.inputs, self.graph)


def _released(of_model: Any) -> Any:
    """Return compiled code that lets other threads run."""

    @njit(nogil=True)
    def of_types(arrays):  # type: ignore[no-untyped-def]
        return np.ascontiguousarray(of_model(*arrays)[0])

    return of_types


class RowValues:
    """The log-likelihood of rows as a function of ψ, the free variables one behind the other, unconstrained.

    `predictor` is the linear predictor η through which alone the rows read ψ, and `given_predictor` the log-likelihood
    as a function of η; both are None where there is no such η.
    """

    def __init__(self, likelihood: RowLikelihood, fixed: tuple[np.ndarray, ...]):
        self.likelihood, self.fixed = likelihood, fixed
        data = [*likelihood.fixed, *likelihood.batches]
        rows, psi = likelihood.of_psi(likelihood.row_log_likelihood)
        self._rows = CompiledRows([psi, *data], rows)
        self.predictor: CompiledRows | None = None
        self.given_predictor: CompiledRows | None = None
        if (eta := row_predictor(rows, psi, likelihood.batches)) is not None:
            value = eta.type("eta")
            (given,) = graph_replace([rows], {eta: value}, strict=False)
            self.predictor, self.given_predictor = CompiledRows([psi, *data], eta), CompiledRows([value, *data], given)

    def __call__(self, psi: np.ndarray, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return ℓ_i(ψ) for the rows in `arrays`."""
        return self._rows(psi, *self.fixed, *arrays)


@dataclass(frozen=True, eq=False)
class RowsOfRun:
    """Rows, in memory or in blocks, and draws of what they read."""

    values: RowValues
    table: Table
    #: The draws of all variables, unconstrained, shape (S, P); effects of groups as the rows read them.
    psi: np.ndarray
    n_chains: int
    #: The variables whose log-likelihood the rows are.
    names: tuple[str, ...]
    coordinates: Coordinates

    def with_draws(self, idata: SamplingResult, model: Model) -> RowsOfRun:
        """Return the same rows with the draws of another run."""
        psi = _flat_draws(idata, model, self.values.likelihood, self.coordinates)
        return replace(self, psi=psi, n_chains=group(idata, "posterior").sizes["chain"])

    def at_numbers(self, numbers: np.ndarray, progressbar: bool, what: str) -> np.ndarray:
        """Return the log-likelihood of the rows with these numbers at all draws, shape (S, n)."""
        at, n = partial(self.values, arrays=self.rows(numbers).arrays), len(numbers)
        return self.over_draws(at, n, progressbar, what, f"{n:,} rows")

    def rows(self, numbers: np.ndarray) -> Rows:
        """Return the rows with these numbers, in that order."""
        order = np.argsort(numbers, kind="stable")  # in which a table returns its rows
        return self.table.samples([numbers[order]])[0].take(np.argsort(order))

    def columns(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Return the rows of a table with these numbers, by the names of the model's containers."""
        assert isinstance(self.table, BlockTable)
        containers = self.table.passes.reader.containers
        return dict(zip((c.name for c in containers), self.rows(numbers).arrays, strict=True))

    def over_draws(
        self, values_at: Callable[[np.ndarray], np.ndarray], n: int, progressbar: bool, name: str, what: str
    ) -> np.ndarray:
        """Return `n` numbers at all draws, shape (S, n)."""
        found = np.empty((len(self.psi), n))
        with setup_progress(progressbar) as progress:
            task = progress.add_task(name, total=len(found), what=f"{what} at {len(found):,} draws")
            for s, psi in enumerate(self.psi):
                found[s] = values_at(psi)
                progress.advance(task)
        return found


def read_rows_of_run(
    idata: SamplingResult,
    model: Model,
    data: Blocks | None,
    observed: str | Sequence[str] | None,
    progressbar: bool,
    with_groups: ModelWithGroups | None = None,
    known: RowsOfStep | None = None,
) -> RowsOfRun:
    """Read the model, its rows, and all draws of a run; refuse draws of another model or of other data.

    `with_groups` is the model where it has been read already, and `known` what the step of the run has read.
    """
    of_step, read, digest = (None, None, None) if known is None else known
    require_rows(idata, read or data)
    if with_groups is not None:
        own = with_groups.data
    elif of_step is not None:
        own = of_step
    else:
        own = read_model(model, model.value_vars, observed, None, several=data is None, number_rows=True)
        # All entries of a variable may change by themselves.
        in_effects = as_rows_read(model, own, observed) if data is None else None
        own = own if in_effects is None else in_effects[1]
    table: Table = read or (own.rows if data is None else open_table(data, model, own, progressbar))
    if isinstance(table, BlockTable):
        if table.passes.seen is None:
            table.samples([np.arange(1)])  # reads all rows once, so that they can be told from others
        check_draws_of(model, idata, digest or table.digest)
    else:
        check_draws_of(model, idata)
    psi = _flat_draws(idata, model, own.likelihood, own.coordinates)
    names = tuple(str(term.name) for term in own.terms.all)
    values = RowValues(own.likelihood, own.fixed)
    return RowsOfRun(values, table, psi, group(idata, "posterior").sizes["chain"], names, own.coordinates)


def rows_of_step(step: Any, model: Model, data: Blocks | None, observed: str | Sequence[str] | None) -> RowsOfStep:
    """Return what a step knows; refuse one of another model, or of other data, and arguments that say it again."""
    if not isinstance(step, RowStep):
        raise TypeError(f"loo: step={shown(step)} must be a step of pymc_austerity that accepts or rejects by rows.")
    if data is not None:
        raise ValueError("loo: step= and data= both say where the rows are. Leave data= out.")
    check_step_of(step, model)
    step.follow_data()
    known = step.known_data
    names = None if observed is None else {observed} if isinstance(observed, str) else set(observed)
    if known is not None and names is not None and names != {term.name for term in known.terms.all}:
        raise ValueError(
            f"loo: observed={shown(observed)}, and step= reads the rows of {[term.name for term in known.terms.all]}. "
            "Leave one of the two out."
        )
    own = None if known is None or known.likelihood.counts is not None else known
    table = step.table
    if isinstance(table, GrownTable):  # of which it does not know all rows by their numbers
        if table.passes.files.added() is not None:
            raise ValueError(
                "loo: files were added since step= read them. Call its read_added_files, and sample again."
            )
        table = table_read_anew(table)
    return own, table, step.model_key.data


def require_rows(idata: SamplingResult, elsewhere: Blocks | Table | None) -> None:
    """Refuse a run without draws, and to take the rows of the model for those of a run with ``data=``."""
    if not group(idata, "posterior").sizes:
        raise ValueError("idata: it has no posterior group, so there are no draws. Pass what pm.sample returned.")
    if elsewhere is None and is_elsewhere(recorded(idata, DATA_DIGEST)):
        raise ValueError(
            "idata: these draws were made with data=, on rows that the model does not hold; those in it are an "
            "example. Pass the same pma.Blocks(...) as data=."
        )


def _flat_draws(idata: SamplingResult, model: Model, likelihood: RowLikelihood, coordinates: Coordinates) -> np.ndarray:
    """Return all draws of a run as ψ, shape (S, P)."""
    points, _, _ = drawn_points(idata, model, np.iinfo(np.int64).max)
    others = likelihood.other_blocks
    psi = np.array([np.append(coordinates.theta(point), flatten(point, others)) for point in points])
    wrong = [b.name for b in likelihood.psi_blocks if not np.isfinite(psi[:, b.start : b.stop]).all()]
    if wrong:
        raise ValueError(
            f"idata: draws of {wrong} are not finite in the unconstrained space: they lie at an end of the support, or "
            "outside. Pass draws of the posterior."
        )
    return psi
