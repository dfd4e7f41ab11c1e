"""Check by numbers that the compiled row-wise likelihood is the model's own."""

import logging
from collections.abc import Callable, Mapping

import numpy as np
from pymc.model import Model
from pytensor.graph.basic import Constant
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from pymc_austerity.compile.graph_compiler import compile_log_density, interpret_log_density
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood.axis import NotRowWiseError
from pymc_austerity.likelihood.density import Density
from pymc_austerity.likelihood.layout import flatten
from pymc_austerity.likelihood.model_data import ModelData
from pymc_austerity.likelihood.model_graph import array_of, is_array_leaf, sum_within_rows
from pymc_austerity.likelihood.precision import in_double
from pymc_austerity.likelihood.prior_laws import prior_draw
from pymc_austerity.likelihood.row_terms import RowTerms
from pymc_austerity.rows import CHUNK, number_in_table

_log = logging.getLogger("pymc_austerity")

#: A full evaluation may hold this many bytes; larger data are checked against blocks of themselves.
_FULL_CHECK_BYTES = 2**29
#: From this many rows on a full evaluation takes long enough for a user to wonder.
_LARGE = 500_000
#: Up to so many rows NumPy evaluates them sooner than they are compiled.
_FEW = 200_000
#: Spread of the random point, in the unconstrained space, and the fallbacks where the density is not finite there.
_SPREADS = (0.3, 0.03, 0.0)
_RELATIVE_ERROR = 1e-6
#: Rounding, where numbers of 1e12 cancel: so many times what two ways to evaluate one graph differ by, and no more than
#: this.
_ROUNDING, _MOST_ROUNDING = 30, 0.01
#: Rows that a batch of the check has at most.
_LARGEST_BATCH = 97


def check_rows(model: Model, data: ModelData, density: Density) -> None:
    """Compare batches with repeated, shuffled rows to the log-probability that PyMC computes for all rows.

    Costs one full evaluation of the likelihood.  Where that would hold more than 512 MiB, batches are compared with
    blocks of consecutive rows instead.  Raises NotRowWiseError where a row's log-likelihood depends on its batch,
    UnsupportedModelError where it is not finite.
    """
    rows, likelihood = data.rows, data.likelihood
    rng = np.random.default_rng(20140621)
    # Sizes that differ from each other and from the number of rows, where there is more than one row.
    sizes = {97, 31, 7, len(rows) - 1, (len(rows) + 1) // 2}
    usable = sorted((s for s in sizes if 0 < s < len(rows) and s <= _LARGEST_BATCH), reverse=True) or [len(rows)]
    batches = [rng.integers(0, len(rows), size) for size in usable]
    width = sum(a.size // len(a) for a in rows.arrays)
    n_table = rows.n_table
    full = 8 * width * n_table <= _FULL_CHECK_BYTES
    if n_table >= _LARGE:
        what = "one full evaluation of the likelihood" if full else "blocks of rows"
        _log.info(f"Checking that the likelihood splits into {n_table:,} rows ({what}) ...")
    row_values = _full_rows(model, data.terms) if full else None

    def of_table(values: np.ndarray) -> np.ndarray:
        return values if rows.first is None or rows.counts is None else values[rows.first] * rows.counts

    for spread in _SPREADS:
        at = _random_point(model, data.point, spread, rng)
        theta, others = (flatten(at, blocks) for blocks in (likelihood.blocks, likelihood.other_blocks))

        def evaluate(numbers: np.ndarray, theta: np.ndarray = theta, others: np.ndarray = others) -> np.ndarray:
            return uninterrupted(density.both_sides, theta, theta, others, *data.fixed, *rows.take(numbers).arrays)[0]

        if row_values is not None:
            everything = of_table(row_values(at))
            expected = [everything[b] for b in batches]
        else:
            expected = [np.array([evaluate(_block(r, len(rows)))[r % CHUNK] for r in b]) for b in batches]
            everything = np.concatenate(expected)
        found = [evaluate(numbers) for numbers in batches]
        # Far out, a density may underflow to 0 in one of two graphs that are written differently.
        if all(np.isfinite(rows_of).all() for rows_of in (everything, *found)):
            break
    else:
        data.require_finite_rows(thorough=True)
    if not np.isfinite(everything).all():
        row = int(np.flatnonzero(~np.isfinite(everything))[0])
        raise NotRowWiseError(
            f"The log-likelihood of {[t.name for t in data.terms.all]} at row {number_in_table(rows, row)} is "
            f"{everything[row]} among all {n_table} rows at the starting point, and finite in a batch: it depends on "
            "the other rows. Compute what depends on all rows outside the model and pass it as data."
        )
    for numbers, in_batch, values in zip(batches, found, expected, strict=True):
        wrong = ~np.isclose(in_batch, values, rtol=_RELATIVE_ERROR, atol=_RELATIVE_ERROR * np.abs(values).max())
        if wrong.any() and row_values is not None:
            rounding = np.abs(of_table(_full_rows(model, data.terms, otherwise=True)(at)) - everything).max()
            wrong &= ~(np.abs(in_batch - values) <= min(_ROUNDING * rounding, _MOST_ROUNDING))
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            names = [t.name for t in data.terms.all]
            raise NotRowWiseError(
                f"The log-likelihood of {names} at row {number_in_table(rows, numbers[i])} is {in_batch[i]:.9g} in a "
                f"batch of {len(numbers)} rows but {values[i]:.9g} among all {n_table}: it depends on the other rows "
                "or on their number, so a sum over a batch would not estimate the sum over all rows. Compute what "
                "depends on all rows outside the model and pass it as data."
            )


def _full_rows(
    model: Model, terms: RowTerms, *, otherwise: bool = False
) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
    """Return what evaluates all rows of a model, by NumPy or compiled: whichever is sooner, `otherwise` the other."""
    graphs = iter(terms.log_densities(model))
    by_term = [[sum_within_rows(next(graphs), t.axis) for t in own.terms] for own in terms.sets]
    totals = [sum(vectors[1:], start=vectors[0]) for vectors in by_term]
    # Data as inputs: compiled in as constants they would be copied, cast and written to PyTensor's cache.
    fewest = min(s.n_rows for s in terms.sets)
    constants = [v for v in ancestors(totals) if isinstance(v, Constant) and is_array_leaf(v) and v.data.size >= fewest]
    inputs = [c.type() for c in constants]
    totals = in_double(graph_replace(totals, dict(zip(constants, inputs, strict=True)), strict=False))
    if (sum(s.n_rows for s in terms.sets) <= _FEW) != otherwise:
        function = interpret_log_density([*model.value_vars, *inputs], totals)
    else:
        # Not by the C code of PyTensor 2, which here loses a whole number that is added to a matrix product.
        function = compile_log_density([*model.value_vars, *inputs], totals, mode="NUMBA")
    data = [array_of(c) for c in constants]
    return lambda at: np.concatenate(uninterrupted(function, *[at[v.name] for v in model.value_vars], *data))


def _random_point(
    model: Model, point: Mapping[str, np.ndarray], spread: float, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Move real variables by noise, and draw whole numbers from their prior, which alone knows their support."""
    whole = [name for name, value in point.items() if np.asarray(value).dtype.kind != "f"] if spread else []
    moved = {name: np.asarray(value) for name, value in point.items()} | prior_draw(model, whole, rng)
    for name in (name for name in point if name not in whole):
        moved[name] = np.asarray(moved[name] + spread * rng.standard_normal(moved[name].shape), moved[name].dtype)
    return moved


def _block(row: int, n_rows: int) -> np.ndarray:
    start = row - row % CHUNK
    return np.arange(start, min(start + CHUNK, n_rows))
