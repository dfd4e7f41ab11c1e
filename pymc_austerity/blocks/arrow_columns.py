"""Columns of Arrow as arrays of NumPy, or as categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def import_pyarrow() -> Any:
    """Return pyarrow, or say how to install it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.dataset
    except ImportError as error:
        raise ImportError(
            "Blocks reads Parquet and Arrow by pyarrow, which is not installed. Install it by pip install "
            "'pymc-austerity[parquet]', or give a function that yields dicts of arrays."
        ) from error
    return pyarrow


def is_arrow(column: Any) -> bool:
    """Whether a column is one of pyarrow."""
    return type(column).__module__.startswith("pyarrow")


def of_arrow(column: Any) -> np.ndarray | pd.Categorical:
    """Return a column of which nothing is missing; lists that are equally long become axes.

    Raises a ValueError that says what a column is, where it is no number and no label.
    """
    pa, axes = import_pyarrow(), [len(column)]
    types = pa.types
    while types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type):
        lengths = pa.compute.unique(pa.compute.list_value_length(column)).to_pylist()
        if len(lengths) > 1:
            raise ValueError(f"has lists of different lengths, {lengths[0]} and {lengths[1]}. Give each row as many.")
        axes.append(lengths[0] if lengths else 0)
        column = column.flatten()
    if isinstance(column, pa.DictionaryArray) and types.is_string_view(column.dictionary.type):  # of Polars
        column = pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.large_string()))
    if types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if types.is_decimal(column.type):  # of sums and of literals in SQL
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid:  # fractions, or too many digits
            column = column.cast(pa.float64())
    kind = column.type
    if len(axes) > 1 and column.null_count and not types.is_floating(kind):
        raise ValueError("has lists with missing entries. Leave such rows out, or impute them.")
    if types.is_string(kind) or types.is_large_string(kind):
        column = column.dictionary_encode()
    if isinstance(column, pa.DictionaryArray):
        numbers = column.indices.to_numpy(zero_copy_only=False)
        return pd.Categorical.from_codes(numbers, column.dictionary.to_pandas().to_numpy())
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return column.to_numpy(zero_copy_only=False).reshape(axes)
    raise ValueError(
        f"is of type {kind}, which is no number. Make one of it, or text where it is a label (CAST in a query), or "
        "give a function that yields dicts of arrays."
    )


def by_itself(column: Any) -> Any:
    """Return a column to be sent; a slice of one of Arrow would be sent with all that it is a slice of."""
    if not is_arrow(column):
        return column
    pa = import_pyarrow()
    column = column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column
    return column.take(np.arange(len(column)))


def as_bytes(batch: Any) -> np.ndarray:
    """Return a batch as a stream of Arrow holds it: what it holds, and nothing of what it is a slice of."""
    pa = import_pyarrow()
    with pa.BufferOutputStream() as sink:
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        return np.frombuffer(sink.getvalue(), np.uint8)
