"""Check the wording of docstrings, comments, messages and pages: `python docs/make/prose.py`.

The first line of a docstring starts with a noun or an imperative, the title and the first word of a paragraph of a page
name a subject, and a few phrasings that readers stumble over are not used at all.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "cli",
    "configs",
    "docs/make",
    "evaluators",
    "integrations",
    "flows",
    "operators",
    "runtime",
    "server",
    "test/benchmark",
    "test/durability",
    "test/support",
)

FORBIDDEN_STARTS = frozenset("What Who Whose Whom Whether Nothing Nobody That Those How Where When Which Why".split())
"""Words that no docstring starts with."""

FORBIDDEN_OPENINGS = frozenset("What Who Whose Whom Whether Nothing Nobody That Those".split())
"""Words that no title, paragraph, list item or table cell of a page starts with."""

PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md")
"""Pages that are written by hand, as patterns."""

FORBIDDEN_PHRASES = {
    "nobody": re.compile(r"\bnobody\b", re.IGNORECASE),
    "of a kind": re.compile(r"\bof a kind\b", re.IGNORECASE),
    "who is there": re.compile(r"\bwho (is|are) there\b", re.IGNORECASE),
    # "there is no file" is plain English, and so is "is no longer"
    "is no …": re.compile(
        r"(?<!\bthere )\b(is|are) no(?! (longer|more|less|fewer|better|worse)\b) [a-z]", re.IGNORECASE
    ),
}
"""Phrasings that docstrings, comments and messages do not use: "'x' is not a node type", not "'x' is no node type"."""


class Finding(NamedTuple):
    """A forbidden wording in a file.

    Attributes:
        file: Path relative to the repository.
        line: Line number, from 1.
        wording: The forbidden first word or phrasing.
    """

    file: str
    line: int
    wording: str

    def __str__(self) -> str:
        """Return the finding in the form ``path:line: wording``."""
        return f"{self.file}:{self.line}: {self.wording}"


def findings_in(source: str, file: str = "") -> Sequence[Finding]:
    """Return the findings of a Python source text, by line.

    Raises:
        SyntaxError: The text is not Python.
    """
    found: list[Finding] = []
    tree = ast.parse(source)
    for text in _docstrings(tree):
        words = str(text.value).split(maxsplit=1)
        if words and words[0].strip(",.:;`") in FORBIDDEN_STARTS:
            found.append(Finding(file, text.lineno, f"docstring starts with {words[0]!r}"))
    for line, text in (*_strings(tree), *_comments(source)):
        found += [Finding(file, line, f"{name!r}") for name, phrase in FORBIDDEN_PHRASES.items() if phrase.search(text)]
    return sorted(found, key=lambda each: each.line)


def findings_in_page(text: str, file: str = "") -> Sequence[Finding]:
    """Return the findings of a Markdown text, by line; code is left out."""
    found: list[Finding] = []
    code = re.compile(r"^```.*?^```$|^    [^\n]*$", re.MULTILINE | re.DOTALL)
    prose = code.sub(lambda block: "\n" * block[0].count("\n"), text)
    before = ""
    for number, line in enumerate(re.sub(r"`[^`\n]*`", "`code`", prose).splitlines(), 1):
        starts = [line] if not before.strip() or re.match(r"(#|[-*] |\d+\. )", line) else []
        for text in line.strip("|").split("|") if line.startswith("|") else starts:
            word = re.sub(r"^[#*\-\d. ]+", "", text).split(maxsplit=1)[:1]
            if word and word[0].strip(",.:;*") in FORBIDDEN_OPENINGS:
                found.append(Finding(file, number, f"sentence starts with {word[0]!r}"))
        found += [Finding(file, number, f"{name!r}") for name, each in FORBIDDEN_PHRASES.items() if each.search(line)]
        before = line
    return found


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of docstrings and messages; single words, such as dictionary entries, are left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, " ".join(node.value.split())


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def all_findings() -> Sequence[Finding]:
    """Return the findings of all files."""
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py")) if file != Path(__file__)]
    paths = [file.relative_to(ROOT).as_posix() for file in files]
    found = [each for path in paths for each in findings_in((ROOT / path).read_text(encoding="utf-8"), path)]
    for page in (page for pattern in PAGES for page in sorted(ROOT.glob(pattern))):
        found += findings_in_page(page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix())
    return found


def main() -> int:
    """Print the findings; return 1 if there are any."""
    found = all_findings()
    print("\n".join([*map(str, found), f"{len(found)} findings"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
