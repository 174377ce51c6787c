"""The documentation, run as it stands: its examples, its outputs, its commands, its links."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from forked import OPERAD_COMMAND, ForkServer
from typer.exceptions import TyperException

from operad.cli.main import load_all
from operad.configs.loader import load_text
from operad.configs.schema import ConfigSpec, ServicesSpec
from operad.evaluation import Dataset
from operad.flows.formats.table import find_format
from operad.operators.media.mermaid import render_mermaid
from operad.runtime.testing import Plausible, Say, ScriptedModel
from operad.runtime.values.document import parse_document

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"
FEATURES = sorted((ROOT / "docs").glob("*.md"))
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
PAGES = [README, *FEATURES, *REFERENCE]
NEEDS = {
    "docs/comfyflow.md": "scipy",
    "docs/durable.md": "sqlalchemy",
    "docs/from_awel.md": "dbgpt",
    "docs/from_chat2graph.md": "xllamacpp",
    "docs/from_dify.md": "xllamacpp",
    "docs/from_openai_agents.md": "sqlalchemy",
    "docs/get_started.md": "xllamacpp",
    "docs/interrupts.md": "fastapi",
    "docs/models.md": "xllamacpp",
    "docs/serve.md": "fastapi",
    "docs/toolkit.md": "mcp",
    "docs/view.md": "starlette",
    "docs/tracing.md": "opentelemetry",
    "docs/worfeval.md": "onnxruntime",
    "docs/workers.md": "sqlalchemy",
}
"""Pages whose examples use an extra."""

TESTED = {"python", "text", "mermaid", "sh", "yaml", "json", ""}
"""The languages of blocks. One without a language is what a terminal shows; a line of it may begin with ``operad``."""

FOLLOWED = re.compile(r"docs/(get_started|operad_yaml|nodes|nodes_\w+|from_(?!awel)\w+)\.md")
"""Pages whose blocks are files and commands, one after the other: test_docs_newcomers.py follows them as a reader does."""

BESIDE = {
    "my_tools.py": "def search(claim: str) -> str:\n    'Look a claim up.'\n    return ''\n",
    "my_steps.py": "def shout(claim: str): ...\n\ndef bullets(shout: list): ...\n",
    "my_checks.py": "def three(draft): ...\n\ndef brief(answer): ...\n",
    "docs/some.md": "Something to look up.\n",
    "handbook.pdf": "Some more.\n",
    **{
        f"skills/{name}/SKILL.md": f"---\nname: {name}\ndescription: Fill {name}.\n---\n"
        for name in ("fill-forms", "tables")
    },
    "cat.py": "image, mask = LoadImage(image='cat.png')\nSaveImage(images=image, filename_prefix='cat')\n",
    "translate.json": '{"nodes_info": [{"id": "1", "type": "start", "param": {"variables": []}}, '
    '{"id": "2", "type": "end", "param": {"outputs": []}}], "edges": [["1", 0, "2"]]}',
}
"""What the YAML of pages finds beside it."""

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


# Runs the blocks of a page, as one module, and says what each printed. A drawing is what the page's toolkit draws, if
# it has one.
RUNNER = """
import contextlib, io, json, sys, types
name, blocks = json.load(sys.stdin)
module = sys.modules["__main__"] = types.ModuleType("__main__")
printed = []
for language, text, line in blocks:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if language == "mermaid":
            print(module.toolkit.to_mermaid() if hasattr(module, "toolkit") else text, end="")
        else:
            exec(compile("\\n" * line + text, name, "exec"), vars(module))
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


README_ANSWERS = {
    "List what is new": "1. Exports to PDF.\n2. Login with passkeys.\n3. Start-up twice as fast.",
    "Write a release note": "Acme 2.1 exports documents to PDF. You log in with a passkey instead of a password. Acme also "
    "starts twice as fast.",
    "Write a title": "Acme 2.1: PDF Export, Passkeys, and a Faster Start-Up",
    "Keep the title": "Acme 2.1: PDF Export",
}
README_VERDICTS = {
    "Faster Start-Up": {
        "evaluation": "The note has three sentences. The title has nine words, four too many.",
        "status": "EXECUTION_ERROR",
        "lesson": "Keep the title to at most five words.",
        "blame": ["title"],
        "score": 6,
    },
    "": {
        "evaluation": "The note has three sentences, the title has four words.",
        "status": "SUCCESS",
        "lesson": "",
        "blame": [],
        "score": 10,
    },
}
"""Answers of a capable model to the README's example, given once to these very prompts."""


def readme_answer(request: dict[str, Any]) -> Say:
    """Answer as a model did: the title is written first, the note after it, and judged when both are there."""
    system, user = (str(request["messages"][place]["content"]) for place in (0, -1))
    if system.startswith("Judge"):
        return Say(json.dumps(next(verdict for words, verdict in README_VERDICTS.items() if words in user)))
    if system.startswith("Write a release note"):
        time.sleep(0.2)  # its line stands after that of the title
    told = "Keep the title" if "Keep the title" in user else system
    return Say(next(answer for words, answer in README_ANSWERS.items() if told.startswith(words)))


def run_page(forked: ForkServer, text: str, name: str, cwd: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run the examples of a page in a process of its own; each ``text`` or ``mermaid`` block after one is what it prints.

    A YAML block below "`NAME.yaml`:" is a file for them.
    """
    every = blocks(text)
    for file in re.finditer(r"`(\w[\w.]*\.yaml)`[^`]*:\n\n```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (cwd / file[1]).write_text(file[2], encoding="utf-8")
    examples = [(b.language, b.text, b.line) for b in every if b.language in ("python", "mermaid")]
    command = [sys.executable, "-W", "error:::__main__", "-c", RUNNER]
    done = forked.run(command, cwd=cwd, env={**ENVIRONMENT, **(environment or {})}, input=json.dumps([name, examples]))
    assert done.returncode == 0, done.stderr
    printed = dict(zip((line for _, _, line in examples), json.loads(done.stdout), strict=True))
    for before, block in zip([None, *every], every, strict=False):
        if block.language == "mermaid":
            assert block.text == printed[block.line], f"{name}:{block.line}: is not what the toolkit draws"
        elif block.language == "text" and before is not None and before.language == "python":
            assert block.text == printed[before.line], f"{name}:{block.line}: is not what line {before.line} prints"


def label(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


TAKE_SECONDS = {
    f"docs/{name}.md"
    for name in "comfyflow from_chat2graph from_dify get_started inbox knowledge mcp models serve triggers worfeval".split()
}
"""Pages whose examples ask the embedded model, import large packages or start servers."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if label(page) in TAKE_SECONDS else [])
        for page in PAGES
        if "```python" in page.read_text(encoding="utf-8")
    ],
    ids=label,
)
def test_the_examples_of_a_page_run_and_print_what_it_says(page: Path, tmp_path: Path, forked: ForkServer) -> None:
    if (extra := NEEDS.get(label(page))) and importlib.util.find_spec(extra) is None:
        pytest.skip(f"{extra} is not installed")
    if page != README:
        run_page(forked, page.read_text(encoding="utf-8"), label(page), tmp_path)
        return
    with ScriptedModel(readme_answer) as model:
        named = {"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": model.base_url, "OPERAD_MODEL": "any"}
        run_page(forked, page.read_text(encoding="utf-8"), label(page), tmp_path, named)


def test_a_page_that_is_wrong_is_told_with_its_line(tmp_path: Path, forked: ForkServer) -> None:
    page = "# Page\n\n```python\nx = 1\n```\n\nand\n\n```python\nprint(x)\n```\n\n```text\n1\n```\n"
    run_page(forked, page, "page.md", tmp_path)
    with pytest.raises(AssertionError, match=r"page\.md:13: is not what line 9 prints"):
        run_page(forked, page.replace("\n1\n", "\n2\n"), "page.md", tmp_path)
    with pytest.raises(AssertionError, match=r'File "page\.md", line 10.*\n.*NameError'):
        run_page(forked, page.replace("x = 1", "y = 1"), "page.md", tmp_path)
    with pytest.raises(AssertionError, match="UserWarning: old"):
        run_page(forked, page.replace("x = 1", "import warnings; x = 1; warnings.warn('old')"), "page.md", tmp_path)
    with pytest.raises(AssertionError, match="fence of line"):
        run_page(forked, "```python\n", "page.md", tmp_path)


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


PERFORMANCE = ROOT / "docs" / "performance.md"


@pytest.mark.parametrize("page", FEATURES, ids=label)
def test_the_site_leads_to_every_page(page: Path) -> None:
    assert re.search(rf"\b{page.name}$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("page", REFERENCE, ids=label)
def test_another_page_leads_to_what_is_made_by_programs(page: Path) -> None:
    path = page.relative_to(ROOT / "docs").as_posix()
    assert any(f"]({path}" in prose(other) for other in FEATURES)


@pytest.mark.parametrize("page", [page for page in PAGES if not FOLLOWED.match(label(page))], ids=label)
def test_every_block_is_of_a_language_that_is_tested(page: Path) -> None:
    every = blocks(page.read_text(encoding="utf-8"))
    assert {block.language for block in every} <= TESTED
    for before, block in zip([None, *every], every, strict=False):
        assert block.language != "text" or (before is not None and before.language == "python"), block.line


def of_language(*languages: str) -> list[tuple[str, str]]:
    """The blocks of that language on all pages, each with its page and line."""
    return [
        (f"{label(page)}:{block.line}", block.text)
        for page in PAGES
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.language in languages and not (block.language in ("yaml", "json") and FOLLOWED.match(label(page)))
    ]


@pytest.mark.parametrize(("where", "text"), of_language("yaml"), ids=lambda each: each if len(each) < 60 else "")
def test_the_yaml_of_a_page_can_be_loaded(
    where: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A configuration, whole or a part of it; a workflow; a file of services; or what has keys of none."""
    for name, content in BESIDE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for key in set(re.findall(r"\b[A-Z]+_API_KEY\b", text)) | {"OPENAI_API_KEY"}:
        monkeypatch.setenv(key, "any")
    if found := find_format(text.encode()):
        assert found.check(found.load(text.encode(), where)) == []
    elif where.startswith("docs/services.md"):
        assert ServicesSpec.model_validate(parse_document(text, where).data)
    elif where.startswith("docs/evaluate.md"):
        (tmp_path / "cases.yaml").write_text(text, encoding="utf-8")
        assert len(Dataset.load("cases.yaml"))
    elif ConfigSpec.model_fields.keys() & parse_document(text, where).data.keys():
        load_text(text, where, tmp_path, trust=True)


@pytest.mark.parametrize(("where", "text"), of_language("json"))
def test_the_json_of_a_page_can_be_read(where: str, text: str) -> None:
    json.loads(text)


@pytest.mark.parametrize(("where", "text"), of_language("mermaid"))
def test_the_drawings_of_a_page_can_be_drawn(where: str, text: str) -> None:
    pytest.importorskip("mermaid_render")
    assert render_mermaid(text, "svg")


def command_lines(text: str) -> list[str]:
    """What of a terminal are commands: one may go on in lines that are indented."""
    text = re.sub(r"\n {3,}(?=\[)", " ", re.sub(r"\\\n\s*", " ", text))
    return [line.removeprefix("$ ").strip() for line in text.splitlines() if re.match(r"(\$ )?operad ", line)]


OPERAD: Any = load_all()


def parsed(line: str) -> None:
    """Parse a command as the command line does; it is not run.

    Raises:
        Exception: There is no such command or option, or an argument is missing.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(takewhile(lambda word: word not in ("<", ">", "|", "&&"), lexer))[1:]
    command, around = OPERAD, OPERAD.make_context("operad", list(words))
    while hasattr(command, "commands") and words and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
        around = command.make_context("operad", list(words), parent=around)
    if hasattr(command, "commands"):
        assert command.invoke_without_command and all(word.startswith("-") for word in words[:1]), words  # noqa: PT018


@pytest.mark.parametrize(
    ("where", "line"), [(where, line) for where, text in of_language("sh") for line in command_lines(text)]
)
def test_the_commands_of_a_page_can_be_parsed(where: str, line: str) -> None:
    parsed(line)


@pytest.mark.parametrize("wrong", ["operad rum x", "operad run x --fil y", "operad run", "operad runs shoe 1"])
def test_a_command_that_is_wrong_is_told(wrong: str) -> None:
    with pytest.raises((AssertionError, TyperException)):
        parsed(wrong)


@pytest.mark.parametrize(
    ("where", "line"), [(where, line) for where, text in of_language("") for line in command_lines(text)]
)
def test_the_options_of_a_usage_exist(where: str, line: str) -> None:
    """A synopsis is no command, for it has brackets."""
    command, words = OPERAD, line.split()[1:]
    while hasattr(command, "commands") and words and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(words).split(" # ")[0])) <= known


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_the_programs_that_a_page_names_are_there(page: Path) -> None:
    named = re.findall(r"\bpython3? ((?:test|docs)/[\w/]+\.py)", page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_the_performance_page_names_every_benchmark_and_has_the_figures_of_nine() -> None:
    there = {path.name for path in (ROOT / "test" / "benchmark").glob("bench_*.py")}
    filled = re.findall(
        r"<!-- bench (\w+) -->\n.*?\| ---: \|.*?`python test/benchmark/bench_\1\.py",
        PERFORMANCE.read_text("utf-8"),
        re.DOTALL,
    )
    assert filled == ["engine", "map", "documents", "values", "nested", "structured", "durable", "load", "startup"]
    assert set(re.findall(r"^\| `(bench_\w+\.py)` \|", PERFORMANCE.read_text(encoding="utf-8"), re.MULTILINE)) == there


def shell_lines(page: Path) -> list[str]:
    return [
        line.strip()
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.language == "sh"
        for line in block.text.splitlines()
    ]


def is_runnable(line: str) -> bool:
    """Whether a command has no word that stands for another, and every file that it names is here."""
    words = shlex.split(line, comments=True) if line.startswith("operad ") else []
    files = [word for word in words if re.search(r"[./*]", word) and " " not in word]
    return (
        bool(words)
        and not any(re.fullmatch(r"\W*[A-Z_=]{2,}\W*", word) for word in words)
        and all((ROOT / file).exists() for file in files)
        and words[1] not in ("runs", "worker", "workers", "generate", "serve", "view")  # which need more, or never end
    )


COMMANDS = sorted({line for page in PAGES for line in shell_lines(page) if is_runnable(line)})


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_pages_work(command: str, tmp_path: Path, forked: ForkServer) -> None:
    """On an endpoint that answers at once, whatever model a file names; test_examples.py runs the main job on its own."""
    for item in ROOT.iterdir():  # what a command writes does not land in the repository
        (tmp_path / item.name).symlink_to(item)
    arguments = shlex.split(command, comments=True)[1:]
    with ScriptedModel(lambda _: Plausible()) as endpoint:
        if arguments[0] == "run":
            arguments += ["--model", "any", "--base-url", endpoint.base_url]
        asked = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "any", "OPERAD_MODEL": "any"}
        done = forked.run([*OPERAD_COMMAND, *arguments], cwd=tmp_path, env={**ENVIRONMENT, **asked})
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_readme_shows_commands() -> None:
    assert COMMANDS
    assert [line.split("#")[0].strip() for line in shell_lines(README)][2] == "operad init"


def test_the_make_targets_that_the_documentation_names_exist() -> None:
    lines = re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    targets = {target for line in lines for target in line.split()}
    named = set()
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        code = [*shell_lines(page), *re.findall(r"`([^`\n]+)`", prose(page))]
        named |= {found[1] for line in code if (found := re.match(r"(?:[A-Z]+=\S+ )*make ([a-z-]+)", line))}
    assert named - targets == set()
    assert {"run", "test"} <= named


SETTINGS = {
    "typeCheckingMode": "strict",
    "pythonVersion": f"{sys.version_info.major}.{sys.version_info.minor}",
    "reportUnusedExpression": False,  # an AWEL DAG has edges of these: a >> b
    "reportMissingTypeStubs": False,  # dbgpt has incomplete types
}


def module(text: str) -> str:
    """The Python blocks of a page as one module, each at the lines where it stands."""
    lines = [""] * (text.count("\n") + 1)
    if "from dbgpt" in text:  # which has incomplete types
        lines[0] = "# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false"
    for block in blocks(text):
        if block.language == "python":
            lines[block.line : block.line + block.text.count("\n")] = block.text.splitlines()
    return "\n".join(lines) + "\n"


def test_the_blocks_of_a_page_stand_at_their_lines() -> None:
    assert module("a\n\n```python\nx = 1\ny = 2\n```\n\n```sh\nls\n```\n") == "\n\n\nx = 1\ny = 2\n\n\n\n\n\n\n"


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, Path]:
    """The pages whose Python stands as a module `PAGE.py` in the test's folder, by the module's name."""
    pages = {
        page.stem.replace(".", "_").replace("-", "_"): page for page in (README, ROOT / "README.zh-CN.md", *FEATURES)
    }
    for name, page in pages.items():
        (tmp_path / f"{name}.py").write_text(module(page.read_text("utf-8")), encoding="utf-8")
    return pages


@pytest.mark.slow
def test_pyright_in_strict_mode_passes_the_python_of_every_page(modules: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    faults: list[str] = []
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        page = label(modules[Path(each["file"]).stem])
        faults.append(f"{page}:{each['range']['start']['line'] + 1}: {each['message']}")
    assert faults == []


@pytest.mark.slow
def test_mypy_in_strict_mode_passes_the_python_of_every_page(
    modules: dict[str, Path], tmp_path: Path, cache: pytest.Cache
) -> None:
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = true\n[mypy-dbgpt.*]\nignore_missing_imports = true\n", "utf-8"
    )
    kept = str(
        cache.mkdir("mypy")
    )  # what mypy knows of the packages: the first run takes most of its time to read them
    command = [sys.executable, "-m", "mypy", "--cache-dir", kept, *(f"{name}.py" for name in modules)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"Success: no issues found in {len(modules)} source files\n", "")
