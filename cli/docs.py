"""`operad docs`: print the pages of the documentation."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

import operad
from operad.runtime.values.errors import InputError
from operad.runtime.values.near_names import did_you_mean

PAGES = Path(operad.__file__).with_name("docs")


def docs(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="A page, such as durable or reference/yaml, or a word.")
    ] = None,
) -> None:
    """Print a page of the documentation, or list the pages; a word lists the sections about it, or those that contain it.

    In a terminal, the page is laid out; otherwise it is printed as Markdown. Exit status: 0; 2 if no page contains TOPIC.
    """
    pages = {path.relative_to(PAGES).with_suffix("").as_posix(): path for path in sorted(PAGES.rglob("*.md"))}
    if topic is None:
        width = max(map(len, pages))
        for name, path in pages.items():
            print(f"{name:{width}}  {_sections(path)[0][0]}")
        return
    name = topic.strip().lower().replace(" ", "_").removeprefix("docs/").removesuffix(".md")
    if name in pages:
        _print(pages[name].read_text(encoding="utf-8"))
        return
    sections = [
        (f"{each}: {heading}", heading, text) for each, path in pages.items() for heading, text in _sections(path)
    ]
    found = [place for place, heading, _ in sections if _is_about(heading, topic)]
    found = found or [place for place, _, text in sections if topic.strip().lower() in text.lower()]
    if not found:
        raise InputError(
            f"docs: no page or section contains {topic!r}{did_you_mean(name, pages)}; operad docs lists the pages"
        )
    print("\n".join(found))


def _sections(path: Path) -> list[tuple[str, str]]:
    """Return the headings of a page, without those in code, each with the text up to the next one."""
    sections: list[tuple[str, str]] = []
    fence = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"`{3,}", line):
            fence = "" if match[0] == fence else fence or match[0]
        if not fence and line.startswith("#"):
            sections.append((line.lstrip("#").strip(), ""))
        elif sections:
            heading, text = sections[-1]
            sections[-1] = heading, f"{text}{line}\n"
    return sections


def _is_about(heading: str, topic: str) -> bool:
    return all(word in heading.lower() for word in topic.lower().split())


def _print(page: str) -> None:
    """Print a page: laid out in a terminal, as it is elsewhere."""
    if not sys.stdout.isatty():
        print(page, end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(page))
