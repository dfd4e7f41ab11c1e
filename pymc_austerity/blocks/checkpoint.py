"""What passes have learnt, kept in a folder, so that a set-up that was killed does not begin anew."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pymc_austerity.digests import digest_of_all

_log = logging.getLogger("pymc_austerity")

#: Letters that an error shows of what is there and of what is now, and how many of them before the two differ.
_SHOWN, _SAME = 120, 60


class Checkpoint:
    """A folder with a file for each pass that is done, for one table, model, seed and version of the package.

    The folder is made if need be, for the user alone; None keeps nothing. `identity` is what the results depend on
    beside the arguments of a pass: a folder of another is refused, with what differs, and so is one that others may
    write to.
    """

    def __init__(self, folder: Any, identity: Mapping[str, str]):
        self._folder = None if folder is None else Path(folder).expanduser()
        if self._folder is None:
            return
        self._said = f"checkpoint={str(folder)!r}"
        about, identity = self._folder / "about.json", {"version": version("pymc-austerity"), **identity}
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._require_own()
            self._remove_unfinished()
            if not about.exists():
                self._write(about, json.dumps(identity, indent=1).encode())
            known = self._parsed(about.read_bytes())
        except OSError as error:
            raise ValueError(
                f"{self._said} cannot be used: {error}. Give a folder on a disk with room, that you may write to."
            ) from error
        for name, now in identity.items():
            if (there := str(known.get(name))) != now:
                there, now = _from_where_they_differ(there, now)
                raise ValueError(
                    f"{self._said} was written for another {name}: {there} there, {now} now. What was learnt does not "
                    "belong together. Give another folder, or delete this one."
                )

    def find(self, name: str, about: Sequence[Any]) -> list[np.ndarray] | None:
        """Return what a pass learnt, or None where it is not known."""
        if self._folder is None or not (path := self._path(name, about)).exists():
            return None
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
                digest, *found = [stored[f"arr_{k}"] for k in range(len(stored.files))]
            if str(digest) != digest_of_all(found):
                raise ValueError("its arrays are not those that were kept")
        except Exception as error:  # NumPy and zipfile raise errors of every type for files that are damaged
            _log.warning(f"{path} is damaged ({type(error).__name__}: {error}): its pass is done again.")
            return None
        _log.info(f"{path}: taken from there, without a pass.")
        return found

    def keep(self, name: str, about: Sequence[Any], learnt: Sequence[Any]) -> None:
        """Keep what a pass learnt, if there is room."""
        if self._folder is None:
            return
        path, arrays = self._path(name, about), [np.asarray(a) for a in learnt]
        try:
            self._write(path, [np.array(digest_of_all(arrays)), *arrays])
        except Exception as error:  # of a full disk zipfile makes a ValueError
            _log.warning(
                f"{path} cannot be written ({type(error).__name__}: {error}). The set-up goes on with what is in "
                "memory. If it is begun again, so is this pass."
            )

    def refuse_rows(self, where: str, first: int, n: int, known: int, found: int) -> None:
        """Refuse rows that are not those that the folder was written for."""
        raise ValueError(
            f"{self._said} was written for other rows: the checksum of rows {first:,} to {first + n:,} ({where}) is "
            f"{known} there and {found} now. What was learnt does not belong together. Give another folder, or delete "
            "this one."
        )

    def _parsed(self, about: bytes) -> dict[str, Any]:
        try:
            known = json.loads(about)
            if not isinstance(known, dict):
                raise ValueError(f"it holds {type(known).__name__}, and a dict was expected")
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{self._said}: about.json is damaged ({error}), so that nobody knows what the folder is of. Delete it."
            ) from None
        return known

    def _path(self, name: str, about: Sequence[Any]) -> Path:
        assert self._folder is not None
        return self._folder / f"{name}-{digest_of_all(about)[:24]}.npz"

    def _write(self, path: Path, content: bytes | Sequence[np.ndarray]) -> None:
        """Write a file that has its name once all of it is on the disk, and leave nothing where that fails."""
        being_written = path.with_name(f"{path.stem}.{os.getpid()}.tmp")
        try:
            with open(being_written, "wb") as file:
                if isinstance(content, bytes):
                    file.write(content)
                else:
                    np.savez(file, *content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(being_written, path)
        finally:
            with suppress(OSError):
                being_written.unlink()

    def _remove_unfinished(self) -> None:
        """Remove what processes were writing that have ended since."""
        assert self._folder is not None
        for path in self._folder.glob("*.*.tmp"):
            with suppress(OSError, ValueError):
                try:
                    os.kill(int(path.suffixes[-2][1:]), 0)
                except ProcessLookupError:
                    path.unlink()

    def _require_own(self) -> None:
        assert self._folder is not None
        seen = self._folder.stat()
        if os.name == "posix" and (seen.st_uid != os.geteuid() or seen.st_mode & 0o022):
            whose = "others may write to it" if seen.st_uid == os.geteuid() else f"it belongs to user {seen.st_uid}"
            raise ValueError(
                f"{self._said} is not used: {whose}, so that what is found there need not be what a pass has "
                "learnt. Give a folder of your own that nobody else may write to (chmod go-w)."
            )


def _from_where_they_differ(*texts: str) -> list[str]:
    """Return some letters of long texts, from shortly before where they differ."""
    same = next((k for k, letters in enumerate(zip(*texts, strict=False)) if len(set(letters)) > 1), 0)
    start = max(0, same - _SAME) if max(map(len, texts)) > _SHOWN else 0
    return [f"{'…' * (start > 0)}{t[start : start + _SHOWN]}{'…' * (start + _SHOWN < len(t))}" for t in texts]
