"""Faults of the values of a request, as HTTP and MCP report them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.requests import Request

from operad.configs.faults import meant_key, real_path
from operad.runtime.values.near_names import near_name
from operad.runtime.values.value import nearest_choice, requirement
from operad.server.http.problems import RefusedError, faults_error

MOST_FOUND = 1_000
"""Maximum number of faults of a body whose places are looked up; to name a million takes as many milliseconds."""


Given = TypeVar("Given", bound=BaseModel)


async def read_body(kind: type[Given], request: Request) -> Given:
    """Return the JSON body of a request.

    Raises:
        RefusedError: It does not fit the type; all issues are named, if they are not too many.
    """
    body = await request.body()
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise _invalid_body(error, body) from error


def _invalid_body(error: ValidationError, body: bytes) -> RefusedError:
    if (count := error.error_count()) > MOST_FOUND:
        return RefusedError(400, f"body: {count:,} issues, too many to be named; it is not a request of this protocol")
    data: Any = None
    with suppress(ValueError):
        data = from_json(body)
    faults = {".".join(map(str, real_path(each["loc"], data))): value_fault(each, None) for each in error.errors()}
    inner = [(place, text) for place, text in faults.items() if not any(key.startswith(f"{place}.") for key in faults)]
    return faults_error([(place or "body", text) for place, text in inner])


def value_fault(fault: Any, schema: type[BaseModel] | None) -> str:
    """Return the text of a fault that pydantic found, with a near name for a misspelt field.

    Args:
        fault: The fault, whose ``loc`` is relative to the value.
        schema: Type of the value; None if it is not known.
    """
    path, kind = fault["loc"], fault["type"]
    if kind == "missing":
        given = [str(key) for key in fault["input"] or ()] if isinstance(fault["input"], dict) else []
        similar = (
            near_name(str(path[-1]), given) if path and schema and schema.model_config.get("extra") == "allow" else ""
        )
        return f"is missing; there is no field {similar!r} (did you mean {path[-1]!r}?)" if similar else "is missing"
    if kind == "extra_forbidden":
        meant = meant_key(fault, schema) if schema else ""
        return f"there is no such field{f' (did you mean {meant!r}?)' if meant else ''}"
    return requirement(fault) + nearest_choice(fault)
