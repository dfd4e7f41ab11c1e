"""What a draw costs and what it is worth: our steps and NUTS on the same models, one chain each, in one run.

Run ``python benchmarks/draw.py`` (``--problems``, or ``--rows 1e4 1e5 1e6`` for logistic regressions with ten
coefficients on so many made-up rows; ``--steps``, ``--thin`` transitions a draw, ``--nuts`` draws and tuning draws of
NUTS, ``--columns`` of the table).  Seconds are of the processor; set-up is compilation, for us also mode, expansion and
weights.  ESS is ArviZ's bulk ESS of the slowest parameter; ESS/s counts sampling, tuning included.

``--parts`` says instead where the microseconds of a draw go.  Each part is timed by itself, the best of five goes, in
compiled code; what is left is Python: PyMC's loop and trace, the step's own bookkeeping, the call of compiled code.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import group_models
import numpy as np
import pandas as pd
import pymc as pm
from numba import njit
from problems import PROBLEMS, synthetic
from pymc.backends.ndarray import NDArray
from timing import Run, best, nuts, peak_memory, sampled, show, smallest_ess

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group
from pymc_austerity.likelihood import flatten
from pymc_austerity.rows.storage import build_gather

TUNE, REPEATED = 300, 1_000
MODELS: dict[str, Callable[[], pm.Model]] = {
    **{name: problem.build for name, problem in PROBLEMS.items()},
    "radon": group_models.radon,
    "hierarchical logistic": group_models.hundred_groups,
}
STEPS: dict[str, Callable[..., Any]] = {
    "PenaltyMH": pma.PenaltyMH,
    "MinibatchBarker": pma.MinibatchBarker,
    "ApproxMH": pma.ApproxMH,
    "ExactMH": pma.ExactMH,
    "MHSS": pma.MHSS,
    "MHSS(order=2)": partial(pma.MHSS, order=2),
    "MHSS(order=3)": partial(pma.MHSS, order=3),
    "MHSS, AdaptiveMetropolis": lambda **options: pma.MHSS(proposal=pma.AdaptiveMetropolis(), **options),
}
NUTS = {"nutpie": "nutpie", "PyMC NUTS": "pymc", "NumPyro NUTS": "numpyro"}


def costs(run: Run, draws: int, tune: int, thin: int = 1) -> dict[str, float]:
    """Return what a run cost and what its draws are worth."""
    ess, each = smallest_ess(run.idata), run.sampling / (draws + tune)
    return {
        "set-up, s": run.set_up,
        "µs a draw": 1e6 * each,
        "µs a transition": 1e6 * each / thin,
        "ESS": ess,
        "ESS/s": ess / run.sampling,
        "s to 1,000 ESS": run.set_up + tune * each + draws * each * 1_000 / ess,
        "most memory so far, GB": peak_memory(),
    }


def of_step(model: pm.Model, build: Callable[..., Any], draws: int, thin: int) -> dict[str, float]:
    """Sample with one of our steps."""
    with model:
        run = sampled(partial(build, thin=thin, progressbar=False), draws // thin, TUNE)
    stats, step = group(run.idata, "sample_stats"), run.step
    return {
        "draws": draws // thin,
        "passes": step.decider.setup_passes if hasattr(step, "decider") else float("nan"),
        "predicted rows": getattr(step, "predicted_rows", float("nan")),
        "always read": getattr(step, "rows_always_read", float("nan")),
        "rows a draw": float(stats["n_rows"].mean()),
        "accepted": float(stats["accepted"].mean()),
        **costs(run, draws // thin, TUNE, thin),
    }


def of_nuts(model: pm.Model, sampler: str, draws: int, tune: int) -> dict[str, float]:
    """Sample with NUTS, every leapfrog step of which reads all rows."""
    run = nuts(model, sampler, draws, tune)
    n_rows = model.rvs_to_values[model.observed_RVs[0]].data.shape[0]
    stats = group(run.idata, "sample_stats")
    leapfrogs = next((float(stats[name].mean()) for name in ("n_steps", "tree_size") if name in stats), float("nan"))
    return {"draws": draws, "rows a draw": leapfrogs * n_rows, **costs(run, draws, tune)}


def microseconds(call: Callable[..., Any], *arguments: Any) -> float:
    """Time a function of compiled code, without the call of it from Python."""
    call = njit(call)

    @njit
    def repeat(arguments, repeats):  # type: ignore[no-untyped-def]
        total = 0.0
        for _ in range(repeats):
            total += call(*arguments)
        return total

    return best(lambda: repeat(arguments, REPEATED), 5, REPEATED)


def parts_of_batch(step: Any) -> dict[str, float]:
    """Time the parts of a compiled transition that reads a batch of weighted rows."""
    decider, chain = step.decider, step.chain
    arrays, fixed, expansion = decider.parts.stored.arrays, decider.parts.fixed, decider.expansion
    table, n, theta, others = decider.parts.prepared.table, int(chain.looks.sizes[0]), chain.start, np.empty(0)
    draw, propose = decider.row_source.draw, decider.move.propose
    both_sides, known_sum = decider.density.both_sides, decider.density.known_sum
    gather, rng = build_gather(tuple(a.ndim for a in arrays)), np.random.default_rng(1)
    batch = gather(arrays, draw(rng, table, 0, n))
    row_numbers = microseconds(lambda rng: draw(rng, table, 0, n)[0], rng)
    gathered = microseconds(lambda rng, arrays: gather(arrays, draw(rng, table, 0, n))[0].ravel()[0], rng, arrays)
    surroundings = decider.surroundings(others)
    return {
        "row numbers": row_numbers,
        "gathering the rows": gathered - row_numbers,
        "their remainders": microseconds(
            lambda theta, others, data: both_sides(theta, theta, others, *data)[0][0],
            theta, others, (expansion[0], *fixed, *batch),
        ),
        "proposal": microseconds(lambda *given: propose(*given)[1], rng, theta, chain.state, surroundings),
        "proxy's sum, both sides": 2 * microseconds(lambda *given: known_sum(*given), theta, others, expansion),
    }  # fmt: skip


def parts(model: pm.Model, build: Callable[..., Any]) -> pd.Series:
    """Time the compiled transition and what Python adds to it."""
    with model:
        step = build(progressbar=False)
    step.stop_tuning()
    chain, others, at = step.chain, np.empty(0), {"point": model.initial_point()}
    theta = step.decider.parts.prepared.draws[-1]
    found = parts_of_batch(step) if isinstance(step, pma.PenaltyMH) else {}

    def draw() -> None:
        at["point"], at["stats"] = step.step(at["point"])

    compiled = best(lambda: chain.draws(1, REPEATED, theta, others, 1.0), 5, REPEATED)
    ahead = best(lambda: chain.draws(64, 1, theta, others, 1.0), REPEATED // 64, 64)
    in_all = best(draw, REPEATED)
    trace = NDArray(model=model)
    trace.setup(5 * REPEATED + 1, 0, step.stats_dtypes)
    late = {"in_warmup": False} if "in_warmup" in inspect.signature(trace.record).parameters else {}
    found |= {
        "compiled transition": compiled,
        "calling it, one at a time": best(lambda: chain.transition(theta, others, 1.0), REPEATED) - compiled,
        "calling it, made ahead": ahead - compiled,
        "point to vector and back": best(lambda: flatten(at["point"], step.decider.parts.likelihood.blocks), REPEATED),
        "the step, in all": in_all,
        "of that statistics and its look at itself": in_all - ahead,
        "PyMC's trace": best(lambda: trace.record(at["point"], at["stats"], **late), REPEATED),
    }
    return pd.Series(found, name="µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", choices=MODELS, default=[])
    parser.add_argument("--rows", type=float, nargs="*", default=[1e5], help="logistic regressions on made-up rows")
    parser.add_argument("--steps", nargs="+", choices=[*STEPS, *NUTS], default=["PenaltyMH", "MHSS"])
    parser.add_argument("--draws", type=int, default=20_000, help="transitions of our steps, after 300 of tuning")
    parser.add_argument("--thin", type=int, nargs="+", default=[1])
    parser.add_argument("--nuts", type=int, nargs=2, default=[200, 200], metavar=("DRAWS", "TUNE"))
    parser.add_argument("--parts", action="store_true", help="where the time of a draw goes")
    parser.add_argument("--columns", nargs="+", help="of the table, all by default")
    options = parser.parse_args()
    models = {name: MODELS[name] for name in options.problems}
    models |= {} if models else {f"{n:.0f}": synthetic(n).build for n in options.rows}
    lines: list[dict[str, Any]] = []
    for problem, build in models.items():
        model = build()
        if options.parts:
            found = pd.DataFrame({step: parts(model, STEPS[step]) for step in options.steps})
            show(found.rename_axis(f"µs, {problem}").reset_index())
            continue
        for step in options.steps:
            for thin in options.thin if step in STEPS else [1]:
                if step in NUTS:
                    found = of_nuts(model, NUTS[step], *options.nuts)
                else:
                    found = of_step(model, STEPS[step], options.draws, thin)
                lines.append({"problem": problem, "step": step, "thin": thin, **found})
                show(lines[-1:], sys.stderr)
    if lines:
        table = pd.DataFrame(lines)
        show(table[options.columns or list(table)])


if __name__ == "__main__":
    main()
