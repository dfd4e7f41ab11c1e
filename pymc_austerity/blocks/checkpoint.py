"""What passes have learnt, kept in a folder, so that a set-up that was killed does not begin anew."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_log = logging.getLogger("pymc_austerity")

_DAMAGED = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)


class Checkpoint:
    """A folder with a file for each pass that is done, for one table, model and seed.

    Parameters
    ----------
    folder : path or None
        Made if need be; None keeps nothing.
    identity : mapping of str to str
        What the results depend on beside the arguments of a pass.

    Raises
    ------
    ValueError
        For a folder that was written for something else, with what differs.
    """

    def __init__(self, folder: Any, identity: Mapping[str, str]):
        self._folder = None if folder is None else Path(folder)
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        about = self._folder / "about.json"
        if not about.exists():
            _written(about, json.dumps(dict(identity), indent=1).encode())
            return
        try:
            known = json.loads(about.read_text())
        except ValueError as error:
            raise ValueError(
                f"checkpoint={str(folder)!r}: {about.name} is damaged ({error}), so that nobody knows what the "
                "folder is of. Delete it."
            ) from None
        for name, value in identity.items():
            if known.get(name) != value:
                raise ValueError(
                    f"checkpoint={str(folder)!r} was written for another {name}: {_short(known.get(name))} there, "
                    f"{_short(value)} now. What was learnt does not belong together. Give another folder, or delete "
                    "this one."
                )

    def find(self, name: str, about: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """Return what a pass learnt, or None where it is not known."""
        if self._folder is None or not (path := self._path(name, about)).exists():
            return None
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
                found = [stored[f"arr_{k}"] for k in range(len(stored.files))]
        except _DAMAGED as error:
            _log.warning(f"{path} is damaged ({type(error).__name__}: {error}): its pass is done again.")
            return None
        _log.info(f"{path}: taken from there, without a pass.")
        return found

    def keep(self, name: str, about: Sequence[np.ndarray], learnt: Sequence[Any]) -> None:
        """Keep what a pass learnt."""
        if self._folder is None:
            return
        path = self._path(name, about)
        being_written = path.with_name(f"{path.stem}.{os.getpid()}.tmp.npz")
        np.savez(being_written, *learnt)
        _settled(being_written, path)

    def _path(self, name: str, about: Sequence[np.ndarray]) -> Path:
        assert self._folder is not None
        digest = hashlib.sha256()
        for array in map(np.ascontiguousarray, about):
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(array.tobytes())
        return self._folder / f"{name}-{digest.hexdigest()[:24]}.npz"


def _written(path: Path, content: bytes) -> None:
    being_written = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    being_written.write_bytes(content)
    _settled(being_written, path)


def _settled(being_written: Path, path: Path) -> None:
    """Give a file its name once it is on the disk: whoever finds it finds all of it."""
    with open(being_written, "rb") as file:
        os.fsync(file.fileno())
    os.replace(being_written, path)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:100]}… ({hashlib.sha256(text.encode()).hexdigest()[:8]})"
