"""Retries, default values and fail branches of any node."""

from __future__ import annotations

import json
from typing import Any

from operad.flows.formats.shapes import Fields, each_of, fields_of

FAIL_BRANCH = "fail-branch"
"""The handle of the edges that a node takes when it failed."""

_THEN = {"fail-branch": "branch", "default-value": "values"}
_WITHOUT = (
    "start",
    "end",
    "answer",
    "iteration-start",
    "loop-start",
    "loop-end",
    "if-else",
    "question-classifier",
    "human-input",
)
"""Types whose nodes have no fail branch."""


def branches(data: Fields) -> bool:
    """Return True if a node has a fail branch."""
    return data.get("error_strategy") == FAIL_BRANCH and data.get("type") not in _WITHOUT


def read_failure(data: Fields) -> Fields | None:
    """Return the handling of a node's failure; None if the failure ends the run."""
    retry = fields_of(data.get("retry_config"))
    on = True in (retry.get("retry_enabled"), retry.get("enabled"))
    failure: Fields = {}
    if on and (retries := retry.get("max_retries", 0)):
        failure["retries"] = retries
        interval = retry.get("retry_interval", 1000)
        failure["wait"] = interval / 1000 if isinstance(interval, int | float) else interval
    strategy = data.get("error_strategy")
    if branches(data) or strategy == "default-value":
        failure["then"] = _THEN[str(strategy)]
    if strategy == "default-value":
        values = each_of(data.get("default_value"))
        failure["values"] = {str(each.get("key")): _value(each) for each in values if "key" in each}
    return failure or None


def _value(given: Fields) -> Any:
    """A default value of its type, which may be written as text."""
    value = given.get("value")
    if given.get("type") == "string" or not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def write_failure(failure: Any) -> Fields:
    """The same as a node of a file says it."""
    given = fields_of(failure)
    data: Fields = {}
    if given.get("retries"):
        interval = round(given.get("wait", 1.0) * 1000)
        data["retry_config"] = {"max_retries": given["retries"], "retry_enabled": True, "retry_interval": interval}
    if given.get("then") in _THEN.values():
        data["error_strategy"] = next(theirs for theirs, ours in _THEN.items() if ours == given["then"])
    if given.get("then") == "values":
        data["default_value"] = [_typed(name, value) for name, value in fields_of(given.get("values")).items()]
    return data


def _typed(name: str, value: Any) -> Fields:
    match value:
        case bool() | str() | None:
            kind = "string"
        case int() | float():
            kind = "number"
        case [str(), *_]:
            kind = "array[string]"
        case [dict(), *_]:
            kind = "array[object]"
        case list():
            kind = "array[number]"
        case _:
            kind = "object"
    return {"key": name, "type": kind, "value": value}
