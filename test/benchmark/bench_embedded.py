"""Measure the embedded model: start, memory, speed of reading and generating, concurrent calls.

    python test/benchmark/bench_embedded.py --page docs/models.md

Prompts are numbered words that no earlier prompt contained. The model runs in this process and starts with the first call.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from pathlib import Path

from page import markdown, write_into
from rich.console import Console
from rich.table import Table

from operad.runtime.models.embedded import EmbeddedModel
from operad.runtime.models.messages import Message
from operad.runtime.models.settings import ModelSettings

SHORT, LONG, TURNS = 20, 700, 3


def prompt(number: int, words: int) -> list[Message]:
    """Return a prompt of so many words and a question; each number gives another beginning."""
    text = " ".join(f"harbour {number} {each}" for each in range(words // 3))
    return [Message.user(f"{number}: {text}. Tell me a long story about this harbour.")]


async def timed(number: int, words: int, answer: int) -> tuple[float, int, int]:
    """Return the seconds of a call, and its prompt and completion tokens."""
    began = time.perf_counter()
    completion = await EmbeddedModel().complete(prompt(number, words), settings=ModelSettings(max_tokens=answer))
    usage = completion.usage
    return time.perf_counter() - began, usage.prompt_tokens, usage.completion_tokens


async def measure() -> Table:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, *_ = await timed(0, SHORT, 1)
    reading: list[float] = []
    writing: list[float] = []
    for number in range(1, TURNS + 1):
        seconds, read, _ = await timed(number, LONG, 1)
        reading.append(read / seconds)
        seconds, _, written = await timed(100 + number, SHORT, 100)
        writing.append(written / seconds)
    began = time.perf_counter()
    for number in range(8):
        await timed(200 + number, SHORT, 20)
    in_turn, began = time.perf_counter() - began, time.perf_counter()
    await asyncio.gather(*(timed(300 + number, SHORT, 20) for number in range(8)))
    at_once = time.perf_counter() - began
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    table = Table("embedded model", "measured")
    table.add_row("first call of the process, including start", f"{start:.1f} s")
    table.add_row("memory", f"{memory:.0f} MB")
    table.add_row("reading a prompt", f"{min(reading):.0f} to {max(reading):.0f} tokens/s")
    table.add_row("generating an answer", f"{min(writing):.0f} to {max(writing):.0f} tokens/s")
    table.add_row("8 short calls in sequence", f"{in_turn:.1f} s")
    table.add_row("8 short calls at once (they queue)", f"{at_once:.1f} s")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table between the marks of this file")
    args = parser.parse_args()
    table = asyncio.run(measure())
    Console().print(table)
    if args.page:
        write_into(args.page, markdown([table], "python test/benchmark/bench_embedded.py"), "embedded")


if __name__ == "__main__":
    main()
