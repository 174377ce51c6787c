"""Numbers and booleans in the data of Dify's nodes, which files may write as texts.

They are read as Dify's own models read them, pydantic's lax mode: ``'1000'`` is 1000, ``3.0`` is 3, ``'true'`` is true.
A value that Dify refuses is left out of the parameters, and `operad check` names it.
"""

from __future__ import annotations

from collections.abc import Mapping

from operad.flows.formats.fields import Table, read_typed, typed
from operad.flows.formats.shapes import Fields

_MEMORY = {"memory.window.enabled": bool, "memory.window.size": int | None}
_RETRY = {
    "retry_config.retry_enabled": bool,
    "retry_config.enabled": bool,
    "retry_config.max_retries": int,
    "retry_config.retry_interval": int,
}
_VISION = {"vision.enabled": bool}

_KINDS: Mapping[str, Mapping[str, object]] = {
    "start": {"variables.required": bool},
    "llm": {
        **_MEMORY,
        **_VISION,
        "context.enabled": bool,
        "structured_output_enabled": bool,
        "structured_output_switch_on": bool | None,
    },
    "question-classifier": _VISION,
    "parameter-extractor": {**_VISION, "parameters.required": bool},
    "list-operator": {
        **{f"{name}.enabled": bool for name in ("filter_by", "order_by", "limit", "extract_by")},
        "limit.size": int,
    },
    "variable-aggregator": {"advanced_settings.group_enabled": bool},
    "iteration": {"is_parallel": bool, "parallel_nums": int, "flatten_output": bool},
    "loop": {"loop_count": int},
    "http-request": {
        **{f"timeout.{name}": int | None for name in ("connect", "read", "write")},
        "ssl_verify": bool | None,
    },
    "agent": {**_MEMORY, "agent_parameters.maximum_iterations.value": int | None},
    "knowledge-retrieval": _VISION,
}
"""Types of the fields that are read, by the type of the node in Dify and the path of the field."""

_TABLES: Mapping[str, Table] = {kind: typed({**_RETRY, **kinds}) for kind, kinds in _KINDS.items()}
_OTHERS = typed(_RETRY)


def typed_fields(kind: object) -> Table:
    """Return the declarations of the typed fields of a node type of Dify."""
    kind = {"variable-assigner": "variable-aggregator", "request": "http-request"}.get(str(kind), kind)
    return _TABLES.get(str(kind), _OTHERS)


def with_types(data: Fields) -> Fields:
    """Return the data of a node with its numbers and booleans as such, without those that Dify refuses."""
    return read_typed(data, typed_fields(data.get("type")))
