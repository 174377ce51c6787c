"""The page on the toolkit, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "toolkit.md"


def test_the_pages_examples_print_what_it_says(capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("mcp")
    names: dict[str, Any] = {"__name__": "toolkit_page"}
    printed = ""
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        if language == "python":
            exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102
            printed = capsys.readouterr().out
        elif language == "text":
            assert block == printed
        elif language == "mermaid":
            assert block == names["toolkit"].to_mermaid()
