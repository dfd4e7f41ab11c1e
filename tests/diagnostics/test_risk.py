"""Risk against time: against its closed form, and what is refused."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import pymc_austerity as pma


def _curve(bias=0.0, chains=200, **kwargs):
    draws = np.random.default_rng(3).normal(bias, 1.0, size=(chains, 1_000, 2))
    return pma.risk_over_time(draws, lambda x: x, np.zeros(2), 0.01, **kwargs)


@pytest.mark.parametrize("bias", [0.0, 0.1])
def test_risk_is_squared_bias_plus_variance(bias):
    curve = _curve(bias, n_times=12)
    expected = bias**2 + 1 / curve["draws"]
    z = (curve["risk"] - expected) / curve["risk_se"]
    assert np.abs(z).max() < 4
    # The bias is seen where it is, and its absence where it is not.
    assert (np.abs((curve["risk"] - (0.1 - bias) ** 2 - 1 / curve["draws"]) / curve["risk_se"]) > 4).any()
    assert curve["seconds"].to_numpy() == pytest.approx(np.geomspace(0.1, 10, 12))
    assert curve["draws"].iloc[-1] == 1_000


def test_risk_uses_the_draws_that_were_there_in_time():
    draws = np.arange(20.0)[None, :] * np.ones((2, 1))
    seconds = np.stack([np.arange(1, 21.0), 2 * np.arange(1, 21.0)])
    curve = pma.risk_over_time(draws, lambda x: x, [0.0], seconds, n_times=2)
    assert curve["seconds"].tolist() == [20, 20]
    assert curve["draws"].iloc[0] == 15
    assert curve["risk"].iloc[0] == pytest.approx((9.5**2 + 4.5**2) / 2)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"draws": np.zeros((1, 50))}, "at least two chains"),
        ({"draws": np.zeros((2, 9))}, "ten draws"),
        ({"draws": np.zeros((2, 50, 1, 1))}, "shape"),
        ({"seconds": np.zeros((2, 49))}, "one time for each"),
        ({"seconds": -np.arange(100.0).reshape(2, 50)}, "not decreasing"),
        ({"truth": np.zeros(3)}, r"truth has shape \(3,\)"),
    ],
)
def test_what_does_not_fit_is_refused(change, told):
    arguments = {"draws": np.zeros((2, 50)), "truth": [0.0], "seconds": 1.0} | change
    with pytest.raises(ValueError, match=told):
        pma.risk_over_time(arguments.pop("draws"), lambda x: x, **arguments)


def test_figure_has_a_line_and_a_band_for_each_sampler():
    curves = {"exact": _curve(chains=4), "biased": _curve(0.2, chains=4)}
    (panel,) = pma.plot_risk(curves)
    assert [line.get_label() for line in panel.lines] == ["exact", "biased"]
    assert len({(line.get_color(), line.get_linestyle()) for line in panel.lines}) == 2
    assert len(panel.collections) == 2
    assert np.allclose(panel.lines[1].get_ydata(), curves["biased"]["risk"])
    assert panel.get_xscale() == panel.get_yscale() == "log"
    with pytest.raises(ValueError, match="none to plot"):
        pma.plot_risk({})
    with pytest.raises(ValueError, match="one is needed, got 2"):
        pma.plot_risk(curves, axes=plt.subplots(1, 2)[1])
    plt.close("all")
