"""Take pictures of the run page, and measure it: `python test/benchmark/screenshots.py OUTDIR`.

Prints, for each run, the milliseconds until the graph is painted, the maximum of five, the memory of the page's scripts,
and the number of requests to other hosts.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import sample_runs
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from operad.runtime.observe.trace import Trace
from operad.server.view.page import report

WIDE, PHONE = ViewportSize(width=1440, height=900), ViewportSize(width=390, height=844)
RUNS = {
    "12-operators": sample_runs.brief,
    "failing": sample_runs.failing,
    "300-operators": lambda: sample_runs.large(300),
    "20000-spans": lambda: sample_runs.many_spans(20_000),
    "hostile": sample_runs.hostile,
}


def click(*selectors: str) -> Callable[[Page], None]:
    """Click on elements in order."""

    def act(tab: Page) -> None:
        for selector in selectors:
            tab.locator(selector).first.click()
            tab.wait_for_timeout(200)

    return act


def unfold(tab: Page) -> None:
    """Unfold all workflows and maps."""
    for name in tab.locator(".caret").evaluate_all("all => all.map(each => each.ariaLabel)"):
        tab.get_by_role("button", name=name).click()


def at(share: int) -> Callable[[Page], None]:
    """Set the slider, in thousandths of its length."""

    def act(tab: Page) -> None:
        tab.locator("#slider").fill(str(share))

    return act


def type_(words: str) -> Callable[[Page], None]:
    """Search for words."""

    def act(tab: Page) -> None:
        tab.keyboard.press("/")
        tab.keyboard.type(words)
        tab.wait_for_timeout(500)

    return act


PICTURES: Sequence[tuple[str, str, Literal["light", "dark"], ViewportSize, Sequence[Callable[[Page], None]]]] = (
    ("12-operators", "12-operators", "light", WIDE, ()),
    ("12-operators-dark", "12-operators", "dark", WIDE, ()),
    ("unfolded", "12-operators", "light", WIDE, (click("#tabs [data-tab=graph]"), unfold)),
    ("replay", "12-operators", "light", WIDE, (at(450), click('.card[data-key*="approve"]'))),
    ("details", "12-operators", "light", WIDE, (click('.card[data-key*="write"]'),)),
    ("tools", "12-operators", "dark", WIDE, (click('.card[data-key*="search the web"]'),)),
    ("rounds", "12-operators", "light", WIDE, (click("#tabs [data-tab=rounds]"),)),
    ("timeline", "12-operators", "light", WIDE, (click("#tabs [data-tab=timeline]", ".row:nth-child(8)", ".row:nth-child(8) .fold"),)),
    ("search", "12-operators", "light", WIDE, (type_("poland"),)),
    ("keys", "12-operators", "light", WIDE, (click("#help"),)),
    ("failing", "failing", "light", WIDE, ()),
    ("300-operators", "300-operators", "light", WIDE, ()),
    ("300-operators-dark", "300-operators", "dark", WIDE, (at(400),)),
    ("20000-spans", "20000-spans", "light", WIDE, (click(".row:nth-child(3) .fold"),)),
    ("phone", "12-operators", "light", PHONE, ()),
    ("phone-timeline", "12-operators", "dark", PHONE, (click("#tabs [data-tab=timeline]"),)),
    ("phone-rounds", "12-operators", "light", PHONE, (click("#tabs [data-tab=rounds]"),)),
    ("phone-details", "12-operators", "light", PHONE, (click('.card[data-key*="write"]'),)),
    ("phone-300", "300-operators", "light", PHONE, ()),
    ("hostile", "hostile", "light", WIDE, (click(".card >> nth=3"),)),
    ("hostile-phone", "hostile", "dark", PHONE, ()),
)  # fmt: skip


def measured(browser: Browser, address: str) -> tuple[float, float]:
    """Return the milliseconds until the graph is painted, the maximum of five, and the megabytes of the scripts."""
    times, memory = list[float](), 0.0
    for _ in range(5):
        tab = browser.new_page(viewport=WIDE)
        tab.goto(address, wait_until="commit")
        tab.wait_for_selector(".card")
        painted = """new Promise(done => requestAnimationFrame(() => setTimeout(() =>
            done(performance.getEntriesByName("first-picture")[0].startTime))))"""
        times.append(float(tab.evaluate(painted)))
        tab.wait_for_load_state()
        session = tab.context.new_cdp_session(tab)
        session.send("HeapProfiler.collectGarbage")
        memory = float(session.send("Runtime.getHeapUsage")["usedSize"]) / 2**20
        tab.close()
    return max(times), memory


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    outside: list[str] = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        pages = {name: Path(folder, f"{name}.html") for name in RUNS}
        for name, run in RUNS.items():
            pages[name].write_text(report(Trace.of(in_a_thread(run))), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        print(f"{'report of':<16}{'size, MB':>10}{'first picture, ms':>20}{'memory, MB':>12}")
        for name, path in pages.items():
            milliseconds, memory = measured(browser, path.as_uri())
            print(f"{name:<16}{path.stat().st_size / 2**20:>10.2f}{milliseconds:>20.0f}{memory:>12.1f}")
        for name, run, scheme, size, acts in PICTURES:
            context = browser.new_context(viewport=size, color_scheme=scheme)

            def routed(route: Any) -> None:
                if route.request.url.startswith(("file:", "data:")):
                    route.continue_()
                else:
                    outside.append(route.request.url)
                    route.abort()

            context.route("**/*", routed)
            tab = context.new_page()
            tab.goto(pages[run].as_uri())
            tab.wait_for_selector(".card")
            for act in acts:
                act(tab)
            tab.wait_for_timeout(300)
            tab.screenshot(path=out / f"{name}.png")
            context.close()
        browser.close()
    print(f"{len(PICTURES)} pictures in {out}; requests to others: {len(outside)}")


def in_a_thread(run: Callable[[], Any]) -> Any:
    """Run a function in a thread without the browser's event loop, and return its result."""
    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(run).result()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: screenshots.py OUTDIR")
    main(Path(sys.argv[1]))
