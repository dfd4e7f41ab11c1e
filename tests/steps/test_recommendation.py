"""What is recommended: by a table of costs, and for a model that no step of the package can sample."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_austerity as pma
from pymc_austerity.diagnostics.built_steps import find_decider
from pymc_austerity.steps.recommendation import _costs, choose

NAMES = ["MHSS", "PenaltyMH", "MinibatchBarker", "NUTS"]


def table(rows, costs, remark=""):
    numbers = pd.DataFrame({"rows a draw": rows, "us an effective draw": costs}, index=NAMES, dtype=float)
    return numbers.assign(remark=remark)


@pytest.mark.parametrize(
    ("rows", "costs", "step", "why"),
    [
        ([0.7, 200, 100, 7e5], [60, 120, 180, 9e4], "MHSS", "exact and reads 0.7 rows a draw, PenaltyMH 200"),
        ([90, 200, 100, 7e5], [190, 120, 180, 9e4], "MHSS", "exact and reads 90"),
        ([870, 217, 100, 9e4], [1500, 200, 400, 9e4], "PenaltyMH", "MHSS, which is exact, would read 870 rows"),
        ([np.nan, 200, 100, 700], [np.nan, 500, 900, 70], "NUTS", "70 µs each. Not MHSS: no bound"),
        ([np.nan, 200, 100, 7e5], [np.nan, 500, 900, 9e4], "PenaltyMH", "Not MHSS: no bound"),
        ([2, 200, 100, 7e3], [30, 120, 180, 400], "NUTS", "made in the seconds that setting up MHSS takes"),
        ([np.nan, 200, 100, 7e3], [np.nan, 120, 180, 400], "NUTS", "for very many draws PenaltyMH is cheaper"),
    ],
)
def test_the_cheapest_or_the_exact_one_that_reads_no_more(rows, costs, step, why):
    found, reason = choose(table(rows, costs, "no bound"))
    assert found == step
    assert pd.Series([reason]).str.contains(why).all()


def test_groups_are_not_weighed_against_an_exact_step_that_reads_less():
    costs = table([300, 400, 100, 7e5], [8e4, 7e4, 9e4, 9e6])
    costs.loc["GroupMH"] = [2_500, 800, ""]
    assert choose(costs)[0] == "GroupMH"
    assert choose(costs.drop(index="GroupMH"))[0] == "MHSS"


def test_where_nothing_can_sample_that_is_said():
    with pytest.raises(ValueError, match="None of these steps can sample this model. MHSS: a; PenaltyMH: a"):
        choose(table(np.nan, np.nan, "a"))


def test_nuts_is_not_timed_where_a_variable_is_discrete():
    with pm.Model() as model:
        n, p = pm.DiscreteUniform("n", 15, 40), pm.Beta("p", 1, 1)
        pm.Binomial("y", n, p, observed=np.random.default_rng(0).binomial(20, 0.3, 600))
    found = pma.recommend(model)
    assert found.step in ("PenaltyMH", "MinibatchBarker")
    assert "['n'] is discrete" in found.table.loc["NUTS", "remark"]
    assert "['n'] is discrete" in found.table.loc["MHSS", "remark"]


@pytest.mark.parametrize("given", [np.zeros(3), "model", pm.Model], ids=["data", "a name", "a class"])
def test_a_model_is_wanted(given):
    with pytest.raises(TypeError, match=r"recommend wants a pymc.Model as model=, and got"):
        pma.recommend(given)


def test_a_model_without_free_variables():
    with pm.Model() as model:
        pm.Normal("y", 0, 1, observed=np.zeros(3))
    with pytest.raises(ValueError, match="recommend has no variables to move. The model has no free variables"):
        pma.recommend(model)


def test_draws_that_do_not_move_have_no_costs():
    assert "us an effective draw" not in _costs(np.ones((500, 2)), 1.0, 100, 0.0)
    assert _costs(np.random.default_rng(0).normal(size=(500, 2)), 1.0, 100, 0.0)["us an effective draw"] > 0


def test_a_model_that_does_not_split_is_left_to_nuts_and_no_step_stays_behind():
    with pm.Model() as model:
        steps = pm.Normal("steps", 0, 1, shape=30)
        pm.Normal("y", steps.cumsum(), 1, observed=np.arange(30.0))
    found = pma.recommend(model, all_steps=True)
    assert found.step == "NUTS"
    assert "Not MHSS: " in found.why
    assert found.table.loc["PenaltyMH", "remark"]
    assert found.table.loc["NUTS", "us a draw"] > 0
    assert "NUTS: its effective" in str(found)
    assert "<b>NUTS</b>" in found._repr_html_()
    with pytest.raises(ValueError, match="no step of pymc_austerity was built"):
        find_decider(model)


def test_where_nuts_is_quick_no_other_step_is_set_up(monkeypatch):
    for step in ("MHSS", "PenaltyMH", "MinibatchBarker"):
        monkeypatch.setattr(f"pymc_austerity.steps.recommendation.{step}", None)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 0, 1), 1, observed=np.arange(300) / 100)
    found = pma.recommend(model)
    assert found.step == "NUTS"
    assert list(found.table.index) == ["NUTS"]
    assert "No other was tried" in found.why
    with pytest.raises(TypeError, match="not callable"):  # what a step that is set up here comes to
        pma.recommend(model, all_steps=True)
