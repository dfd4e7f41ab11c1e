"""Arguments checked by their annotations: what ``float | None`` or ``Sequence[str]`` takes, and what it is called."""

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable


def check_arguments(caller: str, given: Mapping[str, Any], annotations: Mapping[str, Any]) -> None:
    """Refuse values that are not of the kind of their annotation; annotations with a class of another kind say nothing.

    Raises a TypeError that names the argument, or a ValueError for a number that is not whole where one is wanted.
    """
    for name, value in given.items():
        kinds = _alternatives(annotations.get(name, object))
        words = [_words(kind) for kind in kinds]
        if None in words or any(_holds(kind, value) for kind in kinds):
            continue
        wanted = " or ".join(str(word) for word in words if word != "None")
        if isinstance(value, int) and wanted.startswith("a whole number"):
            wanted = f"{wanted} of less than 2**63 in size"
        error = ValueError if is_real(value) and wanted.startswith("a whole number") else TypeError
        raise error(f"{caller}: {name}={short(value)} must be {wanted}.")


def with_whole_numbers(given: Mapping[str, Any], annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with whole numbers that were given as 1e6, or in a type of NumPy, as an int where one is wanted.

    Others would reach what counts with them, where a float is no length, and an int8 overflows.
    """
    whole = {}
    for name, value in given.items():
        kinds = _alternatives(annotations.get(name, object))
        wanted = "int" in kinds and "float" not in kinds and is_whole(value, -np.inf)
        whole[name] = int(value) if wanted else value
        if "Sequence[int]" in kinds and _holds("Sequence[int]", value):
            whole[name] = [int(entry) for entry in value]
    return whole


def is_whole(value: Any, least: float) -> bool:
    """Return whether a value is a whole number of at least so much, and one that a computer counts with."""
    return is_number(value) and abs(value) < 2**63 and float(value).is_integer() and value >= least


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return is_real(value) and (isinstance(value, int) or bool(np.isfinite(value)))


def is_real(value: Any) -> bool:
    """Return whether a value is a number, of Python or of NumPy, finite or not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def are_numbers(value: Any) -> bool:
    """Return whether NumPy takes a value for an array of numbers."""
    try:
        return value is not None and np.asarray(value).dtype.kind not in "SUMm" and np.asarray(value, float) is not None
    except (TypeError, ValueError):
        return False


def short(value: Any) -> str:
    """Return a value as it is written, or its type where that is long."""
    text = repr(value)
    return text if is_short(text) else f"<{type(value).__name__}>"


def is_short(text: str) -> bool:
    """Return whether a value that is written so can stand in a message."""
    return len(text) <= 60 and "\n" not in text and " object at 0x" not in text


def _is_axes(value: Any) -> bool:
    from matplotlib.axes import Axes  # loaded already where there is one

    return isinstance(value, Axes)


#: What a kind is called, one and several of it, and which values are of it.
_KINDS: dict[str, tuple[str, str, Callable[[Any], bool]]] = {
    "None": ("None", "None", lambda value: value is None),
    "bool": ("True or False", "True or False", lambda value: isinstance(value, bool | np.bool_)),
    "int": ("a whole number", "whole numbers", lambda value: is_whole(value, -np.inf)),
    "float": ("a number", "numbers", is_real),
    "str": ("a name", "names", lambda value: isinstance(value, str)),
    "Callable": ("a function", "functions", callable),
    "Mapping": ("a dict", "dicts", lambda value: isinstance(value, Mapping)),
    "ArrayLike": ("numbers", "numbers", are_numbers),
    "np.ndarray": ("numbers", "numbers", are_numbers),
    "Variable": ("a variable", "variables", lambda value: isinstance(value, Variable)),
    "Axes": ("matplotlib Axes", "matplotlib Axes", _is_axes),
}


def _words(kind: str) -> str | None:
    """Return what a kind such as ``"Sequence[str]"`` is called, or None for one that is not known."""
    head, inside = _split(kind)
    if head == "Literal":
        return inside.replace(", ", " or ")
    if head == "Sequence" and inside in _KINDS:
        return f"a sequence of {_KINDS[inside][1]}"
    return _KINDS[head][0] if head in _KINDS else None


def _holds(kind: str, value: Any) -> bool:
    """Return whether a value is of a kind that is known."""
    head, inside = _split(kind)
    if head == "Literal":
        return isinstance(value, str) and value in ast.literal_eval(f"({inside},)")
    if head == "Sequence":
        several = isinstance(value, Iterable) and not isinstance(value, str | Mapping | Variable)
        return several and np.ndim(value) > 0 and all(_holds(inside, entry) for entry in value)
    return _KINDS[head][2](value)


def _split(kind: str) -> tuple[str, str]:
    """Return ``"Sequence"`` and ``"str"`` of ``"Sequence[str]"``."""
    head, _, inside = kind.partition("[")
    return head, inside.removesuffix("]")


def _alternatives(annotation: Any) -> list[str]:
    """Return the kinds that an annotation has between its bars; a class stands for its name."""
    written = annotation.__name__ if isinstance(annotation, type) else str(annotation)

    def parts(node: ast.expr) -> list[str]:
        return parts(node.left) + parts(node.right) if isinstance(node, ast.BinOp) else [ast.unparse(node)]

    return parts(ast.parse(written, mode="eval").body)
