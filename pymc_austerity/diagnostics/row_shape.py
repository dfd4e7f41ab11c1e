"""The distribution of the row terms of one proposal, which decides whether the mean of a batch is normal."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class RowShape(NamedTuple):
    """Shape of the row terms l_i as a batch draws them."""

    sd: float
    #: Third and fourth standardised moments (3 is the kurtosis of a normal variable).
    skewness: float
    kurtosis: float
    #: Share of the variance that the largest row carries.
    largest: float
    #: Whether rows are drawn with replacement.
    replacement: bool

    def noise(self, n: float, n_total: int, temperature: float) -> float:
        """Return the standard error of the log ratio that n rows estimate, from all rows."""
        fraction = self._fraction(n, n_total)
        return float(n_total / temperature * self.sd * np.sqrt((1 - fraction) / n))

    def _fraction(self, n: float, n_total: int) -> float:
        return 0.0 if self.replacement else min(n / n_total, 1.0)

    def mean_skewness(self, n: float, n_total: int) -> float:
        """Return the size of the skewness of the mean of n rows."""
        fraction = self._fraction(n, n_total)
        if fraction == 1.0:
            return 0.0
        return float(abs(self.skewness) * abs(1 - 2 * fraction) / np.sqrt(n * (1 - fraction)))

    def variance_spread(self, n: float, n_total: int) -> float:
        """Return the standard deviation of the estimated variance of n rows, relative to that variance."""
        fraction = self._fraction(n, n_total)
        return float(np.sqrt(max(self.kurtosis - 1, 0.0) * (1 - fraction) / n))


#: Of rows that are all alike, or none.
NORMAL_SHAPE = RowShape(0.0, 0.0, 3.0, 0.0, True)


def row_shape(terms: np.ndarray, weight: np.ndarray | None = None) -> RowShape:
    """Return the shape of finite row terms, shape (N,).

    With probabilities p_i other than 1/N, `weight` is 1/(N p_i): what a row counts for when it is drawn.
    """
    z = (terms if weight is None else weight * terms) - terms.mean()
    unit = np.abs(z).max(initial=0.0)
    if not unit > 0:
        return NORMAL_SHAPE._replace(replacement=weight is not None)
    z /= unit  # fourth powers of large terms would overflow
    squares = z**2 / z.size
    if weight is not None:
        squares /= weight
    variance, third, fourth = float(squares.sum()), float(squares @ z), float(squares @ z**2)
    return RowShape(
        float(unit) * variance**0.5, third / variance**1.5, fourth / variance**2, float(squares.max()) / variance,
        weight is not None,
    )  # fmt: skip


class BatchShape(NamedTuple):
    """What the row terms do to a decision on a batch, each number the median over proposals."""

    rows: float
    #: Standard error of the log ratio, from all rows.
    noise: float
    #: Of the batch mean.
    skewness: float
    #: Relative standard deviation of the variance that a batch estimates for itself.
    variance_spread: float
    #: Share of the variance that the largest row carries.
    largest: float


def batch_shape(batches: Sequence[tuple[RowShape, float]], n_total: int, temperature: float) -> BatchShape:
    """Summarise proposals, each with the shape of its rows and the rows that decided on it."""
    each = [
        (
            n,
            shape.noise(n, n_total, temperature),
            shape.mean_skewness(n, n_total),
            shape.variance_spread(n, n_total),
            shape.largest,
        )
        for shape, n in batches
    ]
    return BatchShape(*(float(x) for x in np.median(each, axis=0)))
