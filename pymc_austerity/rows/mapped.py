"""Arrays that lie in files and are mapped into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class MappedFile:
    """A whole memory-mapped file as an array, by path."""

    path: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, array: np.ndarray) -> MappedFile | None:
        """Describe `array` if it is a view of a memory-mapped file, from wherever in the file it starts."""
        mapped: Any = array
        while mapped is not None and not isinstance(mapped, np.memmap):
            mapped = getattr(mapped, "base", None)
        if mapped is None or mapped.filename is None or not array.flags.c_contiguous:
            return None
        root = mapped
        while isinstance(root.base, np.memmap):
            root = root.base
        start = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        return cls(str(root.filename), array.dtype, array.shape, root.offset + start)

    def open(self) -> np.ndarray:
        """Map the file again."""
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)


def are_mapped(arrays: Sequence[np.ndarray]) -> bool:
    """Return whether some of the arrays lie in files."""
    return any(MappedFile.of(a) is not None for a in arrays)
