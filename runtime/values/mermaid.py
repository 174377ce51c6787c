"""Mermaid code: flowcharts, and Markdown pages with a flowchart and a table."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Literal

from operad.runtime.values.text import short_line

MAX_LABEL = 60
"""Maximum number of characters of a label."""

Shape = Literal["box", "round", "hexagon", "double"]
_SHAPES: dict[Shape, tuple[str, str]] = {
    "box": ("[", "]"),
    "round": ("([", "])"),
    "hexagon": ("{{", "}}"),
    "double": ("[[", "]]"),
}


class Flowchart:
    """Mermaid flowchart, written node by node.

        chart = Flowchart()
        chart.node("facts", "facts")
        chart.node("judge", "judge", "round")
        chart.edge("facts", "judge", dotted=True)
        print(chart.code())

    Nodes are identified by keys of the caller, because Mermaid restricts names: in the code they are ``n0``, ``n1`` and
    so on. Texts stand for nothing but themselves.

    Args:
        direction: Direction of the edges: ``TD`` for downwards, ``LR`` for rightwards.
    """

    def __init__(self, direction: Literal["TD", "LR"] = "TD") -> None:
        self._lines = [f"flowchart {direction}"]
        self._depth = 1
        self._names: dict[Hashable, str] = {}

    def node(self, key: Hashable, text: str, shape: Shape = "box") -> None:
        """Write a node."""
        left, right = _SHAPES[shape]
        self._write(f"{self._name(key)}{left}{label(text)}{right}")

    def begin_frame(self, key: Hashable, text: str) -> None:
        """Begin a frame around the nodes that are written until `end_frame`; edges can lead to it as to a node."""
        self._write(f"subgraph {self._name(key)} [{label(text)}]")
        self._depth += 1

    def end_frame(self) -> None:
        """End the innermost frame."""
        self._depth -= 1
        self._write("end")

    def edge(self, source: Hashable, target: Hashable, text: str = "", *, dotted: bool = False) -> None:
        """Write an edge between two nodes, which may be written later."""
        arrow = "-.->" if dotted else "-->"
        self._write(f"{self._name(source)} {arrow}{f'|{label(text)}|' if text else ''} {self._name(target)}")

    def style(self, name: str, css: str, keys: Iterable[Hashable]) -> None:
        """Give nodes a style, such as ``fill:#d3f9d8``; without nodes, nothing is written."""
        if names := [self._name(key) for key in keys]:
            self._write(f"classDef {name} {css}")
            self._write(f"class {','.join(names)} {name}")

    def code(self) -> str:
        """Return the code."""
        return "\n".join(self._lines) + "\n"

    def _name(self, key: Hashable) -> str:
        return self._names.setdefault(key, f"n{len(self._names)}")

    def _write(self, line: str) -> None:
        self._lines.append("  " * self._depth + line)


def label(text: str) -> str:
    """Return a text as a quoted Mermaid label: on one line, shortened, and with special characters escaped."""
    line = short_line(text, MAX_LABEL)
    safe = "".join(char if char.isalnum() or char in " -_.,:/…" else f"#{ord(char)};" for char in line)
    return f'"{safe or " "}"'


def markdown_page(title: str, code: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return Markdown with a title, a flowchart and a table."""
    lines = [columns, ["---"] * len(columns), *([_cell(each) for each in row] for row in rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"# {_cell(title)}\n\n```mermaid\n{code}```\n\n{table}\n"


def _cell(text: str) -> str:
    return "".join(f"\\{each}" if each in "\\|`*_[]<>#" else each for each in " ".join(text.split()))
