"""The error of a model that a step cannot sample."""


class UnsupportedModelError(ValueError):
    """A model that the step, or a part of it, cannot be built for: the message says why, and what to do instead."""
