"""Keys that are written in the requests of a file, which become named secrets."""

from __future__ import annotations

from typing import Any

from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import NodeSpec
from operad.integrations.flowise.draft import Draft
from operad.operators.request_secrets import change_keys
from operad.runtime.values.secret import Secret, secret_name, with_literal_key


def with_secrets(draft: Draft) -> tuple[Draft, dict[str, str]]:
    """Return the nodes with the keys of requests as secrets, and the values of these secrets by name."""
    found: dict[str, str] = {}
    for node_id, spec in draft.specs.items():
        if spec.type == "request":

            def written(field: str, key: str, node_id: str = node_id) -> str:
                name = wanted = secret_name(node_id, field)
                number = 1
                while found.get(name, key) != key:
                    number += 1
                    name = f"{wanted}_{number}"
                found[name] = key
                return Secret(name).in_text

            def changed(_where: str, field: str, value: str, written: Any = written) -> str:
                return with_literal_key(value, lambda key: written(field, key))

            draft.specs[node_id] = NodeSpec(
                spec.id, spec.type, change_keys(fields_of(spec.params), changed), spec.parent
            )
    return draft, found
