"""Bounds on what a Taylor expansion leaves of every row, read from the graph of the model.

With θ = θ̂ + Lz, row i reads θ through predictors η_a = η̂_a + (Lᵀx_ia)ᵀz, and for ‖z‖ ≤ ρ every η_a is within ‖Lᵀx_ia‖ρ
of its centre.  By Taylor's theorem along the line from the centre, with K = k + 1,

    |R_i| ≤ ∫₀¹ K(1 − t)^(K−1) B_i(t) dt · ‖z‖^K,   B_i(t) = Σ_|α|=K sup |∂^α g_i|/α! · ∏_a ‖Lᵀx_ia‖^α_a,

where the supremum is over the box of t times the size.  B_i rises with t, and is enclosed on a few nested boxes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_austerity.likelihood.elementary import softplus
from pymc_austerity.likelihood.interval_series import Series, variable
from pymc_austerity.likelihood.intervals import Interval, everything, point
from pymc_austerity.likelihood.row_graph import MOST_PREDICTORS, PredictorReader, Read, row_graph
from pymc_austerity.likelihood.row_likelihood import RowLikelihood
from pymc_austerity.likelihood.row_series import NoRemainderBoundError, RowSeries
from pymc_austerity.rows import Rows

#: Numbers held at once: a chunk of rows takes a few dozen arrays of its length.
_CHUNK = 65_536
#: Sizes of the nested boxes, as shares of ρ.
_SHARES = (0.25, 0.5, 0.75, 1.0)
#: Rounding of what PyTensor evaluates of the data, and of the sum over boxes.
_SLACK = 1 + 1e-11


class RemainderBounds:
    """Finds c_i with |ℓ_i − q_i| ≤ c_i ‖z‖^(k+1) for ‖z‖ ≤ ρ, where θ = θ̂ + Lz.

    Parameters
    ----------
    likelihood : RowLikelihood
    order : {2, 3}
        k, the order of the expansion q_i.

    Raises
    ------
    NoRemainderBoundError
        With the operation that stands in the way, in words.
    """

    def __init__(self, likelihood: RowLikelihood, order: int = 2):
        if order not in (2, 3):
            raise ValueError(f"order={order!r} must be 2 or 3, the order of the expansion whose remainder is bounded.")
        self.order = order
        read = set(ancestors([likelihood.row_log_likelihood]))
        if likelihood.others in read:
            names = sorted({b.name for b in likelihood.other_blocks} & likelihood.read)
            raise NoRemainderBoundError(
                f"The rows read {names}, which another step moves: no bound holds for all values."
            )
        self._names = sorted(likelihood.read)
        self._batches = likelihood.batches
        self._graph = row_graph(likelihood)
        self._reader = PredictorReader(likelihood, self._graph)

    def __call__(
        self,
        centre: np.ndarray,
        factor: np.ndarray,
        radius: float,
        fixed: Sequence[np.ndarray],
        rows: Rows,
        others: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the bounds.

        Parameters
        ----------
        centre : numpy.ndarray, shape (D,)
            θ̂.
        factor : numpy.ndarray, shape (D, D) or (D,)
            L, or its diagonal.
        radius : float
            ρ; ``numpy.inf`` where the bounds are to hold everywhere.
        fixed : sequence of numpy.ndarray
            Values of the shared variables.
        rows : Rows
        others : numpy.ndarray, optional
            Variables of other steps, which no row reads.

        Returns
        -------
        numpy.ndarray, shape (N,)
            c, infinite for rows of which nothing is known on this ball.
        """
        others = np.zeros(0) if others is None else others
        c = np.empty(len(rows))
        for start in range(0, len(rows), _CHUNK):
            chunk = slice(start, min(start + _CHUNK, len(rows)))
            data = (*fixed, *(np.asarray(a[chunk]) for a in rows.arrays))
            c[chunk] = self._chunk(centre, others, factor, radius, data, chunk.stop - chunk.start)
        return c

    def _chunk(
        self,
        centre: np.ndarray,
        others: np.ndarray,
        factor: np.ndarray,
        radius: float,
        data: Sequence[np.ndarray],
        n: int,
    ) -> np.ndarray:
        read = self._reader.read(centre, others, factor, data)
        total, inner = np.zeros(n), 0.0
        for share in _SHARES:
            leaves = self._leaves(read, share * radius, n)
            enclose = RowSeries(self._graph.moving, leaves, read.known, self.order + 1, share * radius)
            try:
                series = enclose(self._graph.output)
            except NoRemainderBoundError as reason:
                raise NoRemainderBoundError(
                    f"No bound on the remainder of a row is known for this model: as a function of {self._names}, its "
                    f"log-likelihood takes {reason}. PenaltyMH needs no bound."
                ) from None
            weight = (1 - inner) ** (self.order + 1) - (1 - share) ** (self.order + 1)
            total += weight * np.broadcast_to(series.largest(), (n,))
            inner = share
        return total * _SLACK

    def _leaves(self, read: Read, radius: float, n: int) -> dict[Variable, Series]:
        leaves: dict[Variable, Series] = {}
        count = 0
        for eta, centre in read.centres.items():
            leaves[eta], count = self._predictor(eta, centre, read.lengths[eta], radius, n, count)
        for softmax, spread in read.spreads.items():
            leaves[softmax] = self._softmax(spread, radius)
        return leaves

    def _predictor(
        self, eta: Variable, value: np.ndarray, length: np.ndarray, radius: float, n: int, count: int
    ) -> tuple[Series, int]:
        """Return the series of a predictor, with a variable for each number it holds for one row."""
        by_row = bool(set(self._batches) & set(ancestors([eta])))
        axis = next((k for k, size in enumerate(value.shape) if by_row and size == n), None)
        length = np.broadcast_to(length, value.shape)
        rest = tuple(1 if k == axis else size for k, size in enumerate(value.shape))
        m = int(np.prod(rest))
        if count + m > MOST_PREDICTORS:
            raise NoRemainderBoundError(
                f"No bound on the remainder of a row is known for this model: it reads {self._names} through more than "
                f"{MOST_PREDICTORS} numbers a row. PenaltyMH needs no bound."
            )
        if m == 1:
            return variable(count, value, length, self.order + 1, radius), count + 1
        terms: dict[Any, Interval] = {}
        for j in range(m):
            own = np.zeros(m)
            own[j] = 1.0
            terms[((count + j, 1),)] = point(length * own.reshape(rest))
        whole = variable(count, value, length, self.order + 1, radius)
        return Series(whole.value, whole.centre, terms, self.order + 1, radius), count + m

    def _softmax(self, spread: np.ndarray, radius: float) -> Series:
        # The K-th derivative along v is the K-th cumulant of v under p, and largest where two classes are as likely
        # as makes it so: √3/18 and 1/8 times the K-th power of the largest difference of two entries of v.
        order = self.order + 1
        cap = softplus.range(order, Interval(np.asarray(-np.inf), np.asarray(np.inf))).magnitude()
        largest = cap / math.factorial(order) * spread**order
        unknown = everything(largest)
        return Series(unknown, unknown, {}, order, radius, largest)
