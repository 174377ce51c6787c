"""Addresses that are told of questions and ends of runs, in a form that Slack's incoming webhooks take."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from operad.operators.secrets import find_secret, secret_value
from operad.runtime.events import Event, Interrupted
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import new_id
from operad.runtime.values.secret import fill_secrets
from operad.runtime.values.text import shortened
from operad.runtime.values.valid_json import to_json
from operad.server.api.served_run import ServedRun
from operad.server.api.signatures import signed_headers

SECRET = "OPERAD_HOOK_SECRET"  # noqa: S105 - its name
"""Name of the secret with which messages are signed, if it has a value."""

_PAUSES = (0.0, 2.0, 10.0)
"""Seconds to wait before each try."""

_SECONDS = 10.0
"""Maximum duration of a try."""

_LONGEST_TEXT = 2_000
"""Maximum number of characters of a question in the text of a message."""

_logger = logging.getLogger(__name__)


class Hook:
    """Address to which messages are sent, as JSON with POST, in threads of its own.

    Args:
        address: The address; named secrets in it are filled in, and it is never logged.
        option: The option that names it, for errors.

    Raises:
        InputError: The address is not one of HTTP, or a secret has no value.
    """

    def __init__(self, address: str, option: str) -> None:
        self._url = fill_secrets(address, lambda secret: secret_value(secret, find_secret))
        parts = urlsplit(self._url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{option}: expected an address that begins with https:// or http://")
        self._host = parts.hostname
        self._secret = find_secret(SECRET) or ""
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="operad-hooks")

    def send(self, what: str, message: Mapping[str, object]) -> None:
        """Send a message, without waiting; `what` it is about is said in the log if it cannot be sent."""
        self._threads.submit(self._send, what, to_json(dict(message)).encode())

    def close(self) -> None:
        """Drop the messages that have not been sent."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _send(self, what: str, body: bytes) -> None:
        error, delivery = "", new_id()
        for pause in _PAUSES:
            time.sleep(pause)
            signature = signed_headers(self._secret, delivery, body, time.time()) if self._secret else dict[str, str]()
            request = Request(self._url, body, {"Content-Type": "application/json", **signature})  # noqa: S310 - of HTTP, see above
            try:
                with urlopen(request, timeout=_SECONDS):  # noqa: S310
                    return
            except HTTPError as answer:
                error = f"HTTP {answer.code}"
                with suppress(OSError):
                    answer.close()
                if answer.code < 500 and answer.code != 429:
                    break
            except OSError as failure:
                error = type(failure).__name__
        _logger.warning("%s was not told to %s: %s", what, self._host, error)


class QuestionListener:
    """Listener that sends each question of a run to a hook.

    Args:
        inbox: Address of the inbox page; empty for none.
    """

    def __init__(self, hook: Hook, inbox: str = "") -> None:
        self._hook = hook
        self._inbox = inbox

    def __call__(self, event: Event) -> None:
        """Send a question; other events are left out."""
        if isinstance(event, Interrupted):
            what = f"the question {event.interrupt_id} of run {event.run_id}, which is in the inbox,"
            self._hook.send(what, question_message(event, self._inbox))


def question_message(event: Interrupted, inbox: str) -> Mapping[str, object]:
    """Return the message about a question: `text` for people, as Slack takes it, and its parts for programs."""
    who = f" (for {', '.join(event.answer_by)})" if event.answer_by else ""
    link = f"{inbox}?run={quote(event.run_id)}" if inbox else ""
    text = f"{event.interrupt_id} asks{who}: {shortened(event.question, _LONGEST_TEXT)}"
    return {
        "text": f"{text}\n{link}" if link else text,
        "run": event.run_id,
        "id": event.interrupt_id,
        "question": event.question,
        "answer_by": list(event.answer_by),
        "form": event.schema,
    }


def send_end(hook: Hook, run: ServedRun) -> None:
    """Send the message about the end of a run: its state and verdict, without job and result."""
    status = run.message.status.value if run.message else None
    verdict = f", {status}" if status else ""
    message = {
        "text": f"run {run.id} of {run.offer.name}: {run.state}{verdict}",
        "run": run.id,
        "expert": run.offer.name,
        "state": run.state,
        "status": status,
        "started_by": run.job.started_by,
    }
    hook.send(f"the end of run {run.id}", message)
