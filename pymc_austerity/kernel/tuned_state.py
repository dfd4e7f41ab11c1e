"""What tuning made of a proposal, written down in the statistics of a run and read from there.

A chain may run in another process, and of what it knows only draws and statistics come back, one entry a draw.  So the
arrays are spelled out as text, a piece a draw, from the first draw after tuning on.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any

import numpy as np

from pymc_austerity.kernel.chain import Chain
from pymc_austerity.kernel.decider import Decider

#: The name of the statistic.
TUNED = "tuned"
#: Draws that the text is spread over at most, and characters of a piece at least.
_PIECES, _SHORTEST = 100, 64


class TunedState:
    """Writes down the tuned state of one chain.

    Parameters
    ----------
    decider : Decider
    """

    def __init__(self, decider: Decider):
        arrays = decider.move.tuned(decider.new_state())
        # A scale alone is a statistic of its own.
        length = _length(arrays) if len(arrays) > 1 else 0
        self._width = max(_SHORTEST, -(-length // _PIECES)) if length else 0
        self._rest: bytes | None = None

    @property
    def stats_dtypes_shapes(self) -> dict[str, Any]:
        """The statistic, as PyMC asks for it; none where there is nothing to write down."""
        return {TUNED: (np.dtype(f"S{self._width}"), [])} if self._width else {}

    def stats(self, chain: Chain, tuning: bool) -> dict[str, bytes]:
        """Return the next piece, an empty one while the chain tunes and after the end."""
        if not self._width:
            return {}
        if tuning:
            return {TUNED: b""}
        if self._rest is None:
            self._rest = b64encode(b"".join(a.tobytes() for a in chain.decider.move.tuned(chain.state)))
        piece, self._rest = self._rest[: self._width], self._rest[self._width :]
        return {TUNED: piece}


def restore(decider: Decider, pieces: Iterable[bytes], scaling: float) -> Any:
    """Return the state of the proposal as it was written down.

    Parameters
    ----------
    decider : Decider
    pieces : iterable of bytes
        The statistic `TUNED` of one chain; empty where there was nothing to write down.
    scaling : float
        The statistic ``scaling`` of the chain after tuning.

    Raises
    ------
    ValueError
        For a run that is too short to hold all of it.
    """
    state = decider.new_state()
    arrays = decider.move.tuned(state)
    text = b"".join(pieces)
    if not text:
        state.log_scale[0] = np.log(scaling)
        return state
    if len(text) != _length(arrays):
        raise ValueError(
            f"idata: the first {_PIECES} draws of a chain hold what the proposal had learnt while tuning, and they are "
            "not all there, so that no proposal can be made as the chain made them. Pass a run with at least as many "
            "draws, not thinned and from its first draw on."
        )
    content = b64decode(text)
    for array in arrays:
        array[...] = np.frombuffer(content[: array.nbytes], array.dtype).reshape(array.shape)
        content = content[array.nbytes :]
    return state


def _length(arrays: Iterable[np.ndarray]) -> int:
    """Return the characters that the arrays take as text."""
    return 4 * -(-sum(a.nbytes for a in arrays) // 3)
