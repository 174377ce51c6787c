"""MkDocs hooks: the pages at the top of the repository, links out of ``docs/``, pictures."""

from __future__ import annotations

import ast
import os
import re
from importlib import import_module
from pathlib import Path, PurePosixPath
from textwrap import dedent
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(set(re.findall(r"test/example/\w+\.py", (ROOT / "docs" / "examples.md").read_text(encoding="utf-8"))))
TOP = {
    "README.zh-CN.md": "readme.zh.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages at the top of the repository, and their names in the site."""

GENERATED = {**TOP, **{path: f"examples/{PurePosixPath(path).stem}.md" for path in EXAMPLES}}
"""Files of the repository that become pages, and their names in the site."""

LINKED = {"README.md": "index.md", **GENERATED}
"""Files of the repository that links of pages lead to, and the names in the site."""

FENCED = re.compile(
    r"^(?P<fence>`{3,})(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=fence)`*[ ]*$\n?", re.DOTALL | re.MULTILINE
)
LINK = re.compile(r"\[(?P<label>[^\[\]]*)\]\((?P<path>[^()\s#:]+)(?P<anchor>#[^()\s]*)?\)")
THEMES = {"light": "default", "dark": "dark"}


def slug(heading: str, separator: str = "-") -> str:
    """Return the anchor of a heading, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> None:
    """Give headings the anchors that they have on GitHub."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages at the top of the repository, and a page per example."""
    for name, uri in GENERATED.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=example_page(name, text) if name in EXAMPLES else text))


def on_post_build(config: MkDocsConfig) -> None:
    """Write ``llms.txt``, the list of the pages with their beginnings, and ``llms-full.txt``, the pages themselves."""
    names = [path.relative_to(ROOT / "docs").as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    pages = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in names}
    head = f"# {config.site_name}\n\n> {config.site_description}\n"
    site = Path(config.site_dir)
    lines = [_entry(name, page) for name, page in pages.items()]
    (site / "llms.txt").write_text(f"{head}\n" + "\n".join(lines) + "\n", encoding="utf-8")
    whole = [f"<!-- {name} -->\n{page}" for name, page in pages.items()]
    (site / "llms-full.txt").write_text("\n".join([head, *whole]), encoding="utf-8")


def _entry(name: str, page: str) -> str:
    """Return the line of a page: its title, its place in the site, and its first sentence."""
    title, _, text = page.partition("\n")
    first = next((part for part in text.split("\n\n") if re.match(r"\s*[A-Z`\[]", part)), "")
    sentence = re.split(r"(?<=[.:]) ", " ".join(LINK.sub(r"\g<label>", first).split()), maxsplit=1)[0]
    return f"- [{title.lstrip('# ')}]({name.removesuffix('.md')}.html): {sentence}".removesuffix(": ")


def example_page(path: str, program: str) -> str:
    """Return the page of an example: the text of its docstring, its configuration, its program and its output."""
    title, *paragraphs = (ast.get_docstring(ast.parse(program)) or path).split("\n\n")
    head, _, about = " ".join(title.split()).rstrip(".").partition(": ")
    lines = [f"# {head}", f"{about[:1].upper()}{about[1:]}." if about else ""]
    for paragraph in paragraphs:
        is_command = re.match(r" *(OPENAI_API_KEY=|pip |python )", paragraph)
        lines.append(f"```sh\n{dedent(paragraph)}\n```" if is_command else paragraph)
    for file in (ROOT / path).with_suffix(".yaml"), ROOT / path:
        if file.exists():
            language = "python" if file.suffix == ".py" else "yaml"
            lines.append(f"`{file.name}`:\n\n```{language}\n{file.read_text(encoding='utf-8')}```")
    if (printed := ROOT / "test" / "example" / "output" / f"{PurePosixPath(path).stem}.txt").exists():
        lines.append(
            f"Output, with the answers of a scripted model:\n\n```text\n{printed.read_text(encoding='utf-8')}```"
        )
    return "\n\n".join(lines) + "\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links and diagrams by those of the site."""
    uri = page.file.src_uri
    place = PurePosixPath() if uri in GENERATED.values() else PurePosixPath("docs", uri).parent
    parts: list[str] = []
    at = 0
    for number, block in enumerate(FENCED.finditer(markdown)):
        parts.append(_links(markdown[at : block.start()], place, uri))
        at = block.end()
        if block["language"] == "mermaid":
            parts.append(_pictures(block["text"], f"pictures/{PurePosixPath(uri).stem}-{number}", uri, config, files))
        else:
            parts.append(block[0])
    return "".join([*parts, _links(markdown[at:], place, uri)])


def _links(text: str, place: PurePosixPath, uri: str) -> str:
    """Return the text with links to pages of the site; links to other files become paths."""

    def replace(link: re.Match[str]) -> str:
        target = os.path.normpath(place / link["path"])
        own = LINKED.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else "")
        if own:
            return f"[{link['label']}]({os.path.relpath(own, PurePosixPath(uri).parent)}{link['anchor'] or ''})"
        if not (ROOT / target).exists() or target.startswith(".."):
            return link[0]  # MkDocs reports it
        return f"`{target}`" if link["label"].strip("`") == target else f"{link['label']} (`{target}`)"

    return LINK.sub(replace, text)


def _pictures(code: str, name: str, uri: str, config: MkDocsConfig, files: Files) -> str:
    """Return a Mermaid block as pictures for the light and the dark theme, and its code for readers without pictures."""
    renderer: Any = import_module("mermaid_render")
    shown: list[str] = []
    for theme, palette in THEMES.items():
        path = f"{name}.{theme}.svg"
        svg: bytes = renderer.mermaid_to_svg(code, theme=palette)
        files.append(File.generated(config, path, content=svg))
        shown.append(f"![A drawing of the code below]({os.path.relpath(path, PurePosixPath(uri).parent)}#only-{theme})")
    return "\n".join(
        [*shown, "", "<details><summary>As Mermaid</summary>", "", f"```text\n{code}```", "</details>", ""]
    )
