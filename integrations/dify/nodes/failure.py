"""Error handling of a node: retries, default values and fail branches."""

from __future__ import annotations

from math import isfinite
from typing import Any

from operad.flows.formats.shapes import Fields, each_of, fields_of, json_or_text

FAIL_BRANCH = "fail-branch"
"""Handle of the edges that a node takes after a failure."""

REQUEST = "http-request"
"""Type of requests. In Dify, they fail on a status of 400 or more if retries are enabled, even none, or with a strategy."""

_STRATEGIES = {"fail-branch": "branch", "default-value": "values"}
_TYPES_WITHOUT_BRANCH = (
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
    return data.get("error_strategy") == FAIL_BRANCH and data.get("type") not in _TYPES_WITHOUT_BRANCH


def read_failure(data: Fields) -> Fields | None:
    """Return the handling of a node's failure; None if the failure ends the run."""
    retry = fields_of(data.get("retry_config"))
    is_enabled = True in (retry.get("retry_enabled"), retry.get("enabled"))
    strategy = data.get("error_strategy")
    failure: Fields = {}
    if is_enabled and (retries := retry.get("max_retries", 0)):
        failure["retries"] = retries
        interval = retry.get("retry_interval", 1000)
        failure["wait"] = interval / 1000
    elif is_enabled and data.get("type") == REQUEST and not strategy:
        failure["then"] = "end"
    if branches(data) or strategy == "default-value":
        failure["then"] = _STRATEGIES[str(strategy)]
    if strategy == "default-value":
        values = each_of(data.get("default_value"))
        failure["values"] = {str(each.get("key")): _read_default(each) for each in values if "key" in each}
    return failure or None


def _read_default(given: Fields) -> Any:
    """Return a default value, which files may write as text."""
    value = given.get("value")
    return value if given.get("type") == "string" or not isinstance(value, str) else json_or_text(value)


def write_failure(failure: Any, node_type: str) -> Fields:
    """Return the fields of a node's data for the handling of failures; the inverse of `read_failure`.

    Args:
        failure: The parameter `failure` of the node.
        node_type: The type of the node in Dify.
    """
    given = fields_of(failure)
    data: Fields = {}
    if given.get("retries"):
        wait = given.get("wait", 1.0)
        interval = round(wait * 1000) if isinstance(wait, int | float) and isfinite(wait) else wait
        data["retry_config"] = {"max_retries": given["retries"], "retry_enabled": True, "retry_interval": interval}
    elif given.get("then", "end") == "end" and given and node_type == REQUEST:
        data["retry_config"] = {"max_retries": 0, "retry_enabled": True, "retry_interval": 1000}
    if given.get("then") in _STRATEGIES.values():
        data["error_strategy"] = next(
            dify_strategy for dify_strategy, operad_strategy in _STRATEGIES.items() if operad_strategy == given["then"]
        )
    if given.get("then") == "values":
        data["default_value"] = [_default_value(name, value) for name, value in fields_of(given.get("values")).items()]
    return data


def _default_value(name: str, value: Any) -> Fields:
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
