"""Flat vectors hold the variables of a model, and give them back."""

import numpy as np
import pytensor.tensor as pt
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from pymc_austerity.likelihood import flatten, with_blocks
from pymc_austerity.likelihood.layout import flatten_onto, layout

shapes = st.lists(st.one_of(st.just(()), array_shapes(max_dims=3, max_side=4)), min_size=1, max_size=5)
numbers = st.floats(-1e6, 1e6, allow_subnormal=False)


@st.composite
def points(draw):
    return {f"v{i}": draw(arrays(float, shape, elements=numbers)) for i, shape in enumerate(draw(shapes))}


@given(points(), st.data())
def test_points_come_back_and_named_ones_are_put_onto_vectors(point, data):
    blocks = layout([pt.tensor(name, shape=value.shape) for name, value in point.items()], point)
    theta = flatten(point, blocks)
    assert theta.size == sum(value.size for value in point.values())
    back = with_blocks(dict.fromkeys(point), theta, blocks)
    assert all(np.array_equal(back[name], value) and back[name].shape == value.shape for name, value in point.items())
    named = data.draw(st.sets(st.sampled_from(sorted(point))))
    changed = flatten_onto(np.zeros(theta.size), {name: point[name] for name in named}, blocks)
    for name, value in with_blocks(dict.fromkeys(point), changed, blocks).items():
        assert np.array_equal(value, point[name] if name in named else 0 * point[name])
