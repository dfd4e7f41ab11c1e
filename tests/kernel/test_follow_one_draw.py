"""The plain Python of the page "Follow one draw" makes the draws of the compiled step."""

import re
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma

PAGE = Path(__file__).parents[2] / "docs" / "follow_one_draw.md"
N_DRAWS = 200


@pytest.fixture(scope="module")
def compiled():
    """Data, and draws and rows read of the compiled step."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2_000, 2))
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-X @ [1.0, -0.5]))).astype(int)
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=X @ pm.Normal("beta", 0, 1, shape=2), observed=y)
        step = pma.ApproxMH(epsilon=0.05, batch_size=100, proxy=None, proposal=pma.RandomWalk(scale=0.05))
    step.start_chain(np.random.default_rng(7))
    step.stop_tuning()
    point, draws, rows_read = model.initial_point(), [], []
    for _ in range(N_DRAWS):
        point, (stats,) = step.step(point)
        draws.append(point["beta"])
        rows_read.append(stats["n_rows"])
    return X, y, np.array(draws), np.array(rows_read)


def by_page(compiled, old="", new=""):
    """Return draws and rows read by the code of the page, with `new` in place of `old`."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert old in code
    names = {}
    exec(code.replace(old, new) if old else code, names)
    X, y, *_ = compiled
    return names["sample"](7, np.zeros(2), X, y, N_DRAWS)


def test_the_page_makes_the_same_draws(compiled):
    draws, rows_read = by_page(compiled)
    np.testing.assert_array_equal(rows_read, compiled[3])
    np.testing.assert_array_equal(draws, compiled[2])
    assert len(np.unique(draws[:, 0])) > 20  # it moved
    assert 100 < rows_read.mean() < 2_000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" * without_replacement", ""),
        ("- log_prior(theta) +", "+"),
        ("/ np.sqrt(n)", "/ n"),
        ("k + rng.integers(order.size - k)", "k"),
    ],
)
def test_a_planted_mistake_makes_others(compiled, old, new):
    draws, rows_read = by_page(compiled, old, new)
    assert not (np.array_equal(draws, compiled[2]) and np.array_equal(rows_read, compiled[3]))
