"""Base of all parts of a configuration file, and the types that they share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Seconds = Amount

Count = Annotated[int, Field(ge=1)]

OTHER_NAMES: Mapping[str, str] = {"desc": "description", "output_schema": "output"}
"""Keys that may be written in another way, too."""

_TITLES: Mapping[str, str] = {
    "ConfigSpec": "Configuration of experts",
    "ExpertReasonerSpec": "Reasoner of an expert",
    "FunctionSpec": "Function as an operator",
    "LocalToolSpec": "Local tool",
    "McpToolSpec": "MCP tool",
    "SseServer": "SSE server",
    "StreamableHttpServer": "HTTP server",
    "TypedSpec": "Typed node",
    "WorkflowSpec": "Workflow inside",
}


def title(name: str) -> str:
    """Return the words for the class of a part.

    Example:
        >>> title("LeaderSpec"), title("WorkflowSpec")
        ('Leader', 'Workflow inside')
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.removesuffix("Spec"))
    return _TITLES.get(name) or words.capitalize()


class Spec(BaseModel):
    """A part of a configuration file. An unknown key is an error; a known one without a value is as good as none.

    Attributes:
        needs_value: Optional keys that must not be left empty.
    """

    needs_value: ClassVar[frozenset[str]] = frozenset()

    # The whole file is validated by one model: the validators of its parts are built only where a part is read alone.
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = {*cls.model_fields, *(field.alias for field in cls.model_fields.values()), *OTHER_NAMES.values()}
        pairs = cast("dict[str, Any]", data).items()
        given = {key: value for key, value in pairs if value is not None or key not in known or key in cls.needs_value}
        for name, other in OTHER_NAMES.items():
            if name in cls.model_fields and other in given:
                if name in given:
                    raise ValueError(f"{name!r} and {other!r} are the same key; give one of them")
                given[name] = given.pop(other)
        return given


def kind(value: Any) -> str:
    """Return the kind of a reference: a name, or a definition."""
    return "name" if isinstance(value, str) else "definition"


def named(value: Any) -> Any:
    """Return a name as a mapping with a name."""
    return {"name": value} if isinstance(value, str) else value
