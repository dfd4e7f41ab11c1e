"""`MHSubLhd` against `ExactMH` on the way to the mode, in CPU seconds: the regressions of Bardenet, Doucet and Holmes.

Both take turns in one process, so that what else the machine does is the same for them: read the ratios.

    python benchmarks/to_the_mode.py
"""

import json
import os
import time
from pathlib import Path

import numpy as np
import pymc as pm

import pymc_austerity as pma

ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("PMA_DATA", str(ROOT / ".." / "shared" / "data"))
#: In the notebook the training error has settled after so many transitions from each start.
TO_THE_MODE = {"covtype": (268, 612, 504, 529), "two classes": (302,)}


def logistic_models():
    """Yield names, models and starts of the regressions of `TO_THE_MODE`."""
    cells = json.loads((ROOT / "notebooks" / "bardenet.ipynb").read_text())["cells"]
    names = {"np": np, "pm": pm}
    exec("".join(cells[6]["source"]).split("def sample_from")[0], names)
    file = Path(os.environ["PMA_DATA"]) / "covtype_binary.npz"
    if file.exists():
        stored = np.load(file)
        order = np.random.default_rng(0).permutation(len(stored["y"]))[:400_000]
        x, y = stored["X"][order, :2].astype(float), stored["y"][order].astype(int)
        starts = np.random.default_rng(5).normal(0, 2, size=(4, 3))
        yield "covtype", names["logistic_model"](0.5 * (x - x.mean(axis=0)) / x.std(axis=0), y), starts
    rng = np.random.default_rng(422)
    label = rng.random(10_000_000) < 0.5
    points = rng.normal(size=(len(label), 2))
    points[:, 0] += np.where(label, 1.0, -1.0)
    yield "two classes", names["logistic_model"](points, label.astype(int)), [[1.0, -1.0, 2.0]]


def seconds_to_the_mode(model, start, n_transitions):
    """Return CPU seconds and passes over the rows of `MHSubLhd` and `ExactMH` with the same proposals."""
    options = {"proxy": None, "model": model, "progressbar": False}
    steps = {"MHSubLhd": pma.MHSubLhd(**options), "ExactMH": pma.ExactMH(**options)}
    points = {name: {"intercept": np.float64(start[0]), "slopes": np.asarray(start[1:])} for name in steps}
    found = {name: np.zeros(2) for name in steps}
    for step in steps.values():
        step.start_chain(np.random.default_rng(1))
    for k in range(n_transitions):
        for name, step in steps.items():
            begun = time.process_time()
            points[name], (stats,) = step.step(points[name])
            if k:  # the first compiles
                found[name] += (time.process_time() - begun, stats["n_rows"] / step.decider.n_rows)
    return found


def main():
    for name, model, starts in logistic_models():
        for start, n_transitions in zip(starts, TO_THE_MODE[name], strict=True):
            found = seconds_to_the_mode(model, start, n_transitions)
            (ours, passes), (exact, _) = found["MHSubLhd"], found["ExactMH"]
            print(
                f"{name}, {n_transitions} transitions: MHSubLhd {passes:.1f} passes in {ours:.2f} CPU s, "
                f"ExactMH {exact:.2f}; ratio {exact / ours:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
