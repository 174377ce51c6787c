"""Safeguards of drafts: named secrets in place of keys, and a person's approval before a node writes elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from operad.flows.formats.shapes import fields_of, text_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.request_secrets import change_keys, literal_host
from operad.runtime.values.keys_in_text import KeyNames, name_keys
from operad.runtime.values.secret import Secret, with_literal_key


def with_named_keys(graph: NodeGraph, base: NodeGraph) -> tuple[NodeGraph, list[str]]:
    """Return a draft with named secrets in place of keys that are written in its requests, and a line for each.

    Args:
        graph: The draft, with parameters in lists.
        base: The existing workflow, whose nodes stay as they are.
    """
    lines: list[str] = []
    names = KeyNames()

    def named(spec: NodeSpec) -> NodeSpec:
        params = fields_of(spec.params)
        host = literal_host(text_of(params.get("url")))

        def change(where: str, field: str, value: str) -> str:
            def name(key: str) -> str:
                secret = Secret(names.name(key, host, field))
                lines.append(f"{spec.id}: {where}: a key was written in {field!r}; it is the secret {secret.name} now")
                return secret.in_text

            return with_literal_key(value, name)

        def rest(where: str, value: Any) -> Any:
            """Return a parameter without keys that stand in no field with the name of a key."""
            if isinstance(value, list):
                return [rest(where, item) for item in cast("list[Any]", value)]
            if not isinstance(value, str):
                return value
            text, found = name_keys(value, host, names)
            lines.extend(f"{spec.id}: {where}: a key was written; it is the secret {name} now" for name in found)
            return text

        changed = change_keys(params, change)
        return replace(spec, params={key: rest(key, value) for key, value in changed.items()})

    nodes = [
        named(spec) if spec.type == "request" and spec != base.by_id.get(spec.id) else spec for spec in graph.nodes
    ]
    return (replace(graph, nodes=nodes), lines) if lines else (graph, [])
