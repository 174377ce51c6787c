"""Notes on Dify's canvas, which its files list among the nodes, as sticky notes and back.

Their texts, documents of the editor Lexical, become Markdown. The editor knows paragraphs, bulleted and numbered lists,
links, bold, italic and struck text, and sizes of letters, which Markdown has no form for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

from operad.flows.formats.json_text import read_json
from operad.flows.formats.shapes import Fields, each_of, fields_of, text_of
from operad.flows.node_graph import NoteColor, StickyNote
from operad.runtime.values.errors import InvalidError, Issue, shorten

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode


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
        lost += ["sizes of letters"] if _has_style(_document_of(text)) else []
        if lost:
            yield Issue("note", f"formatting of its text: {shorten(lost)}", f"sticky note {note.id}")


def _has_style(node: Fields) -> bool:
    children = cast("list[Any]", node.get("children")) if isinstance(node.get("children"), list) else []
    return bool(node.get("style")) or any(_has_style(fields_of(each)) for each in children)


_MARKS = ((16, "`"), (4, "~~"), (2, "*"), (1, "**"))
"""Bits of a text's `format`, with the signs of Markdown, the inner ones first."""

_SPECIAL = re.compile(r"[\\`*\[\]<~]|(?<!\w)_|_(?!\w)|^(?:[#>+-]|\d+(?=[.)]))", re.MULTILINE)
_FORMATS = {"strong": 1, "em": 2, "s": 4}
_ORDERED = "number"


def _document_of(text: str) -> Fields:
    """Return the root of a document; empty for another text, which is a plain one."""
    try:
        return fields_of(fields_of(read_json(text, "the note")).get("root"))
    except InvalidError:
        return {}


def markdown_of(text: str) -> str:
    r"""Return the text of a note in Markdown.

    Example:
        >>> markdown_of(lexical_of("Mind the **hours**:\n\n- [list](https://example.com)")[0])
        'Mind the **hours**:\n\n- [list](https://example.com)'
    """
    root = _document_of(text)
    return "\n\n".join(filter(None, map(_block, each_of(root.get("children"))))) if root else text


def _block(node: Fields, indent: str = "") -> str:
    if node.get("type") != "list":
        return "".join(map(_inline, _merged(each_of(node.get("children")))))
    lines: list[str] = []
    for item in each_of(node.get("children")):
        mark = f"{len(lines) + 1}. " if node.get("listType") == _ORDERED else "- "
        inner = [each for each in each_of(item.get("children")) if each.get("type") == "list"]
        own = "".join(map(_inline, _merged(each for each in each_of(item.get("children")) if each not in inner)))
        lines += [f"{indent}{mark}{own}"] if own or not inner else []
        lines += [_block(each, f"{indent}   " if mark != "- " else f"{indent}  ") for each in inner]
    return "\n".join(lines)


def _merged(nodes: Iterable[Fields]) -> Iterator[Fields]:
    """Yield the nodes, with adjacent texts of one format, which may differ in the size of letters, as one."""
    last: Fields = {}
    for node in nodes:
        if last.get("type") == node.get("type") == "text" and last.get("format") == node.get("format"):
            last = {**last, "text": text_of(last.get("text")) + text_of(node.get("text"))}
        else:
            if last:
                yield last
            last = node
    if last:
        yield last


def _inline(node: Fields) -> str:
    match node.get("type"):
        case "linebreak":
            return "  \n"
        case "link" | "autolink":
            words = "".join(map(_inline, each_of(node.get("children"))))
            address = re.sub(r"[<>\s]", "", text_of(node.get("url")))
            return f"[{words}]({f'<{address}>' if '(' in address or ')' in address else address})"
        case "text" | "code-highlight" | "tab":
            return _text(text_of(node.get("text")), node.get("format"))
        case _:
            return "".join(map(_inline, each_of(node.get("children"))))


def _text(text: str, bits: Any) -> str:
    bits = bits if isinstance(bits, int) else 0
    inner = text.strip()
    if not inner:
        return text
    written = inner if bits & 16 else _SPECIAL.sub(lambda found: _escaped(found[0]), inner)
    for bit, mark in _MARKS:
        written = f"{mark}{written}{mark}" if bits & bit else written
    start = text.index(inner)
    return text[:start] + written + text[start + len(inner) :]


def _escaped(sign: str) -> str:
    return f"{sign}\\" if sign.isdigit() else f"\\{sign}"


# From Markdown


def lexical_of(markdown: str) -> tuple[str, list[str]]:
    """Return the text of a note for Dify, and the kinds of formatting that Dify's notes cannot hold."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    lost: dict[str, None] = {}
    tree = SyntaxTreeNode(MarkdownIt("commonmark").enable("strikethrough").parse(markdown))
    root = _element("root", _blocks(tree.children, lost))
    return json.dumps({"root": root}, ensure_ascii=False, separators=(",", ":")), list(lost)


def _blocks(nodes: Iterable[SyntaxTreeNode], lost: dict[str, None]) -> list[Fields]:
    found: list[Fields] = []
    for node in nodes:
        if node.type in ("bullet_list", "ordered_list"):
            found.append(_list(node, lost))
        elif node.type == "paragraph":
            found.append(_element("paragraph", _spans(node, lost)))
        else:
            lost[node.type] = None
            inner = [each for each in node.children if each.type != "inline"]
            found += _blocks(inner, lost) if inner else [_element("paragraph", _spans(node, lost))]
    return found


def _list(node: SyntaxTreeNode, lost: dict[str, None]) -> Fields:
    items: list[Fields] = []
    for item in node.children:
        for number, block in enumerate(_blocks(item.children, lost)):
            within = [block] if block["type"] == "list" else block["children"]
            if number and block["type"] != "list":  # a further paragraph of the item
                items[-1]["children"] += [{"type": "linebreak", "version": 1}, *within]
            else:
                items.append({**_element("listitem", within), "value": len(items) + 1})
    ordered = node.type == "ordered_list"
    kind = {"listType": _ORDERED if ordered else "bullet", "start": 1, "tag": "ol" if ordered else "ul"}
    return {**_element("list", items), **kind}


def _spans(node: SyntaxTreeNode, lost: dict[str, None], bits: int = 0) -> list[Fields]:
    """Return the inline content of a node."""
    if not node.children:
        return [_plain(node.content.rstrip("\n"), bits)] if node.content else []
    found: list[Fields] = []
    for each in node.children:
        if each.type in ("softbreak", "hardbreak"):
            found.append({"type": "linebreak", "version": 1})
        elif each.type == "link":
            about = {"rel": "noreferrer", "target": None, "title": None, "url": str(each.attrs.get("href", ""))}
            found.append({**_element("link", _spans(each, lost, bits)), **about})
        elif each.type in ("inline", "text", *_FORMATS):
            found += _spans(each, lost, bits | _FORMATS.get(each.type, 0))
        elif each.type == "code_inline":
            found.append(_plain(each.content, bits | 16))
        else:
            lost[each.type] = None
            found += [_plain(str(each.attrs["src"]), bits)] if each.type == "image" else _spans(each, lost, bits)
    return found


def _plain(text: str, bits: int) -> Fields:
    return {"detail": 0, "format": bits, "mode": "normal", "style": "", "text": text, "type": "text", "version": 1}


def _element(kind: str, children: list[Fields]) -> Fields:
    made: dict[str, Any] = {"children": children, "direction": "ltr", "format": "", "indent": 0}
    return cast("Fields", {**made, "type": kind, "version": 1})
