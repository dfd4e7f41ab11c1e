"""From the parts of a step to its `Decider`, and again for other data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from pymc_austerity.blocks import BlockTable, grown_table, table_read_anew
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel.decider import WARM_UP_ROWS, Decider, complete, quiet_compilation
from pymc_austerity.kernel.parts import Compiled, Parts
from pymc_austerity.likelihood import Density, ModelData
from pymc_austerity.likelihood.density import interpret_rows
from pymc_austerity.progress import Phases
from pymc_austerity.proxy.centre import Kept, ToLearn
from pymc_austerity.proxy.log_posterior import NoProxyError
from pymc_austerity.rows import BoundTable, Table
from pymc_austerity.rows.grown import GrownRows, Known, NotKnownError
from pymc_austerity.rows.weighted import AliasTable

_log = logging.getLogger("pymc_austerity")

#: By how much compiled sums may differ from those of NumPy.
_RELATIVE_ERROR = 1e-6
#: Up to so many rows they are checked before they are compiled.
_FEW_ROWS = 200_000
#: Frames from the warning that there is no proxy to the constructor that the user calls.
_STACKLEVEL = 8


def assemble(parts: Parts, check: Callable[[Density], None], phases: Phases) -> Decider:
    """Compile the model, learn from all rows what the proxy needs, and put the parts together.

    `check` is called with the density before anything is learnt from it, and raises where the rows are not independent.
    Raises ValueError for parts that do not go together, or a proxy that was asked for and cannot be built.
    """
    compiled, plan = Compiled(parts), parts.plan.with_bound(parts.bound)
    # Where a proxy decides, rows themselves are evaluated now and perhaps once more.
    by_proxy = (
        plan.proxy is not None and not plan.by_statistics and parts.test.reads.a_part and len(parts.rows) <= _FEW_ROWS
    )
    with phases("Compiling the likelihood"):
        density = compiled.interpreted if by_proxy else compiled.density
        check(density)
    if compiled.selected is not None:
        at = density, parts.rows, parts.fixed, parts.theta0, parts.others0
        plan = plan.for_selected(compiled.selected, parts.bound, *at)
        bound = parts.bound.of_selected(compiled.selected.likelihood)
        parts = parts if bound is None else replace(parts, bound=bound)
    if plan is not parts.plan:
        parts = replace(parts, plan=plan)
        compiled = compiled.with_parts(parts)
    with phases("Learning from all rows", has_bars=True):
        if plan.proxy is not None:
            compiled.round_kinks(parts.rows, parts.fixed, _start(parts, compiled))
        table, parts = parts.rows, _learn(parts, compiled)
    if by_proxy and parts.prepared is not None:
        _check_sums(compiled, table, parts.fixed, parts.prepared.expansion.centre)
    elif by_proxy:
        check(compiled.density)
    with phases("Finding bounds") if parts.bound.is_asked_for else nullcontext():
        found = _find_bounds(parts)
    with phases("Compiling the transition"):
        return complete(*found, compiled)


def with_data(decider: Decider, data: ModelData) -> Decider:
    """Return a decider for other data of the same types; with a proxy that is learnt from them anew.

    Where rows were added to those that the decider has, only these are looked at, while the posterior stays near.
    Raises ValueError where the rows are those of a pool, for which the data of the model are an example.
    """
    if not decider.row_source.complete:
        raise ValueError(
            "pm.set_data changed the model after a step was built with data=. Its pool was drawn for the data as "
            "they were. Build the step again."
        )
    parts = replace(decider.parts, rows=data.rows, fixed=tuple(data.fixed))
    if parts.plan.proxy is not None:
        return _with_rows_added(decider, parts) or _learnt(parts, decider.compiled)
    return replace(decider, parts=parts, bound_constants=decider.bound.constants(data.rows, parts.fixed))


def _with_rows_added(decider: Decider, parts: Parts) -> Decider | None:
    """Return a decider that keeps what is known of its rows; None where others are not just added, or change much."""
    rows, before, prepared = parts.stored, decider.parts.stored.arrays, decider.parts.prepared
    n, n_all = len(decider.parts.stored), len(rows)
    if prepared is None or decider.compiled.selected is not None or n_all <= n:
        return None
    same = all(map(np.array_equal, parts.fixed, decider.parts.fixed))
    known = prepared.sums_known(decider.parts.fixed)
    if known is None or not (same and all(np.array_equal(a[:n], b) for a, b in zip(rows.arrays, before, strict=True))):
        return None
    weights = prepared.table if isinstance(prepared.table, AliasTable) else None
    bounds = [c for c in decider.bound_constants if isinstance(c, BoundTable)]
    first_bounds = bounds[0] if bounds else None
    grown = GrownRows(rows.arrays, rows.first, known=Known(n, *known), weights=weights, bounds=first_bounds)
    found = _learnt_further(decider, parts, grown)
    return None if found is None else replace(found, parts=replace(found.parts, rows=rows))


def _learnt_further(decider: Decider, parts: Parts, rows: Table) -> Decider | None:
    """Return a decider that has learnt from the rows behind those that are known; None where it has to begin anew."""
    added = f"{len(rows) - rows.n_known:,} rows were added to {rows.n_known:,}"
    assert decider.parts.prepared is not None
    try:
        found = _learnt(replace(parts, rows=rows), decider.compiled, decider.parts.prepared.kept)
    except (NoProxyError, NotKnownError) as error:
        _log.info(f"{added}: {error}, so all are learnt from anew.")
        return None
    _log.info(f"{added}, of which everything is kept; only the new ones are learnt from.")
    return found


def with_added_files(decider: Decider, table: BlockTable) -> tuple[Decider, BlockTable] | None:
    """Return a decider and its table with the files that were added to a folder; None where there are none.

    Only these are looked at, while the posterior stays near; otherwise all are learnt from anew.
    """
    parts, compiled = decider.parts, decider.compiled
    assert parts.prepared is not None
    known = parts.prepared.sums_known(parts.fixed)
    grown = grown_table(table, *(known or ((), None)))
    if grown is None:
        return None
    if known is not None and (found := _learnt_further(decider, parts, grown)) is not None:
        return found, grown
    anew = table_read_anew(table)
    return _learnt(replace(parts, rows=anew), compiled), anew


def _learnt(parts: Parts, compiled: Compiled, kept: Kept | None = None) -> Decider:
    """Learn from all rows, or from those behind the ones of which something is `kept`, and compile the decider."""
    return complete(*_find_bounds(_learn(parts, compiled, kept)), compiled)


def _learn(parts: Parts, compiled: Compiled, kept: Kept | None = None) -> Parts:
    """Return the parts with what was learnt from all rows."""
    plan = parts.plan
    if plan.proxy is None:
        return parts
    with quiet_compilation():
        given = ToLearn(
            compiled.read, lambda: compiled.derivatives, compiled.remainders, compiled.surrogate, parts.rows,
            parts.fixed, _start(parts, compiled), float(parts.temperature.final),
            parts.compile_kwargs, parts.progressbar, compiled.may_bend, compiled.resolved, kept,
        )  # fmt: skip
        prepared = plan.prepare(given, parts.made_by, parts.test.reads.a_part, _STACKLEVEL)
    if prepared is None:
        return replace(parts, prepared=None)
    rows = parts.rows if prepared.table is None else prepared.table.to_read(parts.rows)
    return replace(parts, plan=plan.of_order(prepared.order), prepared=prepared, rows=rows)


def _start(parts: Parts, compiled: Compiled) -> np.ndarray:
    """Return ψ = (θ, others) to start from."""
    theta0 = parts.theta0 if compiled.selected is None else compiled.selected.of(parts.theta0)
    return np.concatenate([theta0, parts.others0])


def _check_sums(compiled: Compiled, table: Table, fixed: Sequence[np.ndarray], psi: np.ndarray) -> None:
    """Compare the compiled sum over some rows with NumPy's."""
    psi = psi[: compiled.read.psi_blocks[-1].stop]  # without the powers of bent coordinates
    d, batch = compiled.read.theta_size, tuple(np.array(a, order="C") for a in table.some(WARM_UP_ROWS))
    rows = uninterrupted(interpret_rows(compiled.read.of_expanded()), psi[:d], psi[:d], psi[d:], *fixed, *batch)[0]
    found = compiled.derivatives[0](psi, (*fixed, *batch), np.zeros(0, np.int64))[0]
    if not np.isclose(found, rows.sum(), rtol=_RELATIVE_ERROR, atol=_RELATIVE_ERROR * np.abs(rows).sum()):
        raise RuntimeError(
            f"The log-likelihood of {len(rows)} rows is {found:.9g} as it was compiled and {rows.sum():.9g} as NumPy "
            "evaluates it: this PyTensor compiles the model wrongly. Try proxy=None, or another version, and report it."
        )


def _find_bounds(parts: Parts) -> tuple[Parts, tuple[Any, ...] | None]:
    """Return the parts with the rows that are drawn from, and the constants of the bound on what the proxy leaves."""
    if parts.prepared is None:
        return parts, None
    region = parts.prepared.region(parts.fixed, parts.rows)
    constants, rows = parts.prepared.bounds or parts.bound_of_seen.learn(region, parts.rows)
    return replace(parts, rows=rows, prepared=parts.prepared._replace(bounds=None)), constants
