"""A workflow of thirty operators and a judge, in which every result depends on the dice of all before it.

Each operator throws a dice once and says a digest of its key, its throw and all that it was given. So the result is
right only if exactly one throw of each operator counted, and all that follows saw that one: `undisturbed` says what
comes of the same throws in a run without a database.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from operad.runtime import (
    Agent,
    BuiltinWorkflow,
    Job,
    Map,
    Port,
    Profile,
    Usage,
    Workflow,
    WorkflowMessage,
    WorkflowStatus,
)
from operad.runtime.durable.shared_agents import Served
from operad.runtime.events.journal import idempotency_key

Dice = Callable[[str], str]
"""What an operator throws, by its key."""

Lamed = Callable[[str], float]
"""How many seconds an operator takes, by its key."""

THROWS = 54
"""In all rounds of a run."""


def throw_into(journal: str) -> Dice:
    """Dice that note each throw in a file, with who threw it, before anybody hears of it: ``key token process time``."""

    def throw(key: str) -> str:
        token = secrets.token_hex(8)
        line = os.open(journal, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
        try:
            os.write(line, f"{key} {token} {os.getpid()} {time.time()}\n".encode())
        finally:
            os.close(line)
        return token

    return throw


def about(seconds: float) -> Lamed:
    """From nothing to twice as much, the same for the same key."""
    return lambda key: 2 * seconds * random.Random(key).random()  # noqa: S311


class Thrower:
    """An operator that throws a dice.

    Args:
        id: Its id.
        dice: What it throws.
        lamed: How long it takes.
    """

    def __init__(self, id: str, dice: Dice, lamed: Lamed) -> None:
        self._id = id
        self._dice = dice
        self._lamed = lamed

    def get_id(self) -> str:
        return self._id

    async def execute(
        self,
        reasoner: Any,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None = None,
        previous_expert_outputs: list[WorkflowMessage] | None = None,
        lesson: str | None = None,
    ) -> WorkflowMessage:
        key = idempotency_key().partition(":")[2]
        token = self._dice(key)
        await asyncio.sleep(self._lamed(key))
        given = [_said(message) for message in workflow_messages or []]
        digest = hashlib.sha256(repr((key, token, given, lesson)).encode()).hexdigest()[:16]
        return self.say(token, digest, lesson or "")

    def say(self, token: str, digest: str, lesson: str) -> WorkflowMessage:
        """Its message."""
        return WorkflowMessage(
            scratchpad=f"{self._id} says {digest}",
            outputs={"token": token, "digest": digest, "bytes": digest.encode(), "pair": (1, digest)},
            usage=Usage(calls=1, prompt_tokens=len(digest)),
        )


class Lister(Thrower):
    """Says a list, too."""

    def say(self, token: str, digest: str, lesson: str) -> WorkflowMessage:
        message = super().say(token, digest, lesson)
        return message.model_copy(
            update={"outputs": {**message.outputs, "items": [digest[i : i + 2] for i in range(5)]}}
        )


class Router(Thrower):
    """Takes the left port."""

    ports = ("left", "right")

    def say(self, token: str, digest: str, lesson: str) -> WorkflowMessage:
        return super().say(token, digest, lesson).model_copy(update={"ports": ("left",)})


class Shaky(Thrower):
    """Raises as long as nobody has taught it a lesson."""

    def say(self, token: str, digest: str, lesson: str) -> WorkflowMessage:
        if not lesson:
            raise RuntimeError(f"shaky threw {token} and saw {digest}")
        return super().say(token, digest, lesson)


class Judge(Thrower):
    """Blames three operators once."""

    def say(self, token: str, digest: str, lesson: str) -> WorkflowMessage:
        message = super().say(token, digest, lesson)
        if "judged:" in lesson:
            return message.model_copy(update={"evaluation": "good"})
        return message.model_copy(
            update={
                "status": WorkflowStatus.EXECUTION_ERROR,
                "lesson": f"judged: {token}",
                "blame": ("b0", "each", "inner"),
            }
        )


def workflow(dice: Dice, lamed: Lamed) -> Workflow:
    """Layers, diamonds, a map, a workflow inside, a way not taken; an operator fails in the first round, and the judge is
    content in the third.
    """

    def throwers(names: str) -> list[Thrower]:
        return [Thrower(name, dice, lamed) for name in names.split()]

    top = BuiltinWorkflow(max_rounds=3, name="thirty")
    a0, (a1, a2, a3) = Lister("a0", dice, lamed), throwers("a1 a2 a3")
    b0, b1, b2, b3 = throwers("b0 b1 b2 b3")
    c0, c1 = throwers("c0 c1")
    left, right = throwers("left right")
    way, shaky = Router("way", dice, lamed), Shaky("shaky", dice, lamed)
    d0, d1, e0 = throwers("d0 d1 e0")

    body = BuiltinWorkflow(name="body")
    x, y = throwers("x y")
    body.add_operator(x)
    body.add_operator(y, [x])
    each = Map("each", body, over="items", concurrency=3)

    inner = BuiltinWorkflow(name="inner")
    p, q, r, s = throwers("p q r s")
    inner.add_operator(p)
    inner.add_operator(q, [p])
    inner.add_operator(r, [p])
    inner.add_operator(s, [q, r])

    for operator in (a0, a1, a2, a3):
        top.add_operator(operator)
    top.add_operator(b0, [a0, a1])
    top.add_operator(b1, [a0, a1])
    top.add_operator(b2, [a2, a3])
    top.add_operator(b3, [a1, a2])
    top.add_operator(way, [a3])
    top.add_operator(left, [Port(way, "left")])
    top.add_operator(right, [Port(way, "right")])
    top.add_operator(c0, [b0, b1])
    top.add_operator(c1, [b0, b2, b3])
    top.add_operator(each, [a0])
    top.add_operator(inner, [c0])
    top.add_operator(shaky, [c1, left, right])
    top.add_operator(d0, [c0, c1, each])
    top.add_operator(d1, [inner, shaky])
    top.add_operator(e0, [d0, d1])
    top.set_evaluator(Judge("judge", dice, lamed))
    return top


def served(made: Workflow) -> Served:
    """The workflow, for workers and for who drives with them."""
    return Served("thirty", [Agent(Profile(name="thirty"), made, None)])  # type: ignore[arg-type]


def job(run_id: str) -> Job:
    """What a run is about."""
    return Job(goal="throw", id=f"job-{run_id}", session_id="session")


def undisturbed(run_id: str, thrown: Mapping[str, str]) -> tuple[WorkflowMessage, set[str]]:
    """What comes of these throws when nothing goes wrong, and the keys of all who threw.

    Raises:
        KeyError: Somebody threw whose throw is not among them.
    """
    used = set[str]()

    def dice(key: str) -> str:
        used.add(key)
        return thrown[key]

    made = workflow(dice, lambda _: 0.0)
    return made.execute(job(run_id), None, run_id=run_id), used  # type: ignore[arg-type]


def _said(message: WorkflowMessage) -> tuple[object, ...]:
    return message.operator_id, message.scratchpad, message.outputs, message.status.value, message.lesson
