"""Data that do not fit in memory, as a user describes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_austerity.blocks.arrays import Arrays, DaskPartitions
from pymc_austerity.blocks.checkpoint import Checkpoint
from pymc_austerity.blocks.columns import Container, Reader, match_columns
from pymc_austerity.blocks.executors import Cluster, Threads
from pymc_austerity.blocks.parquet import ParquetFiles
from pymc_austerity.blocks.passes import Passes
from pymc_austerity.blocks.source import Source
from pymc_austerity.blocks.streams import Streams, exports_stream
from pymc_austerity.blocks.table import BlockTable
from pymc_austerity.rows import Slots
from pymc_austerity.user_input import check_seed, shown, takes_fields


@takes_fields
@dataclass(frozen=True)
class Blocks:
    """Rows on disk, or made on demand, that a step reads in a few passes before sampling.

    The model is written with `pm.Data` containers that hold a *sample* of the rows.  Given as ``data=`` of a step, the
    blocks take their place: what is known of all rows is summed up over the blocks, and the rows that the chains will
    read are drawn from them beforehand, into a pool.

    Parameters
    ----------
    source : path, sequence of paths, dataset, data frame, relation, mapping, callable or iterable
        Parquet files or a folder of them, whose subfolders may be partitions; any dataset of pyarrow; whatever exports
        a stream of Arrow again and again (``__arrow_c_stream__``: DuckDB relations, Polars frames); a Dask data frame,
        or a Dask bag of dicts of arrays; a dict of arrays that are sliced (memory maps, Zarr, Dask arrays), or a pandas
        data frame; an object that yields blocks, dicts of arrays of any lengths, again and again; or a function without
        arguments, called for each pass, that returns a stream of Arrow (``lambda: duckdb.sql("...")``) or yields
        blocks.  Where the model reads one container, blocks may be arrays, as from
        ``pymc_extras.variational.parquet_source``.  Rows come in the same order in every pass.
    columns : mapping of str to str or sequence of str, optional
        From the name of a `pm.Data` to the column that it stands for, or to those of a matrix.  A container that is
        not named stands for the column of its own name.
    codes : mapping of str to str or sequence, optional
        For containers that hold codes where the column holds labels (strings, dictionaries, categories, numbers of
        any kind): the coordinate of the model to which the labels belong, or the labels in the order of their codes.
    filter : pyarrow.dataset.Expression, optional
        Rows of files to read.
    n_rows : int, optional
        Rows of a source that yields blocks, unless it has an attribute of that name.  Streams of Arrow are counted in
        a pass of their own where it is not given and they have no length.
    pool : int, default 2,000,000
        Rows that are drawn for sampling, with replacement, and held in memory.  Each is read once: a chain that has
        read its share stops, and keeps its draws.
    chains : int, default 4
        Chains that share the pool, each with rows of its own; at least those of ``pm.sample``.
    random_seed : int, default 0
        For drawing the pool, which is part of setting up a step and the same for all its runs.
    client : dask.distributed.Client, optional
        A Dask cluster on whose workers the passes run, in place of the threads of this process: each reads the parts of
        the source that it works on, and sends back sums, and rows for the pool.  Sums are the same to rounding and
        the pool the same rows, whatever the number of workers and whichever of them dies.
    checkpoint : path, optional
        A folder in which what a pass has learnt is kept, for a set-up that is killed and begun again: passes that are
        done are not done again, and the result is the same.  It serves one table, model and version of the package,
        which it is told by: arrays in memory by all their entries; files by path, size and time of writing; and every
        source by some of its rows, which are read again.  A folder of another is refused, and so is one that other
        users may write to.

    Raises
    ------
    TypeError, ValueError
        For arguments that are not what they should be; when a step is built, for rows that the model cannot take,
        with the file or block and the row.
    ImportError
        For files without pyarrow (``pip install 'pymc-austerity[parquet]'``).

    Notes
    -----
    With weights from the proxy, row i is in a slot of the pool with probability p_i = (1 − floor) s_i/Σs + floor/N, s_i
    being the typical size of what the proxy leaves of it, and counts for 1/(N p_i) there.  Slots are independent, so
    that reading them in order is drawing rows with replacement.  They are filled in one pass by reservoirs of one row
    each (Efraimidis and Spirakis 2006).  The posterior follows from all rows; time and memory of sampling do not depend
    on how many they are.

    Files that are added to a folder after its step was built are read by ``step.read_added_files()``, and by nothing
    else.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> def rows():
    ...     for k in range(10):
    ...         rng = np.random.default_rng(k)
    ...         x = rng.normal(size=3_000)
    ...         yield {"x": x, "y": rng.random(3_000) < 1 / (1 + np.exp(-x))}
    >>> some = next(rows())
    >>> with pm.Model():
    ...     x, y = pm.Data("x", some["x"]), pm.Data("y", some["y"])
    ...     slope = pm.Normal("slope", 0, 1)
    ...     seen = pm.Bernoulli("seen", logit_p=slope * x, observed=y)
    ...     step = pma.PenaltyMH(data=pma.Blocks(rows, n_rows=30_000, pool=100_000), progressbar=False)
    >>> step.decider.n_rows
    30000
    """

    source: Any = field(repr=False)
    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    codes: Mapping[str, str | Sequence[Any]] = field(default_factory=dict)
    filter: Any = None
    n_rows: int | None = None
    pool: int = 2_000_000
    chains: int = 4
    random_seed: int = 0
    client: Any = field(default=None, repr=False)
    checkpoint: Any = None

    def __post_init__(self) -> None:
        known = ParquetFiles.takes(self.source) or exports_stream(self.source)
        if not (known or callable(self.source) or isinstance(self.source, Iterable)):
            raise TypeError(
                f"Blocks({shown(self.source)}): no source of rows. Give paths of Parquet files, a pyarrow dataset, a "
                "Dask or Polars data frame (of a lazy one its method, frame.collect), a DuckDB relation, a dict of "
                "arrays, or a function that yields dicts of arrays or returns a stream of Arrow."
            )
        if isinstance(self.source, list | tuple | set | Mapping) and not self.source:
            raise ValueError(
                f"Blocks({self.source!r}): there is nothing to read. Give paths of Parquet files, a dict of arrays, or "
                "a function that yields such dicts."
            )
        for name in ("pool", "chains", "n_rows"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"Blocks({name}={getattr(self, name)!r}) must be a whole number of at least 1.")
        if self.pool < 2 * self.chains:
            raise ValueError(
                f"Blocks(pool={self.pool}) leaves nothing for each of chains={self.chains}. A decision takes some "
                "hundred rows, so that a million serve 5,000 draws."
            )
        check_seed(self.random_seed, "Blocks", "random_seed")
        if self.client is not None and not callable(getattr(self.client, "submit", None)):
            raise TypeError(f"Blocks(client={self.client!r}) must be a dask.distributed.Client.")
        if self.checkpoint is not None and not isinstance(self.checkpoint, str | os.PathLike):
            raise TypeError(f"Blocks(checkpoint={self.checkpoint!r}) must be the path of a folder.")
        if self.checkpoint is not None and not str(self.checkpoint).strip():
            raise ValueError(f"Blocks(checkpoint={self.checkpoint!r}): the path is empty. Give that of a folder.")

    def table(
        self,
        containers: Sequence[Container],
        coords: Mapping[str, Any],
        wrong_row: Callable[[tuple[np.ndarray, ...]], tuple[int, str] | None],
        progressbar: bool,
        model_key: str = "",
    ) -> BlockTable:
        """Return the rows as the containers of a model take them; called by the steps.

        The `coords` are those of the model, `wrong_row` is that of `Reader`, and the `model_key` differs between
        models, for the checkpoint.
        """
        columns, labels = match_columns(containers, self.columns, self.codes, coords)
        reader, source = Reader(tuple(containers), columns, labels, wrong_row), self._open()
        identity = {
            "columns": repr([(c.name, str(c.dtype), c.shape, columns[c.name]) for c in containers]),
            "codes": repr({name: list(of) for name, of in labels.items()}),
            "model": model_key,
            "pool": f"{self.pool} rows for {self.chains} chains",
            "random_seed": str(self.random_seed),
            "source": "" if self.checkpoint is None else f"{type(source).__name__}: {source.identity(reader.names)}",
        }
        executor = Threads() if self.client is None else Cluster(self.client)
        slots, checkpoint = Slots(self.pool, 0.0, int(self.random_seed)), Checkpoint(self.checkpoint, identity)
        return BlockTable(Passes(source, reader, executor, checkpoint), slots, self.chains, progressbar)

    def _open(self) -> Source:
        if ParquetFiles.takes(self.source):
            return ParquetFiles(self.source, self.filter)
        if self.filter is not None:
            raise ValueError(
                f"filter={self.filter!r} is for files. Leave out of the source itself what is not to be read."
            )
        if DaskPartitions.takes(self.source):
            return DaskPartitions(self.source)
        if Arrays.takes(self.source):
            return Arrays(self.source)
        return Streams(self.source, self.n_rows)
