"""Animated picture of the README's workflow: `python docs/make/animation.py`, after setting a model.

Writes docs/run.gif: a run in which the evaluator rejects a title, and only the title is written again. Runs the
README's example with the model that the environment names, makes the report of the run, and takes a picture of its
page in headless Chromium at each moment of the replay.
"""

from __future__ import annotations

import io
import runpy
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import ViewportSize, sync_playwright

from operad.runtime.events import Event
from operad.runtime.observe.trace import Trace
from operad.server.view.page import report

ROOT = Path(__file__).parents[2]
FRAMES = 40
SIZE = ViewportSize(width=1180, height=720)
MILLISECONDS = 150
LAST = 3500
"""Milliseconds for which the last frame stays."""


def run() -> list[Event]:
    """Run the README's example and return its events."""
    block = (ROOT / "README.md").read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    workflow, _, loop = block.partition("for event in ")
    call = loop.partition(":\n")[0]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "example.py")
        file.write_text(f"{workflow}happened = list({call})\n", encoding="utf-8")
        return runpy.run_path(str(file))["happened"]


def main() -> None:
    """Write the picture."""
    trace = Trace.of(run())
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder, "run.html")
        page.write_text(report(trace), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_page(viewport=SIZE, color_scheme="light")
        tab.goto(page.as_uri())
        tab.wait_for_selector(".card")
        frames: list[Image.Image] = []
        for frame in range(FRAMES + 1):
            tab.locator("#slider").fill(str(round(1000 * frame / FRAMES)))
            tab.evaluate("document.activeElement.blur()")
            tab.wait_for_timeout(120)
            frames.append(Image.open(io.BytesIO(tab.screenshot())).convert("RGB"))
        browser.close()
    palette = frames[-1].quantize(64, dither=Image.Dither.NONE)
    pictures = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [MILLISECONDS] * FRAMES + [LAST]
    out = ROOT / "docs" / "run.gif"
    pictures[0].save(out, save_all=True, append_images=pictures[1:], duration=times, loop=0, optimize=True)
    print(f"{out}: {len(pictures)} frames, {out.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
