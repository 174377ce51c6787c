"""Operations on sticky notes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from operad.flows.edit.operation import NodeId, Operation, Types
from operad.flows.node_graph import NodeGraph, NoteColor, StickyNote
from operad.operators.node import Fault
from operad.runtime.values.errors import did_you_mean, shorten

MAX_TEXT = 20_000
"""Maximum number of characters of a note."""

Pixels = Annotated[int | float, Field(ge=-1e7, le=1e7)]
Side = Annotated[int | float, Field(gt=0, le=1e7)]


class SetNote(Operation):
    """Changes a sticky note, or adds it if no note has the id; fields that are left out stay as they are."""

    op: Literal["set_note"] = "set_note"
    id: NodeId = Field(description="The id of the note.")
    text: str | None = Field(default=None, max_length=MAX_TEXT, description="Its text, in Markdown.")
    color: NoteColor | None = None
    at: tuple[Pixels, Pixels] | None = Field(default=None, description="Its position: x and y, in pixels.")
    size: tuple[Side, Side] | None = Field(default=None, description="Its width and height, in pixels.")

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow with the changed or new note."""
        fields: dict[str, Any] = {key: getattr(self, key) for key in ("text", "color", "at", "size")}
        given = {key: value for key, value in fields.items() if value is not None}
        notes = {note.id: note for note in graph.sticky_notes}
        notes[self.id] = replace(notes.get(self.id, StickyNote(self.id)), **given)
        return replace(graph, sticky_notes=tuple(notes.values()))


class RemoveNote(Operation):
    """Removes a sticky note."""

    op: Literal["remove_note"] = "remove_note"
    id: str = Field(description="The id of the note.")

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield a fault if the note does not exist."""
        known = [note.id for note in graph.sticky_notes]
        if self.id not in known:
            hint = did_you_mean(self.id, known) or f"; there are: {shorten(known) or 'none'}"
            yield Fault("id", f"there is no sticky note {self.id!r}{hint}", "undefined-node")

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow without the note."""
        return replace(graph, sticky_notes=tuple(note for note in graph.sticky_notes if note.id != self.id))
