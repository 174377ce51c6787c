"""`operad nodes`: list and describe the node types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from operad.configs.imports import LoadedModules, node_type
from operad.configs.read_capabilities import Named, parts_capabilities
from operad.flows.catalogue import as_json, card, table
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.errors import InputError


def nodes(
    name: Annotated[
        str | None, typer.Argument(metavar="TYPE", help="A type's name, or a class of your own as module.Class.")
    ] = None,
    as_json_: Annotated[bool, typer.Option("--json", help="Print it as JSON, with the schema of parameters.")] = False,
) -> None:
    """List the node types of workflows, or describe one TYPE.

    Exit status: 0, or 2 if there is no such type.
    """
    if name is None:
        found = list(NODE_TYPES.values())
        print(json.dumps([as_json(each) for each in found], indent=2) if as_json_ else table(found))
    else:
        module, _, symbol = name.rpartition(".")
        code = parts_capabilities("the command line", name, Path.cwd(), [Named(module, symbol)] if module else [])
        described = node_type(name, LoadedModules(code))  # trusted: the user names it on the command line
        if isinstance(described, str):
            raise InputError(described)
        print(json.dumps(as_json(described), indent=2) if as_json_ else card(described, advanced=True))
