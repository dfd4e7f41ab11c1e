"""What numba compiles while something is done."""

from contextlib import contextmanager

from numba.core import event


class _Names(event.Listener):
    def __init__(self):
        self.found = []

    def on_start(self, happened):
        self.found.append(happened.data["dispatcher"].py_func.__name__)

    def on_end(self, happened):
        pass


@contextmanager
def compilations():
    """Return the names of the functions that numba compiles within the block."""
    listener = _Names()
    with event.install_listener("numba:compile", listener):
        yield listener.found
