"""Secrets that the requests of a workflow send, and keys that are written in its variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.node import Fault
from operad.operators.nodes import NODE_TYPES
from operad.operators.request_secrets import change_keys
from operad.operators.variables import Text
from operad.runtime.values.errors import InvalidError
from operad.runtime.values.keys_in_text import KeyNames, name_keys
from operad.runtime.values.secret import (
    MIN_HIDDEN,
    Secret,
    SecretUse,
    hide,
    holds_key,
    secret_name,
    secrets_in,
    with_literal_key,
)

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


def with_named_keys(nodes: Sequence[NodeSpec], names: KeyNames) -> list[NodeSpec]:
    """Return the nodes of an imported file with named secrets in place of the keys that are written in them.

    names = KeyNames()
    with_named_keys([NodeSpec("2", "request", {"url": "https://a.example/", "headers": "X-Api-Key: 8f3c"})], names)
    print(names.values)  # {'NODE_2_X_API_KEY': '8f3c'}
    """
    named = [_with_named_keys(spec, names) for spec in nodes]
    known = {key: Secret(name).in_text for name, key in names.values.items() if len(key) >= MIN_HIDDEN}

    def in_text(text: str) -> str:  # a key that stands in a field elsewhere
        for key, reference in known.items():
            text = text.replace(key, reference)
        return text

    if not known:
        return named
    params: list[Any] = [spec.params for spec in named]
    changed = [_changed(each, lambda key, _: key, in_text) for each in params]
    return [replace(spec, params=each) for spec, each in zip(named, changed, strict=True)]


def _with_named_keys(spec: NodeSpec, names: KeyNames) -> NodeSpec:
    given: Any = spec.params
    if not isinstance(given, Mapping):
        return spec
    params = cast("Mapping[str, Any]", given)

    def in_field(key: str, field: str) -> str:
        return Secret(names.name_at(key, spec.id, field)).in_text

    def in_text(text: str) -> str:
        return name_keys(text, names=names).text

    match spec.type:
        case "request" | "http-request":
            params = change_keys(
                params, lambda _, field, text: with_literal_key(text, lambda key: in_field(key, field))
            )
            params = _changed(params, lambda key, _: key, in_text)
        case "start":  # its fields are names of inputs, whose values requests name as secrets: see `written_keys`
            params = _changed(params, lambda key, _: key, in_text)
        case "conversation":
            variables = [_with_named_value(each, in_field) for each in params.get("variables") or ()]
            params = {**params, "variables": _changed(variables, in_field, in_text)}
        case _:
            params = _changed(params, in_field, in_text)
    return replace(spec, params=params) if params != given else spec


def _with_named_value(variable: Any, in_field: Callable[[str, str], str]) -> Any:
    """Return a variable of a conversation, ``[name, type, value]``, without a key as its value."""
    match variable:
        case [str() as name, kind, str() as value] if holds_key(name, of_body=True):
            return [name, kind, with_literal_key(value, lambda key: in_field(key, name))]
        case _:
            return variable


class KeptKey(NamedTuple):
    """Key in the data that an imported workflow keeps of its file.

    Attributes:
        node: The id of the node; empty for the data of the workflow.
        field: The field that holds the key.
        key: The key.
    """

    node: str
    field: str
    key: str


def kept_keys(graph: NodeGraph) -> list[KeptKey]:
    """Return the keys in what an imported workflow keeps of its file, besides the `file_secrets`."""
    found: dict[str, KeptKey] = {}
    known = set(file_secrets(graph).values())

    def note(node: str, key: str, field: str) -> str:
        if key not in known:
            found.setdefault(key, KeptKey(node, field, key))
        return key

    def texts(node: str, text: str) -> str:
        names = KeyNames()
        name_keys(text, names=names)
        for key in names.values.values():
            note(node, key, "a text")
        return text

    for node, data in [("", graph.extra), *((spec.id, _foreign(spec)) for spec in graph.nodes)]:
        _changed(data, partial(note, node), partial(texts, node))
    return list(found.values())


def _foreign(spec: NodeSpec) -> Mapping[str, Any]:
    """Return what a node keeps of its file: its `extra`, and the parameters of a type that Operad does not have."""
    return {"extra": spec.extra} | ({} if spec.type in NODE_TYPES else {"params": spec.params})


def with_named_keys_of_file(graph: NodeGraph) -> tuple[NodeGraph, list[str]]:
    """Return an imported workflow whose nodes name secrets in place of keys, and the names of all secrets of its file."""
    given = file_secrets(graph)
    names = KeyNames(given)
    own = iter(with_named_keys([spec for spec in graph.nodes if spec.type in NODE_TYPES], names))
    nodes = [next(own) if spec.type in NODE_TYPES else spec for spec in graph.nodes]
    return replace(graph, nodes=nodes), [*given, *names.values]


def without_file_secrets(graph: NodeGraph) -> NodeGraph:
    """Return an imported workflow without the keys that its file contains, for files of other platforms."""
    if not graph.is_imported:
        return graph
    values = tuple({**dict.fromkeys(file_secrets(graph).values()), **{each.key: None for each in kept_keys(graph)}})
    graph, _ = with_named_keys_of_file(graph)
    if not values:
        return graph
    extra: Mapping[str, Any] = {
        name: {key: value for key, value in cast("Mapping[str, Any]", kept).items() if key != "secrets"}
        if isinstance(kept, Mapping)
        else kept
        for name, kept in graph.extra.items()
    }
    nodes = [replace(spec, **_without(_foreign(spec), values)) for spec in graph.nodes]
    return replace(graph, nodes=nodes, extra=_without(extra, values))


_NAMES = ("name", "key", "variableName", "inputArgName")
"""Fields with the name of a value, which stands in one of `_VALUES`."""

_VALUES = ("value", "content", "default", "input", "inputArgValue", "variableValue", "is", "was")


def _changed(value: Any, in_field: Callable[[str, str], str], text: Callable[[str], str], field: str = "") -> Any:
    """Return data with its texts changed.

    Args:
        in_field: Function that takes a key and the name of the field that holds it, and returns what to write instead.
        text: Function that takes any other text.
        field: Name of a field that holds a key, if the data are its value.
    """
    if isinstance(value, str):
        return with_literal_key(value, lambda key: in_field(key, field)) if field else text(value)
    if isinstance(value, list):
        items = cast("list[Any]", value)  # a list of texts is a variable, or has no names
        return [_changed(each, in_field, text, field if isinstance(each, Mapping) else "") for each in items]
    if not isinstance(value, Mapping):
        return value
    fields = cast("Mapping[str, Any]", value)
    named = next((name for each in _NAMES if isinstance(name := fields.get(each), str) and _is_key(name)), field)
    return {
        key: _changed(each, in_field, text, str(key) if _is_key(str(key)) else named if key in _VALUES else "")
        for key, each in fields.items()
    }


def _is_key(name: str) -> bool:
    return holds_key(name, of_body=True) and not name.lower().endswith("credential")  # the id of one


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


def names_where_none_is_sent(graph: NodeGraph) -> Iterator[tuple[str, Secret]]:
    """Yield the secrets that nodes of an imported workflow name, but do not send, each with the id of the node."""
    for spec in graph.nodes if graph.is_imported else ():
        if spec.type != _REQUEST:
            yield from ((spec.id, secret) for secret in dict.fromkeys(_secrets_in(spec.params)))


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
