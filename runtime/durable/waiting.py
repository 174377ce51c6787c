"""What this process waits for that others do."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dbos import DBOSClient, WorkflowStatus

_logger = logging.getLogger(__name__)

SHORTEST_LOOK, LONGEST_LOOK = 0.02, 0.2
"""Seconds between two looks at what has come of what is waited for: the more often, the more comes."""

_ENDED = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]


class Waiting:
    """A thread that looks what has come of all that this process waits for, in one query.

    Args:
        client: What looks.
    """

    def __init__(self, client: DBOSClient) -> None:
        self._client = client
        self._waits: dict[str, asyncio.Future[WorkflowStatus]] = {}
        self._something = threading.Event()
        self._stopped = False
        threading.Thread(target=self._go, name="operad-waiting", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped = True
        self._something.set()

    def enqueue(self, queue: str, step_id: str, request: str, version: str) -> None:
        """Put work into a queue, unless it is there, or done, already."""
        self._client.enqueue(
            {"workflow_name": "operad.operator", "queue_name": queue, "workflow_id": step_id, "app_version": version},
            request,
        )

    async def wait_for(self, step_id: str) -> WorkflowStatus:
        """Wait until it has ended."""
        future: asyncio.Future[WorkflowStatus] = asyncio.get_running_loop().create_future()
        self._waits[step_id] = future
        self._something.set()
        try:
            return await future
        finally:
            self._waits.pop(step_id, None)

    def _go(self) -> None:
        pause = SHORTEST_LOOK
        while not self._stopped:
            if not self._waits:
                self._something.clear()
                if not self._waits:
                    self._something.wait()
                continue
            ended = self._ended(dict(self._waits))
            pause = SHORTEST_LOOK if ended else min(LONGEST_LOOK, pause * 1.3)
            threading.Event().wait(pause)

    def _ended(self, waits: Mapping[str, asyncio.Future[WorkflowStatus]]) -> bool:
        try:
            found = self._client.list_workflows(workflow_ids=list(waits), status=_ENDED, load_input=False)
        except Exception as error:  # noqa: BLE001 - whoever waits would wait for ever for a thread that has ended
            _logger.warning("waiting for what others do: %s", type(error).__name__)
            threading.Event().wait(LONGEST_LOOK)
            return False
        for status in found:
            future = waits[status.workflow_id]
            try:
                future.get_loop().call_soon_threadsafe(_settle, future, status)
            except RuntimeError:  # its loop is closed
                self._waits.pop(status.workflow_id, None)
        return bool(found)


def _settle(future: asyncio.Future[WorkflowStatus], status: WorkflowStatus) -> None:
    if not future.done():
        future.set_result(status)
