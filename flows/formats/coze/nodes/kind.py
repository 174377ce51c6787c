"""How nodes of one type are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from operad.flows.formats.coze.names import Names
from operad.flows.formats.shapes import Fields


class Kind(NamedTuple):
    """How nodes of one type are written.

    Attributes:
        type: Coze's type.
        icon: The file of its icon.
        write: Our parameters → theirs.
        read: Theirs → ours; raises where they are not of the form that is written.
    """

    type: str
    icon: str
    write: Callable[[Any, Names], Fields]
    read: Callable[[Any, Names], Fields]
