from __future__ import annotations

from datetime import date
from itertools import combinations

import numpy as np
import pytest

from pymc_austerity.digests import digest_of, digest_of_all

RNG = np.random.default_rng(1)
SQUARE = RNG.normal(size=(300, 300))


VIEWS = [
    SQUARE.T, SQUARE[::-1, 1::3], np.broadcast_to(SQUARE[0], (50, 300)), SQUARE[0, 0], np.zeros((3, 0)),
    np.arange(9).astype("M8[D]")[::2], np.array(["a", "bc", "ü"] * 3)[::2],
    np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i4"), ("b", "f8")])[::-1],
]  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_views_have_the_digest_of_their_copies(view):
    assert digest_of(view) == digest_of(np.array(view, order="C", copy=True))


def test_what_differs_has_another_digest():
    one = SQUARE.copy()
    one[299, 299] = np.nextafter(one[299, 299], np.inf)
    swapped = SQUARE.copy()
    swapped[[3, 4]] = swapped[[4, 3]]
    arrays = [
        SQUARE, one, swapped, SQUARE.T, SQUARE.ravel(), SQUARE.astype("f4"), np.zeros(4), np.zeros(4, dtype=int),
        np.zeros((2, 2)), np.zeros(0), np.array(["a", "b"]), np.array(["a", "b"], dtype=object),
        np.array(["ab", ""], dtype=object), np.array([None, date(2020, 1, 1)], dtype=object),
        np.zeros(2, dtype=[("a", "i4"), ("b", "i4")]), np.zeros(2, dtype=[("a", "i4"), ("c", "i4")]),
    ]  # fmt: skip
    for first, second in combinations(arrays, 2):
        assert digest_of(first) != digest_of(second)


def test_parts_are_told_apart():
    x, y = np.arange(3.0), np.arange(4.0)
    digests = [
        digest_of_all(parts) for parts in ([x, y], [y, x], [x], [], ["x", x], ["xy"], ["x", "y"], [digest_of(x), y])
    ]
    assert len(set(digests)) == len(digests)
    assert digest_of_all([x, y]) == digest_of_all(iter([x.copy(), y.copy()]))


def test_digest_is_the_same_in_every_process():
    parts = ["a", np.arange(9, dtype="<f8"), np.array(["x", None, 1.5], dtype=object)]
    assert digest_of_all(parts) == "2234da4fe6f2b62cf681acf6eeac33d4"


def test_objects_of_unknown_content_are_refused():
    with pytest.raises(TypeError, match="object of type object"):
        digest_of(np.array([object()]))
