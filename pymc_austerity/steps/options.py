"""The arguments that every step takes, written once and shown in every signature."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any, TypedDict, TypeVar

from pymc.blocking import PointType
from pymc.model import Model
from pymc.util import RandomGenerator

from pymc_austerity.blocks import Blocks
from pymc_austerity.kernel import Schedule
from pymc_austerity.proposals import Proposal
from pymc_austerity.rows import Uniform, Weighted
from pymc_austerity.steps.defaults import ProxyChoice
from pymc_austerity.steps.row_step import RowStep

Step = TypeVar("Step", bound=type[RowStep])
Described = TypeVar("Described", bound=type)

_DESCRIPTIONS = """\
vars : sequence of Variable, optional
    Free variables to move; all of the model by default.  Other steps may move the rest.
proposal : optional
    How to move.  With a proxy `CrankNicolson` by default, or `SurrogateHMC` where the prior is far from normal;
    without one `AdaptiveMetropolis`, above 200 parameters `RandomWalk`.
    In a model with groups that share a mean or a scale `PenaltyMH`, `ApproxMH`, `MinibatchBarker`, `ExactMH` and `MHSS`
    move groups by themselves as `GroupMH` does, by their own test, unless one of `proposal`, `proxy`, `rows`, `data`,
    `merge_rows` and `temperature` is given; a `proposal` makes one decision over all groups.
proxy : Taylor, "auto" or None, default "auto"
    Expansion of every row around the posterior mode, so that the test sees only what the expansion leaves and
    rows read per draw stop growing with N.  Found in a few passes over all rows before sampling.  "auto" is
    ``Taylor()`` for continuous variables; where no mode is found it warns and goes on without.  With None and a
    `RandomWalk` the step is the algorithm of the paper.
rows : Uniform or Weighted, optional
    How rows are drawn.  `Weighted`, the default with a proxy, draws those more often of which the proxy leaves
    more; the t-test is then one with replacement.
data : Blocks, optional
    Rows that do not fit in memory, in place of those in the containers of the model, which are a sample of them.  A
    step whose rows cannot be drawn before sampling refuses them.
observed : str or sequence of str, optional
    Names of the observed variables or potentials whose rows are subsampled; by default all that split into rows, of
    whatever lengths (`GroupMH` and `ApproxGibbs` read one length, by default the longest).
merge_rows : bool, default True
    Whether rows that are the same in all their data, outcomes included, become one row with a count where that leaves
    fewer than half of 1,000 or more.  The posterior is the same; rows that are read are then counted in distinct ones.
temperature : float or Schedule, default 1.0
    Every row's log-likelihood is divided by it; the prior is not.  `Annealing` and `TemperatureDrop` start hot
    and end at the final temperature while tuning.
thin : int, default 1
    Transitions for each draw after tuning, 1 or more; only the last is kept.  The same draws as thinning those of
    ``thin=1``, but what PyMC does around a draw is done once for all of them.  Of the statistics of a draw ``n_rows``
    and ``n_stages`` are those of all its transitions, of which there are ``n_transitions``, ``accepted`` is the share
    of them that were accepted, and all others are of the last.  A tuning draw is one transition.
tune : bool, default True
    Whether the proposal adapts while tuning.
model : pymc.Model, optional
    The model; that of the context by default.
rng : int, numpy.random.Generator or None, optional
    Seed or generator for draws outside ``pm.sample``, which gives each chain one of its own.
initial_point : dict of str to array_like, optional
    Values of the unconstrained variables at which set-up starts; those of the model by default.
compile_kwargs : dict, optional
    Arguments of ``pytensor.function`` for the parts of the model.  A ``mode`` that is not numba's is refused.
blocked : bool, default True
    Whether PyMC gives all variables to one step.
progressbar : bool, default True
    Whether set-up shows what it waits for; ``progressbar`` of ``pm.sample`` comes too late for that.  Without it, and
    with PyMC's logger above the level of information, it is quiet.
"""

#: Stands in a docstring below arguments that are described here: `vars`, and all that the class does not describe.
_MARK = "As of every step."


class CommonOptions(TypedDict, total=False):
    """What every step hands on to `RowStep`."""

    observed: str | Sequence[str] | None
    thin: int
    model: Model | None
    rng: RandomGenerator
    initial_point: PointType | None
    compile_kwargs: dict[str, Any] | None
    blocked: bool
    progressbar: bool


class StepOptions(CommonOptions, total=False):
    """What a step hands on to `RowStep` that leaves all of it to the user but the test."""

    proposal: Proposal | None
    proxy: ProxyChoice
    rows: Uniform | Weighted | None
    data: Blocks | None
    merge_rows: bool
    temperature: float | Schedule
    tune: bool


def describes_options(step: Described) -> Described:
    """Write the descriptions of the common arguments into the docstring of a step, where it names them."""
    if step.__doc__ is None:  # python -OO
        return step
    described = re.findall(r"^((\w+) : .*\n(?:(?:    .*)?\n)+)", _DESCRIPTIONS, re.MULTILINE)
    by_name = {name: text for text, name in described}
    # Without the indentation of the source: from Python 3.13 on the compiler leaves it out.
    docstring = inspect.cleandoc(step.__doc__)
    own = re.findall(r"^(\w+)(?: :|$)", docstring, re.MULTILINE)
    options = [name for name in inspect.signature(step).parameters if name in by_name and name not in own]
    docstring = docstring.replace(f"**options\n    {_MARK}\n", "".join(by_name[name] for name in options))
    step.__doc__ = docstring.replace(f"vars\n    {_MARK}\n", by_name["vars"])
    return step


def shows_options(step: Step) -> Step:
    """Replace ``**options`` in the signature of a step by the arguments that it stands for."""
    init: Any = step.__init__
    parameters = inspect.signature(init).parameters.values()
    own = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    (kind,) = (p.annotation for p in parameters if p.kind is p.VAR_KEYWORD)
    handed_on = CommonOptions if kind == "Unpack[CommonOptions]" else StepOptions
    every = inspect.signature(RowStep.__init__).parameters
    options = [p for name, p in every.items() if name in handed_on.__annotations__]
    init.__signature__ = inspect.Signature([*own, *options])
    return describes_options(step)
