"""Bytes of the web as text."""

from __future__ import annotations

import codecs
import re

_DECLARED = re.compile(
    rb"(?:<meta\b[^>]{0,200}?\bcharset|<\?xml\b[^>]{0,200}?\bencoding)\s*=\s*[\"']?\s*(?!utf-?(?:16|32))([\w.:-]{1,40})",
    re.IGNORECASE,
)
_TEXT_CODECS = re.compile(r"ascii|big5|cp\d|euc|gb|hz|iso|johab|koi8|latin|mac|shift|tis|utf-?(8|16|32)")
"""Names of codecs that decode text in linear time, as some of Python's do not."""

_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "iso8859-1": "cp1252", "ascii": "cp1252"}
"""Encodings that pages with these labels mean (WHATWG's Encoding Standard)."""

_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def decoded(body: bytes, content_type: str) -> str:
    """The text: by its byte order mark, by its type, by what HTML or XML says of itself, or else as it looks.

    What cannot be decoded is replaced by U+FFFD.

    Args:
        body: What came.
        content_type: The header of this name; may be empty.
    """
    marked = next((codec for mark, codec in _MARKS.items() if body.startswith(mark)), "")
    return body.decode(marked or _said(content_type) or _declared(body, content_type) or _seen(body), "replace")


def _said(content_type: str) -> str:
    said = re.search(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", content_type, re.IGNORECASE | re.ASCII)
    return _text_codec(said[1]) if said else ""


def _declared(body: bytes, content_type: str) -> str:
    if content_type.strip() and not re.search("html|xml", content_type, re.IGNORECASE):
        return ""
    declared = _DECLARED.search(body[:4096])
    return _text_codec(declared[1].decode()) if declared else ""


def _seen(body: bytes) -> str:
    try:
        body.decode()
    except UnicodeDecodeError:
        import chardet

        return _text_codec(chardet.detect(body[:65536])["encoding"] or "") or "utf-8"
    return "utf-8"


def _text_codec(name: str) -> str:
    """Python's name of an encoding of text; empty where there is none such."""
    try:
        codec = codecs.lookup(name.strip()).name
    except (LookupError, ValueError):
        return ""
    return _WIDER.get(codec, codec) if _TEXT_CODECS.match(codec) else ""
