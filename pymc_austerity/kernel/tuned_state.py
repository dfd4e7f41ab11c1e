"""The tuned state of a proposal, recorded in the statistics of a run: all that comes back from another process.

It is written as text, a piece a draw, from the first draw after tuning on: PyMC stacks what several steps report under
one name, and arrays would have to be of one shape for that.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from pymc_austerity.kernel.chain import Chain
from pymc_austerity.kernel.decider import Decider

#: The name of the statistic.
TUNED = "tuned"
#: Draws that the text is spread over, as long as a piece has at least so many characters and no more bytes than a draw.
_PIECES, _SHORTEST = 100, 64


class TunedState:
    """Records the tuned state of one chain.

    `declared` is what PyMC was told of the statistic when the step was built. Other data may want another proposal,
    with a longer state, and PyMC has read the dtype by then: pieces are as long as it says.
    """

    def __init__(self, decider: Decider, declared: np.dtype | None = None):
        length = _length(_recorded(decider, decider.new_state()))
        self._width = _width(decider, length) if declared is None else declared.itemsize
        self._rest: bytes | None = None

    @property
    def stats_dtypes_shapes(self) -> dict[str, Any]:
        """The dtype and shape of the statistic for PyMC."""
        return {TUNED: (np.dtype(f"S{self._width}"), [])}

    def stats(self, chain: Chain, tuning: bool) -> dict[str, bytes]:
        """Return the next piece, an empty one while the chain tunes and after the end."""
        if tuning:
            return {TUNED: b""}
        if self._rest is None:
            arrays = _recorded(chain.decider, chain.state)
            content = _mark(chain.decider) + b"".join(a.tobytes() for a in arrays) if arrays else b""
            self._rest = b64encode(content)
        piece, self._rest = self._rest[: self._width], self._rest[self._width :]
        return {TUNED: piece}


def restore(decider: Decider, columns: Iterable[Sequence[bytes]], scaling: float) -> Any:
    """Return the recorded state of the proposal, or raise a ValueError for a run that does not hold all of it.

    `columns`: the statistic `TUNED` of one chain, of every step that has it; `scaling`: that of the chain after tuning.
    """
    state = decider.new_state()
    arrays = _recorded(decider, state)
    if not arrays:
        state.log_scale[0] = np.log(scaling)
        return state
    length, mark = _length(arrays), _mark(decider)
    content = next((c for c in (_content(column, length) for column in columns) if c.startswith(mark)), None)
    if content is None:
        pieces = -(-length // _width(decider, length))
        raise ValueError(
            f"idata: the first {pieces} draws of a chain hold in sample_stats['{TUNED}'] what the proposal had learnt "
            "while tuning, and they are not all there, so that no proposal can be made as the chain made them. Pass a "
            "run with at least as many draws, not thinned and from its first draw on, with all of its sample_stats."
        )
    start = len(mark)
    for array in arrays:
        array[...] = np.frombuffer(content, array.dtype, array.size, start).reshape(array.shape)
        start += array.nbytes
    return state


def _recorded(decider: Decider, state: Any) -> tuple[np.ndarray, ...]:
    """Return the arrays to record; none for a scale alone, which is a statistic of its own."""
    arrays = decider.move.tuned(state)
    return () if len(arrays) == 1 and arrays[0] is state.log_scale else arrays


def _mark(decider: Decider) -> bytes:
    """Return a mark that differs between steps for different variables."""
    return crc32(" ".join(b.name for b in decider.parts.likelihood.blocks).encode()).to_bytes(4, "little")


def _length(arrays: Sequence[np.ndarray]) -> int:
    """Return the characters that the arrays and the mark before them take as text."""
    return 4 * -(-(4 + sum(a.nbytes for a in arrays)) // 3) if arrays else 0


def _width(decider: Decider, length: int) -> int:
    """Return the characters of a piece, at most about as many as the bytes of a draw."""
    return max(_SHORTEST, min(-(-length // _PIECES), decider.parts.theta0.nbytes))


def _content(column: Sequence[bytes], length: int) -> bytes:
    """Return the content of a column, or nothing where its length is wrong."""
    text = b"".join(column)
    return b64decode(text) if len(text) == length else b""
