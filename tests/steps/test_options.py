"""Every argument of every step is described in its docstring, and others are refused."""

import inspect
import re

import pytest

import pymc_austerity as pma

pytestmark = pytest.mark.versions

STEPS = [
    pma.ApproxMH,
    pma.PenaltyMH,
    pma.MHSubLhd,
    pma.MHSS,
    pma.MinibatchBarker,
    pma.MinibatchMH,
    pma.ExactMH,
    pma.SGLD,
    pma.ApproxGibbs,
]


@pytest.mark.parametrize("step", STEPS)
def test_every_argument_is_described(step):
    documented = inspect.getdoc(step)
    assert "As of every step" not in documented
    for name in list(inspect.signature(step.__init__).parameters)[1:]:
        found = re.search(rf"^{name} : .+\n    \S.+", documented, re.MULTILINE)
        assert found, name


def test_common_arguments_follow_the_signature():
    documented = inspect.getdoc(pma.PenaltyMH)
    names = list(inspect.signature(pma.PenaltyMH.__init__).parameters)[1:]
    places = [documented.index(f"\n{name} : ") for name in names]
    assert places == sorted(places)
