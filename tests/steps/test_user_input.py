"""Wrong arguments are refused before anything is built: with the argument, what was found, and what to pass instead."""

import inspect
import re

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma

pytestmark = pytest.mark.versions

X = np.random.default_rng(0).normal(size=50)

with pm.Model() as MODEL:
    BETA, SCALE = pm.Normal("beta"), pm.HalfNormal("scale")
    TWICE = pm.Deterministic("twice", 2 * BETA)
    Y = pm.Normal("y", BETA * X, SCALE, observed=X)
with pm.Model():
    FOREIGN = pm.Normal("beta")

STEPS = {
    pma.PenaltyMH: {},
    pma.MHSS: {},
    pma.ExactMH: {},
    pma.GroupMH: {},
    pma.SGLD: {"step_size": 1e-3},
    pma.ApproxGibbs: {"factors": [[0]]},
}
each_step = pytest.mark.parametrize(("step", "needed"), STEPS.items(), ids=lambda of: getattr(of, "__name__", ""))

VARS = {
    "a name": ("beta", TypeError, "has the name 'beta', and variables are wanted. Pass the variable: vars=[model['b"),
    "a name that is spelt wrongly": (["bteta"], TypeError, "Pass the variable: vars=[model['beta']]"),
    "a variable and a name": ([BETA, "scale"], TypeError, "has the name 'scale'"),
    "a Deterministic": ([TWICE], ValueError, "has twice, which is not a free variable of this model. Free are ['beta'"),
    "an outcome": (Y, ValueError, "has y, which is not a free variable"),
    "a variable of another model": ([FOREIGN], ValueError, "has beta, which is not a free variable of this model"),
    "a number": (3, TypeError, "wants free variables of the model, and got int 3"),
    "data": (X, TypeError, "wants free variables of the model, and got float64"),
    "the model": (MODEL, TypeError, "wants free variables of the model, and got an object of type Model"),
    "nothing": ([], ValueError, "has no variables to move. Choose from ['beta', 'scale']"),
    "one twice": ([BETA, SCALE, BETA], ValueError, "has ['beta'] more than once"),
}

#: Arguments of `PenaltyMH`.
ARGUMENTS = {
    "batchsize": (100, TypeError, "has no argument batchsize=. Did you mean batch_size?"),
    "progress": (False, TypeError, "has no argument progress=. Did you mean progressbar?"),
    "target_accept": (0.3, TypeError, "What tuning aims at, and everything else about the moves, belongs to the prop"),
    "batch_size": ("500", TypeError, "PenaltyMH: batch_size='500' must be a"),
    "batch_size ": (np.nan, ValueError, "batch_size=nan must be a whole number"),
    "max_variance": ("large", TypeError, "max_variance='large' must be a number"),
    "observed": (Y, TypeError, "wants names of observed variables or potentials, such as 'y', and got TensorV"),
    "observed ": ([], ValueError, "observed=[] names nothing"),
    "observed  ": (["yy"], ValueError, "is neither an observed variable nor a potential of the model. Did you mean y?"),
    "tune": ("yes", TypeError, "PenaltyMH: tune='yes' must be True or False"),
    "merge_rows": ("no", TypeError, "PenaltyMH: merge_rows='no' must be True or False"),
    "rng": ("seed", TypeError, "rng='seed' must be a whole number from 0 on"),
    "rng ": (-1, TypeError, "rng=-1 must be a whole number from 0 on"),
    "temperature": ("hot", TypeError, "temperature='hot' is neither a number nor a schedule"),
    "thin  ": (0, ValueError, "thin=0 must be 1 or more"),
    "thin": ("2", TypeError, "PenaltyMH: thin='2' must be a"),
    "initial_point": ({"scale": 1.0}, ValueError, "has 'scale', which is no unconstrained variable of the model. Did"),
    "initial_point ": ({"beta": np.zeros(2)}, ValueError, "for 'beta', and finite numbers of shape () are wanted"),
    "initial_point  ": ({"beta": np.nan}, ValueError, "float nan for 'beta', and finite numbers"),
    "initial_point   ": ([0.0, 1.0], TypeError, "initial_point= wants a dict of names and values, and got list"),
    "compile_kwargs": ("NUMBA", TypeError, "compile_kwargs= wants a dict"),
    "proposal": (pma.RandomWalk, TypeError, "is not a proposal. Pass an object such as pymc_austerity.RandomWalk"),
    "proxy": (2, TypeError, "proxy=2 must be 'auto', None or an object such as pymc_austerity.Taylor"),
    "rows": ("uniform", TypeError, "rows='uniform' must be pymc_austerity.Uniform()"),
    "data": ({"x": X}, TypeError, "data= must be pymc_austerity.Blocks(...), and is an object of type dict"),
    "model": (X, TypeError, "wants a pymc.Model as model=, and got an object of type ndarray"),
}


def cases(table):
    return pytest.mark.parametrize(("given", "error", "message"), table.values(), ids=table)


class TestStep:
    @each_step
    def test_outside_of_a_model(self, step, needed):
        args = [[BETA]] if step is pma.ApproxGibbs else []
        with pytest.raises(TypeError, match=f"{step.__name__} was called outside of a model. Call it within 'with mod"):
            step(*args, **needed)

    @each_step
    def test_unknown_argument(self, step, needed):
        with MODEL, pytest.raises(TypeError, match=rf"{step.__name__} has no argument progres=. .*Choose from vars, "):
            step([BETA], progres=False, **needed)

    @cases(VARS)
    def test_variables(self, given, error, message):
        with MODEL, pytest.raises(error, match="PenaltyMH.*" + re.escape(message)):
            pma.PenaltyMH(given)
        with pytest.raises(error, match="PenaltyMH.*" + re.escape(message)):
            pma.PenaltyMH(vars=given, model=MODEL)

    @pytest.mark.parametrize(("name", "given", "error", "message"), [(k.strip(), *v) for k, v in ARGUMENTS.items()])
    def test_arguments(self, name, given, error, message):
        with pytest.raises(error, match=re.escape(message)):
            pma.PenaltyMH(**{"model": MODEL, name: given})


@pytest.mark.parametrize("step", [pma.ApproxMH, pma.MHSubLhd, pma.MinibatchBarker, pma.MinibatchMH, *STEPS])
def test_every_argument_is_described(step):
    documented, names = inspect.getdoc(step), list(inspect.signature(step).parameters)
    assert "As of every step" not in documented
    for name in names:
        assert re.search(rf"^{name} : .+\n    \S.+", documented, re.MULTILINE), name
    if step is pma.PenaltyMH:
        places = [documented.index(f"\n{name} : ") for name in names]
        assert places == sorted(places)


def test_centre_of_an_expansion():
    with pytest.raises(ValueError, match=r"Taylor\(centre=\) has 'scale', which is no unconstrained .* mean scale_log"):
        pma.PenaltyMH(model=MODEL, proxy=pma.Taylor(centre={"scale": 1.0}))
    with pytest.raises(ValueError, match=r"has no value for beta, and .* Give all unconstrained"):
        pma.PenaltyMH(model=MODEL, proxy=pma.Taylor(centre={"scale_log__": 0.1}))


@pytest.mark.parametrize("of", [float, np.uint8])
def test_whole_numbers_of_any_type_are_taken(of):
    step = pma.MinibatchMH(model=MODEL, batch_size=of(40), thin=of(2), proxy=None, tune=False, progressbar=False)
    assert type(step.test.batch_size) is int
    assert step.thin == 2
