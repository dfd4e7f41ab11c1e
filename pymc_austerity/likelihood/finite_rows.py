"""Rows without a finite log-likelihood where sampling starts are found, and shown with their data.

Data may be infinite: a limit of ±inf marks a row that is observed, beside censored ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pymc_austerity.compile.graph_compiler import BY_NUMPY, compile_log_density
from pymc_austerity.likelihood.row_likelihood import RowLikelihood
from pymc_austerity.rows import Rows, number_in_table
from pymc_austerity.unsupported_model import UnsupportedModelError

#: Of more rows only those are evaluated whose data are not finite: NumPy takes a second for a million.
MOST_EVALUATED = 500_000
_CHUNK = 65_536
_SHOWN = 5
_MOST_NUMBERS = 8

_REMEDY = (
    "Look for values that are missing, or that the distribution of their variable cannot give, and impute or correct "
    "them. Where the data are right, start where the model can give them (initval= of a variable, initial_point= of "
    "the step)."
)

Evaluate = Callable[[Sequence[np.ndarray]], np.ndarray]
#: θ, the variables of other steps and the values of `RowLikelihood.fixed`.
Point = tuple[np.ndarray, np.ndarray, Sequence[np.ndarray]]
#: Takes rows and whether those whose data are finite are evaluated too.
FindRow = Callable[[Rows, bool], tuple[int, str] | None]


def compile_row_finder(likelihood: RowLikelihood, point: Point, labels: Sequence[str]) -> FindRow:
    """Return what finds the first of some rows without a finite log-likelihood, and what is wrong with it."""
    evaluate = compile_row_values(likelihood, point)

    def first_not_finite(rows: Rows, thorough: bool) -> tuple[int, str] | None:
        for number, value in rows_not_finite(evaluate, rows, thorough)[:1]:
            data = _data_of(rows, number, labels)
            return number, f"its log-likelihood is {value} where sampling starts, with {data}. {_REMEDY}"
        return None

    return first_not_finite


def compile_row_values(likelihood: RowLikelihood, point: Point) -> Evaluate:
    """Return a function of the arrays of some rows that returns their log-likelihood at one point."""
    theta, others, fixed = point
    inputs = [likelihood.theta, likelihood.others, *likelihood.fixed, *likelihood.batches]
    function = compile_log_density(inputs, likelihood.row_log_likelihood, mode=BY_NUMPY)

    def values(arrays: Sequence[np.ndarray]) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(function(theta, others, *fixed, *arrays))

    return values


def rows_not_finite(evaluate: Evaluate, rows: Rows, thorough: bool) -> list[tuple[int, float]]:
    """Return the numbers of the first rows without a finite log-likelihood, and what theirs is.

    Unless the search is `thorough`, only rows whose data are not finite are evaluated.
    """
    numbers = np.arange(len(rows)) if thorough else _with_infinite_data(rows)
    found: list[tuple[int, float]] = []
    for start in range(0, len(numbers), _CHUNK):
        found += _not_finite(evaluate, rows, numbers[start : start + _CHUNK], _SHOWN + 1 - len(found))
        if len(found) > _SHOWN:
            break
    return found


def _not_finite(evaluate: Evaluate, rows: Rows, numbers: np.ndarray, most: int) -> list[tuple[int, float]]:
    values = evaluate(rows.take(numbers).arrays)
    bad = ~np.isfinite(values)
    if not bad.all() or len(numbers) == 1:
        return [(int(i), float(v)) for i, v in zip(numbers[bad][:most], values[bad])]
    # PyMC gives a whole batch no density where a parameter of one of its rows has no valid value.
    half = len(numbers) // 2
    found = _not_finite(evaluate, rows, numbers[:half], most)
    return found if len(found) >= most else found + _not_finite(evaluate, rows, numbers[half:], most - len(found))


def _with_infinite_data(rows: Rows) -> np.ndarray:
    floats = [a.reshape(len(a), -1) for a in rows.arrays if a.dtype.kind in "fc"]
    found = [np.empty(0, np.int64)]
    for start in range(0, len(rows), _CHUNK) if floats else ():
        odd = [~np.isfinite(a[start : start + _CHUNK]).all(axis=1) for a in floats]
        found.append(start + np.flatnonzero(np.logical_or.reduce(odd)))
    return np.concatenate(found)


def require_finite_rows(
    likelihood: RowLikelihood,
    rows: Rows,
    point: Point,
    names: Sequence[str],
    labels: Sequence[str],
    *,
    thorough: bool = False,
) -> None:
    """Refuse rows of the variables `names` without a finite log-likelihood, with the data of the first.

    Unless the search is `thorough`, of very many rows only those whose data are not finite are evaluated.
    """
    thorough = thorough or len(rows) <= MOST_EVALUATED
    if not thorough and not len(_with_infinite_data(rows)):
        return
    found = rows_not_finite(compile_row_values(likelihood, point), rows, thorough)
    if found:
        told = [f"row {number_in_table(rows, i)} ({v}) with {_data_of(rows, i, labels)}" for i, v in found[:_SHOWN]]
        told += ["and more rows"] * (len(found) > _SHOWN)
        raise UnsupportedModelError(
            f"Rows of {list(names)} have no finite log-likelihood where sampling starts: {'; '.join(told)}. Every test "
            f"would depend on whether such a row was drawn. {_REMEDY}"
        )


def _data_of(rows: Rows, number: int, labels: Sequence[str]) -> str:
    return ", ".join(f"{label} = {_told(np.ravel(array[number]))}" for label, array in zip(labels, rows.arrays))


def _told(entries: np.ndarray) -> str:
    numbers = [f"{x:.6g}" for x in entries[:_MOST_NUMBERS]] + ["..."] * (len(entries) > _MOST_NUMBERS)
    return numbers[0] if len(entries) == 1 else f"[{', '.join(numbers)}]"
