"""Bounds on what a Taylor expansion leaves of every row, read from the graph of the model.

With θ = θ̂ + Lz, row i reads θ through predictors η_a = η̂_a + (Lᵀx_ia)ᵀz, and for ‖z‖ ≤ ρ every η_a is within ‖Lᵀx_ia‖ρ
of its centre.  By Taylor's theorem along the line from the centre, with K = k + 1,

    |R_i| ≤ ∫₀¹ K(1 − t)^(K−1) B_i(t) dt · ‖z‖^K,   B_i(t) = Σ_|α|=K sup |∂^α g_i|/α! · ∏_a ‖Lᵀx_ia‖^α_a · m_α,

where the supremum is over the box of t times the size, and m_α ≤ 1 is the largest ∏|u_a|^α_a of a z of length 1, with
u_a the share of ‖Lᵀx_ia‖ that it moves η_a.  B_i rises with t, and is enclosed on a few nested boxes.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np
from pytensor.graph.traversal import ancestors

from pymc_austerity.bounds.elementary import HIGHEST, softplus
from pymc_austerity.bounds.interval_series import Powers, Series, Terms, affine
from pymc_austerity.bounds.intervals import Interval, everything
from pymc_austerity.bounds.predictors import Predictor, PredictorReader, Read
from pymc_austerity.bounds.row_graph import NoRemainderBoundError, row_graph
from pymc_austerity.bounds.row_series import RowSeries
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.likelihood.precision import left_in_single
from pymc_austerity.rows import Rows

#: Rows at once: a few dozen arrays of that length fit into the cache of a core.  Of rows that read θ through several
#: numbers every operation keeps a hundred such arrays, and there are fewer rows at once.
_CHUNK, _TERMS = 16_384, 15 * 16_384
#: Sizes of the nested boxes, as shares of ρ.
_SHARES = (0.25, 0.5, 0.75, 1.0)
#: Rounding of what PyTensor evaluates of the data, and of sums of a few terms that are not negative.
_SLACK = 1 + 1e-11


class RemainderBounds:
    """Finds c_i with |ℓ_i − q_i| ≤ c_i ‖z‖^(k+1) for ‖z‖ ≤ ρ, where θ = θ̂ + Lz and q_i is the expansion of order k.

    Raises NoRemainderBoundError where rows read variables of other steps, or are computed in single precision.
    """

    def __init__(self, likelihood: RowLikelihood, order: int = 2):
        if order not in (0, 2, 3):
            raise ValueError(f"order={order!r} must be 0, 2 or 3, of the expansion whose remainder is bounded.")
        self.order, self.theta_size = order, likelihood.theta_size
        self._none_known = f"No bound on the {'remainder' if order else 'log ratio'} of a row is known"
        if likelihood.others in set(ancestors([likelihood.row_log_likelihood])):
            names = sorted({b.name for b in likelihood.other_blocks} & likelihood.read)
            raise NoRemainderBoundError(
                f"{self._none_known}: the rows read {names}, which another step moves. Let "
                "one step move all variables that the rows read."
            )
        if op := left_in_single(likelihood.row_log_likelihood):
            raise NoRemainderBoundError(
                f"{self._none_known}: the rows compute {op} in single precision, whose "
                "rounding is larger than what an expansion leaves."
            )
        self._names = sorted(likelihood.read)
        self._graph = row_graph(likelihood)
        self._reader = PredictorReader(likelihood, self._graph)

    def __call__(
        self, centre: np.ndarray, factor: np.ndarray, radius: float, fixed: Sequence[np.ndarray], rows: Rows
    ) -> np.ndarray:
        """Return the c_i, of shape (N,), infinite for rows of which nothing is known on this ball.

        `factor` is L, of shape (D, E); `radius` is ρ, ``numpy.inf`` where the bounds are to hold
        everywhere. Raises NoRemainderBoundError with the operation that stands in the way, in words.
        """
        c = np.empty(len(rows))
        try:
            at_once = self.rows_at_once(centre, factor, fixed, rows)
            for start in range(0, len(rows), at_once):
                chunk = slice(start, min(start + at_once, len(rows)))
                data = (*fixed, *(np.asarray(a[chunk]) for a in rows.arrays))
                read = self._reader.read(centre, factor, data, chunk.stop - chunk.start)
                with np.errstate(over="ignore"):  # nothing is known of a row whose bound is infinite
                    c[chunk] = self._bound(read, radius)
        except NoRemainderBoundError as reason:
            raise NoRemainderBoundError(
                f"{self._none_known} for this model: as a function of {self._names}, its log-likelihood takes {reason}."
            ) from None
        return c

    def rows_at_once(self, centre: np.ndarray, factor: np.ndarray, fixed: Sequence[np.ndarray], rows: Rows) -> int:
        """Return of how many rows bounds are found at once."""
        return min(_CHUNK, _TERMS // math.comb(self.numbers_read(centre, factor, fixed, rows) + HIGHEST, HIGHEST))

    def directions(
        self, centre: np.ndarray, factor: np.ndarray, fixed: Sequence[np.ndarray], rows: Rows
    ) -> np.ndarray | None:
        """Return Lᵀx_i/‖Lᵀx_i‖ of each row, shape (N, E), or None where rows read more than one predictor."""
        data = (*fixed, *(np.asarray(a) for a in rows.arrays))
        return self._reader.directions(centre, factor, data, len(rows))

    def numbers_read(self, centre: np.ndarray, factor: np.ndarray, fixed: Sequence[np.ndarray], rows: Rows) -> int:
        """Return through how many numbers a row reads θ: bounds take time and memory with the fourth power of that."""
        data = (*fixed, *(np.asarray(a[:1]) for a in rows.arrays))
        read = self._reader.read(centre, factor, data, min(1, len(rows)))
        # There is an angle for each pair of them.
        return (1 + math.isqrt(1 + 8 * len(read.cosines))) // 2

    def _bound(self, read: Read, radius: float) -> np.ndarray:
        degree = self.order + 1
        total, inner = np.zeros(read.n_rows), 0.0
        # Of one number the enclosures are good as they are.  Of several, one that comes in at two places is taken for
        # two, which a derivative more puts right where the box is small.
        several = len(read.cosines) > 0 and degree < HIGHEST
        at_centre = cache(lambda: self._enclose(read, 0.0))
        for share in _SHARES if np.isfinite(radius) else (1.0,):
            points = partial(self._points, read, share * radius)
            row = self._enclose(read, share * radius, at_points=cache(points))(self._graph.output)
            sizes = {powers: c.magnitude() for powers, c in row.terms(degree).items()}
            if several:
                sizes = _cut(
                    sizes, at_centre()(self._graph.output).terms(degree), row.terms(degree + 1), share * radius
                )
            largest = np.zeros(1) if row.directional is None else row.directional
            for powers, size in sizes.items():
                largest = largest + size * _largest_monomial(powers, read.cosines)
            weight = (1 - inner) ** degree - (1 - share) ** degree
            total += weight * np.broadcast_to(largest, total.shape)
            inner = share
        return total * _SLACK

    def _enclose(
        self,
        read: Read,
        radius: float,
        shift: np.ndarray | None = None,
        at_points: Callable[[], Sequence[RowSeries]] = tuple,
    ) -> RowSeries:
        """Enclose the rows over a box about their predictors, or about these moved by `shift` in units of slopes."""

        def leaf(p: Predictor) -> Series:
            moved = sum(0.0 if shift is None else slope * shift[number] for number, slope in p.slopes.items())
            return affine(p.centre + moved, p.slopes, radius)

        leaves = {eta: leaf(p) for eta, p in read.predictors.items()}
        leaves |= {log_p: _log_softmax(spread, self.order + 1, radius) for log_p, spread in read.spreads.items()}
        return RowSeries(self._graph.moving, leaves, read.known, radius, at_points)

    def _points(self, read: Read, radius: float) -> list[RowSeries]:
        """Return the rows at some points of a box: its centre, and two at random."""
        n_numbers = sum(len(p.slopes) for p in read.predictors.values())
        shifts = np.random.default_rng(1998).uniform(-1, 1, (2, n_numbers)) * (radius if np.isfinite(radius) else 1.0)
        return [self._enclose(read, 0.0, shift) for shift in (np.zeros(n_numbers), *shifts)]


def _cut(sizes: dict[Powers, np.ndarray], at_centre: Terms, above: Terms, radius: float) -> dict[Powers, np.ndarray]:
    """Cut the sizes of coefficients by the mean-value form: |c_α(centre)| + r Σ_a (α_a + 1)|c_(α + e_a)|."""
    change: dict[Powers, np.ndarray] = {}
    for powers, c in above.items():
        for variable, exponent in powers:
            lower = tuple((v, e - (v == variable)) for v, e in powers if e > (v == variable))
            change[lower] = change.get(lower, 0.0) + exponent * c.magnitude()
    cut = {}
    for powers, size in sizes.items():
        centre = at_centre[powers].magnitude() if powers in at_centre else 0.0
        with np.errstate(invalid="ignore"):  # of no radius and no change nothing is known, and `size` stays
            cut[powers] = np.fmin(size, (centre + radius * change.get(powers, 0.0)) * _SLACK)
    return cut


def _largest_monomial(powers: Powers, cosines: dict[tuple[int, int], np.ndarray]) -> np.ndarray:
    """Bound ∏|u_a|^α_a for u_a = e_aᵀz, with unit vectors e_a of given cosines and ‖z‖ = 1.

    Σu_a² is at most the largest eigenvalue λ of the matrix of cosines, at most the largest sum of a row of it
    (Gershgorin); the product is then largest at u_a² = λα_a/K.
    """
    numbers = [a for a, _ in powers]
    if len(numbers) == 1:
        return np.ones(1)
    degree = sum(exponent for _, exponent in powers)
    sums = [1 + sum(np.abs(cosines[min(a, b), max(a, b)]) for b in numbers if b != a) for a in numbers]
    eigenvalue = np.minimum(np.maximum.reduce(np.broadcast_arrays(*sums)), len(numbers))
    free = math.prod((exponent / degree) ** (exponent / 2) for _, exponent in powers)
    return np.minimum(1.0, eigenvalue ** (degree / 2) * free)


def _log_softmax(spread: np.ndarray, degree: int, radius: float) -> Series:
    """Return what is known of the logarithm of a softmax.

    Its K-th derivative along v is the K-th cumulant of v under p (K = 3 or 4), and largest where two classes are as
    likely as makes it so: √3/18 and 1/8 times the K-th power of the largest difference of two entries of v.
    """
    cap = softplus.range(degree, Interval(np.asarray(-np.inf), np.asarray(np.inf))).magnitude()
    largest = cap / math.factorial(degree) * spread**degree
    unknown = everything(largest)
    return Series(largest.shape, lambda degree: {(): unknown}, False, radius, largest)
