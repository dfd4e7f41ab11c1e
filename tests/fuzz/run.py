"""Runs the fuzzer for some minutes: `make fuzz`, or ``python tests/fuzz/run.py --seed 7`` for one model again."""

import argparse
import logging
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter

import numpy as np
from checks import Found, Split, check
from grammar import program
from hierarchies import FEW, hierarchy
from invariance import STEPS, check_hierarchy
from reflections import LAWS, check_decisions

#: Every so many models steps are built, which takes as long as a hundred models without: most of the time is theirs.
STEPS_EVERY, ROWS_OF_STEPS = 40, 1_500
#: And as many, in turn: each takes some ten seconds to compile.
STEPS_OF_A_MODEL = 3
#: Every so many models a hierarchical one is read, and every so many of these has transitions of a step compared.
HIERARCHY_EVERY, MOVES_EVERY = 8, 5


def examine(seed, with_steps):
    """Check one model, and return what was seen of it."""
    made = program(seed, rows=ROWS_OF_STEPS if with_steps else None)
    seen = check(made)
    if seed % HIERARCHY_EVERY == 0:
        number = seed // HIERARCHY_EVERY
        moves = [list(STEPS)[number // MOVES_EVERY % len(STEPS)]] if number % MOVES_EVERY == 0 else []
        seen.update(check_hierarchy(hierarchy(seed, FEW) if moves else hierarchy(seed), moves))
    if with_steps and made.splits and not seen["refused"]:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            first = seed // STEPS_EVERY % len(LAWS)
            names = (list(LAWS) * 2)[first : first + STEPS_OF_A_MODEL]
            seen.update(f"decisions of {name}" for name in check_decisions(Split(made.build()), names))
    return seen


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=30)
    arguments.add_argument("--first", type=int, default=int(time.time()), help="the first seed")
    arguments.add_argument("--seed", type=int, help="check the model of this seed, steps included, and no other")
    given = arguments.parse_args()
    logging.getLogger("pymc_austerity").setLevel(logging.ERROR)
    if given.seed is not None:
        print(program(given.seed, rows=ROWS_OF_STEPS).source)
        print(dict(examine(given.seed, False) + examine(given.seed, True)))
        return 0
    begun, seen, findings, refusals = time.monotonic(), Counter(), [], []
    longest = since = 0
    slowest = (0.0, None)
    seed = given.first
    while time.monotonic() - begun < 60 * given.minutes:
        with_steps, started = seed % STEPS_EVERY == 0, time.process_time()
        try:
            with tempfile.TemporaryDirectory() as folder:
                tempfile.tempdir = folder
                found = examine(seed, with_steps)
            refusals += [(seed, key) for key in found if key.startswith("refused,")]
            seen.update({key: n for key, n in found.items() if not key.startswith("refused,")})
            since += 1
        except Exception as error:
            since = 0
            findings.append(seed)
            what = str(error) if isinstance(error, Found) else "".join(traceback.format_exception(error)[-8:])
            print(f"\nFOUND with seed {seed}{' (steps)' * with_steps}: {what}\n{program(seed).source}", flush=True)
            if seed % HIERARCHY_EVERY == 0:
                print(hierarchy(seed).source, "\n", hierarchy(seed, FEW).source, flush=True)
        finally:
            tempfile.tempdir = None
        longest = max(longest, since)
        slowest = max(slowest, (time.process_time() - started, seed))
        seed += 1
        if (seed - given.first) % 200 == 0:
            print(f"{seed - given.first} models, {len(findings)} findings", flush=True)
    for of, reason in refusals:
        print(f"seed {of}: {reason}")
    print(f"\n{seed - given.first} models, seeds {given.first} to {seed - 1}: {len(findings)} findings {findings}")
    print(", ".join(f"{n} {key}" for key, n in seen.most_common()))
    print(
        f"Longest run of models without a finding: {longest}. Slowest model: seed {slowest[1]}, {slowest[0]:.1f} CPU s."
    )
    print(f"Steps that are compared where they can be built: {', '.join(LAWS)}; with groups: {', '.join(STEPS)}")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
