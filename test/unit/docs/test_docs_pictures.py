"""The pictures of the documentation, drawn by the renderer that nodes use."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from operad.operators.media.mermaid import render_mermaid

DOCS = Path(__file__).parents[3] / "docs"
PICTURES = [
    pytest.param(found[1], id=f"{page.name}:{text.count(chr(10), 0, found.start()) + 1}")
    for page in sorted(DOCS.glob("*.md"))
    if (text := page.read_text(encoding="utf-8"))
    for found in re.finditer(r"^```mermaid\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
]


def together(words: str) -> str:
    """Without what breaks lines."""
    return "".join(words.split())


@pytest.mark.skipif(importlib.util.find_spec("mermaid_render") is None, reason="the extra mermaid is not installed")
@pytest.mark.parametrize("code", PICTURES)
def test_a_picture_can_be_drawn_and_shows_what_its_boxes_say(code: str) -> None:
    drawing = ElementTree.fromstring(render_mermaid(code, "svg"))  # noqa: S314 - the renderer wrote it
    shown = together("".join(drawing.itertext()))
    boxes = re.findall(r'"([^"]+)"|[\[{(]([a-z][\w ,?]*)[\]})]|participant \w as (.*)', code)
    assert boxes
    assert [words for words in map("".join, boxes) if together(words) not in shown] == []


def test_the_concepts_show_a_job_a_round_the_statuses_and_the_events() -> None:
    assert [str(picture.id).split(":")[0] for picture in PICTURES].count("concepts.md") == 4
