"""The studio in a real browser: losses of an export, fixes of issues, steps of the history, the search of node types."""

from itertools import combinations

import pytest
from studio_page import AXE
from studios import FIVE

pytestmark = pytest.mark.slow  # a browser each; test_studio_browser.py looks at the page in `make test`

DIFY = "test/unit/data/dify_cases/fail-branch-code-fails.yml"

MISSPELT = FIVE.replace('[said, [output, "2"]]', '[said, [outputt, "2"]]')


def overlap(one, other):
    return all(
        one[start] < other[start] + other[length] and other[start] < one[start] + one[length]
        for start, length in (("x", "width"), ("y", "height"))
    )


def test_a_changed_file_of_dify_shows_what_coze_cannot_hold_before_anything_is_saved(opened, request):
    page = opened((request.config.rootpath / DIFY).read_text(), ".yml", bypass_csp=True)
    cards = [page.node(str(number)).bounding_box() for number in range(1, 7)]
    assert not any(overlap(one, other) for one, other in combinations(cards, 2))  # in the file, they lie too close
    page.node("4").click()
    page.editor("Template").click()
    page.press("Control+a")
    page.tab.keyboard.insert_text("{{ 'bad' | upper }}")
    page.until(lambda: "| upper" in page.file.read_text())
    saved, files = [], sorted(page.folder.iterdir())
    page.tab.on("download", lambda download: saved.append(download))
    page.tab.get_by_title("Export").click()
    page.tab.get_by_text("Coze (archive)").click()
    losses = page.tab.locator("dialog .losses").first.locator("li")
    losses.first.wait_for()
    assert losses.all_inner_texts() == [
        "template-transform 4 (4) template: Coze only puts variables in, and knows nothing else of Jinja",
    ]
    assert page.tab.locator("dialog h3").inner_text() == "1 loss"
    page.tab.get_by_text("settings of the platform that it comes from").click()
    assert "code 2 (2) settings that only dify has: position" in page.tab.locator("dialog").inner_text()
    if AXE.exists():
        assert page.faults() == []
    assert (saved, sorted(page.folder.iterdir())) == ([], files)
    with page.tab.expect_download() as download:
        page.tab.get_by_role("button", name="Save").click()
    assert download.value.suggested_filename.endswith(".coze.zip")
    assert download.value.path().read_bytes()[:2] == b"PK"


def test_a_fix_mends_an_issue_and_undo_brings_it_back(opened):
    page = opened(MISSPELT)
    assert page.node("3").locator(".card-issues").count() == 1
    page.tab.get_by_role("button", name="1 issue").click()
    fix = page.tab.locator(".issues").get_by_role(
        "button", name='Fix: change variables.said of 3 from "2.outputt" to "2.output"'
    )
    fix.click()
    page.tab.get_by_text("The static check finds no issues.").wait_for()
    assert page.node("3").locator(".card-issues").count() == 0
    assert page.params("3")["variables"] == [["said", ["output", "2"]]]
    page.node("3").focus()
    page.press("Control+z")
    fix.wait_for()
    assert page.node("3").locator(".card-issues").count() == 1
    page.until(lambda: page.file.read_text() == MISSPELT)


def test_going_back_to_a_step_restores_the_graph_and_the_file(opened):
    page = opened(FIVE)
    page.node("4").click()
    page.press("Delete")
    page.until_nodes(4)
    page.node("3").click()
    page.press("Delete")
    page.until_nodes(3)
    page.press("h")
    steps = page.tab.locator(".history li")
    assert [each.split("\n")[0] for each in steps.all_inner_texts()] == [
        "Remove Template transform #3", "Remove Template transform #4", "opened",
    ]  # fmt: skip
    steps.nth(1).locator(".step").click()
    page.until_nodes(4)
    assert list(page.nodes()) == ["1", "2", "3", "5"]
    assert page.tab.locator(".history li.here .step").inner_text().startswith("Remove Template transform #4")
    steps.nth(2).locator(".step").click()
    page.until_nodes(5)
    assert page.edges() == [("1", 0, "2"), ("1", 0, "4"), ("2", 0, "3"), ("3", 0, "5"), ("4", 0, "5")]
    assert page.file.read_text() == FIVE
    steps.nth(0).locator(".step").click()
    page.until_nodes(3)
    assert list(page.nodes()) == ["1", "2", "5"]


def test_the_search_of_the_palette_finds_a_type_by_its_name_and_by_what_it_does(opened):
    page = opened(FIVE)
    page.node("2").click()
    search, items = page.tab.get_by_role("searchbox", name="Search node types"), page.tab.locator(".palette-item")
    for words, node_type in [
        ("loop", "loop"), ("tool", "tool"), ("end", "end"), ("asks a person", "human-input"), ("jinja", "template-transform"),
    ]:  # fmt: skip
        search.fill(words)
        page.until(lambda node_type=node_type: items.first.get_attribute("data-type") == node_type)
    page.press("Enter")
    page.until_nodes(6)
    assert page.nodes()["6"] == "template-transform"
    assert ("2", 0, "6") in page.edges()
    search.fill("presentation")
    page.tab.get_by_text("No node type has these words.").wait_for()
    assert items.count() == 0
