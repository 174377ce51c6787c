"""Folder of a search: its steps, the best workflow so far, and the tree with its picture."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from operad.configs.optimise.state import Line, State, replayed
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, draw, flowchart
from operad.runtime.values.errors import InputError
from operad.runtime.values.file import write_whole
from operad.runtime.values.json_lines import add_line, read_lines

BEST = "best.yaml"
STEPS = "tree.jsonl"
CHART = "tree.mmd"
PICTURE = "tree.svg"


class Folder:
    """Open folder of a search.

    Args:
        file: Its file of steps, open for appending.
        state: State of the search so far.
    """

    def __init__(self, path: Path, file: TextIO, state: State) -> None:
        self.path = path
        self.state = state
        self._file = file

    def add(self, line: Line) -> None:
        """Append a line to the file of steps, and update the state.

        Raises:
            InputError: The folder cannot be written to.
        """
        self.state = self.state.after(line)
        try:
            add_line(self._file, line.model_dump(mode="json"))
        except OSError as error:
            raise _unusable(self.path, error) from error

    def show(self, tasks: int) -> None:
        """Write the best workflow so far, and the tree as Mermaid; `tasks` is the number of tasks.

        Raises:
            InputError: The folder cannot be written to.
        """
        if self.state.candidates:
            write_whole(str(self.path / BEST), self.state.ranked(tasks)[0].step.yaml.encode())
            write_whole(str(self.path / CHART), flowchart(*_picture(self.state, tasks)).encode())

    def draw(self, tasks: int) -> None:
        """Draw the tree as a picture.

        Raises:
            InputError: The folder cannot be written to.
            MediaError: The tree is too large.
            MissingExtraError: The extra ``media`` is not installed.
        """
        graph, status = _picture(self.state, tasks)
        write_whole(str(self.path / PICTURE), draw(graph, "svg", status))


@contextmanager
def opened(path: Path, settings: Mapping[str, Any]) -> Generator[Folder]:
    """Open the folder of a search; create it if it does not exist.

    Args:
        settings: Settings that the search depends on; those of an existing folder must be the same.

    Raises:
        InputError: The folder cannot be used, or belongs to another search.
    """
    file, head = path / STEPS, {"optimisation": dict(settings)}
    try:
        path.mkdir(exist_ok=True)
        lines = read_lines(file, head)
        state = replayed(lines[1:], str(file))
        stream = file.open("a", encoding="utf-8")
        if not lines:
            add_line(stream, head)
    except OSError as error:
        raise _unusable(path, error) from error
    with stream:
        yield Folder(path, stream, state)


def _unusable(path: Path, error: OSError) -> InputError:
    return InputError(f"--output {path}: cannot be used: {error.strerror or error}")


def _picture(state: State, tasks: int) -> tuple[NodeGraph, Mapping[str, str]]:
    """Return the tree as a graph of candidates with their scores, and node states that mark the best as done."""
    names = {candidate.number: f"{candidate.number}: {candidate.change}" for candidate in state.candidates}
    nodes = [
        NodeSpec(names[candidate.number], f"{candidate.final:.3f}") for candidate in state.candidates
    ]  # labels are cut at the end
    edges = [
        Edge(names[candidate.step.parent], names[candidate.number])
        for candidate in state.candidates
        if candidate.step.parent is not None
    ]
    return NodeGraph(nodes, edges, "search"), {names[state.ranked(tasks)[0].number]: "done"}
