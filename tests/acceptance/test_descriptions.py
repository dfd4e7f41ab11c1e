"""What the rest of the package is told of a test; and that each can be a key, which compiled code is found by."""

from dataclasses import FrozenInstanceError, fields

import pytest

from pymc_austerity.acceptance import AcceptanceTest
from pymc_austerity.acceptance.barker import Barker, ExactBarker
from pymc_austerity.acceptance.concentration import ConcentrationBound
from pymc_austerity.acceptance.fixed_batch import FixedBatch
from pymc_austerity.acceptance.metropolis import Exact
from pymc_austerity.acceptance.penalty import NoisePenalty
from pymc_austerity.acceptance.scalable_subsampling import ScalableSubsampling
from pymc_austerity.acceptance.sequential import SequentialT

#: uses_proxy, corrects_noise, designable, reads_moments, resolves_remainders, draws_by_bounds.
DESCRIPTIONS = {
    Exact(): "--dm--",
    ExactBarker(): "---m--",
    SequentialT(0.01, 500): "p-dm--",
    FixedBatch(100): "p--m--",
    NoisePenalty(200): "pn-m--",
    Barker(100): "pn-m--",
    ConcentrationBound(): "p--m--",
    ScalableSubsampling(): "pn--rb",
}
FACTS = ("uses_proxy", "corrects_noise", "designable", "reads_moments", "resolves_remainders", "draws_by_bounds")


@pytest.mark.parametrize("test", DESCRIPTIONS, ids=lambda test: type(test).__name__)
def test_what_it_is_known_by(test: AcceptanceTest):
    found = "".join(letter if getattr(test, fact) else "-" for fact, letter in zip(FACTS, "pndmrb"))
    assert found == DESCRIPTIONS[test]


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
