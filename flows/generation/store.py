"""Folder of workflows with their instructions, as examples for similar instructions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from operad.flows.formats.table import read
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.errors import InputError, InvalidError
from operad.runtime.values.words import similarity

MAX_FILES = 2_000
"""Maximum number of files of a folder to read."""

MAX_BYTES = 2**20
"""Maximum size of a file to read in bytes, as an example has to fit a prompt."""

NEAR_ENOUGH = 0.2
"""Minimum similarity of the words of two instructions, from 0 to 1."""


class Example(NamedTuple):
    """Workflow with its instructions.

    Attributes:
        instructions: Instructions from which the workflow was made.
        graph: The workflow.
    """

    instructions: str
    graph: NodeGraph


def nearest_example(folder: Path, instruction: str) -> Example | None:
    """Return the workflow of a folder whose instructions are most similar to another; None if none is similar.

    Args:
        folder: The folder; files without a workflow with instructions are ignored.
        instruction: Instruction to compare with.

    Raises:
        InputError: The folder does not exist.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder of workflows")
    ranked = [(similarity(instruction, example.instructions), example) for example in _examples(folder)]
    best = max(ranked, key=lambda pair: pair[0], default=None)
    return best[1] if best is not None and best[0] >= NEAR_ENOUGH else None


def _examples(folder: Path) -> Iterator[Example]:
    """Yield the runnable workflows of a folder that have instructions, by the order of their names."""
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
