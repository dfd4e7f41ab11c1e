"""Comparisons that are printed in a terminal, and runs that share random numbers."""

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma
from pymc_austerity.diagnostics import compare

CHAINS, DRAWS, K = 4, 1_000, 40


def moving(seed, rho=0.5):
    """Draws of autoregressive chains of standard normal numbers."""
    draws = np.random.default_rng(seed).normal(size=(CHAINS, DRAWS, K))
    for t in range(1, DRAWS):
        draws[:, t] = rho * draws[:, t - 1] + np.sqrt(1 - rho**2) * draws[:, t]
    return draws


def close_to(draws, seed, by=0.1, rho=0.5):
    """Draws of the same law, correlated with others in the same place."""
    return np.sqrt(1 - by**2) * draws + by * moving(seed, rho)


@pytest.fixture
def compared(sampling_result):
    def compared(draws, reference):
        results = {"ours": sampling_result({"x": draws}), "NUTS": sampling_result({"x": reference})}
        return compare(results, reference="NUTS")

    return compared


def of(table, column):
    return table.xs("ours", level="run")[column]


def test_independent_runs_share_nothing(compared):
    """At any correlation once in ten thousand comparisons; none of twenty."""
    assert [compared(moving(2 * s), moving(2 * s + 1)).sharing for s in range(20)] == [()] * 20


def test_errors_of_runs_that_share_are_those_of_their_differences(compared):
    """Differences over their errors have unit spread; errors of independent runs are fourteen times as large."""
    reference = moving(100)
    table = compared(close_to(reference, 101), reference)
    assert table.sharing == ("ours",)
    assert (of(table, "correlation") > 0.98).all()
    # 40 standardised values: their spread has a standard error of .11.
    assert abs((of(table, "shift") / of(table, "shift_mcse")).std() - 1) < 0.45
    assert abs(((of(table, "sd_ratio") - 1) / of(table, "sd_ratio_mcse")).std() - 1) < 0.45
    independent = compared(moving(102), reference)
    assert 10 < (of(independent, "shift_mcse") / of(table, "shift_mcse")).mean() < 18
    assert (table["differs"] == "").all()


@pytest.mark.slow
def test_runs_that_share_and_agree_are_rarely_flagged(compared):
    """At the level of .01 a comparison: of 60 not more than four, but with a probability of .0005."""
    flagged = 0
    for seed in range(60):
        reference = moving(1_000 + 2 * seed)
        flagged += (compared(close_to(reference, 1_001 + 2 * seed), reference)["differs"] != "").any()
    assert flagged <= 4


@pytest.mark.parametrize(
    ("spoil", "differs"),
    [
        (lambda x: x + 0.05, "mean"),
        (lambda x: 1.03 * x, "sd"),
        (lambda x: np.where(np.abs(x) < 0.7, 0.0, x), "distribution"),
    ],
    ids=["planted: a shift", "planted: a stretch", "planted: another shape"],
)
def test_a_planted_difference_is_seen_between_runs_that_share(compared, spoil, differs):
    reference = moving(200)
    right = close_to(reference, 201)
    assert (compared(right, reference)["differs"] == "").all()
    assert of(compared(spoil(right), reference), "differs").str.contains(differs).all()
    if differs == "mean":  # which independent runs of this length do not show
        assert not of(compared(spoil(moving(202)), reference), "differs").str.contains(differs).any()


def test_identical_runs_do_not_differ(compared):
    table = compared(moving(300), moving(300))
    assert (table["differs"] == "").all()
    assert (of(table, "shift") == 0).all()
    assert (of(table, "shift_mcse") < 1e-6).all()


def test_runs_of_different_length_that_share_say_so(compared):
    reference = moving(400)
    table = compared(close_to(reference, 401)[:, :600], reference)
    assert table.sharing == ("ours",)
    assert "of independent runs, and too large" in repr(table)
    assert (of(table, "shift_mcse") > 0.03).all()


def test_a_line_a_parameter_in_eighty_columns(sampling_result):
    names = ["a coordinate of which the name is very long indeed", "male"]
    settings = {"dims": {"b": ["k"]}, "coords": {"k": names}}
    draws = moving(500)[..., :2]
    runs = {name: sampling_result({"b": x}, seconds=2.0, **settings) for name, x in (("a", draws), ("b", draws + 1))}
    table = compare(runs, reference="a")
    text = repr(table)
    assert max(map(len, text.splitlines())) <= 80
    assert sum(line.startswith("b[") for line in text.splitlines()) == 2
    assert all(word in text for word in ("shift", "sd ratio", "differs", "mean, distribution", "+1.0", "share random"))
    assert "nan" not in text.lower()
    html = table._repr_html_()
    assert "NaN" not in html
    assert "very long indeed" in html
    assert type(table.loc["b[male]"]).__name__ == "DataFrame"
    assert "shift_mcse" in table.round(3)


def test_many_parameters_are_not_all_printed(sampling_result):
    draws = np.random.default_rng(1).normal(size=(2, 50, 300))
    table = compare({name: sampling_result({"x": draws}) for name in "ab"}, reference="a")
    assert "… and 240 more lines" in repr(table)


@pytest.mark.slow
def test_two_steps_with_one_seed_share_and_with_two_do_not():
    rng = np.random.default_rng(0)
    x = rng.normal(size=10_000)
    settings = {"tune": 300, "chains": 4, "cores": 1, "progressbar": False, "compute_convergence_checks": False}
    with pm.Model():
        b = pm.Normal("b", 0, 2)
        pm.Bernoulli("y", logit_p=b * x, observed=(rng.random(10_000) < 1 / (1 + np.exp(-0.5 * x))).astype(int))
        steps = {"MHSS": pma.MHSS(progressbar=False), "PenaltyMH": pma.PenaltyMH(progressbar=False)}
        runs = {name: pm.sample(500, step=step, random_seed=1, **settings) for name, step in steps.items()}
        other = pm.sample(500, step=steps["PenaltyMH"], random_seed=2, **settings)
    assert compare(runs, reference="MHSS").sharing == ("PenaltyMH",)
    assert compare({"MHSS": runs["MHSS"], "other": other}, reference="MHSS").sharing == ()
