"""Every argument of every public function refuses wrong objects in words that name it."""

import inspect
import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_austerity as pma

pytestmark = pytest.mark.versions

X = np.random.default_rng(0).normal(size=500)
ONE = np.array([0.1])

with pm.Model() as MODEL:
    BETA = pm.Normal("beta")
    pm.Normal("y", BETA * X, 1, observed=X)

WRONG = {
    "3": 3, "-1": -1, "nan": np.nan, "True": True, "None": None, "a name": "x", "names": ["zz"], "numbers": [3],
    "an array": X, "a model": MODEL, "a variable": BETA, "an object": object(), "no items": {}, "a dict": {"x": 3},
    "a function": lambda *_: 1, "a run": "a run", "a class": dict,
}  # fmt: skip

DEBIAS = {"min_batch": 100, "alpha": 1.0, "replications": 3, "random_seed": 1, "progressbar": False}
RUNS = {"results": "runs", "reference": "a"}
TEMPERATURES = {"start": 5.0, "steps": 5}
INEQUALITY = {"t": np.array([5.0]), "n_rows": 10, "delta": ONE}
TRIAL = pma.Trial(np.array([0.1, 0.2]), ONE.repeat(2), 100)
#: Right arguments; the others are left out.  Texts stand for what `sampling_result` makes.
VALID = {
    "AdaptiveMetropolis": {}, "Annealing": TEMPERATURES, "Blocks": {"source": {"x": X}}, "CrankNicolson": {},
    "Exact": {}, "ExactBarker": {}, "Langevin": {}, "NutpieNUTS": {}, "PyMCNUTS": {}, "RandomWalk": {},
    "PartialPosteriorPaths": {"model": MODEL, "expectation": "beta"},
    "ReversibleJump": {"coefficients": "b", "indicators": "g"}, "RunningSummaries": {"model": MODEL},
    "StiefelWalk": {}, "SurrogateHMC": {}, "Taylor": {},
    "TemperatureDrop": TEMPERATURES, "Trial": {"log_ratio": ONE, "noise_sd": ONE, "n_rows": 10}, "Uniform": {},
    "UniformStiefel": {"name": "u", "shape": (2, 3)}, "Weighted": {},
    "acceptance_error": {"test": pma.analyse_test(500), "log_ratio": ONE, "noise_sd": ONE},
    "amari_distance": {"estimate": np.eye(2), "truth": np.eye(2)}, "analyse_test": {"n_rows": 500}, "compare": RUNS,
    "citation": {"run": "run"}, "data_usage": {"idata": "run"},
    "debias": {"phi": lambda q: 0.5 * len(q), "n_rows": 500, **DEBIAS},
    "debias_stream": {"batches": [X[:250], X[250:]], "phi": lambda q: float(q.mean()), "n_max": 500, **DEBIAS},
    "design_test": {"step_or_trial": TRIAL, "batch_sizes": [50], "alphas": [0.5]}, "empirical_bernstein": INEQUALITY,
    "empirical_bernstein_serfling": INEQUALITY, "hoeffding_serfling": INEQUALITY,
    "log_likelihood": {"idata": "run", "model": MODEL, "rows": 5, "progressbar": False},
    "loo": {"idata": "run", "model": MODEL, "rows": 50, "progressbar": False},
    "posterior_predictive": {"idata": "run", "model": MODEL, "rows": 5, "progressbar": False},
    "evaluate_test": {"trial": TRIAL, "epsilon": 0.1, "batch_size": 50}, "plot_comparison": RUNS,
    "plot_data_usage": {"idata": "run"}, "plot_decisions": {"idata": "run"}, "plot_error": RUNS,
    "plot_risk": {"curves": "curves"}, "plot_spot_check": {"report": "report"},
    "risk_over_time": {"draws": X.reshape(2, 250, 1), "function": np.negative, "truth": [0.0], "seconds": 1.0},
    "stop_at": {"ess": 100.0}, "total_variation_bound": {"acceptance_error": 0.1, "eta": 0.5},
}  # fmt: skip
#: Steps, and what builds them, are in `tests/steps/test_user_input.py`; the others are only returned or raised.
ELSEWHERE = {
    "MHSS", "SGLD", "ApproxGibbs", "ApproxMH", "ExactMH", "GroupMH", "MHSubLhd", "MinibatchBarker", "MinibatchMH",
    "PenaltyMH", "recommend", "reliability", "resume", "run_trial", "Comparison", "Design", "GroupsNotFoundError",
    "NotRowWiseError", "OperatingCharacteristic", "Recommendation", "Reliability", "ReplicationError",
    "UnsupportedModelError", "__version__", "step",
}  # fmt: skip


@pytest.fixture
def made(sampling_result):
    """What texts in `VALID` stand for."""
    stats = {name: np.full((2, 60), 0.5) for name in ("threshold", "log_ratio", "log_ratio_sd", "n_rows")}
    draws = {"beta": X[:120].reshape(2, 60)}
    run = sampling_result(draws, {**stats, "full_data": np.zeros((2, 60), bool)}, {"y": X}, seconds=1.0)
    states = pd.DataFrame({"there": [0.5], "back": [0.5], "error_se": [0.1]})
    return {
        "of another": sampling_result(draws, {"accept": stats["n_rows"]}, {"y": X}),
        "run": run, "runs": {"a": run, "b": run}, "report": pma.Reliability("trust", states, states, 1.0),
        "curves": {"a": pma.risk_over_time(X.reshape(2, 250, 1), np.negative, [0.0], 1.0)},
    }  # fmt: skip


@pytest.fixture(autouse=True)
def _no_windows():
    backend = mpl.get_backend()
    mpl.use("Agg")
    yield
    plt.close("all")
    mpl.use(backend)


def test_every_public_name_is_in_the_table():
    assert set(pma.__all__) == set(VALID) | ELSEWHERE


@pytest.mark.filterwarnings("ignore")  # of what is accepted
@pytest.mark.parametrize("name", VALID)
def test_wrong_objects(name, made):
    """Each call succeeds or fails with an error that names the function, one of its arguments, or what was in it."""
    function, valid = getattr(pma, name), {}
    for argument, value in VALID[name].items():
        valid[argument] = made[value] if isinstance(value, str) and value in made else value
    parameters, others = inspect.signature(function).parameters, []
    names = "|".join([name, *parameters, "alpha", "step=", "blocks?", "stream"])
    for argument, parameter in parameters.items():
        for what, wrong in WRONG.items():
            if parameter.kind is parameter.VAR_KEYWORD or (wrong is None and parameter.default is None):
                continue
            if what == "a class" and argument == "function":  # it is called, and what it raises is its own
                continue
            try:
                with pm.Model():
                    function(**{**valid, argument: made["run"] if what == "a run" else wrong})
            except (TypeError, ValueError, pma.ReplicationError) as error:
                others += [] if re.search(names, str(error)) else [f"{argument} = {what}: {error}"]
            except KeyError as error:  # PyMC's own word on dimensions
                others += [] if argument == "dims" else [f"{argument} = {what}: {error!r}"]
    assert not others


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("Blocks", {"source": {"x": X}, "pool": 10**30}, f"Blocks: pool={10**30} must be a whole number of less"),
        ("stop_at", {"ess": 10**400, "chains": 10**400}, "chains=<int> must be a whole number of less than 2**63"),
        ("plot_data_usage", {"idata": "run", "axes": 3}, "axes=3 must be a sequence of matplotlib Axes"),
        ("plot_decisions", {"idata": "run", "ax": 3}, "plot_decisions: ax=3 must be matplotlib Axes"),
        ("plot_error", {**RUNS, "var_names": 3}, "plot_error: var_names=3 must be a sequence of names"),
        ("compare", {**RUNS, "reference": ["a"]}, "compare: reference=['a'] must be a name"),
        ("compare", {**RUNS, "reference": "aa"}, "reference: 'aa' is not among the runs. Did you mean a?"),
        ("compare", {**RUNS, "var_names": ["bet"]}, "var_names: ['bet'] not in the posterior. Did you mean beta?"),
        ("compare", {"results": "run", "reference": "a"}, "results: one run alone, with nothing to compare it to."),
        ("data_usage", {"idata": MODEL}, "That is a model. Did you mean idata, which pm.sample returned?"),
        ("loo", {"idata": MODEL, "model": "run", "rows": 5}, "Did you mean loo(idata, model)?"),
        ("PenaltyMH", {"vars": MODEL}, "Pass it as model=, or leave it out within 'with model:'"),
        ("stop_at", {"es": 400}, "stop_at has no argument es=. Did you mean ess?"),
        ("data_usage", {"idata": "runs"}, "Did you mean the run 'a' of it alone?"),
        ("reliability", {"idata": MODEL, "model": "run"}, "Did you mean reliability(idata, model)?"),
        ("reliability", {"idata": None, "model": MODEL}, "idata= wants what pm.sample returned, and got NoneType None"),
        ("reliability", {"idata": "run", "model": "run"}, "reliability wants a pymc.Model as model=, and got an"),
        ("reliability", {"idata": "of another", "model": MODEL}, "so no step of this package made it or they were"),
        ("design_test", {"step_or_trial": TRIAL, "batch_sizes": 3}, "batch_sizes=3 must be a sequence of whole"),
        ("PartialPosteriorPaths", {**VALID["PartialPosteriorPaths"], "row_axes": 3}, "row_axes=3 must be a dict"),
        ("ReversibleJump", {"coefficients": 3, "indicators": 4}, "Jump: coefficients=3 must be a variable or a name"),
        ("amari_distance", {"estimate": np.zeros((2, 2)), "truth": np.eye(2)}, "estimate= has a matrix that"),
        ("debias", {**VALID["debias"], "alpha": "own"}, "debias: alpha='own' must be a number or 'auto'"),
        ("compare", {"results": "runs"}, "It is called as compare(results, reference=, var_names="),
        ("Blocks", {"sorce": {"x": X}}, "Blocks has no argument sorce=. Did you mean source?"),
        ("Uniform", {"n": 3}, "Uniform has no argument n=. It takes none."),
        ("Annealing", {"steps": 3}, "missing a required argument: 'start'. It is called as Annealing(start, steps,"),
        ("reliability", {"idata": "run", "model": MODEL, "step": pma.MHSS}, "and got the class MHSS in place of an"),
        ("reliability", {"idata": X}, "reliability was called outside of a model"),
        ("reliability", {"idata": X, "model": MODEL, "n_states": "few"}, "n_states='few' must be a whole number"),
        ("plot_risk", {"curves": {"a": X}}, "curves: 'a' is no table of risk_over_time"),
        ("run_trial", {"step": MODEL}, "step= wants a step of pymc_austerity, and got an object of type Model"),
        ("debias", {**VALID["debias"], "random_seed": "s"}, "random_seed= wants whole numbers from 0 on"),
        ("PartialPosteriorPaths", {"model": "m", "expectation": "b"}, "wants a pymc.Model as model="),
        ("PyMCNUTS", {"draws": -1}, "draws=-1, tune=300, chains=1, target_accept=0.8) needs draws="),
    ],
)  # fmt: skip
def test_words(function, arguments, message, made):
    valid = {key: made.get(value, value) if isinstance(value, str) else value for key, value in arguments.items()}
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        getattr(pma, function)(**valid)


@pytest.mark.filterwarnings("ignore:The standard error may say too little")
@pytest.mark.parametrize("of", [float, np.float64, np.int8])
def test_whole_numbers_of_any_type_are_taken(of):
    """Those of NumPy would overflow, and a float is the length of no array."""
    expected, given = (pma.hoeffding_serfling(**{**INEQUALITY, "n_rows": n}) for n in (100, of(100)))
    np.testing.assert_array_equal(given, expected)
    table = pma.risk_over_time(X.reshape(2, 250, 1), np.negative, [0.0], 1.0, n_times=of(7))
    assert len(table) == 7
    assert type(pma.Blocks({"x": X}, pool=of(100)).pool) is int
    assert pma.debias(**{**VALID["debias"], "replications": of(3)}).sizes["replication"] == 3
