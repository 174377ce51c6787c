"""Mapping of a node type to Coze."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from operad.flows.formats.shapes import Fields
from operad.integrations.coze.names import Names

Read = Callable[[Any, Names], Fields]
"""Function that turns Coze's parameters into Operad's; raises if they have another form than it reads."""


class NodeMapping(NamedTuple):
    """Mapping of one node type.

    Attributes:
        type: Coze's type.
        icon: The file name of the icon.
        write: Function that turns Operad's parameters into Coze's.
        read: Function that turns Coze's parameters into Operad's; raises if they have another form than is written.
    """

    type: str
    icon: str
    write: Callable[[Any, Names], Fields]
    read: Read
