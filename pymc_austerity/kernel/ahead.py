"""Draws made in advance, many in one compiled call, and returned one at a time."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np

from pymc_austerity.kernel.chain import Chain, Draw, Streams

#: Seconds that a call may take, since nothing interrupts it and nothing is shown meanwhile, and draws that it may make.
_SECONDS, _MOST = 5e-4, 64


class Ahead:
    """Makes draws of a tuned chain in advance; they are the same as one at a time.

    To call a compiled transition from Python costs more than a transition that reads few rows.

    `alone`: whether nothing else moves.  Otherwise the next point is not known, and no draw is made before it is asked
    for; nor after a point that was not the last draw.
    """

    def __init__(self, chain: Chain, alone: bool):
        self._chain, self._alone = chain, alone
        self._n_draws = 1
        self._waiting: deque[Draw] = deque()
        #: Where the generators were before the waiting draws, how many were made, and the arguments of each.
        self._asked: tuple[Streams, int, tuple[Any, ...]] | None = None
        self._last = b""

    def draw(self, n_transitions: int, theta: np.ndarray, others: np.ndarray, temperature: float) -> Draw:
        """Make `n_transitions` from θ."""
        if self._waiting and theta.tobytes() != self._last:
            # Another step moves the point, or it is kept in single precision, and will be at the next draw.
            self.settle()
            self._alone, self._n_draws = False, 1
        if not self._waiting:
            self._make(n_transitions, theta, others, temperature)
        draw = self._waiting.popleft()
        self._last = draw.outcome.theta.tobytes()
        return draw

    def settle(self) -> None:
        """Put the chain back to where it was after the last draw returned."""
        if self._waiting:
            assert self._asked is not None
            streams, n_made, at = self._asked
            n_given = n_made - len(self._waiting)
            self._waiting.clear()
            self._chain.go_back(streams)
            self._chain.draws(n_given, *at)

    def forget(self) -> None:
        """Drop the waiting draws."""
        self._waiting.clear()

    def _make(self, n_transitions: int, theta: np.ndarray, others: np.ndarray, temperature: float) -> None:
        n_draws, at = self._n_draws, (n_transitions, theta, others, temperature)
        streams = self._chain.streams if n_draws > 1 else None
        begun = time.perf_counter()
        made = self._chain.draws(n_draws, *at)
        seconds = (time.perf_counter() - begun) / len(made)
        self._waiting.extend(made)
        if streams is not None:
            self._asked = streams, len(made), at
        if self._alone:
            self._n_draws = max(1, min(2 * n_draws, _MOST, int(_SECONDS / seconds)))
