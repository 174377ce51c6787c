"""Clients of several servers: each starts orders, answers their questions and reads their results, at any server."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

TIMEOUT = 3.0
"""Seconds after which a client asks another server, as a proxy does."""

_PAUSE = 0.3


@dataclass
class Order:
    """Run that asks one question, as its client sees it.

    Attributes:
        id: The id of the run.
        given: The answers that were sent, each another number; all but the last got no reply, or a refusal.
        accepted: The answer that a server accepted.
        result: The text of the result; None until a server has said it.
        problems: Replies that contradict each other.
    """

    id: str
    given: list[int] = field(default_factory=list)
    accepted: int | None = None
    result: str | None = None
    problems: list[str] = field(default_factory=list)


class Client(threading.Thread):
    """Client that sends one order after the other until `stop`, and finishes its last one.

    Args:
        name: Prefix of the ids of its orders.
        urls: Function that returns the addresses of the servers at the moment.
        seed: Seed of its choices.
    """

    def __init__(self, name: str, urls: Callable[[], Sequence[str]], seed: str) -> None:
        super().__init__(name=name, daemon=True)
        self.orders: list[Order] = []
        self._urls = urls
        self._rng = random.Random(seed)  # noqa: S311
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        while not self._stopped.is_set():
            order = Order(f"{self.name}-{len(self.orders)}")
            self.orders.append(order)
            self._send(order)

    def _send(self, order: Order) -> None:
        begun = False
        while order.result is None:
            if not begun:
                code, _ = self._ask("/runs", {"expert": "order", "goal": order.id, "id": order.id})
                begun = code in (200, 202)
                continue
            code, run = self._ask(f"/runs/{order.id}")
            if code == 404:
                order.problems.append(f"{order.id} was begun, and no server knows it")
                return
            if run.get("state") in ("failed", "cancelled"):
                order.problems.append(f"{order.id} is {run['state']}: {run.get('error')}")
                return
            if run.get("state") == "finished":
                order.result = run["result"]
            elif run.get("questions"):
                order.given.append(self._rng.randrange(10**6))
                code, _ = self._ask(f"/runs/{order.id}/answers/pay", {"answer": order.given[-1]})
                if code == 200:
                    if order.accepted is not None:
                        order.problems.append(f"{order.id} accepted both of {order.given}")
                    order.accepted = order.given[-1]
            time.sleep(_PAUSE * self._rng.random())

    def _ask(self, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """Return the status and the reply of any server; 0 if there is none."""
        try:
            return ask(self._rng.choice(self._urls()) + path, body)
        except (OSError, HTTPException, ValueError, IndexError):  # the server ended, maybe in its reply, or is frozen
            return 0, {}


def ask(url: str, body: object = None) -> tuple[int, dict[str, Any]]:
    """Send a request; return the status and the reply.

    Raises:
        OSError: There is no reply.
        HTTPException: The reply ends too early.
    """
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"content-type": "application/json"})  # noqa: S310
    try:
        with urlopen(request, timeout=TIMEOUT) as reply:  # noqa: S310
            return reply.status, json.loads(reply.read())
    except HTTPError as error:
        with error:
            error.read()
        return error.code, {}
