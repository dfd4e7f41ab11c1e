"""What the rest of the package is told of a test; and that each can be a key, which compiled code is found by."""

from dataclasses import FrozenInstanceError, fields

import pytest

from pymc_austerity.acceptance import AcceptanceTest, Reads
from pymc_austerity.acceptance.all_rows import Exact
from pymc_austerity.acceptance.barker import Barker, ExactBarker
from pymc_austerity.acceptance.concentration import ConcentrationBound
from pymc_austerity.acceptance.penalty import NoisePenalty
from pymc_austerity.acceptance.scalable_subsampling import ScalableSubsampling
from pymc_austerity.acceptance.sequential import SequentialT
from pymc_austerity.acceptance.uncorrected import FixedBatch

#: Which rows it reads, and whether the noise of a batch is part of it.
DESCRIPTIONS = {
    Exact(): (Reads.ALL, False),
    ExactBarker(): (Reads.ALL, False),
    SequentialT(0.01, 500): (Reads.BATCHES, False),
    FixedBatch(100): (Reads.BATCHES, False),
    NoisePenalty(200): (Reads.BATCHES, True),
    Barker(100): (Reads.BATCHES, True),
    ConcentrationBound(): (Reads.BATCHES, False),
    ScalableSubsampling(): (Reads.BY_BOUNDS, True),
}


@pytest.mark.parametrize("test", DESCRIPTIONS, ids=lambda test: type(test).__name__)
def test_what_it_is_known_by(test: AcceptanceTest):
    assert (test.reads, test.corrects_noise) == DESCRIPTIONS[test]


@pytest.mark.parametrize("test", DESCRIPTIONS, ids=lambda test: type(test).__name__)
def test_it_is_a_key_that_nothing_changes(test: AcceptanceTest):
    assert hash(test) == hash(test.__class__(**{field.name: getattr(test, field.name) for field in fields(test)}))
    for field in fields(test):
        with pytest.raises(FrozenInstanceError):
            setattr(test, field.name, None)


@pytest.mark.parametrize("test", [Exact(), ExactBarker(), ScalableSubsampling()], ids=lambda test: type(test).__name__)
def test_it_looks_once_at_all_rows(test: AcceptanceTest):
    looks = test.looks(7)
    assert (looks.sizes.tolist(), looks.bounds.tolist()) == ([7], [0.0])
