"""Named tuples of many arrays as compiled code is handed them: by one pointer.

A function that takes a tuple by value copies every array in it and counts the references to each, which takes longer to
compile than most of what is done with them.
"""

from typing import Any

from numba import types
from numba.experimental import structref
from numba.extending import overload

from pymc_austerity.compile.lean_njit import njit


@structref.register
class ReferenceType(types.StructRef):
    """The type of a `Reference` in compiled code."""


class Reference(structref.StructRefProxy):
    """A named tuple, whose fields compiled code reads by their names."""


structref.define_boxing(ReferenceType, Reference)


def by_reference(value: Any) -> Any:
    """Return a named tuple as a `Reference`, and a `Reference` as it is; in Python and in compiled code.

    Both share the arrays.  Numbers are those that the tuple had.
    """
    return value if isinstance(value, Reference) else _referred(value)


@njit
def _referred(value):  # type: ignore[no-untyped-def]
    return by_reference(value)


@overload(by_reference)
def _by_reference(value):  # type: ignore[no-untyped-def]
    if isinstance(value, ReferenceType):
        return lambda value: value
    kind = ReferenceType(list(zip(value.fields, value.types, strict=True)))
    # numba sets a field by a name that stands in the code.
    lines = ["def referred(value):", "    made = new(kind)", *(f"    made.{f} = value.{f}" for f in value.fields)]
    names: dict[str, Any] = {"new": structref.new, "kind": kind}
    exec("\n".join([*lines, "    return made"]), names)
    return names["referred"]
