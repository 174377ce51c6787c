"""What a format is: how workflows are written by a platform, and how to tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from operad.operators.node_graph import NodeGraph
from operad.runtime.errors import Issue


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write workflows down.

    Attributes:
        name: What it is called.
        suffix: How the names of its files end, with the dot.
        is_it: Whether a file is of this format, by its content.
        load: Reads a file, given the name to call the workflow; raises `InvalidError` with every issue where it cannot.
        dump: Writes a workflow. What it cannot hold is left out; `losses` says what that is.
        losses: What of a workflow it cannot hold, each with the id of its node.
    """

    name: str
    suffix: str
    is_it: Callable[[bytes], bool]
    load: Callable[[bytes, str], NodeGraph]
    dump: Callable[[NodeGraph], bytes]
    losses: Callable[[NodeGraph], list[Issue]]
