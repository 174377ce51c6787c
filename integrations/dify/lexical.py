"""Texts of Dify's notes, documents of the editor Lexical, as Markdown and back.

Dify's editor knows paragraphs, bulleted and numbered lists, links, bold, italic and struck text, and sizes of letters,
which Markdown has no form for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from operad.flows.formats.json_text import read_json
from operad.flows.formats.shapes import Fields, each_of, fields_of, text_of
from operad.runtime.values.errors import InvalidError

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

_MARKS = ((16, "`"), (4, "~~"), (2, "*"), (1, "**"))
"""Bits of a text's `format`, with the signs of Markdown, the inner ones first."""

_SPECIAL = re.compile(r"[\\`*\[\]<~]|(?<!\w)_|_(?!\w)|^(?:[#>+-]|\d+(?=[.)]))", re.MULTILINE)
_FORMATS = {"strong": 1, "em": 2, "s": 4}
_ORDERED = "number"


def document_of(text: str) -> Fields:
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
    root = document_of(text)
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
