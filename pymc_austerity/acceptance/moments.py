"""Moments of the row terms l_i, and the signatures of the compiled functions of a test that are given them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.compile.lean_njit import njit

#: ``decide(looks, look, moments, offset, scale, noise)``: ACCEPT, REJECT or UNDECIDED after look number `look`.
Decide = Callable[..., int]
#: ``draw_noise(rng)``: the random numbers of a decision, equally many each time, drawn before any row is read.
DrawNoise = Callable[..., Any]
#: ``threshold(looks, look, moments, scale, noise)``: what the estimated log ratio had to exceed.
Threshold = Callable[..., float]


class Shape(NamedTuple):
    """Sums of powers of l_i − centre, which can be added up batch by batch."""

    centre: float  # mean of the first batch
    absolute: float  # Σ|x| with x = l_i − centre
    signed_squares: float  # Σx|x|
    cubes: float  # Σx³
    absolute_cubes: float  # Σ|x|³


NO_SHAPE = Shape(0.0, 0.0, 0.0, 0.0, 0.0)


class Moments(NamedTuple):
    """Moments of l_i after some rows."""

    n: int  # rows read
    n_total: int  # rows there are
    mean: float  # of l_i over the rows read
    sd: float  # sample standard deviation (n − 1) of l_i
    bound: float = np.inf  # a number C with |l_i| ≤ C for all rows; infinite where none was asked for
    shape: Shape = NO_SHAPE  # higher moments of l_i; zero unless the test reads them


@njit
def standard_error(moments: Moments) -> float:
    """Return the standard error of the mean of l_i when the rows are drawn without replacement."""
    n = moments.n
    if moments.n_total == 1:
        return 0.0
    return moments.sd * np.sqrt((1 - (n - 1) / (moments.n_total - 1)) / n)


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
