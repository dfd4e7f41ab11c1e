"""What a draw costs and what it is worth, on logistic regressions with ten coefficients, one chain each.

Run ``python benchmarks/draw.py`` (``--rows 1e4 1e5 1e6`` made-up ones; ``--steps``, ``--thin`` transitions a draw,
``--columns`` of the table).  Seconds are of the processor; set-up is compilation, mode, expansion and weights.  ESS is
ArviZ's bulk ESS of the slowest parameter; ESS/s counts sampling, tuning included.

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

import numpy as np
import pandas as pd
import pymc as pm
from numba import njit
from problems import synthetic
from pymc.backends.ndarray import NDArray
from timing import best, peak_memory, sampled, show, smallest_ess

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group
from pymc_austerity.likelihood import flatten
from pymc_austerity.rows.storage import build_gather

TUNE, REPEATED = 300, 1_000
STEPS: dict[str, Callable[..., Any]] = {
    "PenaltyMH": pma.PenaltyMH,
    "MHSS": pma.MHSS,
    "MHSS, AdaptiveMetropolis": lambda **options: pma.MHSS(proposal=pma.AdaptiveMetropolis(), **options),
}


def of_step(model: pm.Model, build: Callable[..., Any], draws: int, thin: int) -> dict[str, float]:
    """Return what a run of a step cost and what its draws are worth."""
    draws //= thin
    with model:
        run = sampled(partial(build, thin=thin, progressbar=False), draws, TUNE)
    stats, step, ess = group(run.idata, "sample_stats"), run.step, smallest_ess(run.idata)
    each = run.sampling / (draws + TUNE)
    return {
        "draws": draws,
        "passes": step.decider.reported.setup_passes,
        "predicted rows": getattr(step, "predicted_rows", float("nan")),
        "always read": getattr(step, "rows_always_read", float("nan")),
        "rows a draw": float(stats["n_rows"].mean()),
        "accepted": float(stats["accepted"].mean()),
        "set-up, s": run.set_up,
        "µs a draw": 1e6 * each,
        "µs a transition": 1e6 * each / thin,
        "ESS": ess,
        "ESS/s": ess / run.sampling,
        "s to 1,000 ESS": run.set_up + TUNE * each + draws * each * 1_000 / ess,
        "most memory so far, GB": peak_memory(),
    }


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
    parser.add_argument("--rows", type=float, nargs="*", default=[1e5])
    parser.add_argument("--steps", nargs="+", choices=list(STEPS), default=["PenaltyMH", "MHSS"])
    parser.add_argument("--draws", type=int, default=20_000, help="transitions of our steps, after 300 of tuning")
    parser.add_argument("--thin", type=int, nargs="+", default=[1])
    parser.add_argument("--parts", action="store_true", help="where the time of a draw goes")
    parser.add_argument("--columns", nargs="+", help="of the table, all by default")
    options = parser.parse_args()
    lines: list[dict[str, Any]] = []
    for n in options.rows:
        problem, model = f"{n:.0f}", synthetic(n).build()
        if options.parts:
            found = pd.DataFrame({step: parts(model, STEPS[step]) for step in options.steps})
            show(found.rename_axis(f"µs, {problem}").reset_index())
            continue
        for step in options.steps:
            for thin in options.thin:
                found = of_step(model, STEPS[step], options.draws, thin)
                lines.append({"problem": problem, "step": step, "thin": thin, **found})
                show(lines[-1:], sys.stderr)
    if lines:
        table = pd.DataFrame(lines)
        show(table[options.columns or list(table)])


if __name__ == "__main__":
    main()
