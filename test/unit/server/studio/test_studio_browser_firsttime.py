"""The studio at first sight: where a newcomer looks for a node's settings, its result, its issues and its variables."""

import json

import pytest
from studio_page import served, tabs

from operad.runtime.testing import ScriptedModel

pytestmark = pytest.mark.slow

MAIL = """\
workflow: Mail
nodes:
  1: {type: start, variables: {mail: string}}
  2: {type: template-transform, after: 1, variables: {mail: 1.mail}, template: "About {{ mail }}"}
  3: {type: end, after: 2, outputs: {about: 2.output}}
"""

BROKEN = MAIL.replace("mail: 1.mail", "mail: 1.male")

EXPERT = """\
operators:
  - &facts {name: facts, instruction: List the facts.}
  - &text {name: text, instruction: Write the text.}
  - &judge {name: judge, instruction: The text names the price.}
experts:
  - profile: {name: Writer}
    workflow: [[*facts, *text]]
    evaluator: *judge
"""

BARE = """\
workflow: Bare
nodes:
  1: {type: start, variables: {mail: string}}
  2: {type: llm, after: 1, system: "Keep {{other}}.", user: "Answer {{mail}}"}
  3: {type: end, after: 2, outputs: {text: 2.text}}
"""


@pytest.fixture
def opened(page, site):
    """Opens a file with a given content in a new tab."""

    def opened(content):
        (site[1] / "file.yaml").write_text(content)
        tab = page()
        tab.open("file.yaml")
        return tab

    return opened


def run(page, value):
    page.press("Control+Enter")
    page.tab.get_by_role("form", name="Run").get_by_label("mail").fill(value)
    page.press("Control+Enter")


def test_a_click_on_a_node_opens_its_settings_in_place_of_issues_and_history(opened):
    page = opened(BROKEN)
    for key, panel in [("i", ".issues"), ("h", ".history")]:
        page.press(key)
        page.tab.wait_for_selector(panel)
        page.node("3").click()
        page.tab.locator(".inspector .node-head", has_text="id 3").wait_for()
        page.press("Escape", "Escape")


def test_the_name_of_an_issue_leads_to_the_faulty_field(opened):
    page = opened(BROKEN)
    page.press("i")
    page.tab.locator(".issues button.link").first.click()
    assert "male" in page.tab.locator(".inspector .fault").first.inner_text()


def test_a_run_that_cannot_start_shows_the_issues_instead_of_an_older_result(opened):
    page = opened(BROKEN)
    run(page, "rain")
    page.tab.locator(".issues li", has_text="male").wait_for()


def test_the_result_of_a_node_is_seen_without_scrolling(opened):
    page = opened(MAIL)
    run(page, "rain")
    page.tab.locator(".result .run-mark.is-done").wait_for()
    page.node("2").click()
    gist = page.tab.locator(".gist", has_text="About rain")
    gist.click()
    page.tab.locator(".inspector .gist", has_text="About rain").wait_for()


def test_enter_in_the_name_of_an_input_adds_no_other_input(opened):
    page = opened(MAIL)
    page.node("1").click()
    name = page.tab.locator(".inspector .rows input[type=text]").first
    name.fill("letter")
    name.press("Enter")
    page.until(lambda: [row[0] for row in page.params("1")["variables"]] == ["letter"])


def test_a_name_in_braces_that_a_prompt_takes_as_text_is_a_warning(studio):
    (studio.folder / "bare.yaml").write_text(BARE)
    document = studio.open("bare.yaml")
    assert [(each["node"], each["field"], each["severity"]) for each in document["issues"]] == [
        ("2", "user", "warning")
    ]


def test_why_an_evaluator_rejected_a_round_is_in_its_form(tmp_path, browser):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "expert.yaml").write_text(EXPERT)
    fault = {"wrong": "no price", "right": "49", "operator": "facts", "sure": True, "lesson": "Give the price."}
    verdict = {
        "evaluation": "The price is missing.",
        "faults": [fault],
        "unsure": [],
        "status": "EXECUTION_ERROR",
        "score": 4,
    }
    good = verdict | {"evaluation": "All there.", "faults": [], "status": "SUCCESS", "score": 9}
    answers = ["lamp", "A lamp.", json.dumps(verdict), "lamp, 49", "A lamp for 49.", json.dumps(good)]
    with (
        ScriptedModel(answers) as endpoint,
        served(folder, tmp_path / "histories", model=endpoint.model) as url,
        tabs(browser, url, folder) as tab,
    ):
        page = tab()
        page.open("expert.yaml")
        page.press("Control+Enter")
        page.tab.get_by_role("form", name="Run").get_by_label("Job").fill("Lamp, 49")
        page.press("Control+Enter")
        page.tab.locator(".result .run-mark.is-done").wait_for()
        page.node("judge").dblclick()
        page.tab.locator(".lesson .fault", has_text="The price is missing.").wait_for()
        page.editor("Criteria").wait_for()
