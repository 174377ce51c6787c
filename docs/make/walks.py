"""Modules that a run, a resume and a load enter: `python docs/make/architecture.py` prints their numbers."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from operad import Evaluator, Operator, PausedError, RunContext, Workflow, operator
from operad.configs import loader
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.run_owner import leave
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.reasoning.task import Task

ROOT = Path(__file__).parents[2]
VERDICT = '{"status": "SUCCESS", "evaluation": "Good.", "lesson": "", "blame": [], "score": 9}'
GENERATORS = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
EXPERT = ROOT / "test" / "example" / "chat2graph_expert.yaml"


class Recorded(Reasoner):
    """Reasoner that returns recorded answers, so that the walk has no modules of a vendor's protocol."""

    def __init__(self, answers: Iterator[str]) -> None:
        self._answers = answers

    async def infer(self, task: Task) -> str:
        """Return the next answer."""
        return next(self._answers)


def walk(work: Callable[[], object]) -> list[str]:
    """Return the module of each call of a function of Operad in this thread and those that it starts, in order."""
    entered: list[str] = []
    names: dict[str, str] = {}
    suspended: set[FrameType] = set()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or frame.f_code.co_name == "<module>" or frame in suspended:
            return
        if frame.f_code.co_flags & GENERATORS:
            suspended.add(frame)  # a generator is called once, and resumed at each of its values
        file = frame.f_code.co_filename
        name = names.get(file)
        if name is None:
            path = Path(file if file[0] != "<" else "/").resolve()
            inside = path.is_relative_to(ROOT) and ".venv" not in path.parts and "make" not in path.parts
            name = names[file] = ".".join(path.relative_to(ROOT).with_suffix("").parts) if inside else ""
        if name:
            entered.append(name)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return entered


def _warm(make: Callable[[], Callable[[], object]]) -> list[str]:
    """Return the walk of the second of two equal works: the first one imports modules and fills caches of classes."""
    make()()
    return walk(make())


def run_walk() -> list[str]:
    """Return the walk of a run of two operators that ask a model and of an evaluator, in one round."""
    answers = iter(("The moon has air.", "It has none.", VERDICT) * 2)

    def make() -> Callable[[], object]:
        first, second = Operator("List the claims.", id="claims"), Operator("Check the claims.", id="check")
        model = Recorded(answers)
        flow = Workflow(
            first >> second, name="walk", engine="builtin", evaluator=Evaluator("It is right."), model=model
        )
        return lambda: asyncio.run(flow.arun("Is this so? The moon has air."))

    return _warm(make)


@operator
async def _agreed(context: RunContext) -> str:
    return "yes" if await context.ask("Agreed?", bool) else "no"


def resume_walk() -> list[str]:
    """Return the walk of the resume of a durable run that waits for an answer of a person."""
    answers = iter(("The moon has air.",) * 2)
    with TemporaryDirectory() as folder:
        urls = [f"sqlite:///{folder}/first.db", f"sqlite:///{folder}/second.db"]
        stores = iter(urls)

        def make() -> Callable[[], object]:
            store, claims, model = next(stores), Operator("List the claims.", id="claims"), Recorded(answers)
            flow, again = (
                Workflow(claims >> _agreed, name="walk", engine="builtin", durable=store, model=model) for _ in range(2)
            )
            with suppress(PausedError):
                flow.run("Is this so?", run_id="one")
            return lambda: asyncio.run(again.aresume("one", True))

        walked = _warm(make)
        for url in urls:
            leave(database_url(url))  # its threads would look for the files, when the folder is gone
        return walked


def load_stays() -> Counter[str]:
    """Return how often control enters each module of `configs` from another one of them, as a YAML expert is loaded."""
    inside = [name for name in _warm(lambda: lambda: loader.load(EXPERT, trust=True)) if name.startswith("configs.")]
    return Counter(name for before, name in zip(["", *inside], inside, strict=False) if before != name)
