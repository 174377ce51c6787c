"""Items of an evaluation: finished results are kept in a file, and not computed again."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from operad.cli.interruptible import ctrl_c_raises
from operad.configs.lines import add_line, read_lines
from operad.runtime.values.errors import InputError, OperadError

T = TypeVar("T")

EXIT_INTERRUPTED = 130

Result = Mapping[str, Any]
"""Result of an item, as JSON values."""


class Work(NamedTuple):
    """An item to be scored.

    Attributes:
        key: Name of the item, unique in the evaluation.
        content: Everything its score depends on; a kept result counts only for the same content.
        score: Function that scores it.
    """

    key: str
    content: bytes
    score: Callable[[], Awaitable[Result]]


class IncompleteError(OperadError):
    """An evaluation ended early; what was done is kept, if there is a file for it."""


def evaluate(
    work: Sequence[Work], settings: Mapping[str, Any], out: Path | None, *, at_once: int = 1
) -> list[dict[str, Any]]:
    """Score all items that have no result yet, with a progress bar on stderr.

    Args:
        work: The items.
        settings: Other settings that scores depend on, such as the metric; kept in the first line of the file.
        out: File of results, one JSON object per line, each written when its item is done. Matching results in it
            are reused; None to keep none.
        at_once: Number of items scored at the same time.

    Returns:
        The results in the order of `work`, each with its ``key``.

    Raises:
        InputError: Two items have one key; the file cannot be used, or belongs to an evaluation with other settings.
        IncompleteError: An item could not be scored, for example because its model cannot be reached.
        SystemExit: Interrupted; its status is 130.
    """
    _check_keys(work)
    prints = {each.key: sha256(each.content).hexdigest() for each in work}
    with _kept(out, settings, prints) as (results, keep):
        todo = [each for each in work if each.key not in results]
        if results:
            print(f"{len(results)} of {len(work)} were done before and are taken from {out}", file=sys.stderr)
        with progress(len(work), len(results)) as advance:

            async def score(each: Work) -> None:
                results[each.key] = {"key": each.key, **await each.score()}
                keep({"print": prints[each.key], **results[each.key]})
                advance()

            worked_through(todo, score, at_once, lambda: _how_far(results, work, out))
    return [results[each.key] for each in work]


def worked_through(
    todo: Iterable[T], work_on: Callable[[T], Awaitable[None]], at_once: int, how_far: Callable[[], str]
) -> None:
    """Work on things, some at the same time, and say how far it came where it ends early.

    Args:
        todo: The things.
        work_on: Works on one.
        at_once: On how many at the same time.
        how_far: Says what is done, and where it is kept.

    Raises:
        IncompleteError: One failed.
        SystemExit: Interrupted; its status is 130.
    """
    try:
        with ctrl_c_raises():
            asyncio.run(_all(list(todo), work_on, at_once))
    except KeyboardInterrupt:
        print(f"operad: interrupted; {how_far()}", file=sys.stderr)
        raise SystemExit(EXIT_INTERRUPTED) from None
    except OperadError as error:
        raise IncompleteError(f"{error}\n{how_far()}") from error


async def _all(todo: Sequence[T], work_on: Callable[[T], Awaitable[None]], at_once: int) -> None:
    waiting = iter(todo)

    async def worker() -> None:
        for each in waiting:
            await work_on(each)
            await asyncio.sleep(0)  # lets Ctrl-C be handled

    workers = [asyncio.ensure_future(worker()) for _ in range(min(at_once, len(todo)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


def _check_keys(work: Sequence[Work]) -> None:
    seen: set[str] = set()
    for each in work:
        if each.key in seen:
            raise InputError(f"{each.key!r} is there twice; give each file once, and each item a name of its own")
        seen.add(each.key)


def _how_far(results: Mapping[str, Any], work: Sequence[Work], out: Path | None) -> str:
    done = f"{len(results)} of {len(work)} items are done"
    if out is None:
        return f"{done}, and lost: --output FILE.jsonl would keep them"
    return f"{done} and kept in {out}; the same command continues from there"


@contextmanager
def progress(total: int, done: int) -> Generator[Callable[[], None]]:
    """A progress bar on stderr, if that is a terminal; what is given is called for each thing that is done."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda: bar.advance(task)


@contextmanager
def _kept(
    out: Path | None, settings: Mapping[str, Any], prints: Mapping[str, str]
) -> Generator[tuple[dict[str, dict[str, Any]], Callable[[Mapping[str, Any]], None]]]:
    """The results that a file holds and that still fit, and what adds one to it."""
    if out is None:
        yield {}, lambda line: None
        return
    head = {"evaluation": json.loads(json.dumps(settings))}
    try:
        lines = read_lines(out, head)
        with out.open("a", encoding="utf-8") as file:
            if not lines:
                add_line(file, head)
            results: dict[str, dict[str, Any]] = {}
            for line in lines[1:]:
                key = line.get("key")
                if isinstance(key, str) and key in prints and prints[key] == line.pop("print", ""):
                    results[key] = line
            yield results, lambda line: add_line(file, line)
    except OSError as error:
        raise InputError(f"--output {out}: cannot be used: {error.strerror or error}") from error
