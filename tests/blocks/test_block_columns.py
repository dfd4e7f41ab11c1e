"""From columns to the arrays of a model: what is taken, and the message for every row that is not."""

import numpy as np
import pandas as pd
import pytest

from pymc_austerity.blocks.columns import Container, Reader, match_columns
from pymc_austerity.blocks.source import BadRowError, Block, Loaded

X = Container("X", np.dtype("float64"), (2,))
G = Container("g", np.dtype("int32"), ())
Y = Container("y", np.dtype("int8"), ())


def reader(containers=(X, G, Y), columns=None, codes=None, coords=None, wrong_row=lambda arrays: None):
    found = match_columns(containers, {"X": ["a", "b"], **(columns or {})}, codes or {}, coords or {})
    return Reader(tuple(containers), *found, wrong_row)


def arrays_of(reader, block):
    return reader.rows(Loaded(0, (block,)))[0].arrays


def block(**changes):
    columns = {"a": np.arange(4.0), "b": np.ones(4, np.float32), "g": np.arange(4), "y": np.array([0, 1, 0, 1], bool)}
    return Block("part-7.parquet", 100, {**columns, **changes})


def test_columns_become_arrays_of_the_types_of_the_model():
    x, g, y = arrays_of(reader(), block())
    assert np.array_equal(x, np.column_stack([np.arange(4.0), np.ones(4)]))
    assert [a.dtype for a in (x, g, y)] == [np.float64, np.int32, np.int8]
    assert g.tolist() == [0, 1, 2, 3]
    assert reader().names == ["a", "b", "g", "y"]
    both = np.arange(8.0).reshape(4, 2)  # a matrix may be one column
    assert np.array_equal(arrays_of(reader(columns={"X": "both"}), block(both=both))[0], both)
    empty = {name: np.asarray(column)[:0] for name, column in block().columns.items()}
    assert [len(a) for a in arrays_of(reader(), Block("part-0", 0, empty))] == [0, 0, 0]


@pytest.mark.parametrize(
    "labels",
    [
        pd.Categorical.from_codes(np.array([1, 0, 1, 0]), np.array(["LA", "NY"])),
        pd.Series(pd.Categorical(["NY", "LA", "NY", "LA"])),
        np.array(["NY", "LA", "NY", "LA"]),
        pd.Series(["NY", "LA", "NY", "LA"]),
    ],
    ids=["dictionary", "categorical", "strings", "series"],
)
def test_labels_become_the_codes_of_the_model(labels):
    """Whatever their own order; numbers may be labels too."""
    known = reader(codes={"g": "city"}, coords={"city": ["SF", "NY", "LA"]})
    assert arrays_of(known, block(g=labels))[1].tolist() == [1, 2, 1, 2]
    assert arrays_of(reader(codes={"g": ["NY", "LA"]}), block(g=labels))[1].tolist() == [0, 1, 0, 1]
    of_numbers = reader(codes={"g": [30, 10, 20, 40]})
    assert arrays_of(of_numbers, block(g=np.array([10, 20, 30, 40])))[1].tolist() == [1, 2, 0, 3]


BAD = {
    "not finite": ({"a": np.array([0, 1, 2, np.nan])}, r"part-7.parquet, row 103: column 'a', nan, is not finite"),
    "too large": ({"y": np.array([0, 1, 300, 1])}, r"row 102: column 'y', 300, does not fit into the int8 of 'y'"),
    "masked": ({"a": np.ma.masked_array(np.arange(4.0), [0, 0, 1, 0])}, r"row 102: column 'a' is missing"),
    "no category": ({"g": pd.Categorical.from_codes([0, -1, 0, 0], ["NY"])}, r"row 101: column 'g' is missing"),
    "missing string": ({"g": pd.Series(["NY", "NY", None, "NY"])}, r"row 102: column 'g' is missing"),
    "new label": ({"g": np.array(["NY", "NY", "NY", "Rome"])}, r"row 103: .* 'Rome', which is none of the 1"),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=list(BAD))
def test_a_row_that_cannot_be_taken_is_named(changes, message):
    known = reader(codes={"g": ["NY"]} if "g" in changes else {})
    with pytest.raises(BadRowError, match=message):
        arrays_of(known, block(**changes))
    of_model = reader(wrong_row=lambda arrays: (2, "g is 9 of 3"))
    with pytest.raises(BadRowError, match=r"part-7.parquet, row 102: g is 9 of 3"):
        arrays_of(of_model, block())


WRONG = {
    "fractions": ({"y": np.ones(4)}, "column 'y' is of type float64, and 'y' in the model of type int8"),
    "dates": ({"a": np.arange(4).astype("datetime64[D]")}, "column 'a' is of type datetime64.*Numbers are expected"),
    "labels without codes": ({"g": np.array(["NY"] * 4)}, "column 'g' holds labels such as 'NY'.*codes="),
    "unequal lengths": ({"y": np.zeros(3, int)}, "part-7.parquet: the columns of a block differ in length: .*'y': 3"),
}


@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=list(WRONG))
def test_columns_of_another_kind_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        arrays_of(reader(), block(**changes))


NAMES = [
    ({"columns": {"Z": "a"}}, r"columns: the rows of the model read no data container 'Z', only \['X'"),
    ({"codes": {"h": ["NY"]}}, "codes: the rows of the model read no data container 'h'"),
    ({"codes": {"g": "town"}, "coords": {"city": ["NY"]}}, r"coordinate 'town', and the model has \['city'\]"),
    ({"codes": {"g": ["NY", "NY"]}}, "labels of 'g' are not all different"),
]


def test_names_and_shapes_that_the_model_does_not_have_are_refused():
    for given, message in NAMES:
        with pytest.raises(ValueError, match=message):
            reader(**given)
    with pytest.raises(ValueError, match=r"a row of \('a', 'b', 'y'\) has shape \(3,\), and one of 'X' in the model"):
        arrays_of(reader(columns={"X": ["a", "b", "y"]}), block())
