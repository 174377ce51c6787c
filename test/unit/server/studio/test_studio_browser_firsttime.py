"""The studio at first sight: where a newcomer looks for a node's settings, its result, its issues and its variables."""

import pytest

pytestmark = pytest.mark.slow

MAIL = """\
workflow: Mail
nodes:
  1: {type: start, variables: {mail: string}}
  2: {type: template-transform, after: 1, variables: {mail: 1.mail}, template: "About {{ mail }}"}
  3: {type: end, after: 2, outputs: {about: 2.output}}
"""

BROKEN = MAIL.replace("mail: 1.mail", "mail: 1.male")


BARE = """\
workflow: Bare
nodes:
  1: {type: start, variables: {mail: string}}
  2: {type: llm, after: 1, system: "Keep {{other}}.", user: "Answer {{mail}}"}
  3: {type: end, after: 2, outputs: {text: 2.text}}
"""


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


def test_the_name_of_an_issue_leads_to_the_faulty_field_and_a_run_that_cannot_start_to_the_issues(opened):
    page = opened(BROKEN)
    page.press("i")
    page.tab.locator(".issues button.link").first.click()
    assert "male" in page.tab.locator(".inspector .fault").first.inner_text()
    page.press("Escape", "Escape")
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
