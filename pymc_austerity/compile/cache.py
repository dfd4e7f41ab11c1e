"""Machine code of this package, kept on disk between processes: one file for a function and the types of its arguments.

Functions are known by what they are made of (`code_key`); numba's own cache knows only the file they were written in.
"""

import logging
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast
from uuid import uuid4

import cloudpickle
import numba
from numba.extending import is_jitted
from pytensor import config
from xxhash import xxh3_128

from pymc_austerity.compile.code_key import NoKeyError, code_key

try:  # numba's way to write down what it has compiled, which has no public name; without it nothing is kept
    from numba.core.caching import CompileResultCacheImpl
except ImportError:
    CompileResultCacheImpl = object

_log = logging.getLogger("pymc_austerity")

P = ParamSpec("P")
Built = TypeVar("Built")

#: Where code is kept; ``base_compiledir`` of ``PYTENSOR_FLAGS`` says where PyTensor keeps its own.
FOLDER = Path(config.base_compiledir) / "pymc_austerity"
#: The environment variable with the most that the folder may hold, in MB, and its default.
LIMIT, DEFAULT_LIMIT = "PYMC_AUSTERITY_CACHE_MB", 1_000.0
#: Division by zero gives an infinity or a NaN, as in NumPy and in PyTensor's graphs; numba's own default is an error.
AS_NUMPY = {"error_model": "numpy"}
_written: Any = CompileResultCacheImpl.__new__(CompileResultCacheImpl)
_DIGEST = xxh3_128().digest_size


def built_once(build: Callable[P, Built]) -> Callable[P, Built]:
    """Let a function that composes compiled code return the same code for the same parts: numba compiles it once."""
    return cast("Callable[P, Built]", cache(build))


def cached(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a compiled function look for its machine code on disk before it compiles, and leave it there.

    Returns the same function, also where nothing can be kept: with ``pytensor.config.numba__cache`` off or
    ``NUMBA_DISABLE_JIT`` set, where it captures something without a key, or where numba has no such cache.
    """
    compiled: Any = function
    if not is_jitted(compiled) or not config.numba__cache or not hasattr(_written, "rebuild"):
        return function
    if isinstance(getattr(compiled, "_cache", None), _Kept):
        return function
    try:
        key = code_key(compiled)
    except NoKeyError as error:
        _log.debug(f"Compiled anew in every process: {error}.")
    else:
        compiled._cache = _Kept(key)  # numba's private name for what it asks before it compiles
    return function


def n_compiled() -> int:
    """Return how many functions this process has compiled because they were not on disk."""
    return _Kept.compiled


def njit_on_disk(**options: Any) -> Callable[..., Any]:
    """Decorate a function of a module, which Python calls, as `njit` of `lean_njit` does, and keep its machine code.

    numba's own cache lies beside the source, and fails where a module that it names has been renamed since.
    """
    return lambda function: cached(numba.njit(**{**AS_NUMPY, **options})(function))


class _Kept:
    """The machine code of one function on disk, as numba's dispatchers ask for it.

    A folder that is full, foreign or damaged costs time and no more.
    """

    compiled = 0

    def __init__(self, key: str) -> None:
        self._key = key

    @property
    def cache_path(self) -> str:
        """The folder."""
        return str(FOLDER)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was compiled for arguments of these types; None where it is not there."""
        target_context.refresh()
        path = self._path(sig)
        if path is None or not _is_ours(FOLDER):
            return None
        try:
            found = path.read_bytes()
        except OSError:
            return None
        try:
            if _digest(path, found[_DIGEST:]) != found[:_DIGEST]:
                raise ValueError("its digest is of other bytes")
            code = _written.rebuild(target_context, pickle.loads(found[_DIGEST:]))
            if code.signature.args != argument_types(sig):
                raise ValueError(f"it is for arguments {code.signature.args}")
        except Exception as error:
            _log.info(f"Compiled code in {path} cannot be used and is made anew ({_name(error)}).")
            return None
        with suppress(OSError):
            os.utime(path)  # what was not used for longest is removed first
        return code

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, where that is possible."""
        _Kept.compiled += 1
        path = self._path(sig)
        if path is None or not _can_be_kept(data):
            return
        try:
            FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_ours(FOLDER):
                return
            code = cloudpickle.dumps(_written.reduce(data))
            _write(path, _digest(path, code) + code)
        except Exception as error:
            _log.info(f"Compiled code cannot be kept in {FOLDER} ({_name(error)}).")

    def flush(self) -> None:
        """Do nothing: numba asks for it where it compiles a function again."""

    def _path(self, sig: Any) -> Path | None:
        types = str(argument_types(sig))
        if "0x" in types:  # of a function, whose address says nothing to another process
            return None
        return FOLDER / f"{xxh3_128(f'{self._key} {types}'.encode()).hexdigest()}.code"


def argument_types(signature: Any) -> tuple[Any, ...]:
    """Return the types of the arguments that numba names as a signature or as a tuple of types."""
    return tuple(getattr(signature, "args", signature))


def _can_be_kept(data: Any) -> bool:
    """Whether numba finds no addresses in what it has compiled, which are good in this process."""
    with suppress(AttributeError):  # it would warn with the place of a source, which is not known here
        return bool(_written.check_cachable(data))
    return False


def _digest(path: Path, code: bytes) -> bytes:
    return xxh3_128(path.name.encode() + code).digest()


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _is_ours(folder: Path) -> bool:
    """Whether nobody else can have put code there, which this process would run."""
    try:
        seen = os.stat(folder)
    except OSError:
        return True
    if seen.st_uid != os.getuid():
        _say_once(folder, f"it belongs to the user {seen.st_uid}")
    elif seen.st_mode & 0o022:
        _say_once(folder, "others may write to it")
    else:
        return True
    return False


@cache
def _say_once(folder: Path, why: str) -> None:
    _log.warning(
        f"Compiled code is neither read from {folder} nor kept there: {why}. Let it be yours and let nobody else write "
        "to it (chmod go-w), or keep code elsewhere (PYTENSOR_FLAGS=base_compiledir=...)."
    )


def _write(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all, and make room for it."""
    temporary = path.with_name(f"{path.name}.{uuid4().hex}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _make_room(path.parent, len(content))


#: Bytes written to each folder since it was last looked through.
_unseen: dict[Path, float] = {}


def _make_room(folder: Path, n_bytes: int) -> None:
    """Keep a folder within its limit: what was not used for longest is removed first.

    It is looked through after the first file that is written, and then after every tenth of the limit.
    """
    limit = _limit()
    _unseen[folder] = _unseen.get(folder, limit) + n_bytes
    if _unseen[folder] < 0.1 * limit:
        return
    _unseen[folder] = 0
    files = []
    for entry in os.scandir(folder):
        with suppress(OSError):  # another process may remove it
            files.append((entry.stat().st_mtime_ns, entry.stat().st_size, entry.path))
    held = sum(size for _, size, _ in files)
    for _, size, path in sorted(files) if held > limit else ():
        with suppress(OSError):
            os.unlink(path)
        held -= size
        if held <= 0.9 * limit:
            break


def _limit() -> float:
    """Return the most that the folder may hold, in bytes."""
    try:
        return float(os.environ[LIMIT]) * 1e6
    except (KeyError, ValueError):
        return DEFAULT_LIMIT * 1e6
