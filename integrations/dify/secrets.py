"""Secrets of Dify files: secret environment variables, and keys that are written in requests.

Requests name both as secrets, so that no run stores them. Keys that the file contains are the values of these secrets,
and stay in the file: they are kept in ``extra``, as the file is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from operad.flows.formats.shapes import Fields, each_of, fields_of, is_selector, list_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.integrations.dify.in_workflow import selectors_named
from operad.operators.request_secrets import change_keys
from operad.operators.variables import Selector, Text
from operad.runtime.values.secret import Secret, is_secret_name, secret_name, secrets_in, with_literal_key

_ENV = "env."


def _variables(workflow: Fields) -> dict[str, Fields]:
    """Return the environment variables of a file that can be secrets, by name."""
    named = [(each.get("name"), each) for each in each_of(workflow.get("environment_variables"))]
    return {name: each for name, each in named if isinstance(name, str) and is_secret_name(name)}


def secret_variables(workflow: Fields) -> set[str]:
    """Return the names of the environment variables that a file declares as secrets."""
    return {name for name, each in _variables(workflow).items() if each.get("value_type") == "secret"}


def with_secrets(graph: NodeGraph, workflow: Fields) -> tuple[NodeGraph, dict[str, str]]:
    """Return the nodes with the keys of requests as secrets, and the values of secrets that the file contains.

    Args:
        graph: The nodes.
        workflow: The workflow of the file.
    """
    reader = _Reader(graph, workflow)
    nodes = [reader.read(spec) if spec.type in ("request", "http-request") else spec for spec in graph.nodes]
    read = {selector.variable for spec in nodes if spec.type != "start" for selector in selectors_named(spec.params)}
    nodes = [_without_inputs(spec, reader.named - read) if spec.type == "start" else spec for spec in nodes]
    return replace(graph, nodes=nodes), reader.values


class _Reader:
    """Reader of the requests of a file.

    Attributes:
        values: The values of secrets that the file contains, by name.
        named: Inputs of environment variables that requests name as secrets.
    """

    def __init__(self, graph: NodeGraph, workflow: Fields) -> None:
        self._variables = _variables(workflow)
        self._secret = secret_variables(workflow)
        self._start = next((spec.id for spec in graph.nodes if spec.type == "start"), "")
        self._taken = set(self._variables)
        self.values: dict[str, str] = {}
        self.named: set[str] = set()
        for name in self._secret:
            self._keep(name)

    def read(self, spec: NodeSpec) -> NodeSpec:
        """Return a request whose keys are secrets."""
        params = fields_of(spec.params)
        url = params.get("url")
        if is_selector(url) and (secret := self._secret_of(Selector(*list_of(url)), self._secret)):
            params = {**params, "url": secret.in_text}
        if isinstance(params.get("url"), str) and secrets_in(params["url"]):
            spec = replace(spec, type="request")  # the address of http-request is a variable

        def change(where: str, name: str, value: str) -> str:
            text = Text(value).renamed(self._renamed)
            return with_literal_key(text, lambda key: self._written(spec.id, name, key))

        return replace(spec, params=change_keys(params, change)) if params else spec

    def _renamed(self, selector: Selector) -> str:
        """Return the reference to a variable in the place of a key: to a secret, if it is of the environment."""
        secret = self._secret_of(selector, self._variables)
        return secret.in_text if secret else selector.in_text

    def _secret_of(self, selector: Selector, among: Mapping[str, Any] | set[str]) -> Secret | None:
        """Return the secret for an input that is an environment variable; None for others."""
        name = selector.variable.removeprefix(_ENV)
        if selector.node != self._start or name == selector.variable or name not in among:
            return None
        self.named.add(selector.variable)
        self._keep(name)
        return Secret(name)

    def _keep(self, name: str) -> None:
        """Keep the value of an environment variable, if the file contains it."""
        value = self._variables[name].get("value")
        if isinstance(value, str) and value:
            self.values[name] = value

    def _written(self, node_id: str, field: str, key: str) -> str:
        """Return the reference to a new secret for a key that is written in a request."""
        wanted = name = secret_name(node_id, field)
        number = 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        self.values[name] = key
        return Secret(name).in_text


def _without_inputs(spec: NodeSpec, names: set[str]) -> NodeSpec:
    """Return a start node without inputs that are secrets now."""
    params = fields_of(spec.params)
    inputs = list_of(params.get("variables"))
    remaining = [each for each in inputs if not {str(part) for part in list_of(each)[:1]} & names]
    defaults = {name: value for name, value in fields_of(params.get("defaults")).items() if name not in names}
    others = {name: value for name, value in params.items() if name != "defaults"}
    new: Fields = {**others, "variables": remaining} | ({"defaults": defaults} if defaults else {})
    return spec if len(remaining) == len(inputs) else replace(spec, params=new)
