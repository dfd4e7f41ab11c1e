"""Rows that are the same in every array, merged into one with its count m_k: its log-likelihood is m_k ℓ_k."""

import numpy as np
import pandas as pd

from pymc_austerity.rows.mapped import are_mapped
from pymc_austerity.rows.storage import Rows

#: Rows are merged where there are so many of them that to evaluate them takes longer than to call the function, and
#: where fewer than this share of them are left, though more than one.
_MANY, _WORTH_IT = 1_000, 0.5
#: Largest count, in averages.  A frequent row is kept in several parts, which are drawn apart: a batch that missed a
#: row standing for most of the table would underestimate its variance.
_MOST = 4.0
#: Rows of the first look, at least, and in units of √N.  If half of the rows repeat others, some 200 pairs are among
#: them; with fewer than so many the table is not read.
_LOOKED_AT, _IN_ROOTS, _PAIRS = 10_000, 20.0, 100


def merge_rows(rows: Rows) -> Rows | None:
    """Return the distinct rows with their counts, or None where they are more than half of the rows, or rows are few.

    Rows are the same when all their bits are: 0.0 and −0.0, which 1/x tells apart, are two.  Arrays in files are left
    where they are.

    They are in the order in which they first occur, one that is very frequent in several parts, with an array of counts
    behind the others.
    """
    if len(rows) < _MANY or are_mapped(rows.arrays) or not _repeat(rows):
        return None
    merged = with_counts(rows)
    return merged if 1 < len(merged) < _WORTH_IT * len(rows) else None


def with_counts(rows: Rows) -> Rows:
    """Return the distinct rows with their counts, however many they are."""
    codes, first = _distinct(rows)
    counts = np.bincount(codes)
    parts = np.ceil(counts / (_MOST * len(rows) / len(first))).astype(np.int64)
    numbers = np.repeat(first, parts)
    arrays = tuple(np.asarray(a[numbers], order="C") for a in rows.arrays)
    return Rows((*arrays, np.repeat(counts / parts, parts)), numbers)


def largest_count(rows: Rows) -> float:
    """Return how many rows of the table one stands for at most."""
    return 1.0 if rows.counts is None else float(rows.counts.max())


def number_in_table(rows: Rows, number: int) -> int:
    """Return the number in the table of the first row that one stands for; one that is negative is none."""
    return int(number) if rows.first is None or number < 0 else int(rows.first[number])


def _repeat(rows: Rows) -> bool:
    """Whether some rows, drawn at random, repeat each other as often as they do where merging is worth it."""
    size = int(max(_LOOKED_AT, _IN_ROOTS * np.sqrt(len(rows))))
    if size >= len(rows):
        return True
    numbers = np.random.default_rng(2025).choice(len(rows), size, replace=False, shuffle=False)
    return size - len(_distinct(rows.take(np.sort(numbers)))[1]) >= _PAIRS


def _distinct(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each row among the distinct ones, in order of appearance, and where these first occur."""
    codes = np.zeros(len(rows), np.int64)
    for array in rows.arrays:
        bits = array.view(f"u{array.itemsize}") if array.dtype.kind == "f" else array
        for column in bits.reshape(len(rows), -1).T:
            values, distinct = pd.factorize(column)
            codes, _ = pd.factorize(codes * len(distinct) + values)
    return codes, np.unique(codes, return_index=True)[1]
