import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest

from pymc_austerity.diagnostics.results import (
    comparable_variables,
    labelled,
    labelled_draws,
    number_of_rows,
    posterior_variables,
    rows_per_draw,
)

pytestmark = pytest.mark.versions


@pytest.fixture
def draws():
    return np.random.default_rng(3).normal(size=(2, 100, 3, 2))


@pytest.fixture
def idata(sampling_result, draws):
    return sampling_result(
        {"effect": draws, "scale": draws[:, :, 0, 0], "switch": draws[:, :, 1, 1] > 0},
        dims={"effect": ["county", "kind"]},
        coords={"county": ["a", "b", "c"]},
    )


def test_labels_are_those_of_arviz_and_belong_to_their_values(idata, draws):
    means = labelled(posterior_variables(idata).mean(("chain", "draw")))
    assert list(means.index)[:-1] == list(az.summary(idata, var_names=["effect", "scale"]).index)
    assert means["effect[b, 1]"] == pytest.approx(draws[:, :, 1, 1].mean())
    assert means["scale"] == pytest.approx(draws[:, :, 0, 0].mean())
    table = labelled_draws({"run": idata}, ["effect", "scale", "switch"], "run")["run"]
    assert len(table) == 200
    pd.testing.assert_series_equal(table.mean(), means)
    # Means alone do not see draws that were shuffled between chains and parameters.
    assert table["effect[c, 0]"].iloc[100 + 7] == idata["posterior"]["effect"].values[1, 7, 2, 0]


@pytest.mark.parametrize(("n_rows", "described"), [(2_000, ["slope"]), (50, ["prediction", "slope"])])
def test_entries_of_many_rows_are_left_out_unless_asked_for(sampling_result, n_rows, described):
    draws = np.random.default_rng(4).normal(size=(2, 20, n_rows))
    many = sampling_result({"slope": draws[..., 0], "prediction": draws}, observed_data={"y": np.zeros(n_rows)})
    assert sorted(posterior_variables(many).data_vars) == described
    assert "prediction" in posterior_variables(many, ["prediction"])
    only = sampling_result({"prediction": draws}, observed_data={"y": np.zeros(n_rows)})
    assert list(posterior_variables(only).data_vars) == ["prediction"]


@pytest.mark.filterwarnings("ignore:.*return_inferencedata:FutureWarning")  # PyMC gives it up
def test_a_multitrace_is_refused_with_what_to_do():
    with pm.Model():
        pm.Normal("y", pm.Normal("mu"), observed=np.zeros(3))
        trace = pm.sample(
            2, tune=1, chains=1, step=pm.Metropolis(), return_inferencedata=False, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    with pytest.raises(TypeError, match="return_inferencedata=True"):
        posterior_variables(trace)


def test_rows_are_those_of_the_longest_observed_variable(sampling_result, draws):
    idata = sampling_result(
        {"mean": draws[..., 0, 0]},
        observed_data={"small": np.zeros(5), "large": np.zeros((70, 200)), "one": 1.0},
    )
    assert number_of_rows(idata) == 70
    assert number_of_rows(idata, 1234) == 1234
    with pytest.raises(ValueError, match="total_rows: must be at least 1, got -3"):
        number_of_rows(idata, -3)


def test_errors_say_what_is_missing(idata, sampling_result):
    with pytest.raises(ValueError, match=r"observed_data .* Pass total_rows="):
        number_of_rows(idata)
    with pytest.raises(ValueError, match="no n_rows"):
        rows_per_draw(idata)
    with pytest.raises(ValueError, match="idata: its posterior has no draws"):
        posterior_variables(idata.isel(draw=[]))


def test_comparable_variables_are_those_of_every_run(sampling_result, draws):
    one, two = draws[..., 0, 0], draws[..., 1, 0]
    results = {
        "reference": sampling_result({"b": one, "a": two, "c": two}),
        "other": sampling_result({"a": one, "b": two}),
    }
    assert comparable_variables(results, "reference", None) == ["b", "a"]
    assert comparable_variables(results, "reference", ["a"]) == ["a"]
    with pytest.raises(ValueError, match="only 'other' is there"):
        comparable_variables({"other": results["other"]}, "other", None)
    results["third"] = sampling_result({"z": one})
    with pytest.raises(ValueError, match="no variable is in every run"):
        comparable_variables(results, "reference", None)
