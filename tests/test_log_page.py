"""The page on the log quotes what the package says, and all of it; that of sample statistics has those of steps."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from toy import shift_model

import pymc_austerity as pma
from pymc_austerity.kernel.tuned_state import TUNED
from pymc_austerity.steps import draw_statistics

root = Path(__file__).resolve().parents[1]
page, of_statistics = root / "docs" / "log.md", root / "docs" / "sample_statistics.md"
if not page.exists():  # tests of an installed wheel have no documentation beside them
    pytest.skip("needs docs/log.md", allow_module_level=True)

#: What may stand in place of a value: an example of it, or an ellipsis.
_VALUE = "\N{OBJECT REPLACEMENT CHARACTER}"
#: Letters by which a message is known, and those that are too few for it.
_KNOWN_BY, _SHORT = 20, 8
_MARKS = " .,:()'"


def constant_text(node):
    """Return the text of a message with `_VALUE` where it has values."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(constant_text(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return constant_text(node.left) + constant_text(node.right)
    return _VALUE


def texts(source):
    """Return the texts in a module, constant but for values."""
    return [constant_text(n) for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant | ast.JoinedStr)]


def messages(source):
    """Return what a module logs from INFO on or warns of, written where it is logged."""
    called = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    logged = [n for n in called if isinstance(n.func.value, ast.Name)]
    names = {("_log", "info"), ("_log", "warning"), ("_log", "error"), ("warnings", "warn")}
    return [constant_text(n.args[0]) for n in logged if (n.func.value.id, n.func.attr) in names]


def beginning(text):
    """Return the first letters by which a message is known, or None where all of it is a value."""
    parts = [part.strip(_MARKS) for part in text.split(_VALUE)]
    return next((part[:_KNOWN_BY] for part in parts if len(part) > _SHORT), None)


def sources():
    return [path.read_text() for path in sorted((root / "pymc_austerity").rglob("*.py"))]


def quotations():
    cells = [line.split(" | ")[0] for line in page.read_text().splitlines() if line.startswith("| `")]
    return [quoted for cell in cells for quoted in re.findall("`([^`]+)`", cell)]


def test_each_message_of_the_package_is_on_the_page():
    """By the first of its words that are not values."""
    said = " ".join(quotations())
    known = [beginning(text) for source in sources() for text in messages(source)]
    assert [words for words in known if words and words not in said] == []


def test_each_quotation_is_in_the_package():
    """Its longest constant part, that is; values are examples."""
    said = [text for source in sources() for text in texts(source)]
    assert len(quotations()) > 40
    assert [q for q in quotations() if not is_said(q, said)] == []


def is_said(quoted, said):
    parts = [part.strip(_MARKS) for part in re.split(r"…|'[^']*'|\d[\d,.]*\d|\d", quoted)]
    longest = max(parts, key=len)
    return len(longest) > _SHORT and any(longest in text for text in said)


def test_an_aged_quotation_is_found():
    """Negative control: one word less in the source, or one more message."""
    said = [text.replace("moves were accepted", "moves were taken") for source in sources() for text in texts(source)]
    assert [q[:22] for q in quotations() if not is_said(q, said)] == ["… hardly moves: … of t"]
    assert messages('_log.info(f"{name} says something new.")') == [f"{_VALUE} says something new."]


declared = [values for name, values in vars(draw_statistics).items() if name.startswith("OF_")]
declared += [pma.ApproxGibbs.stats_dtypes_shapes, pma.ApproxMH.designed_stats, {TUNED: None}]


def statistics_on_the_page():
    first = [line.split(" | ")[0] for line in of_statistics.read_text().splitlines() if line.startswith("| `")]
    return {name for cell in first for name in re.findall("`([a-z_]+)`", cell)}


def test_the_page_has_the_statistics_of_steps_and_no_others():
    """And steps declare those of the page alone, whatever else they declare."""
    assert statistics_on_the_page() == {name for group in declared for name in group}
    with shift_model(np.random.default_rng(1).normal(size=100)):
        for step in (pma.MHSS, pma.ApproxMH, pma.ExactMH):
            assert set(step(progressbar=False).stats_dtypes_shapes) <= statistics_on_the_page()
