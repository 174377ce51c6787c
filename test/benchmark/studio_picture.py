"""Take the pictures of docs/studio.md: `python test/benchmark/studio_picture.py OUTDIR`.

They show the included example of letters after a run with a scripted model.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from operad.runtime.testing import Say, ScriptedModel
from operad.server.studio.files.folder import Folder
from operad.server.studio.server import Studio
from operad.server.view.server import PageServer

LETTER = "The figs that you sent me arrived broken, for the second time this year."


def answer(request: Any) -> Say:
    """Return the class of the letter, or the answer to it."""
    if "response_format" in request:
        return Say('{"port": "A complaint"}')
    return Say("We are sorry about the figs. Fresh ones are on their way, and these are on us.")


def main(out: Path) -> None:
    """Take the pictures."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as made, ScriptedModel(answer) as model, sync_playwright() as playwright:
        folder = Path(made) / "flows"
        folder.mkdir()
        site = Studio(Folder(folder), Path(made) / "histories", model=model.model)
        with PageServer(site) as server:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            tab = browser.new_context(viewport={"width": 1400, "height": 860}).new_page()
            post = "([path, said]) => fetch(path, {method: 'POST', headers: {'content-type': 'application/json'}, body: JSON.stringify(said)})"
            tab.goto(server.url)
            tab.evaluate(post, ["data/files", {"new": "example", "name": "letters", "path": "letters.yaml"}])
            tab.goto(f"{server.url}#file=letters.yaml")
            tab.reload()
            tab.wait_for_selector(".react-flow__node:visible")
            tab.wait_for_timeout(1_500)
            tab.get_by_role("button", name="Run").first.click()
            form = tab.locator("form[aria-label=Run]")
            form.locator("textarea").first.fill(LETTER)
            form.locator("button[type=submit]").click()
            tab.locator("[aria-label=Result]", has_text="sorry").wait_for()
            tab.wait_for_timeout(1_000)
            tab.screenshot(path=str(out / "studio.png"))
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
