"""Memory-mapped arrays, which are pickled as the path of their file and mapped again."""

from __future__ import annotations

import logging
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import IO, Any, cast

import numpy as np

from pymc_austerity.digests import digest_of

_log = logging.getLogger("pymc_austerity")


@dataclass(frozen=True)
class MappedFile:
    """Part of a memory-mapped file as an array, by path."""

    path: str
    #: Of the array.
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int  # bytes of the file before it
    mode: str  # in which the program mapped the file

    @classmethod
    def of(cls, array: np.ndarray) -> MappedFile | None:
        """Describe `array` if it is a view of a memory-mapped file, from wherever in the file it starts."""
        root = _mapping_of(array)
        if root is None or root.filename is None or not array.flags.c_contiguous or not array.size:
            return None
        start = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        return cls(str(root.filename), array.dtype, array.shape, root.offset + start, root.mode)

    @property
    def described(self) -> str:
        """Path, size and time of writing of the file, and where in it the array begins; empty where that may differ."""
        if self.mode == "c" or not os.path.exists(self.path):
            return ""
        about = os.stat(self.path)
        return f"{self.path}, {about.st_size} bytes, {about.st_mtime_ns}, from byte {self.offset}"

    def map(self, file: IO[bytes]) -> np.ndarray:
        """Map the file, which is open, again."""
        return np.memmap(file, self.dtype, "r", self.offset, self.shape)


@dataclass(frozen=True)
class SentFile:
    """A mapped array as it is pickled."""

    file: MappedFile
    stamp: tuple[int, ...]  # number, size and time of writing of the file that had the digest
    digest: str  # of the array

    def open(self) -> np.ndarray:
        """Map the file in the other process.

        Raises ValueError where it is no longer the same.
        """
        try:
            with open(self.file.path, "rb") as file:
                array = self.file.map(file)
                same = _stamp(file) == self.stamp or digest_of(array) == self.digest
        except (OSError, ValueError) as error:
            raise ValueError(f"{self._changed} It cannot be mapped: {error}.") from error
        if not same:
            raise ValueError(f"{self._changed} It holds other numbers now.")
        return array

    @property
    def _changed(self) -> str:
        return (
            f"The data file {self.file.path} was changed while processes were started, which would read other rows "
            "than the program that started them. Leave the file alone until sampling has ended."
        )


def sent(array: np.ndarray) -> np.ndarray | SentFile:
    """Return what is pickled of an array: the path of its file where that holds the same entries, else these.

    Raises ValueError for a file that became shorter than what was mapped.
    """
    file = MappedFile.of(array)
    if file is None:
        return array
    require_whole((array,))
    digest = digest_of(array)
    try:
        with open(file.path, "rb") as opened:
            stamp = _stamp(opened)
            if digest_of(file.map(opened)) == digest:
                return SentFile(file, stamp, digest)
    except (OSError, ValueError):  # not there, or shorter
        pass
    _say_once(file.path)
    return np.asarray(array)


def received(array: np.ndarray | SentFile) -> np.ndarray:
    """Return the array that was sent."""
    return array.open() if isinstance(array, SentFile) else array


@cache
def _say_once(path: str) -> None:
    _log.warning(
        f"The data file {path} does not hold what this program has in memory: it was mapped with mode 'c' and changed "
        "there, or the file was replaced or deleted since. Other processes are sent the numbers themselves."
    )


def require_whole(arrays: Sequence[np.ndarray]) -> None:
    """Raise an error for mapped files that have become shorter: to read beyond their end would end the program.

    Raises ValueError, which names the file.
    """
    for array in arrays:
        root = _mapping_of(array)
        if root is None or not isinstance(root.base, mmap.mmap):
            continue
        mapped, found = root.offset - root.offset % mmap.ALLOCATIONGRANULARITY + len(root.base), root.base.size()
        if found < mapped:
            raise ValueError(
                f"The data file {root.filename} had {mapped:,} bytes or more when it was mapped and has {found:,} now. "
                "The system ends a program that reads what is gone (SIGBUS). Write data to a new file, give that the "
                "old name, map it again and build the step again."
            )


def are_mapped(arrays: Sequence[np.ndarray]) -> bool:
    """Return whether some of the arrays lie in files."""
    return any(MappedFile.of(a) is not None for a in arrays)


def _mapping_of(array: np.ndarray) -> Any:
    """Return the memory map of a whole file that an array is a view of, or None."""
    found, below = None, cast("Any", array)
    while isinstance(below, np.ndarray):
        if isinstance(below, np.memmap):
            found = below
        below = below.base
    return found


def _stamp(file: IO[bytes]) -> tuple[int, ...]:
    about = os.fstat(file.fileno())
    return about.st_ino, about.st_size, about.st_mtime_ns
