"""Experts and the leader of a YAML file, added and removed by minimal changes of its text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from operad.flows.formats.shapes import fields_of, list_of
from operad.runtime.values.errors import InputError
from operad.server.studio.experts.chains import in_place, named
from operad.server.studio.experts.graph import LEADER
from operad.server.studio.experts.yaml_items import part_at, scalar, with_item, without_item

_LEADER_NAME = "Leader"


def with_expert(text: str, name: str, params: Mapping[str, Any]) -> str:
    """Return the text of a file with another expert at the end, whose chain has one operator.

    Args:
        text: The text.
        name: Name of the expert.
        params: ``operator``, the name of its operator; ``desc``, the description; ``instruction`` of an
            operator that the file does not define, which is written in the chain.

    Raises:
        InputError: The name is missing or in use, or no operator is named.
    """
    data = named(text)
    experts = [fields_of(fields) for fields in list_of(data["experts"])]
    operator = params.get("operator")
    if not name.strip() or any(fields_of(fields.get("profile")).get("name") == name for fields in experts):
        raise InputError(f"id: expected a name that no expert of the file has, got {name!r}")
    if not isinstance(operator, str) or not operator.strip():
        raise InputError("operator: name the first operator of the expert")
    defined = [fields_of(fields).get("name") for fields in list_of(data.get("operators"))]  # of any form
    operator_yaml = (
        scalar(operator) if operator in defined else in_place(operator, {"instruction": params.get("instruction", "")})
    )
    desc = params.get("desc")
    profile = f"{{name: {scalar(name)}{f', desc: {json.dumps(desc, ensure_ascii=False)}' if isinstance(desc, str) and desc else ''}}}"
    experts_part = part_at(text, ("experts",))
    in_flow = experts_part is not None and experts_part.flow
    expert_yaml = (
        f"{{profile: {profile}, workflow: [[{operator_yaml}]]}}"
        if in_flow
        else f"profile: {profile}\nworkflow:\n  - [{operator_yaml}]"
    )
    return with_item(text, ("experts",), len(experts), expert_yaml)


def without_expert(text: str, number: int) -> str:
    """Return the text without an expert.

    Raises:
        InputError: The expert is the only one.
    """
    if len(list_of(named(text)["experts"])) == 1:
        raise InputError("a file has at least one expert; add another one first")
    return without_item(text, ("experts",), number)


def with_leader(text: str) -> str:
    """Return the text with a leader after the other fields.

    Raises:
        InputError: The file has a leader already.
    """
    root = part_at(text, ())
    keys = [key.text for key in root.keys] if root else []
    if LEADER in keys:
        raise InputError("the file has a leader already")
    profile = f"profile: {{name: {_LEADER_NAME}}}"
    in_flow = root is not None and root.flow
    return with_item(text, (), len(keys), f"{LEADER}: {{{profile}}}" if in_flow else f"{LEADER}:\n  {profile}")


def without_leader(text: str) -> str:
    """Return the text without the leader."""
    root = part_at(text, ())
    keys = [key.text for key in root.keys] if root else []
    return without_item(text, (), keys.index(LEADER))
