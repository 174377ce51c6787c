"""A workflow store: a folder of workflows with the instructions that they were made from, as examples for others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from operad.flows.formats.table import read
from operad.flows.node_graph import NodeGraph
from operad.runtime.knowledge.similarity import similarity
from operad.runtime.values.errors import InputError, InvalidError

MAX_FILES = 2_000
"""The most files of a folder that are looked at."""

MAX_BYTES = 2**20
"""The largest file that is looked at; an example has to fit a prompt."""

NEAR_ENOUGH = 0.2
"""Minimum similarity of the words of two instructions, from 0 to 1."""


class Example(NamedTuple):
    """A workflow that was made from words.

    Attributes:
        says: The words.
        graph: The workflow.
    """

    says: str
    graph: NodeGraph


def nearest_example(folder: Path, instruction: str) -> Example | None:
    """The workflow of a folder whose instruction is most like another; None where none is like it.

    Args:
        folder: The folder; files that hold no workflow with instructions are passed over.
        instruction: What is asked for.

    Raises:
        InputError: There is no such folder.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder of workflows")
    ranked = [(similarity(instruction, each.says), each) for each in _examples(folder)]
    best = max(ranked, key=lambda pair: pair[0], default=None)
    return best[1] if best is not None and best[0] >= NEAR_ENOUGH else None


def _examples(folder: Path) -> Iterator[Example]:
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    for path in files[:MAX_FILES]:
        try:
            if path.stat().st_size > MAX_BYTES:
                continue
            found, graph = read(path.read_bytes(), path.stem)
        except (OSError, InvalidError):
            continue
        if found.runs and graph.instructions:
            yield Example("\n".join(graph.instructions), graph)
