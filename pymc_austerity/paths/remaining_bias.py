"""What remains between φ on n_max rows and φ on an endless stream (section 5.3 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from pymc_austerity.paths.replicates import Settings
from pymc_austerity.paths.truncation import FloatArray

#: A mean increment from fewer paths says nothing about what remains.
_MIN_PATHS = 10


class Increments:
    """Mean and standard error of φ_t − φ_{t−1} at each level, and the paths that reached it."""

    def __init__(self, levels: int):
        self.paths = np.zeros(levels, dtype=np.int64)
        self._sums: list[Any] = [0.0] * levels
        self._squares: list[Any] = [0.0] * levels

    def add(self, path: Sequence[NDArray[np.float64] | xr.DataArray]) -> None:
        """Take in φ along one path, from the first batch on."""
        before = np.zeros_like(np.asarray(path[0]))
        for level, value in enumerate(path):
            increment = np.asarray(value) - before
            self.paths[level] += 1
            self._sums[level] = self._sums[level] + increment
            self._squares[level] = self._squares[level] + increment**2
            before = np.asarray(value)

    def means(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean increments and their standard errors, each of shape (L, ...); NaN where there is none."""
        shape = np.shape(self._sums[0])
        counts = self.paths.reshape(-1, *[1] * len(shape)).astype(float)
        sums = np.stack([np.broadcast_to(s, shape) for s in self._sums])
        squares = np.stack([np.broadcast_to(s, shape) for s in self._squares])
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = sums / counts
            error = np.sqrt(np.maximum(squares / counts - mean**2, 0) / (counts - 1))
        return mean, error


def with_remaining_bias(result: xr.Dataset, increments: Increments, settings: Settings, rows_read: int) -> xr.Dataset:
    """Add the increments, and the bias that they let expect, to the result of a run."""
    mean, error = increments.means()
    inner = result.replicate.dims[1:]
    result["increment"] = (("batch", *inner), mean)
    result["increment_error"] = (("batch", *inner), error)
    result["paths"] = ("batch", increments.paths)
    seen = np.flatnonzero(increments.paths[1:] >= _MIN_PATHS) + 1
    if len(seen):
        last = int(seen[-1])
        n = np.asarray(settings.sizes, dtype=float)
        # A bias b/n steps by b/n_s − b/n_{s−1} and ends at b/n_max.
        scale = 1 / n[-1] / (1 / n[last] - 1 / n[last - 1])
        bias, bias_error = mean[last] * scale, error[last] * abs(scale)
        reason = (
            f"The estimate is unbiased for phi on n_max = {settings.n_rows} rows. Towards an endless stream a bias "
            f"remains, estimated from the mean increment between {settings.sizes[last - 1]} and {settings.sizes[last]} "
            f"rows ({increments.paths[last]} paths), if the bias falls like 1/n from there on."
        )
    else:
        bias, bias_error = np.full_like(mean[0], np.nan), np.full_like(mean[0], np.nan)
        reason = (
            f"The estimate is unbiased for phi on n_max = {settings.n_rows} rows. Fewer than {_MIN_PATHS} paths went "
            "beyond the first batch, too few to tell what bias remains towards an endless stream."
        )
    result["remaining_bias"] = (inner, bias)
    result["remaining_bias_error"] = (inner, bias_error)
    result.attrs |= {"remaining_bias_reason": reason, "rows_read": rows_read, "n_max": settings.n_rows}
    return result
