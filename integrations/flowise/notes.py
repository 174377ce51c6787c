"""Sticky notes of Flowise: nodes of the canvas that do not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operad.flows.formats.shapes import Fields, fields_of, text_of
from operad.flows.node_graph import NoteColor, StickyNote
from operad.integrations.flowise.kinds import STICKY_NOTE

_COLORS: dict[str, NoteColor] = {
    "#fee440": "yellow", "#8ecae6": "blue", "#80deea": "cyan", "#a5d6a7": "green", "#f8bbd0": "pink", "#ce93d8": "violet",
}  # fmt: skip
"""Colours of notes; Flowise has the first one, and any other that is written in a file."""

_FAR = 1e7


def read_notes(nodes: Sequence[Fields]) -> tuple[StickyNote, ...]:
    """Return the sticky notes among the nodes of a file, which keeps them."""
    found = [_note_of(node) for node in nodes if fields_of(node.get("data")).get("name") == STICKY_NOTE]
    return tuple({note.id: note for note in found}.values())


def _note_of(node: Fields) -> StickyNote:
    data, default = fields_of(node.get("data")), StickyNote("")
    at = _pair(fields_of(node.get("positionAbsolute") or node.get("position")), "x", "y")
    size = _pair(node, "width", "height")
    return StickyNote(
        id=str(node["id"]),
        text=text_of(fields_of(data.get("inputs")).get("note")),
        color=_COLORS.get(str(data.get("color")).lower(), default.color),
        at=at,
        size=size if size and min(size) > 0 else default.size,
    )


def _pair(fields: Fields, *names: str) -> tuple[float, float] | None:
    one, other = (fields.get(name) for name in names)
    if not isinstance(one, int | float) or not isinstance(other, int | float) or not max(abs(one), abs(other)) < _FAR:
        return None
    return one, other


def written_note(note: StickyNote, old: Fields | None = None) -> Fields:
    """Return the node of a sticky note; of one of the file, with the changes since it was read."""
    was = _note_of(old) if old else None
    node: Fields = {**(old or _new(note.id))}
    data = {**fields_of(node["data"])}
    if was is None or note.text != was.text:
        data["inputs"] = {**fields_of(data.get("inputs")), "note": note.text}
    if was is None or note.color != was.color:
        data["color"] = next(key for key, color in _COLORS.items() if color == note.color)
    if was is None or note.at != was.at:
        x, y = note.at or (0, -note.size[1] - 60)
        before = fields_of(node.get("position"))
        left, top = (was.at or (x, y)) if was else (x, y)  # a position inside a node is that from its corner
        node["position"] = {
            "x": (before.get("x") or 0) + x - left if was else x,
            "y": (before.get("y") or 0) + y - top if was else y,
        }
        node["positionAbsolute"] = {"x": x, "y": y}
    if was is None or note.size != was.size:
        node["width"], node["height"] = note.size
    return {**node, "data": data}


def _new(note_id: str) -> Fields:
    data: dict[str, Any] = {"id": note_id, "label": "Sticky Note", "version": 1, "name": STICKY_NOTE}
    data |= {"type": "StickyNote", "baseClasses": ["StickyNote"], "tags": [], "category": "Agent Flows"}
    field = {"label": "", "name": "note", "type": "string", "rows": 1, "optional": True, "display": True}
    data["inputParams"] = [{**field, "id": f"{note_id}-input-note-string"}]
    anchor = {"id": f"{note_id}-output-{STICKY_NOTE}", "label": "Sticky Note", "name": STICKY_NOTE}
    data |= {"inputAnchors": [], "inputs": {}, "outputAnchors": [anchor], "outputs": {}, "selected": False}
    return {"id": note_id, "type": "stickyNote", "selected": False, "data": data}
