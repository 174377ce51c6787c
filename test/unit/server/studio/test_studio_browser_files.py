"""The studio in a real browser: files that are reloaded or changed elsewhere, texts that are typed, and steps compared."""

import re

import pytest
from studios import FIVE

pytestmark = pytest.mark.slow  # a browser each; test_studio_browser.py looks at the page in `make test`


def test_files_opened_lately_are_opened_from_the_start_page_and_missing_ones_are_marked(page, five):
    page = page()
    page.open(five)
    (page.folder / "gone.yaml").write_text(FIVE)
    page.tab.goto(f"{page.url}#file=gone.yaml")
    page.tab.reload()
    page.drawn()
    (page.folder / "gone.yaml").unlink()
    page.tab.get_by_label("All files").click()
    recent = page.tab.get_by_role("region", name="Recent").get_by_role("button")
    page.tab.locator(".missing-chip").wait_for()
    assert [each.split("\n")[:2] for each in recent.all_inner_texts()[:1]] == [["gone.yaml", "missing"]]
    assert recent.nth(0).is_disabled()
    recent.nth(1).click()
    page.drawn()
    assert page.document()["path"] == five


def test_the_file_that_the_address_names_is_asked_for_before_anything_else(page, five):
    page = page()
    asked = []
    page.tab.on("request", lambda request: asked.append(request.url.split("/")[-1].split("?")[0]))
    page.tab.goto("about:blank")
    page.tab.goto(f"{page.url}#file={five}")
    page.drawn()
    page.until(lambda: {"files", "catalogue"} <= set(asked))
    assert [each for each in asked if each in ("open", "files", "catalogue")] == ["open", "files", "catalogue"]
    page.tab.locator(".palette-item").nth(20).wait_for()


def test_what_was_typed_last_survives_a_reload(page, five):
    page = page()
    page.open(five)
    page.node("2").click()
    page.editor("Template").click()
    page.press("Control+End")
    page.tab.keyboard.type(" now")
    page.tab.reload()
    page.drawn()
    page.until(lambda: page.params("2")["template"] == "About {{ topic }} now")


def test_what_was_typed_while_an_answer_was_on_its_way_survives_a_reload(page, five):
    page, waiting = page(), []
    page.open(five)
    page.node("4").click()
    page.press("Delete")
    page.until_nodes(4)
    page.tab.route("**/data/undo", lambda route: waiting.append(route))  # never answered
    page.press("Control+z")
    page.until(lambda: waiting)
    page.node("2").click()
    page.editor("Template").click()
    page.press("Control+End")
    page.tab.keyboard.type(" now")
    page.tab.reload()
    page.drawn()
    page.until(lambda: page.params("2")["template"] == "About {{ topic }} now")
    assert list(page.nodes()) == ["1", "2", "3", "5"]


def test_a_late_answer_does_not_replace_what_was_typed_since(page, five):
    page, waiting = page(), []
    page.open(five)
    page.node("2").click()
    page.tab.route("**/data/apply", lambda route: waiting.append(route))
    editor = page.editor("Template")
    editor.click()
    page.press("Control+End")
    page.tab.keyboard.type(" one")
    page.until(lambda: waiting)
    page.tab.keyboard.type(" two")
    page.node("2").click()  # hands on what was typed, behind the first change
    with page.tab.expect_response("**/data/apply"):
        waiting.pop().continue_()
    page.until(lambda: waiting)
    editor.click()
    page.press("Control+End")
    page.tab.keyboard.type(" three")
    waiting.pop().continue_()
    page.tab.unroute("**/data/apply")
    page.until(lambda: page.params("2")["template"] == "About {{ topic }} one two three")
    assert editor.inner_text() == "About {{ topic }} one two three"


def test_variables_that_arrive_while_a_name_is_typed_are_offered_and_chosen_at_once(page, five):
    page, waiting = page(), []
    page.open(five)
    page.node("3").click()
    page.add("llm")
    page.tab.route("**/data/candidates", lambda route: waiting.append(route))
    page.node("3").click()
    page.node("6").click()
    page.editor("User").click()
    page.press("Control+a")  # what it reads by itself
    page.tab.keyboard.type("{{ou")
    page.until(lambda: waiting)
    page.tab.wait_for_timeout(400)  # more than the pause after which completions are asked for
    assert page.tab.locator(".cm-tooltip").count() == 0
    for route in waiting:
        route.continue_()
    page.tab.get_by_role("option", name="output · Template transform #3").wait_for()
    page.tab.keyboard.type("t")
    page.editor("User").evaluate(
        """async (editor) => {
          document.execCommand("insertText", false, "p");
          await new Promise((done) => setTimeout(done)); // less than that pause
          editor.getRootNode().querySelector("[role=option]").dispatchEvent(new MouseEvent("mousedown", { bubbles: true }));
        }"""
    )
    page.until(lambda: page.params("6").get("user") == "{{#3.output#}}", seconds=5)


def test_a_change_on_disk_is_shown_as_a_step(page, five):
    page = page()
    page.open(five)
    (page.folder / five).write_text(FIVE.replace("About", "On"))
    page.until(lambda: "On {{ topic }}" in page.node("2").inner_text())
    page.press("h")
    assert page.tab.locator(".history li").count() == 2


def test_a_file_that_is_gone_can_be_written_again(page, five):
    page = page()
    page.open(five)
    (page.folder / five).unlink()
    page.tab.get_by_role("alert").get_by_role("button").click()
    page.until(lambda: (page.folder / five).exists())
    page.tab.get_by_role("alert").wait_for(state="detached")


def test_two_tabs_show_each_others_changes(page, five):
    one, other = page(), page()
    one.open(five)
    other.open(five)
    one.node("4").click()
    one.press("Delete")
    other.until_nodes(4)
    other.press("Control+z")
    one.until_nodes(5)


def test_two_steps_are_compared_on_the_canvas(page, five):
    page = page()
    page.open(five)
    page.node("4").click()
    page.press("Delete")
    page.until_nodes(4)
    page.press("h")
    page.tab.get_by_role("button", name="Compare step 0 with another").or_(
        page.tab.get_by_role("button", name="Compare step 1 with another")
    ).last.click()
    page.tab.get_by_role("button", name=re.compile("with step")).first.click()
    page.tab.get_by_text("1 removed").wait_for()
    assert page.node("4").locator(".card.mark-removed").count() == 1
