"""The page of sample statistics has those that a step declares."""

import re
from pathlib import Path

import numpy as np
import pytest
from toy import shift_model

import pymc_austerity as pma
from pymc_austerity.kernel.tuned_state import TUNED
from pymc_austerity.steps import draw_statistics

page = Path(__file__).resolve().parents[1] / "docs" / "sample_statistics.md"
if not page.exists():  # tests of an installed wheel have no documentation beside them
    pytest.skip("needs docs/sample_statistics.md", allow_module_level=True)

declared = [values for name, values in vars(draw_statistics).items() if name.startswith("OF_")]
declared += [pma.ApproxGibbs.stats_dtypes_shapes, pma.ApproxMH.designed_stats, {TUNED: None}]


def on_the_page():
    first = [line.split(" | ")[0] for line in page.read_text().splitlines() if line.startswith("| `")]
    return {name for cell in first for name in re.findall("`([a-z_]+)`", cell)}


def test_the_page_has_the_statistics_of_steps_and_no_others():
    assert on_the_page() == {name for group in declared for name in group}


@pytest.mark.parametrize("step", [pma.MHSS, pma.ApproxMH, pma.ExactMH])
def test_steps_declare_statistics_of_the_page_alone(step):
    """Whatever a step declares beside those."""
    with shift_model(np.random.default_rng(1).normal(size=100)):
        assert set(step(progressbar=False).stats_dtypes_shapes) <= on_the_page()
