"""The studio in a real browser: tests made of runs, prompts tried, parts of experts run, an expert made by mouse."""

import json
import re
from pathlib import Path
from runpy import run_path

import pytest
from studio_page import AXE, served, tabs
from studios import EXPERTS, LETTER, VERDICT

from operad.runtime.testing import Say, ScriptedModel

pytestmark = pytest.mark.slow  # a browser each


def answer(request):
    """Answer as the model of the letters and of the experts."""
    text = json.dumps(request)
    if "Judge what the operators" in text:
        return Say(VERDICT)
    if "response_format" in request:
        return Say('{"claims": ["Air."]}')
    return Say("It is brief." if "Be brief." in text else "Dear Ada")


@pytest.fixture
def page(tmp_path, browser):
    """Opens a file of letters or of experts, whose model answers: a page."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "letter.yaml").write_text(LETTER)
    (folder / "facts.yaml").write_text(EXPERTS)
    with (
        ScriptedModel(answer) as endpoint,
        served(folder, tmp_path / "histories", model=endpoint.model) as url,
        tabs(browser, url, folder) as opened,
    ):

        def page(name, **options):
            page = opened(**options)
            page.tab.set_default_timeout(90_000)  # the first run imports the engine
            page.open(name)
            return page

        yield page


def run(page, field, value):
    page.tab.locator(".top .main").click()
    page.tab.locator(".run form").get_by_label(field).first.fill(value)
    page.tab.locator(".run form button[type=submit]").click()
    page.tab.locator(".result .run-mark.is-done").wait_for()


def button(page, name):
    return page.tab.get_by_role("button", name=name, exact=True)


def make_test(page, **choices):
    button(page, "Make a test of this run").click()
    dialog = page.tab.locator("dialog")
    dialog.get_by_label("Name", exact=True).wait_for()
    for label, value in choices.items():
        field = dialog.get_by_label(label.replace("_", " "), exact=True)
        field.check() if value is True else field.fill(value)
    button(page, "Make test").click()
    dialog.wait_for(state="detached")


def test_a_test_is_made_of_a_run_and_two_versions_are_compared(page):
    page = page("letter.yaml")
    run(page, "name", "Ada")
    make_test(page, Name="to Ada")
    case = json.loads((page.folder / "letter.cases.jsonl").read_text())
    assert (case["name"], case["expected"]) == ("to Ada", {"letter": "Dear Ada!"})
    button(page, "Run all").click()
    page.tab.locator(".tests .passed").wait_for()
    page.node("3").dblclick()
    page.editor("Template").click()
    page.press("Control+a", "Delete")  # else Chromium keeps the style of what was selected
    page.tab.keyboard.insert_text("{{ body }}?")
    page.until(lambda: "body }}?" in (page.folder / "letter.yaml").read_text())
    button(page, "Tests").click()
    page.tab.get_by_text("has not been tested yet").wait_for()
    button(page, "Run the test to Ada").click()
    page.tab.locator(".tests .failed").click()
    assert "Dear Ada?" in page.tab.locator(".tests .fault").inner_text()
    button(page, "Compare").click()
    row = page.tab.locator(".compare-runs tr", has_text="to Ada")
    row.get_by_text("worse").wait_for()
    assert [row.locator("pre").nth(at).inner_text().count(sign) for at, sign in ((0, "!"), (1, "?"))] == [1, 1]
    button(page, "Show what was changed on the canvas").click()
    page.tab.get_by_text("Step 1 compared with step 2").first.wait_for()


def test_a_test_is_read_run_and_removed_on_a_phone(page):
    page = page("letter.yaml", viewport={"width": 390, "height": 800})
    run(page, "name", "Ada")
    make_test(page, An_output_contains_a_text=True, Text="Ada")
    button(page, "Run all").click()
    page.tab.locator(".tests .passed").wait_for()
    assert page.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.faults() == [] if AXE.is_file() else True
    page.tab.get_by_role("button", name=re.compile("Remove the test")).click()
    page.tab.get_by_text("There are no tests yet").wait_for()
    assert (page.folder / "letter.cases.jsonl").read_text() == ""


def test_a_prompt_is_tried_with_two_models_and_used(page):
    page = page("letter.yaml")
    run(page, "name", "Ada")
    page.node("2").dblclick()
    button(page, "Try prompts…").click()
    page.tab.locator(".trial textarea").first.fill("Be brief.")
    button(page, "Another model beside it").click()
    page.tab.locator("input[aria-label='Second model']").fill("nobody:nothing")
    button(page, "Try").click()
    page.tab.locator(".column").first.get_by_text("It is brief.").wait_for()
    assert "tokens" in page.tab.locator(".column").first.inner_text()
    assert "nobody" in page.tab.locator(".column .fault").inner_text()
    assert (page.folder / "letter.yaml").read_text() == LETTER
    button(page, "Use this prompt").click()
    page.until(lambda: "system: Be brief." in (page.folder / "letter.yaml").read_text())


def test_an_operator_of_an_expert_runs_alone_and_from_there_on(page):
    page = page("facts.yaml")
    run(page, "job", "The moon has air.")
    page.node("check").click()
    button(page, "Run “check” alone").click()
    page.until(lambda: page.node("facts").locator(".card[data-state=reused]").count() == 1)
    page.until(lambda: page.node("check").locator(".card[data-state=done]").count() == 1)
    page.tab.locator(".result .run-mark.is-done").wait_for()
    button(page, "Run from here").click()
    page.until(lambda: page.node("judge").locator(".card[data-state=done]").count() == 1)
    page.node("facts").dblclick()
    page.editor("Instruction").click()
    page.press("Control+a")
    page.tab.keyboard.insert_text("List all claims.")
    page.until(lambda: page.node("facts").locator(".card[data-state=stale]").count() == 1)


def test_an_expert_of_three_operators_with_an_evaluator_takes_nine_clicks_at_most(page):
    clicks = run_path(str(Path(__file__).parents[3] / "benchmark" / "studio_clicks.py"))
    page = page("letter.yaml")
    button(page, "All files").click()
    mouse = clicks["Mouse"](page.tab)
    assert "Dear Ada" in clicks["WAYS"]["expert"].make(mouse)
    assert mouse.clicks <= 9
    assert page.nodes() == {
        "Expert": "expert", "answer": "operator", "check": "operator", "reply": "operator", "polite": "evaluator",
    }  # fmt: skip
    assert page.edges() == [("answer", 0, "check"), ("check", 0, "reply"), ("reply", 0, "polite")]
    assert page.document()["issues"] == []


def test_an_operator_gets_a_check_in_words_or_by_a_function(page):
    page = page("facts.yaml")
    page.node("check").dblclick()
    page.tab.locator(".more > summary").click()
    check = page.tab.get_by_label("Check", exact=True)
    check.fill("At most three words.")
    file = page.folder / "facts.yaml"
    page.until(lambda: "check: At most three words." in file.read_text())
    check.fill("")
    check.blur()
    page.until(lambda: file.read_text() == EXPERTS)
    (page.folder / "mine.py").write_text("def brief(answer):\n    return None\n")
    page.tab.get_by_label("Kind of Check").select_option("function")
    check.fill("mine.brief")
    check.blur()
    page.until(lambda: "function: mine.brief" in file.read_text())
    page.node("judge").dblclick()
    page.tab.locator(".inspector h2", has_text="judge").wait_for()
    assert page.tab.get_by_label("Kind of Check").count() == 0
