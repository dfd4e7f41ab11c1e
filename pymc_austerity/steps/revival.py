"""Steps in another process: made from what they hold, without the model that they came from."""

from __future__ import annotations

from typing import Any


def revive(cls: type[Any], state: dict[str, Any]) -> Any:
    """Return a step as it was pickled: its constructor would ask for the model."""
    step = object.__new__(cls)
    step.__dict__.update(state)
    return step
