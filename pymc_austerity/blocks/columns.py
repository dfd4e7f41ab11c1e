"""From the columns of a source to the data arrays of a model, with every row looked at."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pymc_austerity.blocks.arrow_columns import is_arrow, of_arrow
from pymc_austerity.blocks.source import BadRowError, Block, Part, length_of
from pymc_austerity.rows import Rows

_one_at_a_time = Lock()

_REMEDY = "Leave such rows out (filter= of files, WHERE in a query), or impute them."


class Container(NamedTuple):
    """A data container of a model, which holds a sample of the rows; `shape` is that of a row."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Reader:
    """Makes the data arrays of a model from a block."""

    #: In the order of the arrays.
    containers: tuple[Container, ...]
    #: From each container to its column, or to those of a matrix.
    columns: Mapping[str, str | tuple[str, ...]]
    #: From a container whose column holds labels to the labels, in the order of their codes.
    labels: Mapping[str, pd.Index]
    #: Returns the number of a row that the model cannot take, and what is wrong, or None.
    wrong_row: Callable[[tuple[np.ndarray, ...]], tuple[int, str] | None]

    @property
    def names(self) -> list[str]:
        """The columns that are read."""
        named = (self.columns[c.name] for c in self.containers)
        return list(dict.fromkeys(n for names in named for n in ([names] if isinstance(names, str) else names)))

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return max(1, sum(c.dtype.itemsize * math.prod(c.shape) for c in self.containers))

    def rows(self, part: Part, known: bool = False) -> tuple[Rows, str]:
        """Return the data arrays of a part, in memory of their own, and where it begins.

        Rows that are `known` were looked at in an earlier pass, and a checksum will tell whether they are the same.
        """
        found = [(block, self._columns_of(block, known)) for block in part.blocks()]
        starts = np.cumsum([0, *(length_of(columns[0][0]) for _, columns in found)])
        arrays = tuple(np.empty((int(starts[-1]), *c.shape), c.dtype) for c in self.containers)
        for (block, columns), start, stop in zip(found, starts[:-1], starts[1:], strict=True):
            taken = tuple(array[start:stop] for array in arrays)
            for array, of_container in zip(taken, columns, strict=True):
                _put(array, of_container)
            if start < stop and not known:
                with _one_at_a_time:  # a function of PyTensor serves one thread
                    wrong = self.wrong_row(taken)
                if wrong is not None:
                    raise BadRowError(block.where, block.first + wrong[0], wrong[1])
        return Rows(arrays), found[0][0].where if found else ""

    def _columns_of(self, block: Block, known: bool) -> list[list[np.ndarray]]:
        """Return the columns of each container, in its type or one that can be cast to it."""
        lengths = {name: length_of(column) for name, column in block.columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(
                f"{block.where}: the columns of a block differ in length: {lengths}. Row i of each must belong to the "
                "same observation."
            )
        if not next(iter(lengths.values())):
            return [[np.empty((0, *c.shape), c.dtype)] for c in self.containers]
        return [self._columns_for(c, block, known) for c in self.containers]

    def _columns_for(self, container: Container, block: Block, known: bool) -> list[np.ndarray]:
        names = self.columns[container.name]
        each = [names] if isinstance(names, str) else names
        columns = [self._column(container, block, name, known) for name in each]
        inner = max((column.shape[1:] for column in columns), key=len)
        shape = inner if isinstance(names, str) else (len(columns), *inner)
        if shape != container.shape:
            raise ValueError(
                f"{block.where}: a row of {names!r} has shape {shape}, and one of {container.name!r} in the "
                f"model {container.shape}. Name as many columns as it has."
            )
        return columns

    def _column(self, container: Container, block: Block, name: str, known: bool) -> np.ndarray:
        column = as_column(block.columns[name], block, name)
        if container.name in self.labels:
            column = _codes(column, self.labels[container.name], block, name)
        elif isinstance(column, pd.Categorical):
            raise ValueError(
                f"{block.where}: column {name!r} holds labels such as {_said(column.categories[0])}, and the model "
                f"holds codes in {container.name!r}. Say which coordinate they belong to, "
                f"codes={{{container.name!r}: 'name of the coordinate'}}, or give the labels in the order of their "
                "codes."
            )
        return _converted(column, container, block, name, known)


def as_column(values: Any, block: Block, name: str) -> np.ndarray | pd.Categorical:
    """Return a column as it was yielded, nothing of it missing, as an array or as categories."""
    if is_arrow(values):
        if values.null_count:
            _missing(block, values.is_null().to_numpy(zero_copy_only=False), name)
        try:
            return of_arrow(values)
        except ValueError as error:
            raise ValueError(f"{block.where}: column {name!r} {error}") from None
    if isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
        column = pd.Categorical(values)
    elif np.ma.isMaskedArray(values):
        _missing(block, np.ma.getmaskarray(values), name)
        return np.asarray(values)
    else:
        if isinstance(values, pd.Series):
            _missing(block, values.isna().to_numpy() & (values.dtype.kind != "f"), name)
        array = np.asarray(values)
        if array.dtype.kind not in "OUST":
            return array
        codes, found = pd.factorize(array)
        column = pd.Categorical.from_codes(codes, pd.Index(found))
    _missing(block, column.codes < 0, name)
    return column


def _refuse(block: Block, bad: np.ndarray, said: Callable[[int], str]) -> None:
    """Refuse the first row of which any entry is bad."""
    if bad.any():
        row = int(np.flatnonzero(bad.reshape(len(bad), -1).any(axis=1))[0])
        raise BadRowError(block.where, block.first + row, said(row))


def _missing(block: Block, bad: np.ndarray, name: str) -> None:
    _refuse(block, bad, lambda row: f"column {name!r} is missing. {_REMEDY}")


def _codes(column: np.ndarray | pd.Categorical, labels: pd.Index, block: Block, name: str) -> np.ndarray:
    """Return the places of labels among those that the model knows."""
    if isinstance(column, pd.Categorical):
        codes = labels.get_indexer(column.categories)[column.codes]
    else:
        codes = labels.get_indexer(pd.Index(column))

    def unknown(row: int) -> str:
        return (
            f"column {name!r} is {_said(column[row])}, which is none of the {len(labels)} labels that the model knows. "
            "Give the model's coordinate all labels, or leave the row out."
        )

    _refuse(block, codes < 0, unknown)
    return codes


def _said(value: Any) -> str:
    """Write a label as a user would."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def _put(array: np.ndarray, columns: Sequence[np.ndarray]) -> None:
    """Write columns side by side."""
    if array.shape == columns[0].shape:
        array[:] = columns[0]
    else:
        np.stack(columns, axis=1, out=array)


def _converted(column: np.ndarray, container: Container, block: Block, name: str, known: bool) -> np.ndarray:
    """Return a column in the type of its container, where that loses nothing but digits of a fraction."""
    kind, wanted = column.dtype.kind, container.dtype.kind
    if kind not in "biuf" or (wanted in "biu" and kind == "f"):
        whole = " It is stored as whole numbers in the model: convert it, or hold it as float there." * (kind == "f")
        raise ValueError(
            f"{block.where}: column {name!r} is of type {column.dtype}, and {container.name!r} in the model of type "
            f"{container.dtype}.{whole or ' Numbers are expected.'}"
        )
    converted = column.astype(container.dtype, copy=False)
    if wanted in "biu" and converted.dtype != column.dtype and not np.can_cast(column.dtype, container.dtype):
        bad = converted != column
        what = f"does not fit into the {container.dtype} of {container.name!r} in the model"
    elif wanted == "f" and not known and (missing := np.isnan(converted)).any():
        bad = missing  # what is infinite may be a limit that there is not: the model's rows say so
        what = "is not finite. A batch that meets such a row has no log-likelihood. Leave it out, or impute it"
    else:
        return converted
    _refuse(block, bad, lambda row: f"column {name!r}, {column[row]}, {what}.")
    return converted


def match_columns(
    containers: Sequence[Container],
    columns: Mapping[str, str | Sequence[str]],
    codes: Mapping[str, str | Sequence[Any]],
    coords: Mapping[str, Any],
) -> tuple[dict[str, str | tuple[str, ...]], dict[str, pd.Index]]:
    """Return the columns of each container, and the labels of those that hold codes."""
    known = [c.name for c in containers]
    for argument, names in (("columns", list(columns)), ("codes", list(codes))):
        if unknown := [name for name in names if name not in known]:
            raise ValueError(
                f"{argument}: the rows of the model read no data container {unknown[0]!r}, only {known}. The keys of "
                f"{argument}= are names of pm.Data."
            )
    found: dict[str, str | tuple[str, ...]] = {}
    for name in known:
        chosen = columns.get(name, name)
        found[name] = chosen if isinstance(chosen, str) else tuple(chosen)
    labels = {}
    for name, of in codes.items():
        if isinstance(of, str) and of not in coords:
            raise ValueError(
                f"codes: {name!r} is said to belong to the coordinate {of!r}, and the model has {list(coords)}. Name "
                "one of these, or give the labels themselves."
            )
        labels[name] = pd.Index(np.asarray(coords[of] if isinstance(of, str) else of))
        if not labels[name].is_unique:
            raise ValueError(f"codes: the labels of {name!r} are not all different, so a label has several codes.")
    return found, labels
