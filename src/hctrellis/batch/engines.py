"""What solves the chunks: this thread, several threads, joblib's workers, or a Dask cluster.

An engine is called with a function and an iterator of numbered chunks, and yields numbered answers
as they are ready. It holds only a few chunks at a time, so that neither a long input nor slow
writing fills the memory. When it is stopped, by an error or Ctrl-C, what has not begun is
cancelled.
"""

from __future__ import annotations

import asyncio
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, Any, TypeAlias

from hctrellis.support.checks import as_count
from hctrellis.support.steps import stopped_by
from hctrellis.support.threads import default_threads

if TYPE_CHECKING:
    from hctrellis.batch.chunks import Chunk

Solve: TypeAlias = "Callable[[Chunk], Any]"
Numbered: TypeAlias = "Iterator[tuple[int, Chunk]]"
Solved: TypeAlias = Generator[tuple[int, Any], None, None]
Engine: TypeAlias = Callable[[Solve, Numbered], Solved]

SCHEDULERS = ("serial", "threads", "processes", "joblib")
AHEAD = 6  # chunks handed out per worker
WAVE = 8  # the same for joblib, which is given all of them at once
ASK_EVERY = 16  # chunks, after which a cluster is asked again how many workers it has
RESTARTS = 3  # of workers that were killed
DASK_RETRIES = 3  # of a chunk that failed on its machine
WORKERLESS_SECONDS = 60  # that a cluster may be without any worker
LOOK_FOR_WORKERS_SECONDS = 2  # between two looks whether it has any
CONNECT_SECONDS = 20  # within which a scheduler must answer
GATHER_SECONDS = 0.2  # between two fetches of answers from a cluster
LOOK_SECONDS = 0.01  # between two looks at what is ready
_CANCELLED = (CancelledError, asyncio.CancelledError)  # futures of a scheduler that is gone


def as_engine(scheduler: Any, workers: int | None) -> Engine:
    """The engine that the user asked for."""
    if workers is not None:
        as_count(workers, "workers")
    if scheduler is None:
        scheduler = "joblib" if _joblib_is_set_up() else "threads"
    if isinstance(scheduler, str) and "://" not in scheduler:
        return _local(scheduler, workers)
    if not (isinstance(scheduler, str) or hasattr(scheduler, "scheduler_info")):
        raise TypeError(
            f"scheduler must be {', '.join(map(repr, SCHEDULERS))}, a Dask client or the address "
            f"of a Dask scheduler; got {type(scheduler).__name__}"
        )
    if workers is not None:
        raise ValueError(
            "workers cannot be given for a Dask cluster, which has its own number of them"
        )
    return partial(dask, client=scheduler)


def workers_of(scheduler: Any, workers: int | None) -> int:
    """About how many chunks are solved at the same time, by what the user asked for."""
    if isinstance(scheduler, str) and "://" in scheduler:
        with closing(_connect(_distributed(), scheduler)) as client:
            return _threads_of(client)
    if hasattr(scheduler, "nthreads"):
        with _scheduler_lives():
            return _threads_of(scheduler)
    return 1 if scheduler == "serial" else workers or default_threads()


def _local(name: str, workers: int | None) -> Engine:
    number = workers or default_threads()
    if name == "serial" or (name == "threads" and number == 1):
        return serial
    if name == "threads":
        return partial(threads, workers=number)
    if name == "processes":
        return partial(joblib, workers=number, backend="loky")
    if name == "joblib":
        return partial(joblib, workers=workers, backend=None)
    raise ValueError(
        f"scheduler must be {', '.join(map(repr, SCHEDULERS))}, a Dask client or an address such "
        f"as tcp://localhost:8786; got {name!r:.80}"
    )


def serial(solve: Solve, chunks: Numbered) -> Solved:
    """One chunk after the other."""
    for i, chunk in chunks:
        yield i, solve(chunk)


def threads(solve: Solve, chunks: Numbered, workers: int) -> Solved:
    """Threads of this process."""
    waiting: dict[Future[Any], int] = {}
    pool, enough = ThreadPoolExecutor(workers), Event()

    def run(chunk: Chunk) -> Any:
        with stopped_by(enough):
            return solve(chunk)

    try:
        for i, chunk in chunks:
            waiting[pool.submit(run, chunk)] = i
            if len(waiting) >= AHEAD * workers:
                yield from _completed(waiting)
        while waiting:
            yield from _completed(waiting)
    finally:
        enough.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _completed(waiting: dict[Future[Any], int]) -> Solved:
    """Wait until something is ready."""
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in done:
        yield waiting.pop(future), future.result()


# ---- joblib -----------------------------------------------------------------------------------


def joblib(solve: Solve, chunks: Numbered, workers: int | None, backend: str | None) -> Solved:
    """The workers of a joblib backend: the one given, or that of ``joblib.parallel_config``."""
    try:
        from joblib import Parallel, delayed, effective_n_jobs, parallel_config
    except ImportError:
        raise ImportError('this scheduler needs joblib: pip install "hctrellis[batch]"') from None

    with nullcontext() if backend is None else parallel_config(backend):
        used, given = _joblib_backend()
        number = effective_n_jobs(workers or given or -1)
        streams = getattr(used, "supports_return_generator", False)
        kind = "generator_unordered" if streams else "list"
        wave: dict[int, Chunk] = {}
        for attempt in range(RESTARTS + 1):
            try:
                with Parallel(number, batch_size=1, return_as=kind, max_nbytes=None) as parallel:
                    while wave := wave or dict(islice(chunks, WAVE * number)):
                        answers = parallel(delayed(_numbered)(solve, *i) for i in [*wave.items()])
                        try:
                            for i, table in answers:
                                del wave[i]
                                yield i, table
                        finally:
                            _close(answers)
                return
            except BrokenExecutor as error:  # one was killed, and joblib ends them all
                if attempt == RESTARTS or not wave:
                    raise RuntimeError(
                        f"worker processes ended {attempt + 1} times before they had finished, as "
                        "if killed for lack of memory; use fewer workers, or smaller chunks"
                    ) from error
                warnings.warn("a worker process ended; workers are started anew", stacklevel=2)


def _numbered(solve: Solve, i: int, chunk: Chunk) -> tuple[int, Any]:
    return i, solve(chunk)


def _close(answers: Any) -> None:
    """Stop joblib without its warning about tasks whose answers are not fetched."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if hasattr(answers, "close"):
            answers.close()


def _joblib_backend(prefer: str | None = None) -> tuple[Any, int | None]:
    """The backend in use and the number of jobs that was set for it."""
    from joblib.parallel import get_active_backend

    found: tuple[Any, int | None] = get_active_backend(**({"prefer": prefer} if prefer else {}))
    return found


def _joblib_is_set_up() -> bool:
    """Whether we are inside ``joblib.parallel_config(...)``: its settings then take precedence."""
    if "joblib" not in sys.modules:
        return False
    either = {type(_joblib_backend(prefer)[0]) for prefer in ("threads", "processes")}
    return len(either) == 1 or _joblib_backend()[1] is not None


# ---- Dask -------------------------------------------------------------------------------------


def dask(solve: Solve, chunks: Numbered, client: Any) -> Solved:
    """The workers of a Dask cluster; one that dies leaves its chunks to the others."""
    ours = isinstance(client, str)
    connected = _connect(_distributed(), client) if ours else client
    waiting: dict[Any, int] = {}
    most = 0
    try:
        for handed_out, (i, chunk) in enumerate(chunks):
            with _scheduler_lives():
                if handed_out % ASK_EVERY == 0:  # workers come and go
                    most = AHEAD * _threads_of(connected)
                future = connected.submit(solve, chunk, pure=False, retries=DASK_RETRIES)
            waiting[future] = i
            if len(waiting) >= most:
                yield from _gather(connected, waiting)
        while waiting:
            yield from _gather(connected, waiting)
    finally:
        with suppress(OSError, TimeoutError, *_CANCELLED):
            connected.cancel(list(waiting))
        if ours:
            with suppress(OSError, TimeoutError, *_CANCELLED):
                connected.close()


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError:
        raise ImportError('clusters need dask: pip install "hctrellis[dask]"') from None


@contextmanager
def _scheduler_lives() -> Iterator[None]:
    """Say in one sentence that the scheduler is gone, and how to go on."""
    try:
        yield
    except (OSError, TimeoutError, *_CANCELLED) as error:
        raise ConnectionError(
            "the Dask scheduler does not answer any more; what is finished is kept if a folder was "
            "given (out), and the same call with a running scheduler continues from there"
        ) from error


def _gather(client: Any, waiting: dict[Any, int]) -> Solved:
    """Wait until something is ready, and a little longer: each fetch takes some milliseconds."""
    enough = time.monotonic() + GATHER_SECONDS
    presence = _Presence(client)
    while True:
        ready = [future for future in waiting if future.done()]
        if len(ready) == len(waiting) or (ready and time.monotonic() > enough):
            break
        if not ready:
            presence.check()
        time.sleep(LOOK_SECONDS)
    with _scheduler_lives():
        answers = client.gather(ready)
    yield from zip([waiting.pop(future) for future in ready], answers, strict=True)


class _Presence:
    """Whether a cluster still has workers, asked every now and then."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._looked = self._seen = time.monotonic()
        self._warned = False

    def check(self) -> None:
        """Say so if there are no workers, and end with an error if there are none for long."""
        now = time.monotonic()
        if now - self._looked < LOOK_FOR_WORKERS_SECONDS:
            return
        self._looked = now
        with _scheduler_lives():
            present = bool(self._client.nthreads())
        if present:
            self._seen = now
        elif now - self._seen > WORKERLESS_SECONDS:
            raise TimeoutError(
                f"the Dask cluster has had no workers for {WORKERLESS_SECONDS} s; start some, and "
                "the same call continues from what is finished, if a folder was given (out)"
            )
        elif not self._warned:
            self._warned = True
            warnings.warn(
                f"the Dask cluster has no workers; waiting for some, {WORKERLESS_SECONDS} s at "
                "most",
                stacklevel=2,
            )


def _connect(distributed: Any, address: str) -> Any:
    return distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)


def _threads_of(client: Any) -> int:
    return int(max(1, sum(client.nthreads().values())))
