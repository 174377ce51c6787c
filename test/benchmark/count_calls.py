"""Count the calls that a small run makes inside Operad, and how often a call leads into another file.

    python test/benchmark/count_calls.py            # the totals, and the files with most calls
    python test/benchmark/count_calls.py --each     # every call, indented, in order

The run has two operators and two rounds: the evaluator rejects the first round. Recorded answers replace a model. Calls of
the standard library and of other packages are not counted. A call counts as a move if its nearest caller in Operad is in
another file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from functools import cache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from pathlib import Path
from types import FrameType

from operad import Evaluator, Operator
from operad.runtime import BuiltinWorkflow
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.reasoning.task import Task

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("cli", "configs", "evaluators", "flows", "integrations", "operators", "runtime", "server")
GENERATORS = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


VERDICTS = (
    {"status": "EXECUTION_ERROR", "evaluation": "Too little.", "lesson": "Say more.", "blame": ["first"], "score": 4},
    {"status": "SUCCESS", "evaluation": "Good.", "score": 9},
)
ANSWERS = ("one", "two", json.dumps(VERDICTS[0]), "one more", "two more", json.dumps(VERDICTS[1]))


class Recorded(Reasoner):
    """Reasoner that returns recorded answers in order."""

    def __init__(self) -> None:
        self._answers = iter(ANSWERS)

    async def infer(self, task: Task) -> str:
        """Return the next answer."""
        return next(self._answers)


class Calls:
    """Profiler that records the calls of functions in Operad's files.

    Attributes:
        each: Depth, file and function of each call, and whether its caller is in another file.
    """

    def __init__(self) -> None:
        self.each: list[tuple[int, str, str, bool]] = []
        self._resumed: set[FrameType] = set()

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        """Record a call; resuming a coroutine or generator is not a call."""
        if event != "call" or frame in self._resumed or not (file := own_file(frame)):
            return
        if frame.f_code.co_flags & GENERATORS:  # entered once more whenever it goes on
            self._resumed.add(frame)
        if frame.f_code.co_name.startswith("<"):  # a comprehension or lambda belongs to its function
            return
        depth, caller = 0, frame.f_back
        nearest = ""
        while caller is not None:
            if theirs := own_file(caller):
                nearest = nearest or theirs
                depth += 1
            caller = caller.f_back
        name = frame.f_code.co_qualname
        self.each.append((depth, file, name, file != nearest))


@cache
def own(filename: str) -> str:
    """Return a file's path in the repository, or an empty text if it is not one of Operad's."""
    path = Path(filename).resolve()
    inside = path.relative_to(ROOT) if path.is_relative_to(ROOT) else Path()
    return str(inside) if inside.parts[:1] and inside.parts[0] in LAYERS else ""


def own_file(frame: FrameType) -> str:
    """Return the path of a frame's file in the repository, or an empty text."""
    return own(frame.f_code.co_filename)


def counted() -> Calls:
    """Return the calls of one run, after a first one that is not counted."""
    first, second = Operator("Say it.", id="first"), Operator("Say it again.", id="second")
    workflow = BuiltinWorkflow(first >> second, max_rounds=2, evaluator=Evaluator("It is said."))
    calls = Calls()

    async def run() -> None:
        await workflow.aexecute("Go.", Recorded())
        reasoner = Recorded()
        sys.setprofile(calls)
        try:
            await workflow.aexecute("Go.", reasoner)
        finally:
            sys.setprofile(None)

    asyncio.run(run())
    return calls


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", action="store_true", help="print every call, in order")
    args = parser.parse_args()
    calls = counted()
    if args.each:
        for depth, file, function, moved in calls.each:
            print(f"{'  ' * depth}{function}  {file if moved else ''}")
    moves = sum(moved for *_, moved in calls.each)
    files = Counter(file for _, file, _, _ in calls.each)
    print(f"{len(calls.each)} calls in {len(files)} files, {moves} of them into another file")
    for file, count in files.most_common(10):
        print(f"{count:5}  {file}")


if __name__ == "__main__":
    main()
