"""The studio in a real browser: names of nodes, pinned and typed values, breakpoints."""

import pytest
from studio_page import AXE
from studios import FIVE

from operad.runtime.evaluation.cases import Dataset

pytestmark = pytest.mark.slow  # a browser each; test_studio_browser.py looks at the page in `make test`

LETTER = """\
workflow: letter
nodes:
  1: {type: start, variables: {letter: string}}
  2: {type: llm, after: 1, system: Be brief., user: "Answer {{#1.letter#}} and {{#9.gone#}}."}
  3: {type: end, after: 2, outputs: {answer: 2.text}}
"""


def ended(page):
    page.tab.locator(".result .run-mark.is-done").wait_for()


def pin(page, value):
    """Pin a value of the node that is selected, whose inspector is open."""
    page.tab.get_by_role("button", name="Pin a value…").click()
    page.tab.locator("dialog textarea").first.fill(value)
    page.tab.get_by_role("button", name="Pin this value").click()
    page.tab.get_by_role("region", name="Pinned value").wait_for()


def run(page, topic):
    page.press("Control+Enter")
    page.tab.get_by_label("topic").fill(topic)
    page.press("Control+Enter")
    ended(page)


def test_a_node_gets_a_name_in_one_line_of_the_file_which_is_undone(opened):
    page = opened(LETTER)
    page.node("2").click()
    page.press("F2")
    page.tab.locator("dialog input").wait_for()
    page.press("Escape")
    page.tab.locator("dialog").wait_for(state="detached")
    page.node("2").locator(".card-title").dblclick()
    page.tab.locator("dialog input").wait_for()
    page.tab.keyboard.type("Draft")
    page.press("Enter")
    page.until(lambda: page.node("2").locator(".card-title").inner_text() == "Draft")
    page.saved()
    changed = [
        pair for pair in zip(LETTER.splitlines(), page.file.read_text().splitlines(), strict=True) if len({*pair}) > 1
    ]
    assert changed == [(LETTER.splitlines()[3], LETTER.splitlines()[3].replace("llm,", "llm, title: Draft,"))]
    page.press("h")
    assert page.tab.locator(".history .step .words").first.inner_text() == "Rename LLM to Draft"
    page.tab.get_by_role("button", name="Undo").click()
    page.until(lambda: page.node("2").locator(".card-title").inner_text() == "LLM")
    page.saved()
    assert page.file.read_text() == LETTER


def test_variables_in_a_prompt_are_chips_with_names_and_unknown_ones_are_marked(opened):
    page = opened(LETTER)
    page.node("2").click()
    chips = page.editor("User").locator(".cm-variable")
    page.until(lambda: chips.all_inner_texts() == ["letter · Start", "gone · 9"])
    assert page.editor("User").locator(".cm-unknown").all_inner_texts() == ["gone · 9"]
    page.node("1").click()
    page.press("F2")
    page.tab.wait_for_selector("dialog input:focus")
    page.tab.keyboard.type("Inbox")
    page.press("Enter")
    page.node("2").click()
    page.until(lambda: chips.all_inner_texts() == ["letter · Inbox", "gone · 9"])
    page.editor("User").click()
    page.press("Control+Home")
    page.press(*["ArrowRight"] * 8, "Backspace")  # the chip is passed, and removed, as one
    page.press("Control+Home")
    page.until(lambda: page.params("2")["user"] == "Answer  and {{#9.gone#}}.")


def test_a_pinned_value_is_edited_used_in_runs_and_outlives_a_reload(opened):
    page = opened(FIVE, bypass_csp=True)
    page.node("2").click()
    pin(page, "Pinned")
    assert page.node("2").locator(".card-pin").count() == 1
    run(page, "rain")
    assert "Pinned!" in page.tab.locator(".result .values").inner_text()
    page.until(lambda: "pinned" in page.node("2").inner_text())
    page.tab.reload()
    page.drawn()
    page.node("2").locator(".card-pin").wait_for()
    page.tab.get_by_role("button", name="Close Run").click()
    page.node("2").click()
    page.tab.get_by_role("region", name="Pinned value").get_by_text("Pinned", exact=True).last.wait_for()
    assert page.faults() == [] if AXE.is_file() else True
    page.tab.get_by_role("button", name="Unpin").click()
    page.until(lambda: page.node("2").locator(".card-pin").count() == 0)
    run(page, "snow")
    page.tab.locator(".result .values", has_text="About snow!").wait_for()


def test_a_node_runs_with_typed_values_before_any_run(opened):
    page = opened(FIVE)
    page.node("3").click()
    page.press("Control+Enter")
    page.tab.get_by_role("button", name="Run with values…").click()
    page.tab.get_by_label("output · Template transform #2").fill("typed")
    page.tab.locator("dialog").get_by_role("button", name="Run", exact=True).click()
    ended(page)
    assert "typed!" in page.tab.locator(".result .values").inner_text()


def test_a_run_waits_at_a_breakpoint_with_values_that_can_be_changed_and_steps(opened):
    page = opened(FIVE, bypass_csp=True)
    page.node("2").click()
    page.press("b")
    assert page.node("2").locator(".card-stop").count() == 1
    page.press("Control+Enter")
    page.tab.get_by_label("topic").fill("rain")
    page.press("Control+Enter")
    stop = page.tab.get_by_role("region", name="Breakpoint at Template transform #2")
    stop.wait_for()
    assert page.faults() == [] if AXE.is_file() else True
    field = stop.get_by_label("topic · Start")
    page.until(lambda: field.input_value() == "rain")
    field.fill("snow")
    stop.get_by_role("button", name="Step").click()
    stop = page.tab.get_by_role("region", name="Breakpoint at Template transform #3")
    page.until(lambda: stop.get_by_label("output · Template transform #2").input_value() == "About snow")
    stop.get_by_role("button", name="Continue").click()
    ended(page)
    assert "About snow!" in page.tab.locator(".result .values").inner_text()


def test_a_test_of_a_run_with_pinned_values_says_which_it_keeps(opened):
    page = opened(FIVE)
    page.node("2").click()
    pin(page, "Pinned")
    run(page, "rain")
    page.tab.get_by_role("button", name="Make a test of this run").click()
    page.tab.locator("dialog .notice").get_by_text("Template transform #2").wait_for()
    page.tab.get_by_label("Name").fill("rainy")
    page.press("Enter")
    page.tab.locator(".tests-side").get_by_text("rainy").first.wait_for()
    [case] = Dataset.load(page.file.with_suffix(".cases.jsonl"))
    assert (case.name, case.expected) == ("rainy", {"loud": "Pinned!", "quoted": "<rain>"})
    assert case.pinned["2"].outputs == {"output": "Pinned"}


def test_a_phone_shows_pins_and_breakpoints_without_a_serious_fault(opened):
    page = opened(FIVE, viewport={"width": 390, "height": 800}, bypass_csp=True)
    page.node("2").click()
    pin(page, "Pinned")
    page.press("b")
    assert page.faults() == [] if AXE.is_file() else True
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390
