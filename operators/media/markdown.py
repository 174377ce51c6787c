"""Conversion of Markdown to documents by pandoc, to PDF and PNG by Typst, and of its tables to workbooks.

The Markdown is untrusted: files and URLs in it are not read, an image becomes a link or its description, and markup of
the target format (HTML, LaTeX, Typst) is not passed through.
"""

from __future__ import annotations

import asyncio
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

from operad.operators.media.child import python, run
from operad.operators.media.errors import MediaError, check_text, need
from operad.operators.media.fences import unfenced
from operad.operators.media.fonts import CjkFont, cjk_fonts
from operad.runtime.values.errors import MissingExtraError, did_you_mean
from operad.runtime.values.pip import pip_install

MarkdownTarget = Literal["docx", "pptx", "pdf", "png", "html", "md", "xlsx"]

MAX_MARKDOWN_CHARS = 1_000_000
"""Maximum length of an exported text, in characters."""

MAX_PICTURE_HEIGHT = 30_000
"""Maximum height of a PNG, in pixels; its width is 1,191."""

_SECONDS = 60.0
"""Time limit of each of the two programs, in seconds."""

_MEMORY = 2 * 2**30
"""Memory limit of each of the two programs, in bytes."""

_WRITERS = {
    "docx": ["--to=docx"],
    "pptx": ["--to=pptx", "--slide-level=2"],
    "html": ["--to=html5", "--standalone", "--mathml"],
    "pdf": ["--to=typst"],
    "png": ["--to=typst"],
}

_POINTS_PER_PIXEL = 0.5  # Typst renders 144 pixels per inch

_PREAMBLE = """\
#set document(date: none)
#set page(paper: "a4", margin: 2cm{height})
#set text(size: 11pt, font: ({fonts}))
#show raw: set text(font: ({mono}))
#show raw.where(block: true): block.with(fill: luma(245), inset: 8pt, radius: 3pt, width: 100%)
#show link: set text(fill: rgb("#0b57d0"))
#show figure: set block(breakable: true)
#set table(inset: 6pt, stroke: 0.5pt + luma(160))
#let horizontalrule = line(length: 100%, stroke: 0.5pt + luma(160))

"""

_TOO_HIGH = """

#context assert(here().position().y < {most}pt, message: "the picture would be too high; export it as pdf")
"""


async def export_markdown(text: str, target: MarkdownTarget) -> bytes:
    """Convert a Markdown text to a file.

    Args:
        text: GitHub-flavoured Markdown, with formulas between dollar signs. A fence around the whole text, as models
            write it, is removed.
        target: Type of the file. In a ``pptx``, each heading of the second level begins a slide. A ``png`` is a single
            image, as high as the text. ``md`` is the text itself. An ``xlsx`` has a sheet for each table of the text,
            named after the heading above it; cells contain numbers and texts, never formulas.

    Returns:
        The content of the file.

    Raises:
        MediaError: The text is empty or too long, no font has its letters, typesetting fails, or there is no table for
            an ``xlsx``.
        MissingExtraError: The extra ``media`` is not installed.
    """
    targets = get_args(MarkdownTarget)
    if target not in targets:
        raise MediaError(
            f"markdown: there is no target {target!r:.100}{did_you_mean(str(target), targets)}; "
            f"there are {', '.join(targets)}"
        )
    what = f"markdown to {target}"
    check_text(what, text, MAX_MARKDOWN_CHARS)
    text = unfenced(text, {"markdown", "md", "gfm"})
    check_text(what, text, MAX_MARKDOWN_CHARS)
    if target == "md":
        return _encode(text)
    if target == "xlsx":
        need(what, "openpyxl", "markdown_it")
        return await run(what, python("workbook.py", _MEMORY), json.dumps({"text": text}).encode(), seconds=_SECONDS)
    pandoc = _pandoc(what)
    if target in ("docx", "pptx", "html"):
        return await _convert(what, pandoc, target, text)
    need(what, "typst", "fontTools")
    fonts = await asyncio.to_thread(cjk_fonts, what, text)
    markup = await _convert(what, pandoc, target, text)
    folders = [str(font.path.parent) for font in fonts]
    typst_request = {
        "source": _preamble(target, fonts) + markup.decode() + _height_check(target),
        "format": target,
        "fonts": folders,
    }
    command = python("typeset.py", _MEMORY, folders)
    return await run(what, command, json.dumps(typst_request).encode(), seconds=_SECONDS)


async def _convert(what: str, pandoc: Path, target: str, text: str) -> bytes:
    """Return the output of pandoc for a Markdown text; for PDF and PNG, Typst's markup."""
    command = [
        pandoc, "--sandbox", "--data-dir=.", "--from=gfm-yaml_metadata_block+tex_math_dollars+east_asian_line_breaks",
        f"--lua-filter={Path(__file__).with_name('markdown.lua')}", *_WRITERS[target], "--output=-",
        "+RTS", f"-M{_MEMORY}", "-RTS",
    ]  # fmt: skip
    return await run(what, command, _encode(text), seconds=_SECONDS)


def _pandoc(what: str) -> Path:
    """Return the path of pandoc in the package pypandoc-binary; other installations may have any version."""
    need(what, "pypandoc")
    package = find_spec("pypandoc")
    files = Path(package.origin if package and package.origin else "").with_name("files")
    for name in ("pandoc", "pandoc.exe"):
        if (files / name).is_file():
            return files / name
    raise MissingExtraError(f"{what} needs the package pypandoc-binary: {pip_install('media')}")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", errors="replace")  # replaces lone surrogates


def _preamble(target: str, fonts: list[CjkFont]) -> str:
    families = [font.family for font in fonts]
    return _PREAMBLE.format(
        height=", height: auto" if target == "png" else "",
        fonts=_quoted("Libertinus Serif", *families),
        mono=_quoted("DejaVu Sans Mono", *families),
    )


def _quoted(*families: str) -> str:
    return "".join(f"{json.dumps(family, ensure_ascii=False)}, " for family in families)


def _height_check(target: str) -> str:
    return _TOO_HIGH.format(most=MAX_PICTURE_HEIGHT * _POINTS_PER_PIXEL) if target == "png" else ""
