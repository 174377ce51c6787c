"""Notes on Dify's canvas, which its files list among the nodes, as sticky notes and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast, get_args

from operad.flows.formats.shapes import Fields, fields_of, text_of
from operad.flows.node_graph import NoteColor, StickyNote
from operad.integrations.dify.lexical import document_of, lexical_of, markdown_of
from operad.runtime.values.errors import Issue, shorten

NAME = "dify"
_FAR = 1e7
_DATA: Fields = {"type": "", "title": "", "desc": "", "author": "", "showAuthor": False}
"""Data of a new note, besides what it shows."""


def is_note(node: Any) -> bool:
    """Return True for a note on the canvas."""
    return fields_of(node).get("type") == "custom-note"


def read_notes(entries: Sequence[Any]) -> tuple[StickyNote, ...]:
    """Return the sticky notes of the nodes of a file; each keeps its entry, and its place in the list."""
    notes: dict[str, StickyNote] = {}
    for place, entry in enumerate(entries):
        if is_note(entry):
            note = _note_of(fields_of(entry), {NAME: {"at": place, "note": entry}})
            note_id = note.id if note.id not in notes else f"{note.id} ({place})"
            notes[note_id] = StickyNote(note_id, note.text, note.color, note.at, note.size, note.extra)
    return tuple(notes.values())


def _note_of(entry: Fields, extra: Fields) -> StickyNote:
    data, default = fields_of(entry.get("data")), StickyNote("")
    color = data.get("theme")
    size = _pair(entry, "width", "height") or _pair(data, "width", "height")
    return StickyNote(
        id=str(entry.get("id")),
        text=markdown_of(text_of(data.get("text"))),
        color=cast("NoteColor", color) if color in get_args(NoteColor) else default.color,
        at=_pair(fields_of(entry.get("position")), "x", "y"),
        size=size if size and min(size) > 0 else default.size,
        extra=extra,
    )


def _pair(fields: Fields, *names: str) -> tuple[float, float] | None:
    one, other = (fields.get(name) for name in names)
    if not isinstance(one, int | float) or not isinstance(other, int | float) or not max(abs(one), abs(other)) < _FAR:
        return None
    return one, other


def insert_notes(notes: Sequence[StickyNote], nodes: list[Fields]) -> None:
    """Insert notes into the nodes of a file: those of the file in their places, others at the end."""
    for note in notes:
        place = fields_of(note.extra.get(NAME)).get("at")
        nodes.insert(place if isinstance(place, int) else len(nodes), _entry_of(note))


def _entry_of(note: StickyNote) -> Fields:
    """Return the entry of a note; of one from a file, with the changes since it was read."""
    entry = fields_of(fields_of(note.extra.get(NAME)).get("note"))
    was = _note_of(entry, {}) if entry else None
    data = dict(fields_of(entry.get("data"))) if entry else dict(_DATA)
    written: Fields = {**(entry or {"id": note.id, "type": "custom-note"}), "data": data}
    if was is None or note.text != was.text:
        data["text"] = lexical_of(note.text)[0]
    if was is None or note.color != was.color:
        data["theme"] = note.color
    if was is None or note.at != was.at:
        x, y = note.at or (0, -note.size[1] - 60)
        written |= {"position": {"x": x, "y": y}, "positionAbsolute": {"x": x, "y": y}}
    if was is None or note.size != was.size:
        sides = dict(zip(("width", "height"), note.size, strict=True))
        written |= sides
        data |= sides
    return written


def note_losses(notes: Sequence[StickyNote]) -> Iterator[Issue]:
    """Yield the formatting of notes that Dify, or Markdown, cannot hold."""
    for note in notes:
        entry = fields_of(fields_of(note.extra.get(NAME)).get("note"))
        text = text_of(fields_of(entry.get("data")).get("text"))
        if entry and markdown_of(text) == note.text:
            continue
        lost = [each.replace("_", " ") for each in lexical_of(note.text)[1]]
        lost += ["sizes of letters"] if _has_style(document_of(text)) else []
        if lost:
            yield Issue("note", f"formatting of its text: {shorten(lost)}", f"sticky note {note.id}")


def _has_style(node: Fields) -> bool:
    children = cast("list[Any]", node.get("children")) if isinstance(node.get("children"), list) else []
    return bool(node.get("style")) or any(_has_style(fields_of(each)) for each in children)
