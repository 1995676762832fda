"""Fuzzing of all that reads: every input is accepted, or refused in one clear sentence.

    python tests/fuzz.py [target ...] --number 100000 --seed 1

Inputs are mutations of valid ones, and pieces put together by a grammar; input i of a target is
made from the seed, the name and i alone, so `--first i --number 1` makes it again. Anything but
success or a documented error (another exception, several lines, too much time or memory) ends the
run with exit code 1, and the input is saved.
"""

from __future__ import annotations

import argparse
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from fuzz_targets import TARGETS, Refused, Target

HANGS = 120  # seconds after which an input is said to hang
MEMORY = 2 << 30  # bytes that may be asked for beyond those in use at the start
LONGEST = 600  # characters of a message
DOCUMENTED = (ValueError, TypeError, OSError)


class Failure(AssertionError):
    """An input did something that it must not do."""


class Hangs(BaseException):
    """An input takes too long."""


@dataclass
class Tally:
    """What happened to the inputs of a target."""

    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0
    messages: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def line(self, name: str) -> str:
        """The summary."""
        return (
            f"{name:8} {self.accepted + self.refused:7} inputs, {self.accepted:6} accepted, "
            f"{self.refused:6} refused, slowest {self.slowest:.2f} s, "
            f"{len(self.messages)} kinds of messages"
        )


def run(
    target: Target,
    number: int,
    seed: int,
    first: int = 0,
    save: Path | None = None,
    failures: int = 1,
    hangs: int = 0,
) -> Tally:
    """Try inputs on a target.

    Parameters
    ----------
    save : Path, optional
        Folder where the input is kept while it is read, and those that failed.
    failures : int
        How many inputs may fail before the run ends.
    hangs : int
        Seconds after which an input is said to hang; 0: never.
    """
    tally = Tally()
    for i in range(first, first + number):
        given = target.make(Random(f"{seed} {target.name} {i}"))
        if save is not None:
            _keep(save / f"{target.name}.input", given)
        try:
            signal.alarm(hangs)
            attempt(target, given, tally)
            signal.alarm(0)
        except (Failure, Hangs) as failure:
            signal.alarm(0)
            shown = f"{given!r:.1000}"
            tally.failures.append(f"{target.name}, input {i} of seed {seed}: {failure}\n{shown}")
            if save is not None:
                _keep(save / f"{target.name}-{seed}-{i}", given)
            if len(tally.failures) >= failures:
                break
    return tally


def _keep(path: Path, given: Any) -> None:
    """Write an input where it can be found, even if the process dies of it."""
    path.write_bytes(given if isinstance(given, bytes) else repr(given).encode("utf-8", "replace"))


def attempt(target: Target, given: Any, tally: Tally) -> None:
    """Give one input to a target and judge what happens."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", category=UserWarning)
            target.call(given)
        tally.accepted += 1
    except Refused as refusal:
        tally.refused += 1
        tally.messages[_kind(str(refusal))] += 1
    except DOCUMENTED as error:
        _judge(error)
        tally.refused += 1
        tally.messages[_kind(str(error))] += 1
    except Exception as error:
        raise Failure(_told(error)) from None
    taken = time.process_time() - start
    tally.slowest = max(tally.slowest, taken)
    if taken > target.seconds:
        raise Failure(f"took {taken:.1f} seconds")


def _judge(error: Exception) -> None:
    """A documented error is one printable line, of a plain type, from the package itself."""
    message = str(error)
    inner = traceback.extract_tb(error.__traceback__)[-1].filename
    foreign = isinstance(error, UnicodeError) or "hctrellis" not in inner
    if foreign or not message or not message.isprintable() or len(message) > LONGEST:
        raise Failure(_told(error))


def _told(error: Exception) -> str:
    text = "".join(traceback.format_exception(error))
    return text if len(text) < 3000 else f"{text[:2000]} ... {text[-300:]}"


def _kind(message: str) -> str:
    """A message without what was given."""
    message = re.sub(r"'[^']*'|\"[^\"]*\"|\{.*\}|/\S+", "_", message)
    return re.sub(r"[-+]?[0-9][0-9.e+-]*|\binf\b|\bnan\b", "0", message)[:90]


# ---- the program ------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the targets that are named, or all."""
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = sorted({*options.targets} - {*TARGETS})
    if unknown:
        parser.error(f"there is no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    options.save.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGALRM, _stop)
    failed = 0
    for name in options.targets or TARGETS:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            target = TARGETS[name](Path(folder))
            _limit_memory()
            before = time.perf_counter()
            tally = run(
                target,
                options.number,
                options.seed,
                options.first,
                options.save,
                options.failures,
                HANGS,
            )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        seconds = time.perf_counter() - before
        print(tally.line(name), f"({seconds:.0f} s, peak {peak:.0f} MB)", flush=True)
        if options.messages:
            for kind, times in tally.messages.most_common():
                print(f"{times:9}  {kind}")
        for failure in tally.failures:
            print(f"{failure}\nsaved in {options.save}", flush=True)
        failed += len(tally.failures)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="target", help=", ".join(TARGETS))
    parser.add_argument("--number", type=int, default=100_000, help="inputs for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--failures", type=int, default=1, help="to see before the run ends")
    parser.add_argument("--messages", action="store_true", help="list the kinds of messages")
    parser.add_argument("--folder", type=Path, help="for the files that are read")
    parser.add_argument(
        "--save", type=Path, default=Path(tempfile.gettempdir()) / "fuzz", help="for bad inputs"
    )
    return parser


def _stop(number: int, frame: object) -> None:
    raise Hangs(f"did not end in {HANGS} seconds")


def _limit_memory() -> None:
    """Let allocations fail that go far beyond what is in use now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    sys.exit(main())
