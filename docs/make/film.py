"""Film of the README: `make film`, which needs Chromium, and no model: its answers are in this file.

Writes docs/film.webp: an expert is made from a sentence, run, rejected, and repaired in one place; the words that changed
are shown, the run becomes a test, and its page is opened. Pictures are taken of the studio in headless Chromium.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from pathlib import Path
from time import sleep
from typing import Any

from PIL import Image
from playwright.sync_api import Page, ViewportSize, sync_playwright

from operad.runtime.testing import Say, ScriptedModel
from operad.server.studio.files.folder import Folder
from operad.server.studio.server import Studio
from operad.server.view.server import PageServer

OUT = Path(__file__).parents[1] / "film.webp"
SIZE = ViewportSize(width=1180, height=720)
SENTENCE = "An expert that answers a complaint: list the facts, then write a letter of at most 30 words with a remedy."
COMPLAINT = "The figs that I ordered on Monday arrived broken, for the second time this year."

PLAN = {
    "name": "Complaints",
    "description": "Answers complaints.",
    "operators": [
        {"name": "facts", "instruction": "List the facts of the complaint."},
        {"name": "letter", "instruction": "Answer the complaint in at most 30 words."},
    ],
    "workflow": [["facts", "letter"]],
    "criteria": ["The letter names a remedy."],
}
FACTS = "Figs, ordered on Monday; broken on arrival; the second time this year."
FIRST = "We are sorry that your figs arrived broken again. We hope that you will order from us in future."
SECOND = "We are sorry that your figs arrived broken again. Fresh ones are on their way, and these are on us."
LESSON = "Say what we do about it: send new figs, or refund them."


def verdict(*, accepted: bool) -> str:
    """Return the answer of the evaluator."""
    if accepted:
        return json.dumps(
            {"evaluation": "It names a remedy.", "faults": [], "unsure": [], "status": "SUCCESS", "score": 9}
        )
    fault = {"operator": "letter", "wrong": "We hope that you will order", "right": "", "sure": True, "lesson": LESSON}
    evaluation = "The letter is polite, but names no remedy."
    said = {"evaluation": evaluation, "faults": [fault], "unsure": [], "status": "EXECUTION_ERROR", "score": 4}
    return json.dumps(said)


def answer(request: Any) -> Say:
    """Return the answer of the model, which takes its time."""
    text = json.dumps(request)
    sleep(0.7)
    if "Judge what the operators produced" in text:
        return Say(verdict(accepted=SECOND in text))
    if "Write an expert for the job" in text:
        return Say(json.dumps(PLAN))
    if "at most 30 words" in json.dumps(request["messages"][:2]):
        return Say(SECOND if LESSON in text else FIRST)
    return Say(FACTS)


class Film:
    """Pictures of a tab, each with the time for which it stays."""

    def __init__(self, tab: Page) -> None:
        self.tab = tab
        self.pictures: list[Image.Image] = []
        self.times: list[int] = []

    def shoot(self, milliseconds: int) -> None:
        """Take a picture; one that shows the same as the last one makes that stay longer."""
        picture = Image.open(io.BytesIO(self.tab.screenshot(animations="disabled", caret="hide"))).convert("RGB")
        if self.pictures and picture.tobytes() == self.pictures[-1].tobytes():
            self.times[-1] += milliseconds
        else:
            self.pictures.append(picture)
            self.times.append(milliseconds)

    def write(self, text: str) -> None:
        """Type a text, word by word."""
        for word in text.split(" "):
            self.tab.keyboard.insert_text(f"{word} ")
            self.shoot(90)

    def until(self, selector: str, *, hold: int = 600) -> None:
        """Take pictures until an element is visible, and hold the last one."""
        found = self.tab.locator(selector).first
        for _ in range(150):
            self.shoot(200)
            if found.is_visible():
                break
            self.tab.wait_for_timeout(100)
        found.wait_for()
        self.tab.wait_for_timeout(400)
        self.shoot(hold)

    def click(self, selector: str, *, hold: int = 500) -> None:
        """Click an element, and hold what comes of it."""
        self.tab.locator(selector).first.click()
        self.tab.wait_for_timeout(350)
        self.shoot(hold)


def play(film: Film) -> None:
    """Go through the scenes."""
    tab = film.tab
    film.shoot(600)
    film.click(".way:has-text('Empty expert')")
    film.click("button[aria-label='Chat']")
    tab.get_by_label("What you need").click()
    film.write(SENTENCE)
    tab.keyboard.press("Enter")
    film.until(".banner:has-text('Proposed')", hold=1800)
    film.click(".banner button:has-text('Accept')", hold=700)
    film.click("header .main", hold=300)
    tab.locator(".run form textarea").first.click()
    film.write(COMPLAINT)
    film.click(".run form button[type=submit]", hold=200)
    film.until(".card-mark.blamed", hold=1600)
    film.until(".result .run-mark.is-done", hold=1800)
    tab.locator('.react-flow__node[data-id="letter"] .card-type').click()
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".lesson")
    tab.wait_for_timeout(300)
    tab.locator(".lesson").scroll_into_view_if_needed()
    tab.wait_for_timeout(300)
    film.shoot(3000)
    film.click("header .main", hold=400)
    film.click("button:has-text('Make a test of this run')", hold=1400)
    film.click("dialog button:has-text('Make test')", hold=700)
    film.click("button:has-text('Run all')", hold=200)
    film.until(".tests .passed", hold=1600)
    film.click("header .main", hold=200)
    with tab.context.expect_page() as opened:
        tab.get_by_role("link", name="Timeline").click()
    film.tab = opened.value
    film.tab.wait_for_selector(".card")
    film.tab.wait_for_timeout(800)
    film.shoot(3500)


def main() -> None:
    """Write the film."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as made, ScriptedModel(answer) as model, sync_playwright() as playwright:
        folder = Path(made, "complaints")
        folder.mkdir()
        site = Studio(Folder(folder), Path(made, "state"), model=model.model)
        with PageServer(site) as server:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            tab = browser.new_context(viewport=SIZE, color_scheme="light").new_page()
            tab.goto(server.url)
            tab.wait_for_selector(".way")
            film = Film(tab)
            play(film)
            browser.close()
    first, *others = film.pictures
    first.save(OUT, save_all=True, append_images=others, duration=film.times, loop=0, lossless=True, method=4)
    size, seconds = OUT.stat().st_size // 1024, sum(film.times) / 1000
    print(f"{OUT}: {len(film.pictures)} pictures, {seconds:.0f} s, {size} kB")


if __name__ == "__main__":
    main()
