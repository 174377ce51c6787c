"""The pages for newcomers, followed as a reader does: files are made, commands are typed, outputs are compared.

A block below a line that ends with a file's name and a colon, such as "`letters.py`:", is that file. The ``sh`` blocks of
a page are run in one folder, in order; a ``text`` block after one is what it prints. Python blocks that are no file's
are run by test_docs.py.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from forked import ForkServer

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
START = DOCS / "get_started.md"
PAGES = [START, DOCS / "operad_yaml.md", *sorted(DOCS.glob("nodes*.md")), *sorted(DOCS.glob("from_*.md"))]
BENCH = ROOT / ".venv-bench" / "bin"
"""Where `make bench` puts other frameworks."""

CHAT2GRAPH = (ROOT / "test" / "support" / "chat2graph_names.py").read_text(encoding="utf-8")
"""Operad under the names of Chat2Graph."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its line, counted from 1, and the file that it is, if it is one."""

    language: str
    text: str
    line: int
    file: str


def blocks(text: str) -> Iterator[Block]:
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        before = text[: found.start()]
        file = re.search(r"`([\w.]+\.\w+)`[^`]*:\n\n$", before)
        yield Block(found[1], found[2], before.count("\n") + 1, file[1] if file else "")


def programs(text: str, forked: ForkServer) -> str:
    """Folders of the commands of a page; skips if they are missing."""
    if "operad run" in text and importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the embedded model is not installed")
    here = Path(sys.executable).parent
    if "from app." in text:  # a module of its folder is imported when an interpreter starts
        return str(here)
    if not re.search(r"^from (langgraph|pydantic_ai)", text, re.MULTILINE):
        return f"{forked.commands}:{here}"
    if not (BENCH / "python").exists():
        pytest.skip("the other framework is not installed: make bench does it")
    return str(BENCH)


def follow(text: str, folder: Path, forked: ForkServer) -> list[str]:
    """Do what a page says; what goes otherwise than it says, each with its line."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "OPERAD_"))}
    settings |= {"PATH": f"{programs(text, forked)}:{settings['PATH']}", "LANGSMITH_TRACING": "false"}
    wrong: list[str] = []
    printed: str | None = None
    for block in blocks(text):
        before, printed = printed, None
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            done = subprocess.run(
                ["bash", "-c", block.text], cwd=folder, env=settings, capture_output=True, text=True, timeout=240
            )
            printed = done.stdout
            if done.returncode and not printed:
                wrong.append(f"line {block.line}: {done.stderr}")
        elif block.language == "text" and before not in (None, block.text):
            wrong.append(f"line {block.line}: the command prints\n{before}")
    return wrong


@pytest.mark.slow  # `make test` runs what is Python in these pages: test_docs.py
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_who_follows_a_page_gets_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: ForkServer
) -> None:
    if "from app." in (text := page.read_text(encoding="utf-8")):
        (tmp_path / "sitecustomize.py").write_text(CHAT2GRAPH, encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert follow(text, tmp_path, forked) == []


def test_a_page_that_is_wrong_is_told_with_its_line(tmp_path: Path, forked: ForkServer) -> None:
    page = "`a.txt`:\n\n```\none\n```\n\n```sh\ncat a.txt\n```\n\n```text\ntwo\n```\n\n```sh\nls none\n```\n"
    first, second = follow(page, tmp_path, forked)
    assert first == "line 11: the command prints\none\n"
    assert second.startswith("line 15: ls: ")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_is_run_or_compared(page: Path) -> None:
    run = ("sh", "text", "python")
    loose = [
        block for block in blocks(page.read_text(encoding="utf-8")) if block.language not in run and not block.file
    ]
    if page == START:
        setup, said, summed_up = loose  # which test_examples.py runs
        assert setup.text.splitlines()[0] == "make run"
        assert all(line.startswith(("round ", "  at fault: ")) for line in said.text.splitlines())
        assert all(line.startswith("In round ") for line in summed_up.text.splitlines())
    else:
        assert loose == []
