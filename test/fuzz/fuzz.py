"""Fuzz the loaders and parsers: hostile inputs end in an error that is meant, soon, and do no harm.

    python test/fuzz/fuzz.py [TARGET…] [--seconds N] [--seed S]

Each target gets its share of the seconds, two at the same time, each in a process of its own with bounded memory.
Inputs are real ones, broken (`inputs.broken`); where atheris is installed, its libFuzzer chooses those that reach new
branches of our code, else hypothesis makes them. What goes wrong is kept in `found/TARGET/`, smallest first, and the exit
status is 1; once it is mended, the file stays there as a test (`test/unit/test_fuzz_corpus.py`).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from importlib import import_module
from importlib.util import find_spec
from math import inf
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

IS_GUIDED = find_spec("atheris") is not None
atheris: Any = import_module("atheris") if IS_GUIDED else None
OURS = ["operad.runtime", "operad.operators", "operad.evaluators", "operad.configs"]

with atheris.instrument_imports(include=OURS, enable_loader_override=False) if IS_GUIDED else nullcontext():
    from bounds import LONGEST, MEMORY, UnboundedError, attempt
    from inputs import anything, broken

    for folder in ("example/release_credits", "support"):  # as pytest has them
        sys.path.insert(0, str(Path(__file__).parents[1] / folder))
    from targets import TARGETS

Run = Callable[[bytes], None]
FOUND = Path(__file__).parent / "found"
AT_ONCE = 2
INPUT_SECONDS = 30
"""Seconds of computing after which an input is ended."""

WAITING = 20
"""Seconds that a second of computing may take on a loaded machine: only what stands still takes longer."""


class Outcome(NamedTuple):
    """What came of a target."""

    name: str
    executions: int
    corpus: int
    found: Sequence[str]


def fuzzed(name: str, seconds: int, seed: int) -> Outcome:
    """Fuzz a target in a process of its own, forked so that what is imported is so once."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        home = Path(folder)
        for each in ("corpus", "new", "tmp"):
            (home / each).mkdir()
        process = get_context("fork").Process(target=_child, args=(name, seconds, seed, home))
        process.start()
        process.join(WAITING * (seconds + 2 * INPUT_SECONDS))
        if process.is_alive():
            process.kill()
            process.join()
        said = (home / "log").read_text("utf-8", "replace")
        found = [_kept(name, file) for file in sorted((home / "new").iterdir(), key=lambda each: each.stat().st_size)]
        if process.exitcode and not found:
            found = [f"{name}: ended with status {process.exitcode}: {said[-2000:]}"]
        counts = [int(count) for count in re.findall(r"(?:executed_units: +|^#)(\d+)", said, re.MULTILINE)]
        return Outcome(name, max(counts, default=0), len(list((home / "corpus").iterdir())), found)


def _kept(name: str, file: Path) -> str:
    data = file.read_bytes()
    kept = FOUND / name / f"{hashlib.sha256(data).hexdigest()[:16]}.bin"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(data)
    return f"{kept} ({len(data):,} bytes): {file.name}"


# In the process of a target


def _child(name: str, seconds: int, seed: int, home: Path) -> None:
    """Fuzz a target here. What goes wrong is written to the folder `new`, once for each place where it does."""
    with (home / "log").open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    tempfile.tempdir = str(home / "tmp")
    os.chdir(tempfile.tempdir)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = seconds + 2 * INPUT_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    signal.signal(signal.SIGPROF, _end_input)
    target = TARGETS[name]
    seeds = [each for each in target.seeds() if len(each) <= LONGEST]
    for data in seeds:  # what is imported when it is first needed takes its time
        with suppress(Exception):
            target.run(data)
    places: dict[str, int] = {}

    def run(data: bytes) -> None:
        signal.setitimer(signal.ITIMER_PROF, INPUT_SECONDS)  # counts computing, whatever else this machine does
        try:
            attempt(target, data)
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            place = _place(error)
            if len(data) < places.get(place, LONGEST + 1):
                places[place] = len(data)
                (home / "new" / place).write_bytes(data)
                traceback.print_exc(limit=-6)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    (_guided if IS_GUIDED else _at_random)(run, seeds, seconds, seed, home)
    sys.stdout.flush()
    os._exit(0)  # the threads of the process that it is forked from are not here, and cannot be waited for


def _end_input(*_: object) -> None:
    raise UnboundedError(f"took {INPUT_SECONDS} s of computing, and was ended")


def _place(error: BaseException) -> str:
    """Which error, and where in our code it came out."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [each for each in frames if "/operad/" in each.filename or "/fuzz/" not in each.filename] or frames
    own = [each for each in ours if "site-packages" not in each.filename and "/lib/python" not in each.filename]
    last = (own or ours)[-1]
    return re.sub(r"[^\w.:-]+", "_", f"{type(error).__name__}-{Path(last.filename).name}:{last.lineno}")


def _guided(run: Run, seeds: Sequence[bytes], seconds: int, seed: int, home: Path) -> None:
    for number, data in enumerate(seeds):
        (home / "corpus" / f"seed-{number}").write_bytes(data)

    def mutated(data: bytes, max_size: int, number: int) -> bytes:
        chance = random.Random(number)  # noqa: S311
        if chance.random() < 0.5:
            return atheris.Mutate(data, max_size)
        return broken(data, chance)[:max_size]

    flags = [
        f"-max_total_time={seconds}",
        f"-timeout={WAITING * INPUT_SECONDS}",  # what computes outside of Python, or stands still
        f"-report_slow_units={WAITING * INPUT_SECONDS}",
        "-rss_limit_mb=0",  # RLIMIT_AS holds, as a MemoryError
        f"-seed={seed + 1}",
        f"-max_len={max(4096, 2 * max(map(len, seeds), default=0))}",
        f"-artifact_prefix={home}/new/",
        "-print_final_stats=1",
        "-detect_leaks=0",
    ]
    atheris.Setup([sys.argv[0], *flags, f"{home}/corpus"], run, custom_mutator=mutated)
    atheris.Fuzz()


def _at_random(run: Run, seeds: Sequence[bytes], seconds: int, seed: int, home: Path) -> None:
    from hypothesis import HealthCheck, given, settings
    from hypothesis import seed as seeded

    checks: Any = list(HealthCheck)
    ends, number, count = inf, seed, 0

    def once(data: bytes) -> None:
        nonlocal count, ends
        ends = ends if count else monotonic() + seconds  # hypothesis takes its time to begin
        if monotonic() < ends:
            count += 1
            run(data)

    while monotonic() < ends:
        bound = settings(max_examples=500, deadline=None, database=None, suppress_health_check=checks)
        seeded(number)(bound(given(anything(seeds))(once)))()
        number += 1
    print(f"#{count}")


def main(arguments: Sequence[str]) -> int:
    """Print a table; 1 where something was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="by default all")
    parser.add_argument("--seconds", type=int, default=600, help="for all targets together (default: 600)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    names = options.targets or list(TARGETS)
    if unknown := [name for name in names if name not in TARGETS]:
        parser.error(f"no target {', '.join(unknown)}; there are: {', '.join(TARGETS)}")
    share = max(1, options.seconds * AT_ONCE // len(names))
    print(f"{len(names)} targets, {share} s each, by {'atheris' if IS_GUIDED else 'hypothesis'}", flush=True)
    print("\n| target | executions | corpus | findings |\n|---|---:|---:|---:|", flush=True)
    found: list[str] = []
    executions = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes: Any = pool.map(lambda name: fuzzed(name, share, options.seed), names)
        for each in outcomes:
            print(f"| {each.name} | {each.executions:,} | {each.corpus:,} | {len(each.found)} |", flush=True)
            executions += each.executions
            found += each.found
    print(f"\n{executions:,} executions, {len(found)} findings")
    print(*found, sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
