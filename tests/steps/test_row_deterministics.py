"""The log says which deterministic variables PyMC evaluates for all rows with every draw."""

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma

N = 6_000


def said(caplog, spelling, n=N):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=n), rng.normal(size=n)
    caplog.clear()
    with pm.Model(coords={"row": np.arange(n)}), caplog.at_level("INFO"):
        b = pm.Normal("b", 0, 1)
        mu = {
            "constant": lambda: pm.Deterministic("mu", b * x),
            "data": lambda: pm.Deterministic("mu", b * pm.Data("x", x, dims="row"), dims="row"),
            "none": lambda: b * x,
            "scalar": lambda: pm.Deterministic("half", b / 2) * x,
        }[spelling]()
        pm.Normal("y", mu, 1, observed=y)
        pma.ExactMH(proposal=pma.RandomWalk(), proxy=None)
    return [message for message in caplog.messages if message.startswith("Deterministic")]


@pytest.mark.parametrize("spelling", ["constant", "data"])
def test_a_value_a_row_is_mentioned_once(caplog, spelling):
    (message,) = said(caplog, spelling)
    assert "mu has a value for each of 6,000 rows" in message
    assert "48 kB" in message
    assert "var_names=['b']" in message


@pytest.mark.parametrize(("spelling", "n"), [("none", N), ("scalar", N), ("constant", 500)])
def test_nothing_is_said_of_others(caplog, spelling, n):
    assert said(caplog, spelling, n) == []
