"""A workflow of thirty operators and a judge, in which each result depends on random tokens of all operators before.

Each operator draws a random token, a throw, and returns a digest of its key, the token and its input messages. So the
result is right only if one throw of each operator was stored, and all its successors saw that throw. `undisturbed`
computes the result of the same throws without a database.
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
from operad.runtime.events import current_scope
from operad.runtime.events.journal import idempotency_key

Dice = Callable[[str], str]
"""Returns the token that an operator draws, by its key."""

Delay = Callable[[str], float]
"""Returns the seconds that an operator takes, by its key."""

THROWS = 54
"""The number of throws in all rounds of a run."""


def throw_into(journal: str) -> Dice:
    """Return dice that write each throw to a file before returning it: ``key token process time``."""

    def throw(key: str) -> str:
        token = secrets.token_hex(8)
        line = os.open(journal, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
        try:
            os.write(line, f"{key} {token} {os.getpid()} {time.time()}\n".encode())
        finally:
            os.close(line)
        return token

    return throw


def random_delay(seconds: float) -> Delay:
    """Return delays between 0 and twice `seconds`, the same for the same key."""
    return lambda key: 2 * seconds * random.Random(key).random()  # noqa: S311


class Thrower:
    """An operator that draws a token.

    Args:
        id: Its id.
        dice: Returns its token.
        delay: Returns the seconds that it takes.
    """

    def __init__(self, id: str, dice: Dice, delay: Delay) -> None:
        self._id = id
        self._dice = dice
        self._delay = delay

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
        await asyncio.sleep(self._delay(key))
        inputs = [_content(message) for message in workflow_messages or []]
        digest = hashlib.sha256(repr((key, token, inputs, lesson)).encode()).hexdigest()[:16]
        return self.message(token, digest, lesson or "")

    def message(self, token: str, digest: str, lesson: str) -> WorkflowMessage:
        """Return the message of the operator."""
        return WorkflowMessage(
            scratchpad=f"{self._id} says {digest}",
            outputs={"token": token, "digest": digest, "bytes": digest.encode(), "pair": (1, digest)},
            usage=Usage(calls=1, prompt_tokens=len(digest)),
        )


class Lister(Thrower):
    """A thrower whose message also has a list."""

    def message(self, token: str, digest: str, lesson: str) -> WorkflowMessage:
        message = super().message(token, digest, lesson)
        return message.model_copy(
            update={"outputs": {**message.outputs, "items": [digest[i : i + 2] for i in range(5)]}}
        )


class Router(Thrower):
    """A thrower that takes the left port."""

    ports = ("left", "right")

    def message(self, token: str, digest: str, lesson: str) -> WorkflowMessage:
        return super().message(token, digest, lesson).model_copy(update={"ports": ("left",)})


class Shaky(Thrower):
    """A thrower that fails until it gets a lesson."""

    def message(self, token: str, digest: str, lesson: str) -> WorkflowMessage:
        if not lesson:
            raise RuntimeError(f"shaky threw {token} and saw {digest}")
        return super().message(token, digest, lesson)


class Judge(Thrower):
    """An evaluator that blames three operators once."""

    def message(self, token: str, digest: str, lesson: str) -> WorkflowMessage:
        message = super().message(token, digest, lesson)
        scope = current_scope()
        if scope is None or scope.round > 2:
            return message.model_copy(update={"evaluation": "good"})
        return message.model_copy(
            update={
                "status": WorkflowStatus.EXECUTION_ERROR,
                "lesson": f"judged: {token}",
                "blame": ("b0", "each", "inner"),
            }
        )


def build_workflow(dice: Dice, delay: Delay) -> Workflow:
    """Build the workflow: layers, diamonds, a map, a nested workflow and a branch that is skipped.

    An operator fails in the first round; the judge accepts the result of the third.
    """

    def throwers(names: str) -> list[Thrower]:
        return [Thrower(name, dice, delay) for name in names.split()]

    top = BuiltinWorkflow(max_rounds=3, name="thirty")
    a0, (a1, a2, a3) = Lister("a0", dice, delay), throwers("a1 a2 a3")
    b0, b1, b2, b3 = throwers("b0 b1 b2 b3")
    c0, c1 = throwers("c0 c1")
    left, right = throwers("left right")
    way, shaky = Router("way", dice, delay), Shaky("shaky", dice, delay)
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
    top.set_evaluator(Judge("judge", dice, delay))
    return top


def served(workflow: Workflow) -> Served:
    """Return the workflow for workers and their driver."""
    return Served("thirty", [Agent(Profile(name="thirty"), workflow, None)])  # type: ignore[arg-type]


def job(run_id: str) -> Job:
    """Return the job of a run."""
    return Job(goal="throw", id=f"job-{run_id}", session_id="session")


def undisturbed(run_id: str, thrown: Mapping[str, str]) -> tuple[WorkflowMessage, set[str]]:
    """Run the workflow with these throws and without faults; return its message and the keys of its operators.

    Raises:
        KeyError: An operator has no throw among them.
    """
    used = set[str]()

    def dice(key: str) -> str:
        used.add(key)
        return thrown[key]

    workflow = build_workflow(dice, lambda _: 0.0)
    return workflow.execute(job(run_id), None, run_id=run_id), used  # type: ignore[arg-type]


def _content(message: WorkflowMessage) -> tuple[object, ...]:
    return message.operator_id, message.scratchpad, message.outputs, message.status.value, message.lesson
