"""The workflow of README, made in the studio from an empty file as a new user would, and run."""

import json

import pytest
from studio_page import browser_of, served, tabs

from operad.runtime.testing import Say, ScriptedModel


def _verdict(status, blame=()):
    said = {"status": status, "evaluation": "Nine words.", "lesson": "Be short." if blame else "", "blame": [*blame]}
    return json.dumps({**said, "score": 5})


RELEASE = {
    "List what is new": ["- runs survive kill -9"],
    "Write a release note": ["Runs survive kill -9."],
    "Write a title": ["A title of far more than five words", "Runs that survive"],
    "The note has three": [_verdict("EXECUTION_ERROR", ["title"]), _verdict("SUCCESS")],
}
MADE = """\
app: {name: experts}
operators:
  - name: points
    instruction: List what is new.
  - name: note
    instruction: Write a release note.
  - name: title
    instruction: Write a title.
  - name: judge
    instruction: The note has three sentences.
experts:
  - profile: {name: Expert}
    workflow:
      - [points, note]
      - [points, title]
    evaluator: judge
"""
"""The workflow of README as the studio writes it."""


@pytest.fixture
def release(tmp_path, chromium):
    """Opens the studio of an empty folder in a tab; a model answers as in README."""
    left = {key: list(said) for key, said in RELEASE.items()}

    def answer(request):
        asked = json.dumps(request["messages"])
        return Say(next(said.pop(0) for key, said in reversed(left.items()) if key in asked and said))

    folder = tmp_path / "empty"
    folder.mkdir()
    with (
        ScriptedModel(answer) as endpoint,
        served(folder, tmp_path / "histories", model=endpoint.model) as url,
        browser_of(chromium) as browser,
        tabs(browser, url, folder) as opened,
    ):
        yield opened()


def judged(page):
    """The run has ended: the title was blamed and written again, the rest was reused."""
    page.tab.wait_for_selector(".result .run-mark.is-done")
    states = {
        each: page.node(each).locator(".card").get_attribute("data-state") for each in ("points", "note", "title")
    }
    assert states == {"points": "reused", "note": "reused", "title": "done"}
    assert page.tab.locator(".result .values").inner_text().split("\n") == [
        "note", "Runs survive kill -9.", "title", "Runs that survive",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_workflow_of_readme_is_made_by_mouse(release):
    page = release
    dialog = page.tab.locator("dialog")
    page.tab.get_by_text("Empty expert").click()
    page.drawn()
    page.node("answer").click()
    page.tab.get_by_role("button", name="Rename…").click()
    dialog.get_by_label("Name").fill("points")
    dialog.get_by_role("button", name="Rename").click()
    page.node("points").wait_for()
    page.editor("Instruction").click()
    page.press("Control+a")
    page.tab.keyboard.type("List what is new.")
    for name, said in [("note", "Write a release note."), ("title", "Write a title.")]:
        page.node("points").click()
        page.tab.get_by_label("Add an operator").first.click()
        dialog.get_by_label("Name").fill(name)
        dialog.get_by_label("Instruction").fill(said)
        dialog.get_by_role("button", name="Add", exact=True).click()
        page.node(name).wait_for()
    page.tab.get_by_label("Add an operator").first.click()
    dialog.get_by_label("Evaluator").check()
    dialog.get_by_label("Name").fill("judge")
    dialog.get_by_label("Criteria").fill("The note has three sentences.")
    dialog.get_by_role("button", name="Add", exact=True).click()
    page.node("judge").wait_for()
    page.saved()
    assert (page.folder / "experts.yaml").read_text() == MADE
    page.press("Control+Enter")
    page.tab.locator(".run form").get_by_label("Job").fill("Operad 0.4")
    page.tab.get_by_role("form", name="Run").get_by_role("button", name="Run", exact=True).click()
    judged(page)


@pytest.mark.slow
def test_the_workflow_of_readme_is_made_by_keyboard_alone(release):
    page = release

    def typed(*fields):
        """Type into the fields of a dialog, one after the other, and send it."""
        page.tab.wait_for_selector("dialog input:focus")
        for number, text in enumerate(fields):
            if number:
                page.press("Tab")
            page.tab.keyboard.type(text)
        page.press("Tab", "Enter")
        page.tab.locator("dialog").wait_for(state="detached")

    def focused(name):
        page.tab.wait_for_selector(f'.react-flow__node[data-id="{name}"]:focus')

    page.tab.get_by_role("button", name="Empty expert").focus()
    page.press("Enter")
    page.drawn()
    page.press("ArrowRight", "ArrowRight")
    focused("answer")
    page.press("F2")
    typed("points")
    focused("points")
    page.press("Enter")
    page.tab.locator(".cm-editor.cm-focused").wait_for()
    page.press("Control+a")
    page.tab.keyboard.type("List what is new.")
    page.until(lambda: "List what is new." in (page.folder / "experts.yaml").read_text())
    page.press("Escape")
    focused("points")
    page.press("/")
    typed("note", "Write a release note.")
    focused("note")
    page.press("ArrowLeft")
    focused("points")
    page.press("/")
    typed("title", "Write a title.")
    focused("title")
    page.press("/")
    page.tab.wait_for_selector("dialog input:focus")
    page.press("Shift+Tab", "ArrowRight", "Tab")
    typed("judge", "The note has three sentences.")
    focused("judge")
    page.saved()
    assert (page.folder / "experts.yaml").read_text() == MADE
    page.press("Control+Enter")
    page.until(lambda: page.tab.evaluate("() => document.activeElement.closest('.run form') !== null"))
    page.tab.keyboard.type("Operad 0.4")
    page.press("Control+Enter")
    judged(page)
