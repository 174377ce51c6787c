"""Decoding of text from the web and from documents."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from charset_normalizer import CharsetMatch

_DECLARED = re.compile(
    rb"(?:<meta\b[^>]{0,200}?\bcharset|<\?xml\b[^>]{0,200}?\bencoding)\s*=\s*[\"']?\s*(?!utf-?(?:16|32))([\w.:-]{1,40})",
    re.IGNORECASE,
)
_TEXT_CODECS = re.compile(r"ascii|big5|cp\d|euc|gb|hz|iso|johab|koi8|latin|mac|shift|tis|utf-?(8|16|32)")
"""Names of codecs that decode text in linear time, unlike some of Python's."""

_SUPERSETS = {"gb2312": "gb18030", "gbk": "gb18030", "iso8859-1": "cp1252", "ascii": "cp1252"}
"""Encodings that are meant by these labels on the web (WHATWG's Encoding Standard)."""

_GUESSED = (
    *("gb18030", "cp932", "euc_jp", "big5", "cp949"),
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "koi8_r"),
)
"""Encodings that are guessed, those first that win where several fit equally well."""

_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def decoded(body: bytes, content_type: str) -> str:
    """Return a response body as text; bytes that cannot be decoded are replaced by U+FFFD.

    The encoding is that of the byte order mark, of the header, of a declaration in HTML or XML, or else detected.

    Args:
        content_type: The header Content-Type; may be empty.
    """
    marked = next((codec for mark, codec in _MARKS.items() if body.startswith(mark)), "")
    return body.decode(
        marked or _from_header(content_type) or _declared(body, content_type) or detected(body) or "utf-8", "replace"
    )


def _from_header(content_type: str) -> str:
    label = re.search(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", content_type, re.IGNORECASE | re.ASCII)
    return text_codec(label[1]) if label else ""


def _declared(body: bytes, content_type: str) -> str:
    if content_type.strip() and not re.search("html|xml", content_type, re.IGNORECASE):
        return ""
    declared = _DECLARED.search(body[:4096])
    return text_codec(declared[1].decode()) if declared else ""


def detected(body: bytes) -> str:
    """Return the encoding of a text: UTF-8, or the guess of charset-normalizer; empty if none fits."""
    try:
        body.decode()
    except UnicodeDecodeError:
        from charset_normalizer import from_bytes

        def order(match: CharsetMatch) -> tuple[float, float, int]:
            return match.chaos, -match.coherence, _GUESSED.index(match.encoding)

        best = min(from_bytes(body, cp_isolation=list(_GUESSED)), key=order, default=None)
        return best.encoding if best else ""
    return "utf-8"


def text_codec(name: str) -> str:
    """Return Python's name of a text encoding; empty if the name is unknown."""
    try:
        codec = codecs.lookup(name.strip()).name
    except (LookupError, ValueError):
        return ""
    return _SUPERSETS.get(codec, codec) if _TEXT_CODECS.match(codec) else ""
