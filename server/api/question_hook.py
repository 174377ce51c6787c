"""Webhook that is told of each question of a run, in a form that Slack's incoming webhooks take."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from operad.operators.secrets import find_secret, secret_value
from operad.runtime.events import Event, Interrupted
from operad.runtime.values.errors import InputError
from operad.runtime.values.secret import fill_secrets
from operad.runtime.values.text import shortened
from operad.runtime.values.valid_json import to_json

_PAUSES = (0.0, 2.0, 10.0)
"""Seconds to wait before each try."""

_SECONDS = 10.0
"""Maximum duration of a try."""

_LONGEST_TEXT = 2_000
"""Maximum number of characters of a question in the text of a message."""

_logger = logging.getLogger(__name__)


class QuestionHook:
    """Listener that sends each question to an address, as JSON with POST.

    Args:
        address: The address; named secrets in it are filled in, and it is never logged.
        inbox: Address of the inbox page; empty for none.

    Raises:
        InputError: The address is not one of HTTP, or a secret has no value.
    """

    def __init__(self, address: str, inbox: str = "") -> None:
        self._url = fill_secrets(address, lambda secret: secret_value(secret, find_secret))
        parts = urlsplit(self._url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError("--on-question: expected an address that begins with https:// or http://")
        self._host = parts.hostname
        self.inbox = inbox
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="operad-questions")

    def __call__(self, event: Event) -> None:
        """Send a question; other events are left out."""
        if isinstance(event, Interrupted):
            self._threads.submit(self._send, event)

    def close(self) -> None:
        """Drop the questions that have not been sent."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _send(self, event: Interrupted) -> None:
        body, error = to_json(payload(event, self.inbox)).encode(), ""
        for pause in _PAUSES:
            time.sleep(pause)
            request = Request(self._url, body, {"Content-Type": "application/json"})  # noqa: S310 - of HTTP, see above
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
        problem = "the question %s of run %s was not sent to %s: %s; it is in the inbox"
        _logger.warning(problem, event.interrupt_id, event.run_id, self._host, error)


def payload(event: Interrupted, inbox: str) -> dict[str, object]:
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
