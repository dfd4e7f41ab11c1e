"""Tables of numbers in the documentation say which command or notebook printed them, and stored ones are included."""

import os
import re
import runpy
import subprocess
from pathlib import Path

import pytest

root = Path(__file__).resolve().parents[1]
script = root / "benchmarks" / "stored_numbers.py"
if not script.exists():  # tests of an installed wheel have no benchmarks beside them
    pytest.skip("needs benchmarks/stored_numbers.py", allow_module_level=True)
head, as_markdown, commits_since = map(runpy.run_path(str(script)).get, ("head", "as_markdown", "commits_since"))

pages = [*sorted((root / "docs").glob("*.md")), root / "README.md"]
stored = sorted((root / "docs" / "numbers").rglob("*.md"))
#: What says in a page where the numbers of a table are from.
_SOURCE = re.compile(r"(?<!:)\b((?:benchmarks|tests)/\w+\.py|notebooks/\w+\.ipynb)")
_OF_HISTORY = re.compile(r"git show (\w+\^:benchmarks/\w+\.py)")
_NUMBER = re.compile(r"\|\s*[*\N{MINUS SIGN}+.\d][\d., ]*")
_INCLUDED = re.compile(r"^```\{include\} numbers/(\S+)$", re.MULTILINE)


def without_source(text):
    """Return the first lines of tables of numbers for which neither their section nor the top of the page has a source.

    A table of numbers has two rows or more with two numbers or more.
    """
    top, found = text.partition("\n## ")[0], []
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE):
        for table in re.finditer(r"(?:^\|.*\n)+", section, re.MULTILINE):
            lines = table[0].splitlines()
            measured = sum(len(_NUMBER.findall(line)) >= 2 for line in lines) >= 2
            before = top + section[: table.start()]
            if measured and not (_SOURCE.search(before) or _OF_HISTORY.search(before)):
                found.append(lines[0])
    return found


def test_tables_say_what_printed_them():
    found = {page.stem: without_source(page.read_text()) for page in pages}
    assert {page: headers for page, headers in found.items() if headers} == {}
    table = "| a | b |\n|---|---|\n| 1 | 2.0 |\n| 3 | .5 |\n"  # the negative control
    assert without_source(f"# Page\n\nMeasured.\n\n{table}") == ["| a | b |"]
    assert without_source(f"# Page\n\n`python benchmarks/draw.py`\n\n{table}") == []


def test_sources_exist():
    named = {name for page in pages for name in _SOURCE.findall(page.read_text())}
    assert len(named) > 20
    assert {name for name in named if not (root / name).exists()} == set()


def test_scripts_of_the_history_exist():
    """Where the history is there: not in a shallow clone, nor without git."""
    shown = {name for page in pages for name in _OF_HISTORY.findall(page.read_text())}
    assert len(shown) > 3

    def exists(name):
        asked = subprocess.run(["git", "cat-file", "-e", name], cwd=root, capture_output=True, check=False)
        return asked.returncode == 0

    known = {name for name in shown if exists(name.partition(":")[0])}
    assert {name for name in known if not exists(name)} == set()


def test_pages_include_all_stored_tables():
    named = {(page.stem, name) for page in pages for name in _INCLUDED.findall(page.read_text())}
    assert named == {(path.parent.name, f"{path.parent.name}/{path.name}") for path in stored}


def test_a_stored_table_has_been_printed_by_a_command():
    for path in stored:
        command, when = head(path)
        assert when is not None, path
        assert (root / command.split()[0]).exists(), path
        assert len(path.read_text().splitlines()) > 3, path


def test_output_becomes_markdown():
    assert as_markdown("one\n\n| a |\n|---|\n| 1 |\n") == "```text\none\n```\n\n| a |\n|---|\n| 1 |"


def test_commits_since_a_table_was_printed_are_counted(tmp_path):
    assert commits_since("2026-01-01", ["code"], tmp_path) is None  # a folder without history tells nothing

    def git(*arguments, **dates):
        by = ("-c", "user.name=a", "-c", "user.email=a@b")
        with_dates = {**os.environ, **dates}
        subprocess.run(["git", *by, *arguments], cwd=tmp_path, check=True, capture_output=True, env=with_dates)

    git("init")
    for day, name in ((1, "code"), (3, "code"), (4, "other"), (5, "code")):
        (tmp_path / name).write_text(f"{day}")
        git("add", name)
        git("commit", "-m", "x", GIT_COMMITTER_DATE=f"2026-01-0{day}T12:00:00Z")
    assert [commits_since(when, ["code"], tmp_path) for when in ("2026-01-02 12:00 UTC", "2026-01-06")] == [2, 0]
