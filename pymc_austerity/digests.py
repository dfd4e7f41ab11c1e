"""Digests of arrays: whether data are still what they were."""

from collections.abc import Iterable
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Number
from typing import Any
from uuid import UUID

import numpy as np
import xxhash

_ENTRIES_AT_ONCE = 65_536  # half a megabyte of float64: what has to be copied stays in the processor's cache
_PLAIN = (str, bytes, Number, date, time, timedelta, Decimal, UUID, type(None))


def digest_of(array: Any) -> str:
    """Return a digest of an array's data type, shape and entries, 32 hexadecimal digits, the same in every process.

    Entries are read in C order, so that a transposed view and a contiguous copy of it have the same digest, and arrays
    that are not contiguous are copied piece by piece. Raises TypeError for arrays of Python objects other than numbers,
    text, bytes, dates or None: what they hold cannot be told from the array.
    """
    array = np.asarray(array)
    digest = xxhash.xxh3_128(f"{array.dtype.descr if array.dtype.names else array.dtype.str} {array.shape}".encode())
    if array.dtype.hasobject:
        for entry in array.flat:
            text = _text_of(entry).encode("utf-8", "surrogatepass")
            digest.update(f"{len(text)} ".encode())
            digest.update(text)
    elif array.dtype.itemsize:
        in_pieces: dict[str, Any] = {
            "flags": ["external_loop", "buffered", "zerosize_ok"],
            "op_flags": [["readonly", "contig"]],
        }
        pieces: Any = np.nditer(array, order="C", buffersize=_ENTRIES_AT_ONCE, **in_pieces)
        for piece in pieces:
            digest.update(piece.view(np.uint8))
    return digest.hexdigest()


def digest_of_all(parts: Iterable[Any]) -> str:
    """Return one digest of several parts in their order: of text as it is, and of arrays by `digest_of`."""
    digest = xxhash.xxh3_128()
    for part in parts:
        text = f"text {part}" if isinstance(part, str) else f"array {digest_of(part)}"
        digest.update(f"{len(text)} {text}".encode())
    return digest.hexdigest()


def number_of(digest: str, *, elsewhere: bool = False) -> int:
    """Return the first half of a digest as a whole number of 64 bits, odd where the data are not in the model."""
    return int.from_bytes(bytes.fromhex(digest[:16]), signed=True) & ~1 | elsewhere


def _text_of(entry: Any) -> str:
    if isinstance(entry, np.void) and entry.dtype.names:  # a record with an object among its fields
        return "; ".join(f"{name} {_text_of(entry[name])}" for name in entry.dtype.names)
    if not isinstance(entry, _PLAIN):
        raise TypeError(
            f"An array holds a Python object of type {type(entry).__name__}: whether it is still what it was cannot be "
            "told. Give the column as numbers, text or dates."
        )
    return f"{type(entry).__name__} {entry!r}"
