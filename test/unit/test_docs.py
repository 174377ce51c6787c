"""The documentation, run as it stands: its examples, its outputs, its commands, its links."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from operad.runtime.testing import Plausible, ScriptedModel

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
NEEDS = {
    "docs/comfyflow.md": "scipy",
    "docs/durable.md": "dbos",
    "docs/evaluators.md": "scipy",
    "docs/from_chat2graph.md": "xllamacpp",
    "docs/from_dify.md": "xllamacpp",
    "docs/get_started.md": "xllamacpp",
    "docs/models.md": "xllamacpp",
    "docs/nodes_files.md": "pypandoc",
    "docs/toolkit.md": "mcp",
    "docs/worfeval.md": "onnxruntime",
}
"""Pages whose examples use an extra."""

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "OPERAD_"))}


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `line` is that of its opening fence, counted from 1."""

    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    opened: tuple[str, int] | None = None
    inside: list[str] = []
    for number, line in enumerate(page.splitlines(keepends=True), 1):
        if opened is None:
            if fence := re.match(r"```(\w*)\s*$", line):
                opened, inside = (fence[1], number), []
        elif line.rstrip() == "```":
            found.append(Block(opened[0], "".join(inside), opened[1]))
            opened = None
        else:
            inside.append(line)
    assert opened is None, f"the fence of line {opened} is never closed"
    return found


# Runs the blocks of a page, as one module, and says what each printed. A drawing is what the page's toolkit draws.
RUNNER = """
import contextlib, io, json, sys, types
name, blocks = json.load(sys.stdin)
module = sys.modules["__main__"] = types.ModuleType("__main__")
printed = []
for language, text, line in blocks:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if language == "mermaid":
            print(module.toolkit.to_mermaid(), end="")
        else:
            exec(compile("\\n" * line + text, name, "exec"), vars(module))
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


def run(
    command: list[str], cwd: Path, stdin: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, **environment}
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment, input=stdin, capture_output=True, text=True, timeout=240
    )


def run_page(text: str, name: str, cwd: Path) -> None:
    """Run the examples of a page in a fresh process; each ``text`` or ``mermaid`` block after one is what it prints."""
    every = blocks(text)
    examples = [(b.language, b.text, b.line) for b in every if b.language in ("python", "mermaid")]
    done = run(["-W", "error:::__main__", "-c", RUNNER], cwd, json.dumps([name, examples]))
    assert done.returncode == 0, done.stderr
    printed = dict(zip((line for _, _, line in examples), json.loads(done.stdout), strict=True))
    for before, block in zip([None, *every], every, strict=False):
        if block.language == "mermaid":
            assert block.text == printed[block.line], f"{name}:{block.line}: is not what the toolkit draws"
        elif block.language == "text" and before is not None and before.language == "python":
            assert block.text == printed[before.line], f"{name}:{block.line}: is not what line {before.line} prints"


def label(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text(encoding="utf-8")], ids=label)
def test_the_examples_of_a_page_run_and_print_what_it_says(page: Path, tmp_path: Path) -> None:
    if (extra := NEEDS.get(label(page))) and importlib.util.find_spec(extra) is None:
        pytest.skip(f"{extra} is not installed")
    run_page(page.read_text(encoding="utf-8"), label(page), tmp_path)


def test_a_page_that_is_wrong_is_told_with_its_line(tmp_path: Path) -> None:
    page = "# Page\n\n```python\nx = 1\n```\n\nand\n\n```python\nprint(x)\n```\n\n```text\n1\n```\n"
    run_page(page, "page.md", tmp_path)
    with pytest.raises(AssertionError, match=r"page\.md:13: is not what line 9 prints"):
        run_page(page.replace("\n1\n", "\n2\n"), "page.md", tmp_path)
    with pytest.raises(AssertionError, match=r'File "page\.md", line 10.*\n.*NameError'):
        run_page(page.replace("x = 1", "y = 1"), "page.md", tmp_path)
    with pytest.raises(AssertionError, match="UserWarning: old"):
        run_page(page.replace("x = 1", "import warnings; x = 1; warnings.warn('old')"), "page.md", tmp_path)
    with pytest.raises(AssertionError, match="fence of line"):
        run_page("```python\n", "page.md", tmp_path)


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def prose(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    for block in blocks(text):
        text = text.replace(block.text, "")
    return text


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=label)
def test_every_link_leads_somewhere(page: Path) -> None:
    dead = []
    for link in re.findall(r"\]\(([^()\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        headings = (
            re.findall(r"^#+ (.*)$", prose(target), re.MULTILINE) if target.suffix == ".md" and target.is_file() else []
        )
        if not target.exists() or (anchor and anchor not in map(slug, headings)):
            dead.append(link)
    assert dead == []


@pytest.mark.parametrize("page", PAGES[1:], ids=label)
def test_the_readme_leads_to_every_page(page: Path) -> None:
    assert f"]({label(page)})" in prose(README)


def shell_lines(page: Path) -> list[str]:
    return [
        line.strip()
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.language == "sh"
        for line in block.text.splitlines()
    ]


COMMANDS = [
    line
    for line in shell_lines(README)
    if line.startswith("operad ") and not any(re.fullmatch(r"\W*[A-Z_=]{3,}\W*", word) for word in line.split())
]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_readme_work(command: str, tmp_path: Path) -> None:
    """On an endpoint that answers at once; test_examples.py runs the main job on the embedded model."""
    for item in ROOT.iterdir():  # what a command writes does not land in the repository
        (tmp_path / item.name).symlink_to(item)
    arguments = shlex.split(command, comments=True)[1:]
    with ScriptedModel(lambda _: Plausible()) as endpoint:
        done = run(
            ["-c", "from operad.configs.cli import main; main()", *arguments],
            tmp_path,
            OPENAI_BASE_URL=endpoint.base_url,
            OPENAI_API_KEY="any",
            OPERAD_MODEL="any",
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_readme_shows_commands() -> None:
    assert COMMANDS
    assert [line.split("#")[0].strip() for line in shell_lines(README)][:2] == ["make run", "make test"]


def test_the_make_targets_that_the_documentation_names_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set()
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        code = [*shell_lines(page), *re.findall(r"`([^`\n]+)`", prose(page))]
        named |= {found[1] for line in code if (found := re.match(r"(?:[A-Z]+=\S+ )*make ([a-z]+)", line))}
    assert named - targets == set()
    assert {"run", "test"} <= named
