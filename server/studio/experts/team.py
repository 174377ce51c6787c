"""Experts and the leader of a YAML file, added and removed as changes of its text that touch nothing else."""

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
    """Return the text of a file with an expert more, behind the others, whose chain has one operator.

    Args:
        text: The text.
        name: Name of the expert.
        params: ``operator``, the name of its operator; ``desc``, what the expert is good at; ``instruction`` of an
            operator that the file does not define, which is written in the chain.

    Raises:
        InputError: The name is missing, or an expert has it; or no operator is named.
    """
    data = named(text)
    experts = [fields_of(each) for each in list_of(data["experts"])]
    operator = params.get("operator")
    if not name.strip() or any(fields_of(each.get("profile")).get("name") == name for each in experts):
        raise InputError(f"id: expected a name that no expert of the file has, got {name!r}")
    if not isinstance(operator, str) or not operator.strip():
        raise InputError("operator: name the first operator of the expert")
    defined = {fields_of(each).get("name") for each in list_of(data.get("operators"))}
    first = (
        scalar(operator) if operator in defined else in_place(operator, {"instruction": params.get("instruction", "")})
    )
    desc = params.get("desc")
    profile = f"{{name: {scalar(name)}{f', desc: {json.dumps(desc, ensure_ascii=False)}' if isinstance(desc, str) and desc else ''}}}"
    at = part_at(text, ("experts",))
    in_flow = at is not None and at.flow
    made = (
        f"{{profile: {profile}, workflow: [[{first}]]}}" if in_flow else f"profile: {profile}\nworkflow:\n  - [{first}]"
    )
    return with_item(text, ("experts",), len(experts), made)


def without_expert(text: str, number: int) -> str:
    """Return the text without an expert.

    Raises:
        InputError: It is the only one.
    """
    if len(list_of(named(text)["experts"])) == 1:
        raise InputError("a file has at least one expert; add another one first")
    return without_item(text, ("experts",), number)


def with_leader(text: str) -> str:
    """Return the text with a leader, behind the other fields.

    Raises:
        InputError: The file has one.
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
