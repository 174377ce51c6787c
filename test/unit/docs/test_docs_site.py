"""The documentation's site: it is built without a warning, asks nobody outside for anything, and its reference is current."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest
from forked import ForkServer

ROOT = Path(__file__).parents[3]
MAKE = ROOT / "docs" / "make"
OUTSIDE = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^>]*>""")


def tool(name: str) -> ModuleType:
    """A module of docs/make."""
    spec = spec_from_file_location(name, MAKE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.path.insert(0, str(MAKE))  # where it finds its neighbours
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(MAKE))
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mermaid_render") is None:
        pytest.skip("the extra mermaid is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        serving.join()


@pytest.mark.slow
def test_no_page_names_anything_outside_that_it_loads(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    assert {page.name: OUTSIDE.findall(page.read_text(encoding="utf-8")) for page in pages} == {
        page.name: [] for page in pages
    }


@pytest.mark.slow
def test_the_site_has_its_pages_as_one_text_and_a_list_of_them_for_models(site: Path) -> None:
    listed = re.findall(r"^- \[(.+)\]\((.+)\)(?:: .+)?$", (site / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert ("Caching", "cache.html") in listed
    assert [path for _, path in listed if not (site / path).is_file()] == []
    whole = (site / "llms-full.txt").read_text(encoding="utf-8")
    assert (ROOT / "docs" / "cache.md").read_text(encoding="utf-8") in whole


@pytest.mark.slow
def test_a_browser_asks_nobody_outside_and_finds_what_is_searched(address: str, chromium: str) -> None:
    from playwright.sync_api import Request, Route, sync_playwright

    asked: list[str] = []

    def look(route: Route, request: Request) -> None:
        if request.url.startswith(address):
            route.continue_()
        else:
            asked.append(request.url)
            route.abort()

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(color_scheme="dark")
        page.route("**/*", look)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        for path in ("reference/yaml.html", "toolkit.html", "reference/architecture.html", "index.html"):
            page.goto(address + path, wait_until="networkidle")
            shown = page.locator("article img:visible").evaluate_all(
                "every => every.map(one => [one.src, one.naturalWidth])"
            )
            assert all(width > 0 for _, width in shown)
            drawn = [source for source, _ in shown if ".svg" in source]
            assert all(".dark.svg" in source for source in drawn)
            assert bool(drawn) == (path in ("toolkit.html", "reference/architecture.html"))
        page.get_by_placeholder("Search").click()
        page.keyboard.type("life_cycles")
        page.locator(".md-search-result__link[href*='reference/yaml.html']").first.wait_for(state="attached")
        found = page.locator(".md-search-result__link").evaluate_all("every => every.map(one => one.href)")
        browser.close()
    assert asked == []
    assert wrong == []
    assert any("reference/yaml.html" in link for link in found)


@pytest.mark.slow
def test_the_home_page_shows_a_run_and_leads_to_every_group_of_pages(site: Path) -> None:
    _, _, page = (site / "index.html").read_text(encoding="utf-8").partition("<article")
    above, _, below = page.partition("Why Operad")
    assert 'src="film.webp"' in above
    for group in ("Get started", "Tutorials", "How-to guides", "Reference", "Migration"):
        assert f"<strong>{group}</strong>" in below
    assert 'href="contributing.html"' in below


@pytest.mark.slow
def test_an_example_is_a_page_with_its_program_and_its_output(site: Path) -> None:
    listed = (site / "examples.html").read_text(encoding="utf-8")
    assert 'href="examples/hand_off.html"' in listed
    assert "<code>test/example/chat2graph_expert.yaml</code>" in listed
    page = (site / "examples" / "hand_off.html").read_text(encoding="utf-8")
    shown = re.sub(r"<[^>]+>", "", page.partition("<article")[2])
    assert "python test/example/hand_off.py" in shown
    for file in ("hand_off.py", "output/hand_off.txt"):
        assert (ROOT / "test" / "example" / file).read_text(encoding="utf-8") in html.unescape(shown)


@pytest.mark.slow
def test_tables_and_lists_are_shown_as_such(site: Path) -> None:
    """What GitHub takes for a table or a list, Python's Markdown may not: a list needs an empty line before it."""
    for page in site.rglob("*.html"):
        text = re.sub(r"<pre.*?</pre>|<code.*?</code>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert re.findall(r"\|---|^[-*] .*", text, re.MULTILINE) == [], page.name


def test_the_reference_is_what_the_declarations_say(tmp_path: Path, forked: ForkServer) -> None:
    done = forked.run([sys.executable, MAKE / "reference.py", tmp_path], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    made = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    kept = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").iterdir()}
    assert made == kept, "run: make reference"


def source(tmp_path: Path, text: str) -> Path:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "some.py").write_text(text, encoding="utf-8")
    return tmp_path


def test_codes_are_read_wherever_issues_are_made(tmp_path: Path) -> None:
    text = """
LAST = "last"
def made(x):
    yield Issue("one", "m")
    yield Issue("two" if x else "three", "m", "w")
    yield Issue(LAST, "m")
    yield Issue(code="four", message="m")
    yield Issue(x.code, x.message)
    yield Fault("w", "m", "five")
    report("six", "m")
def report(code, message, where=""):
    issues.append(Issue(code, message, where))
"""
    assert tool("issue_codes").codes(source(tmp_path, text)) == {"one", "two", "three", "last", "four", "five", "six"}


def test_a_code_that_cannot_be_read_out_of_the_source_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"runtime/some\.py:1: the code 'anything\(\)' cannot be read; see NAMED"):
        tool("issue_codes").codes(source(tmp_path, "Issue(anything(), 'm')\n"))


@pytest.mark.slow
def test_every_code_and_every_error_stands_in_the_page_once() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    _, _, below = page.partition("## Files that cannot be read")
    listed = re.findall(r"^\| `([a-z-]+)` \|", below, re.MULTILINE)
    assert sorted(listed) == sorted(tool("issue_codes").codes())
