"""Rendering of Mermaid diagrams as pictures, by mermaid-render."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args
from xml.etree import ElementTree

from operad.operators.media.errors import MediaError, check_text, need
from operad.operators.media.fences import first_fenced
from operad.operators.media.fonts import cjk_fonts
from operad.runtime.values.errors import describe, did_you_mean

MermaidTarget = Literal["svg", "png"]

MAX_MERMAID_CHARS = 50_000
"""Maximum length of a diagram's code, in characters; it is the limit of Mermaid itself."""

MAX_MERMAID_PIXELS = 50_000_000
"""Maximum number of pixels of a PNG."""

_PLACE = re.compile(r"(?P<kind>[\w-]+) at (?P<line>\d+):(?P<column>\d+): (?P<reason>.*)", re.DOTALL)


def render_mermaid(code: str, target: MermaidTarget) -> bytes:
    """Convert a diagram to an image. The call takes up to 10 s, and releases the GIL meanwhile.

    Args:
        code: Mermaid code; or Markdown, whose first Mermaid block is used.
        target: Type of the image. A ``png`` has two pixels per unit of the diagram, or one if the diagram is large.

    Returns:
        The content of the file.

    Raises:
        MediaError: The code is empty, too long or invalid, or, for ``png``, no font has its letters or it is too large.
        MissingExtraError: The extra ``mermaid`` is not installed.
    """
    targets = get_args(MermaidTarget)
    if target not in targets:
        raise MediaError(
            f"mermaid: there is no target {target!r:.100}{did_you_mean(str(target), targets)}; "
            f"there are {', '.join(targets)}"
        )
    what = f"mermaid to {target}"
    check_text(what, code, MAX_MERMAID_CHARS)
    code = first_fenced(code, "mermaid").encode("utf-8", errors="replace").decode()
    check_text(what, code, MAX_MERMAID_CHARS)
    need(what, "mermaid_render", *(("typst",) if target == "png" else ()), extra="mermaid")
    svg = _svg(what, code)
    return svg if target == "svg" else _png(what, svg)


def _svg(what: str, code: str) -> bytes:
    """Return a diagram as SVG."""
    renderer: Any = import_module("mermaid_render")
    try:
        return renderer.mermaid_to_svg(code)
    except Exception as error:  # may raise anything for a hostile diagram
        if place_match := _PLACE.fullmatch(str(error)):
            place = f"line {place_match['line']}, column {place_match['column']}: " if int(place_match["line"]) else ""
            reason = " ".join(place_match["reason"].split())[:300]
            raise MediaError(f"{what}: {place}{reason} ({place_match['kind']})") from error
        raise MediaError(f"{what}: it cannot be drawn: {describe(error)[:300]}") from error


def _png(what: str, svg: bytes) -> bytes:
    """Return an SVG as PNG."""
    root = ElementTree.fromstring(svg)  # noqa: S314 - the renderer wrote it
    pixels = float(root.get("width", 0)) * float(root.get("height", 0))
    zoom = next((zoom for zoom in (2, 1) if pixels * zoom**2 <= MAX_MERMAID_PIXELS), None)
    if not zoom:
        raise MediaError(
            f"{what}: {root.get('width')} x {root.get('height')} pixels are more than the maximum of "
            f"{MAX_MERMAID_PIXELS:,}; make an svg, which has no maximum, or a smaller diagram"
        )
    fonts = cjk_fonts(what, "".join(root.itertext()))
    own_fonts = Path(str(import_module("mermaid_render").__file__)).with_name("fonts").glob("*.ttf")
    resvg: Any = import_module("resvg_py")
    try:
        return bytes(
            resvg.svg_to_bytes(
                svg_string=svg.decode(),
                zoom=zoom,
                background="white",
                font_family="Noto Sans",
                font_files=[*map(str, own_fonts), *(str(font.path) for font in fonts)],
            )
        )
    except ValueError as error:
        raise MediaError(f"{what}: it cannot be drawn: {error}") from error
