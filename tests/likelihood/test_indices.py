"""Which entries of a vector an index takes."""

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_austerity.likelihood.model_graph import entries_taken

X, K = pt.vector("x"), pt.iscalar("k")


@pytest.mark.parametrize("index", [slice(2, 5), slice(5, 2, -1), slice(None, None, 3), slice(-2, None), 3, -1])
def test_entries_are_those_that_numpy_takes(index):
    expected = np.atleast_1d(np.arange(7)[index])
    np.testing.assert_array_equal(entries_taken(X[index].owner, 7), expected)


@pytest.mark.parametrize("index", [slice(K, 5), slice(2, K), slice(None, None, K), K])
def test_what_only_data_say_is_not_known(index):
    assert entries_taken(X[index].owner, 7) is None
