"""File of an evaluation's results, written as they come, and read to continue an evaluation that ended early."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from operad.runtime.values.errors import InputError
from operad.runtime.values.result_lines import add_line, read_lines

T = TypeVar("T")

Results = dict[str, dict[str, Any]]
Store = Callable[[Mapping[str, Any]], None]


@contextmanager
def stored_results(
    path: Path | None, settings: Mapping[str, Any], hashes: Mapping[str, str], option: str = "--output"
) -> Generator[tuple[Results, Store]]:
    """Yield the results in a file that match the items of an evaluation, by key, and a function that adds a result.

    Args:
        path: The file, one JSON object per line; None to keep nothing.
        settings: Settings that results depend on, for the first line of the file.
        hashes: Hash of everything that the result of an item depends on, by key.
        option: Name of the option that names the file, for errors.

    Raises:
        InputError: The file cannot be used, or has results of other settings.
    """
    if path is None:
        yield {}, lambda line: None
        return
    head = {"evaluation": json.loads(json.dumps(settings))}
    try:
        lines = read_lines(path, head)
        with path.open("a", encoding="utf-8") as file:
            if not lines:
                add_line(file, head)
            results: Results = {}
            for line in lines[1:]:
                key = line.get("key")
                if isinstance(key, str) and key in hashes and hashes[key] == line.pop("print", ""):
                    results[key] = line
            yield results, lambda line: add_line(file, {"print": hashes[line["key"]], **line})
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be used: {error.strerror or error}") from error


async def process_concurrently(items: Iterable[T], process: Callable[[T], Awaitable[object]], at_once: int) -> None:
    """Process items, at most `at_once` at the same time; after an error, the others are cancelled and have ended."""
    waiting = iter(list(items))

    async def worker() -> None:
        for item in waiting:
            await process(item)
            await asyncio.sleep(0)  # lets Ctrl-C be handled

    workers = [asyncio.ensure_future(worker()) for _ in range(max(1, at_once))]
    try:
        await asyncio.gather(*workers)
    finally:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
