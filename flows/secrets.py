"""Secrets that the requests of a workflow send, and keys that are written in its variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from operad.flows.node_graph import NodeGraph
from operad.operators.node import Fault
from operad.operators.variables import Text
from operad.runtime.values.errors import InvalidError
from operad.runtime.values.secret import Secret, SecretUse, hide, secret_name, secrets_in

_REQUEST = "request"
"""Type of the nodes that send requests, whose module is imported for files that have one."""


def secrets_of(graph: NodeGraph) -> list[Secret]:
    """Return the secrets that the requests of a workflow name, each once; the workflow need not be valid."""
    found: dict[Secret, None] = {}
    for spec in graph.nodes:
        if spec.type == _REQUEST:
            found |= dict.fromkeys(_secrets_in(spec.params))
            match spec.params:
                case {"authorization": [_, _, _, str() as name]} if name:
                    found[Secret(name)] = None
                case _:
                    pass
    return list(found)


def file_secrets(graph: NodeGraph) -> dict[str, str]:
    """Return the values of secrets that the file of an imported workflow contains, by name."""
    kept = [cast("Mapping[str, Any]", each) for each in graph.extra.values() if isinstance(each, Mapping)]
    given = [cast("Mapping[str, Any]", each["secrets"]) for each in kept if isinstance(each.get("secrets"), Mapping)]
    return {name: value for each in given for name, value in each.items() if isinstance(value, str)}


def without_file_secrets(graph: NodeGraph) -> NodeGraph:
    """Return an imported workflow without the values of secrets that its file contains, for files of other formats."""
    values = tuple(file_secrets(graph).values())
    if not values:
        return graph
    extra: Mapping[str, Any] = {
        name: {key: value for key, value in cast("Mapping[str, Any]", kept).items() if key != "secrets"}
        if isinstance(kept, Mapping)
        else kept
        for name, kept in graph.extra.items()
    }
    return replace(
        graph,
        nodes=[replace(spec, extra=_without(spec.extra, values)) for spec in graph.nodes],
        extra=_without(extra, values),
    )


def _without(value: Any, secrets: tuple[str, ...]) -> Any:
    """Return kept data of a file without secrets; a changed text that contains one is as Operad writes it by itself."""
    if isinstance(value, str):
        return "" if value in secrets else hide(value, secrets)
    if isinstance(value, list):
        return [_without(each, secrets) for each in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        return {key: _without(each, secrets) for key, each in fields.items() if not _writes(each, secrets)}
    return value


def _writes(change: Any, secrets: tuple[str, ...]) -> bool:
    """Return True for a difference to a text that contains a secret."""
    match change:
        case {"was": _, "is": str() as text}:
            return any(secret in text for secret in secrets)
        case _:
            return False


def _secrets_in(value: Any) -> Iterator[Secret]:
    if isinstance(value, str):
        yield from secrets_in(value)
    elif isinstance(value, list | tuple | Mapping):
        holder = cast("Mapping[str, Any] | list[Any]", value)
        for each in holder.values() if isinstance(holder, Mapping) else holder:
            yield from _secrets_in(each)


def secret_uses(graph: NodeGraph) -> list[SecretUse]:
    """Return the secrets that the requests of a workflow send, with the hosts that get them.

        nodes = [NodeSpec("2", "request", {"url": "https://shop.example/", "headers": "X-Key: {{secret.SHOP}}"})]
        print(secret_uses(NodeGraph(nodes))[0].host)  # shop.example

    Args:
        graph: The workflow; nodes with invalid parameters are left out, because they do not run.
    """
    found: dict[SecretUse, None] = {}
    for spec in graph.nodes:
        if spec.type == _REQUEST:
            with suppress(InvalidError):
                from operad.operators.nodes.http import Request  # only for files with requests

                found |= dict.fromkeys(Request(spec.id, spec.params).secret_uses)
    return list(found)


def written_keys(nodes: Mapping[str, Any]) -> Iterator[tuple[str, Fault]]:
    """Yield a fault for each default of an input, or value of a conversation, that a request sends as a key.

    Args:
        nodes: The operators of a workflow by id; only typed nodes are looked at.

    Returns:
        The faults, each with the id of the node in which the key is written.
    """
    for node in nodes.values():
        if getattr(node, "type", "") != _REQUEST:
            continue
        for field in node.key_fields:
            for selector in Text(field.value).selectors:
                if _written_value(nodes.get(selector.node), selector.variable):
                    secret = Secret(secret_name(selector.variable))
                    yield (
                        selector.node,
                        Fault(
                            selector.variable,
                            f"a key is written as its value, which node {node.get_id()!r} sends as {field.name!r}; write "
                            f"{secret.in_text} there, and give its value by operad secrets set {secret.name}",
                            "literal-key",
                        ),
                    )


def _written_value(node: Any, variable: str) -> bool:
    """Return True if a text is written in a node as the value of a variable."""
    value: Any = None
    if getattr(node, "type", "") == "start":
        value = node.params.defaults.get(variable)
    elif getattr(node, "type", "") == "conversation":
        value = next((each.value for each in node.params.variables if each.name == variable), None)
    return isinstance(value, str) and bool(value.strip())
