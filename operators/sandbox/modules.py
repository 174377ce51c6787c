"""Modules of the standard library that the sandbox lacks and snippets ask for: `html` and a part of `urllib.parse`.

They are written here once more, in the Python that the sandbox knows, and run inside of it; an import of them becomes
an assignment on the same line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

GIVEN: Mapping[str, tuple[str, ...]] = {
    "html": ("escape", "unescape"),
    "urllib.parse": ("quote", "quote_plus", "unquote", "unquote_plus", "urlencode", "urlparse", "urlsplit"),
}
"""The modules, and what each has."""

NAMES = "_given_modules"
"""What the sandbox calls them all."""

SOURCE = """\
import re as _re


class _Module:
    def __init__(self, names):
        for name in names:
            setattr(self, name, names[name])


class _Address:
    def __init__(self, scheme, netloc, path, query, fragment):
        self.scheme = scheme
        self.netloc = netloc
        self.path = path
        self.params = ""
        self.query = query
        self.fragment = fragment
        host = netloc.rpartition("@")[2]
        found = _re.fullmatch(r"(\\[[^\\]]*\\]|[^:]*)(?::([0-9]*))?", host)
        self.hostname = found.group(1).strip("[]").lower() or None if found else None
        self.port = int(found.group(2)) if found and found.group(2) else None

    def geturl(self):
        whole = (self.scheme + ":" if self.scheme else "") + ("//" + self.netloc if self.netloc else "") + self.path
        return whole + ("?" + self.query if self.query else "") + ("#" + self.fragment if self.fragment else "")


def _html_escape(s, quote=True):
    s = s.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return s.replace('"', "&quot;").replace("'", "&#x27;") if quote else s


def _changed(pattern, change, text):
    parts, place = [], 0
    for found in _re.finditer(pattern, text):
        parts += [text[place:found.start()], change(found)]
        place = found.end()
    return "".join([*parts, text[place:]])


def _html_entity(found):
    name = found.group(1)
    if not name.startswith("#"):
        return _entities.get(name + ";", found.group(0))
    number = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\\ufffd"


def _html_unescape(s):
    return _changed(r"&(#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,7}|[a-zA-Z][a-zA-Z0-9]{1,31});", _html_entity, s)


def _quote(string, safe="/", encoding=None, errors=None):
    kept = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~" + safe
    return "".join([each if each in kept else "".join([f"%{byte:02X}" for byte in each.encode()]) for each in string])


def _quote_plus(string, safe="", encoding=None, errors=None):
    return _quote(string, safe + " ").replace(" ", "+")


def _unquoted(found):
    return bytes.fromhex(found.group(0).replace("%", "")).decode("utf-8", "replace")


def _unquote(string, encoding="utf-8", errors="replace"):
    return _changed("(?:%[0-9a-fA-F]{2})+", _unquoted, string)


def _unquote_plus(string, encoding="utf-8", errors="replace"):
    return _unquote(string.replace("+", " "))


def _urlencode(query, doseq=False):
    pairs = []
    for name, value in query.items() if isinstance(query, dict) else query:
        for each in value if doseq and isinstance(value, (list, tuple)) else [value]:
            pairs.append(_quote_plus(str(name)) + "=" + _quote_plus(str(each)))
    return "&".join(pairs)


def _urlsplit(url, scheme="", allow_fragments=True):
    found = _re.match(r"(?:([a-zA-Z][a-zA-Z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\\?([^#]*))?(?:#(.*))?", url.strip())
    parts = [found.group(number) or "" for number in range(1, 6)]
    return _Address(parts[0].lower() or scheme, *parts[1:])


_given_modules = _Module({
    "html": _Module({"escape": _html_escape, "unescape": _html_unescape}),
    "urllib": _Module({"parse": _Module({
        "quote": _quote, "quote_plus": _quote_plus, "unquote": _unquote, "unquote_plus": _unquote_plus,
        "urlencode": _urlencode, "urlparse": _urlsplit, "urlsplit": _urlsplit})}),
})
"""
"""The modules, as the sandbox gets them where a snippet imports one; `_entities` are those of HTML, by name."""


def with_given(code: str, tree: ast.Module) -> str:
    """A snippet with assignments in the place of imports of these modules; each line keeps its number.

    Args:
        code: The snippet.
        tree: What it reads as.
    """
    lines = re.split(r"\r\n?|\n", code)  # as Python counts them
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in sorted(statements, key=lambda each: (each.lineno, each.col_offset), reverse=True):
        parts = list(_from(node) if isinstance(node, ast.ImportFrom) else _plain(node))
        if not any(NAMES in part for part in parts):
            continue
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        before = lines[first].encode()[: node.col_offset].decode()
        after = lines[last].encode()[node.end_col_offset :].decode()
        lines[first : last + 1] = [before + "; ".join(parts) + after, *[""] * (last - first)]
    return "\n".join(lines)


def _plain(node: ast.Import) -> Iterator[str]:
    for alias in node.names:
        if alias.name not in GIVEN:
            yield f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
        elif alias.asname:
            yield f"{alias.asname} = {NAMES}.{alias.name}"
        else:
            name = alias.name.partition(".")[0]
            yield f"{name} = {NAMES}.{name}"


def _from(node: ast.ImportFrom) -> Iterator[str]:
    module = node.module or ""
    for alias in node.names:
        named = f" as {alias.asname}" if alias.asname else ""
        if not node.level and (alias.name in GIVEN.get(module, ()) or f"{module}.{alias.name}" in GIVEN):
            yield f"{alias.asname or alias.name} = {NAMES}.{module}.{alias.name}"
        else:
            yield f"from {'.' * node.level}{module} import {alias.name}{named}"


def lacking(tree: ast.Module, modules: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """What a snippet imports and the sandbox has not, each with its line.

    Args:
        tree: The snippet.
        modules: The modules of the sandbox itself.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named = [(alias.name, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            inside = any(name.startswith(module) for name in GIVEN)
            named = [(module, f"{module}.{alias.name}" if inside else module) for alias in node.names]
        else:
            continue
        had = {*GIVEN, *(f"{module}.{name}" for module, names in GIVEN.items() for name in names)}
        for module, name in dict.fromkeys(named):
            if name not in had and module.partition(".")[0] not in modules:
                yield name, node.lineno
