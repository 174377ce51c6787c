"""Measure the studio: operations per second, size of the page, time to the canvas, frames per second.

    python test/benchmark/bench_studio.py

Operations are `set` on workflows of 12, 100, 300 and 500 nodes, as the browser sends them: applied, written to the file,
stored in the history, checked, and answered with the whole document; in this process and over HTTP. The page is loaded
in headless Chromium: from the start of the navigation until the first node is visible, the best of three loads. Then a
canvas of 300 and of 500 nodes is dragged by mouse for two seconds. At last, workflows are made by mouse (`studio_clicks`), and the
clicks counted; the program fails if one of them needs more than its aim, has issues, or does not run.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from studio_clicks import WAYS, Mouse

from operad.flows.edit import read_operations
from operad.flows.formats.operad import OPERAD
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.server.studio.file_json import document
from operad.server.studio.files.folder import Folder
from operad.server.studio.files.open_file import OpenFile
from operad.server.studio.server import Studio
from operad.server.view.server import PageServer
from operad.testing import Say, ScriptedModel

SIZES = (12, 100, 300, 500)
AIMS = {"first": {12: 0.5, 300: 0.8}, "frames": {300: 50.0}, "kilobytes": 400, "operations": {100: 20}}
"""Aims of the studio: seconds to the first canvas and operations a second by number of nodes."""

LOADS, DRAGGED = 3, 2.0
BUNDLE = Path(__file__).parents[2] / "server" / "studio" / "bundle"
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

SEEN = """
(() => {
  const look = () => {
    const nodes = [...document.querySelectorAll(".react-flow__node")];
    if (nodes.some((node) => getComputedStyle(node).visibility === "visible")) window.firstCanvas = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})();
"""
FRAMES = """
() => {
  window.frames_ = 0;
  const count = () => { window.frames_ += 1; requestAnimationFrame(count); };
  requestAnimationFrame(count);
}
"""


def flow(nodes: int) -> NodeGraph:
    """Return a workflow of rows of five nodes, each of which reads one node of the row before."""
    specs = [NodeSpec("1", "start", {"variables": [["topic", "string"]]})]
    edges: list[Edge] = []
    for number in range(2, nodes):
        before = str(max(1, number - 5))
        name = "topic" if before == "1" else "text"
        said = f"Write paragraph {number} after this one: {{{{#{before}.{name}#}}}}"
        specs.append(NodeSpec(str(number), "llm", {"system": "You write on harbours.", "user": said}))
        edges.append(Edge(before, str(number)))
    last = str(nodes - 1)
    specs.append(NodeSpec(str(nodes), "end", {"outputs": [["text", ["text", last]]]}))
    edges += [Edge(str(number), str(nodes)) for number in range(max(2, nodes - 5), nodes)]
    return NodeGraph(specs, edges, name=f"flow of {nodes}")


def operation(number: int) -> dict[str, Any]:
    """Return a change of a prompt."""
    return {"op": "set", "node": "3", "path": "system", "value": f"You write on harbours, {number}."}


def per_second(work: Callable[[int], object], seconds: float = 2.0) -> tuple[float, float]:
    """Return how often a function runs per second after a warm-up, and its milliseconds of processor time."""
    for number in range(3):
        work(number)
    count, begin, used = 3, perf_counter(), process_time()
    while perf_counter() - begin < seconds:
        work(count)
        count += 1
    return (count - 3) / (perf_counter() - begin), (process_time() - used) * 1000 / (count - 3)


def of_operations(folder: Path, histories: Path) -> None:
    """Print operations per second."""
    for nodes in SIZES:
        name = f"flow{nodes}.yaml"
        (folder / name).write_bytes(OPERAD.dump(flow(nodes)))
        file = OpenFile(folder / name, name, histories)

        def work(number: int, file: OpenFile = file) -> object:
            file.apply(file.version, read_operations([operation(number)]))
            return json.dumps(document(file))

        inside, used = per_second(work)
        with PageServer(Studio(Folder(folder), histories)) as server:
            version = [post(server.url, "open", {"path": name})["version"]]

            def ask(number: int, url: str = server.url, name: str = name, version: list[int] = version) -> object:
                said = {"path": name, "version": version[0], "operations": [operation(number)]}
                version[0] = post(url, "apply", said)["version"]
                return version

            over_http, _ = per_second(ask)
            OPENER.open(f"{server.url}data/export?path={name}&format=operad").close()  # once all is written
        print(
            f"{nodes:>4} nodes: {inside:6.1f} operations a second in process ({used:.0f} ms of a processor each), "
            f"{over_http:6.1f} over HTTP{aimed('at least', AIMS['operations'].get(nodes))}"
        )


def post(url: str, path: str, said: Mapping[str, Any]) -> Any:
    """Return the answer to a request."""
    data = json.dumps(said).encode()
    request = urllib.request.Request(f"{url}data/{path}", data, {"content-type": "application/json"})  # noqa: S310
    with OPENER.open(request) as answer:
        return json.loads(answer.read())


def of_bundle() -> None:
    """Print the compressed size of the files loaded first, and of all files."""
    html = (BUNDLE / "index.html").read_text(encoding="utf-8")
    named = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', html)
    first = sum(len(gzip.compress((BUNDLE / name).read_bytes(), 9)) for name in named)
    whole = sum(len(gzip.compress(each.read_bytes(), 9)) for each in (BUNDLE / "assets").iterdir())
    print(
        f"bundle, compressed: {first / 1000:.0f} kB at first, {whole / 1000:.0f} kB in all{aimed('at most', AIMS['kilobytes'], ' kB at first')}"
    )


def of_browser(folder: Path, histories: Path, chromium: str) -> None:
    """Print the time to the first canvas, and frames per second."""
    from playwright.sync_api import sync_playwright

    with PageServer(Studio(Folder(folder), histories)) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for nodes in SIZES:
            seconds: list[float] = []
            for _ in range(LOADS):
                tab = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
                tab.add_init_script(SEEN)
                tab.goto(f"{server.url}#file=flow{nodes}.yaml")
                tab.wait_for_function("() => window.firstCanvas !== undefined", timeout=60_000)
                seconds.append(tab.evaluate("window.firstCanvas") / 1000)
                if len(seconds) == LOADS and nodes >= 300:
                    print(
                        f"{nodes:>4} nodes: {dragged(tab):.0f} frames a second while the canvas is dragged{aimed('at least', AIMS['frames'].get(nodes))}"
                    )
                tab.context.close()
            print(
                f"{nodes:>4} nodes: {min(seconds):.2f} s to the first canvas ({shown(seconds)}){aimed('at most', AIMS['first'].get(nodes), ' s')}"
            )
        browser.close()


def dragged(tab: Any) -> float:
    """Return the frames per second while the canvas is dragged by mouse."""
    tab.wait_for_timeout(1_000)
    tab.evaluate(FRAMES)
    tab.mouse.move(700, 820)
    tab.mouse.down()
    begin, first, step = perf_counter(), tab.evaluate("window.frames_"), 0
    while perf_counter() - begin < DRAGGED:
        step += 1
        tab.mouse.move(700 + 250 * (1 if step // 20 % 2 else -1) * (step % 20) / 20, 820 - step % 40 * 8)
    counted = tab.evaluate("window.frames_") - first
    tab.mouse.up()
    return counted / (perf_counter() - begin)


def of_clicks(folder: Path, histories: Path, chromium: str) -> bool:
    """Print the number of clicks that it takes to make and run each workflow; return True if all aims are met."""
    from playwright.sync_api import sync_playwright

    met = True
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, way in WAYS.items():
            with (
                ScriptedModel([Say(answer) for answer in way.answers]) as endpoint,
                PageServer(Studio(Folder(folder), histories, model=endpoint.model)) as server,
            ):
                tab = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
                tab.goto(server.url)
                tab.wait_for_selector(".start")
                mouse = Mouse(tab)
                result = way.make(mouse)
                issues = tab.locator('[aria-label="Panels"] button').first.inner_text()
                good = way.result in result and mouse.clicks <= way.most and issues == "No issues"
                met = met and good
                print(
                    f"{name}: {mouse.clicks} clicks, {issues}{aimed('at most', way.most)}{'' if good else ': NOT MET'}"
                )
                tab.context.close()
        browser.close()
    return met


def aimed(bound: str, aim: float | None, unit: str = "") -> str:
    """Return the aim of a figure as text, or an empty text."""
    return "" if aim is None else f"; aim: {bound} {aim}{unit}"


def shown(seconds: Sequence[float]) -> str:
    """Return the times as text, in the order in which they were measured."""
    return ", ".join(f"{each:.2f}" for each in seconds)


def main() -> int:
    """Measure, and print; return the exit status."""
    with tempfile.TemporaryDirectory() as made:
        folder, histories = Path(made) / "folder", Path(made) / "histories"
        folder.mkdir()
        of_operations(folder, histories)
        of_bundle()
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
        if chromium:
            of_browser(folder, histories, chromium)
            return 0 if of_clicks(folder, histories, chromium) else 1
        print("no Chromium: the page was not loaded")
        return 0


if __name__ == "__main__":
    sys.exit(main())
