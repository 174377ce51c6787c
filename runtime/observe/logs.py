"""Logging: records with their place in a run, JSON lines, and a run's events as log lines."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from operad.runtime import events
from operad.runtime.events import Event, current_scope
from operad.runtime.values.errors import shorten
from operad.runtime.values.fault import status_text

_logger = logging.getLogger("operad.run")

_LOCATION_FIELDS = ("run_id", "operator", "round", "attempt")


class RunFilter(logging.Filter):
    """Filter that adds ``run_id``, ``operator`` (its path), ``round`` and ``attempt`` to records from inside a run."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields to a record, and accept it."""
        scope = current_scope()
        if scope is not None and not hasattr(record, "run_id"):
            record.run_id = scope.run.root.log.run_id
            record.operator = "/".join(scope.path)
            record.round = scope.round
            record.attempt = scope.attempt
        return True


class JsonFormatter(logging.Formatter):
    """Formatter for JSON lines: ``time`` (UTC), ``level``, ``logger``, ``message``, place in a run, and ``error``.

    A record's own ``fields``, given by ``extra={"fields": {…}}``, are added.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line of JSON, without a line break."""
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= getattr(record, "fields", {})
        fields |= {name: value for name in _LOCATION_FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


def log_event(event: Event) -> None:
    """Log an event to the logger ``operad.run``: starts, ends and failures, without messages and answers.

    This function is a listener of a workflow. Runs, rounds and operators are logged at INFO, failures and retries at
    WARNING, and calls of models and tools at DEBUG.
    """
    level, text = _level_and_text(event)
    if level and _logger.isEnabledFor(level):
        location = {
            "run_id": event.run_id,
            "operator": "/".join(event.path),
            "round": event.round,
            "attempt": event.attempt,
        }
        _logger.log(level, text, extra={name: value for name, value in location.items() if value})


def _level_and_text(event: Event) -> tuple[int, str]:
    """Return the level and the text with which an event is logged; level 0 if it is not logged."""
    match event:
        case events.RunStarted():
            return logging.INFO, f"run of {event.workflow!r} begins"
        case events.RunFinished():
            return logging.INFO, f"run ended: {status_text(event.message.status)} after {event.seconds:.1f} s"
        case events.RunFailed():
            return logging.WARNING, f"run failed after {event.seconds:.1f} s: {event.error}"
        case events.RoundFinished():
            return logging.INFO, f"round {event.round}: {_verdict(event)}"
        case events.OperatorFinished() | events.OperatorFailed() | events.OperatorCancelled():
            return _level_and_text_of_end(event)
        case events.OperatorStarted():
            return logging.INFO, f"{event.operator_id!r} begins"
        case events.OperatorRetried():
            return logging.WARNING, f"{event.operator_id!r} is tried again in {event.delay:.1f} s: {event.error}"
        case events.FellBack():
            return logging.WARNING, f"{event.operator_id!r} falls back to {event.to}: {event.error}"
        case _:
            return _level_and_text_of_call(event)


def _verdict(event: events.RoundFinished) -> str:
    blame = f"; at fault: {shorten(event.blame)}" if event.blame and not event.accepted else ""
    return f"{status_text(event.status)}{blame}"


def _level_and_text_of_end(
    event: events.OperatorFinished | events.OperatorFailed | events.OperatorCancelled,
) -> tuple[int, str]:
    after = f"after {event.seconds:.1f} s"
    if isinstance(event, events.OperatorFailed):
        return logging.WARNING, f"{event.operator_id!r} failed {after}: {event.error}"
    how = "ended" if isinstance(event, events.OperatorFinished) else "was stopped"
    return logging.INFO, f"{event.operator_id!r} {how} {after}"


def _level_and_text_of_call(event: Event) -> tuple[int, str]:
    match event:
        case events.ModelAnswered():
            usage = event.usage
            level, how = (logging.WARNING, ", cut off at max_tokens") if event.cut_off else (logging.DEBUG, "")
            return level, f"model {event.model!r} answered: {usage.tokens} tokens in {usage.seconds:.1f} s{how}"
        case events.EvidenceCut():
            what = f"{event.operator_id!r} was shown only a part of {shorten(event.operators)}"
            return logging.WARNING, f"{what}: {event.characters:,} characters are left out"
        case events.ModelRetried():
            return logging.WARNING, f"model {event.model!r} is asked again in {event.delay:.1f} s: {event.error}"
        case events.ConversationShortened():
            what = f"{event.results} older results of tools by {event.characters:,} characters"
            return logging.INFO, f"the conversation with {event.model!r} is too long; shortened: {what}"
        case events.ModelFailed():
            return logging.WARNING, f"model {event.model!r} failed: {event.error}"
        case events.ToolReturned():
            how = "failed" if event.failed else "returned"
            return logging.DEBUG, f"tool {event.tool!r} {how} after {event.seconds:.1f} s"
        case events.Interrupted():
            return logging.INFO, f"{event.operator_id!r} asks a person: {event.interrupt_id!r}"
        case _:
            return 0, ""
