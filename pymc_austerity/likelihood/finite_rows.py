"""Rows without a finite log-likelihood where sampling starts are found, and shown with their data.

Data may be infinite: a limit of ±inf marks a row that is observed, beside censored ones.
"""

from collections.abc import Sequence

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
#: How far beside the start rows are evaluated again, of unconstrained values: one that multiplies dates in nanoseconds
#: must not send a rate to infinity, and exp of the shift must differ from 1.
_BESIDE = 3e-16

_REMEDY = (
    "Look for values that are missing, or that the distribution of their variable cannot give, and impute or correct "
    "them. Where the data are right, their density may round to zero where sampling starts: start nearer to them "
    "(initval= of a variable, initial_point= of the step)."
)

#: What all rows read may have no value, whatever the data are.
_REMEDY_OF_ALL = (
    " No row has one, so look at what all of them read, too: where all entries of z start at one value, z / z.std() "
    "is 0 / 0. Give z other values to start from (initval=); for effects around zero with a scale that is estimated, "
    'write tau * pm.ZeroSumNormal("z", shape=n_groups).'
)
#: Rows that are looked at to say that none has a finite log-likelihood.
_LOOKED_AT = 50


class RowValues:
    """The log-likelihood of rows at one point, to find those where it is not finite.

    `point` holds θ, the variables of other steps and the values of `RowLikelihood.fixed`; `labels` name data arrays.
    """

    def __init__(
        self,
        likelihood: RowLikelihood,
        point: tuple[np.ndarray, np.ndarray, Sequence[np.ndarray]],
        labels: Sequence[str],
    ):
        inputs = [likelihood.theta, likelihood.others, *likelihood.fixed, *likelihood.batches]
        self._function = compile_log_density(inputs, likelihood.row_log_likelihood, mode=BY_NUMPY)
        self._point, self._labels = point, labels

    def __call__(self, arrays: Sequence[np.ndarray], beside: np.ndarray | float = 0.0) -> np.ndarray:
        """Return ℓ_i of the rows in some arrays, at the point or beside it."""
        theta, others, fixed = self._point
        with np.errstate(all="ignore"):
            return np.asarray(self._function(theta + beside, others, *fixed, *arrays))

    def first_not_finite(self, rows: Rows, thorough: bool) -> tuple[int, str] | None:
        """Return the number of the first row without a finite log-likelihood, and what is wrong with it.

        Unless the search is `thorough`, only rows whose data are not finite are evaluated.
        """
        for number, value in self._not_finite(rows, thorough)[:1]:
            data = self._data_of(rows, number)
            return number, f"its log-likelihood is {value} where sampling starts, with {data}. {_REMEDY}"
        return None

    def require_finite(self, rows: Rows, names: Sequence[str], thorough: bool) -> None:
        """Refuse rows of the variables `names` without a finite log-likelihood, with the data of the first."""
        if found := self._not_finite(rows, thorough):
            told = [f"row {number_in_table(rows, i)} ({v}) with {self._data_of(rows, i)}" for i, v in found[:_SHOWN]]
            told += ["and more rows"] * (len(found) > _SHOWN)
            some = np.linspace(0, len(rows) - 1, min(_LOOKED_AT, len(rows))).astype(np.int64)
            none = len(self._among(rows, some, len(some))) == len(some)
            raise UnsupportedModelError(
                f"Rows of {list(names)} have no finite log-likelihood where sampling starts: {'; '.join(told)}. Every "
                f"test would depend on whether such a row was drawn. {_REMEDY}{_REMEDY_OF_ALL if none else ''}"
            )

    def _not_finite(self, rows: Rows, thorough: bool) -> list[tuple[int, str]]:
        numbers = np.arange(len(rows)) if thorough else with_infinite_data(rows)
        found: list[tuple[int, str]] = []
        for start in range(0, len(numbers), _CHUNK):
            found += self._among(rows, numbers[start : start + _CHUNK], _SHOWN + 1 - len(found))
            if len(found) > _SHOWN:
                break
        return found

    def _among(self, rows: Rows, numbers: np.ndarray, most: int) -> list[tuple[int, str]]:
        arrays = rows.take(numbers).arrays
        values, when = self(arrays), ""
        if np.isfinite(values).all():  # as a gamma density at 0 is where its shape starts at 1, and nowhere else
            values, when = self._on_both_sides(arrays, values), " as soon as parameters move"
        bad = ~np.isfinite(values)
        if not bad.all() or len(numbers) == 1:
            return [(int(i), f"{v}{when}") for i, v in zip(numbers[bad][:most], values[bad])]
        # PyMC gives a whole batch no density where a parameter of one of its rows has no valid value.
        half = len(numbers) // 2
        found = self._among(rows, numbers[:half], most)
        return found if len(found) >= most else found + self._among(rows, numbers[half:], most - len(found))

    def _on_both_sides(self, arrays: Sequence[np.ndarray], values: np.ndarray) -> np.ndarray:
        """Return ℓ_i of the rows where it is not finite on either side of the point, and `values` of the others."""
        step = _BESIDE * np.maximum(1.0, np.abs(self._point[0]))
        on_one = self(arrays, step)
        if np.isfinite(on_one).all():
            return values
        return np.where(np.isfinite(on_one) | np.isfinite(self(arrays, -step)), values, on_one)

    def _data_of(self, rows: Rows, number: int) -> str:
        told = (f"{label} = {_told(np.ravel(array[number]))}" for label, array in zip(self._labels, rows.arrays))
        return ", ".join(told)


def with_infinite_data(rows: Rows) -> np.ndarray:
    """Return the numbers of the rows whose data are not finite."""
    floats = [a.reshape(len(a), -1) for a in rows.arrays if a.dtype.kind in "fc"]
    found = [np.empty(0, np.int64)]
    for start in range(0, len(rows), _CHUNK) if floats else ():
        odd = [~np.isfinite(a[start : start + _CHUNK]).all(axis=1) for a in floats]
        found.append(start + np.flatnonzero(np.logical_or.reduce(odd)))
    return np.concatenate(found)


def _told(entries: np.ndarray) -> str:
    numbers = [f"{x:.6g}" for x in entries[:_MOST_NUMBERS]] + ["..."] * (len(entries) > _MOST_NUMBERS)
    return numbers[0] if len(entries) == 1 else f"[{', '.join(numbers)}]"
