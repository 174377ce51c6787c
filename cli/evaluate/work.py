"""Items of an evaluation; finished results are kept in a file and reused."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from operad.cli.interruptible import ctrl_c_raises
from operad.runtime.evaluation.results import process_concurrently, stored_results
from operad.runtime.values.errors import InputError, InvalidError, Issue, OperadError

T = TypeVar("T")

EXIT_INTERRUPTED = 130

MAX_BYTES = 256 * 2**20
"""Maximum size of a file of items, in bytes."""

MOST_ISSUES = 20
"""Maximum number of issues that an error lists."""

ResultsFile = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Store results in this file, as JSON lines, and skip items that have one.",
    ),
]
"""Option of the commands that score items."""

Result = Mapping[str, Any]
"""Result of an item, as JSON values."""


class Work(NamedTuple):
    """An item to be scored.

    Attributes:
        key: Name of the item, unique in the evaluation.
        content: Everything its score depends on; a kept result counts only for the same content.
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
        settings: Other settings that scores depend on, such as the metric; stored in the first line of the file.
        out: File of results, one JSON object per line, each written when its item is done. Matching results in it
            are reused; None to keep none.
        at_once: Number of items scored at the same time.

    Returns:
        The results in the order of `work`, each with its ``key``.

    Raises:
        InputError: Two items have the same key; the file cannot be used, or has results of other settings.
        IncompleteError: An item could not be scored, for example because its model cannot be reached.
        SystemExit: Interrupted; its status is 130.
    """
    _check_unique_keys(work)
    hashes = {item.key: sha256(item.content).hexdigest() for item in work}
    with stored_results(out, settings, hashes) as (results, store):
        remaining = [item for item in work if item.key not in results]
        if results:
            print(f"{len(results)} of {len(work)} were done before and are taken from {out}", file=sys.stderr)
        with progress(len(work), len(results)) as advance:

            async def score(item: Work) -> None:
                results[item.key] = {"key": item.key, **await item.score()}
                store(results[item.key])
                advance()

            process_all(remaining, score, at_once, lambda: _progress_text(results, work, out))
    return [results[item.key] for item in work]


def process_all(
    items: Iterable[T], process: Callable[[T], Awaitable[None]], at_once: int, progress_text: Callable[[], str]
) -> None:
    """Process items, some at the same time, and print the progress if the work ends early.

    Args:
        at_once: Number of items processed at the same time.
        progress_text: Function that returns the progress, and where results are kept.

    Raises:
        IncompleteError: An item failed.
        SystemExit: Interrupted; its status is 130.
    """
    run_interruptibly(process_concurrently(items, process, at_once), progress_text)


def run_interruptibly(work: Coroutine[Any, Any, T], progress_text: Callable[[], str]) -> T:
    """Run a coroutine, and print the progress if it ends early.

    Raises:
        IncompleteError: The coroutine failed.
        SystemExit: Interrupted; its status is 130.
    """
    try:
        with ctrl_c_raises():
            return asyncio.run(work)
    except KeyboardInterrupt:
        print(f"operad: interrupted; {progress_text()}", file=sys.stderr)
        raise SystemExit(EXIT_INTERRUPTED) from None
    except OperadError as error:
        raise IncompleteError(f"{error}\n{progress_text()}") from error


def first_issues(subject: str, issues: Sequence[Issue]) -> InvalidError:
    """Return the error for the issues of files, with the first of them and the number of all."""
    number = f" (the first {MOST_ISSUES} of {len(issues)} issues)" if len(issues) > MOST_ISSUES else ""
    return InvalidError(f"{subject}{number}", issues[:MOST_ISSUES])


def _check_unique_keys(work: Sequence[Work]) -> None:
    seen: set[str] = set()
    for item in work:
        if item.key in seen:
            raise InputError(f"{item.key!r} is there twice; give each file once, and each item a name of its own")
        seen.add(item.key)


def _progress_text(results: Mapping[str, Any], work: Sequence[Work], out: Path | None) -> str:
    done = f"{len(results)} of {len(work)} items are done"
    if out is None:
        return f"{done}, and lost: --output FILE.jsonl would keep them"
    return f"{done} and kept in {out}; the same command continues from there"


@contextmanager
def progress(total: int, done: int) -> Generator[Callable[[], None]]:
    """Show a progress bar on stderr, if it is a terminal; yield a function to call for each finished item."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda: bar.advance(task)
