"""Higher moments of the row terms l_i, for tests that ask how far a batch mean is from normal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit


class Shape(NamedTuple):
    """Sums of powers of l_i − centre, which can be added up batch by batch.

    Attributes
    ----------
    centre : float
        Mean of the first batch.
    absolute, signed_squares, cubes, absolute_cubes : float
        Sums of |x|, x|x|, x³ and |x|³ with x = l_i − centre.
    """

    centre: float
    absolute: float
    signed_squares: float
    cubes: float
    absolute_cubes: float


NO_SHAPE = Shape(0.0, 0.0, 0.0, 0.0, 0.0)


@njit
def add_shape(shape: Shape, n: int, batch_mean: float, new: np.ndarray, old: np.ndarray) -> Shape:
    """Add a batch of l_i = new − old to the sums over the `n` rows before it."""
    centre = batch_mean if n == 0 else shape.centre
    absolute, signed_squares, cubes, absolute_cubes = 0.0, 0.0, 0.0, 0.0
    for i in range(new.size):
        x = new[i] - old[i] - centre
        absolute += abs(x)
        signed_squares += x * abs(x)
        cubes += x * x * x
        absolute_cubes += abs(x * x * x)
    return Shape(
        centre,
        shape.absolute + absolute,
        shape.signed_squares + signed_squares,
        shape.cubes + cubes,
        shape.absolute_cubes + absolute_cubes,
    )


@njit
def third_central_moment(shape: Shape, n: int, mean: float, sd: float) -> float:
    """Return the mean of (l_i − mean)³ over the n rows read."""
    shift = mean - shape.centre
    # Σ(x − d)³ for sums about the centre: Σx = n·d and Σx² = (n − 1)·sd² + n·d².
    return shape.cubes / n - 3 * shift * sd * sd * (n - 1) / n - shift**3


@njit
def absolute_moments(shape: Shape, n: int, mean: float) -> tuple[float, float]:
    """Bound the means of |l_i − mean| and |l_i − mean|³ over the n rows read from above.

    The sums are about the mean of the first batch.  With d the shift to the present mean,
    |x − d|³ = |x|³ − 3d·x|x| + 3d²|x| up to 3|d|³, and |x − d| ≤ |x| + |d|.
    """
    d = mean - shape.centre
    third = shape.absolute_cubes / n - 3 * d * shape.signed_squares / n + 3 * d * d * shape.absolute / n
    return shape.absolute / n + abs(d), third + 3 * abs(d) ** 3
