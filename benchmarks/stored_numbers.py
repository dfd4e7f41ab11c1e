"""The numbers of the documentation: tables in files, each below the command that printed it.

``make numbers`` lists the tables, with the commits to the code since each was printed.
``make numbers PAGE=which_step`` prints those of a page again, and ``PAGE=which_step/nuts`` one of them.

A file of ``docs/numbers`` is included by its page.  Its first line is the command, when it was run, what it took, and
how many processes wanted the cores of the machine when it began::

    `python benchmarks/nuts_pilot.py`, 2026-11-27 02:51 UTC, 143 s of processor time, load 0.1 on 2 cores:

and the rest is what the command printed: tables as they are, other lines as a block of text.  A new table begins as a
file with such a line, or with the command alone.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "docs" / "numbers"
_FIRST_LINE = re.compile(r"`python (?P<command>benchmarks/\w+\.py[^`]*)`(?:, (?P<when>[-0-9]+(?: [0-9:]+ UTC)?))?[^`]*")


class Head(NamedTuple):
    """The first line of a file: a command, without `python`, and when it was run."""

    command: str
    when: str | None


def head(path: Path) -> Head:
    """Return what the first line of a file says."""
    found = _FIRST_LINE.fullmatch(path.read_text().partition("\n")[0])
    if found is None:
        raise ValueError(f"{path} does not begin with a command, as `python benchmarks/draw.py --parts`.")
    return Head(found["command"], found["when"])


def as_markdown(printed: str) -> str:
    """Return tables as they are, and other lines as blocks of text."""
    blocks = []
    for table, group in groupby(printed.strip("\n").splitlines(), lambda line: line.startswith("|")):
        text = "\n".join(group).strip("\n")
        blocks += [text] if table else [f"```text\n{text}\n```"] if text.strip() else []
    return "\n\n".join(blocks)


def print_again(path: Path) -> None:
    """Run the command of a file, and store what it prints."""
    command = head(path).command
    started, load, before = datetime.now(UTC), os.getloadavg()[0], resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(
        [sys.executable, *shlex.split(command)], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    what = f"{seconds:,.0f} s of processor time, load {load:.1f} on {os.cpu_count()} cores"
    path.write_text(f"`python {command}`, {started:%Y-%m-%d %H:%M} UTC, {what}:\n\n{as_markdown(ran.stdout)}\n")


def commits_since(when: str, paths: list[str], root: Path = ROOT) -> int | None:
    """Return how many commits to the paths there were since a time; None where there is no history."""
    command = ["git", "rev-list", "--count", f"--since={when}", "HEAD", "--", *paths]
    counted = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return int(counted.stdout) if counted.returncode == 0 else None


def age(path: Path) -> str:
    """Say when a table was printed, and how often the code has changed since."""
    command, when = head(path)
    if when is None:
        return "never printed"
    since = commits_since(when, ["pymc_austerity", command.split()[0]])
    return when + (f", {since} commits to the code since" if since else "")


def main() -> None:
    chosen = os.environ.get("PAGE", "")
    paths = [path for path in sorted(STORED.rglob("*.md")) if f"{path.relative_to(STORED)}".startswith(chosen)]
    if not paths:
        raise SystemExit(f"PAGE={chosen}: there is no such file or folder in {STORED}.")
    for path in paths:
        if chosen:
            print_again(path)
        print(f"{path.relative_to(ROOT)}: {age(path)}\n    python {head(path).command}")


if __name__ == "__main__":
    main()
