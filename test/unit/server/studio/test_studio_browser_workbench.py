"""The studio in a real browser: what a person who makes workflows meets in a day."""

import json

import pytest
from studio_page import served, tabs
from studios import EXPERTS, FIVE

from operad.flows.formats.operad import OPERAD
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.testing import ScriptedModel

pytestmark = pytest.mark.slow  # a browser each; test_studio_browser.py looks at the page in `make test`

COMFY = {
    "1": {"class_type": "LoadModel", "inputs": {"file": "house.bin", "layers": 12}},
    "2": {"class_type": "Encode", "inputs": {"text": "a house", "words": ["1", 1]}},
    "3": {"class_type": "Decode", "inputs": {"noise": 0.5, "model": ["1", 0], "said": ["2", 0], "colours": ["1", 2]}},
}
START = NodeSpec("1", "start", {"variables": [["letter", "string"], ["letters", "array[string]"]]})
PHONE = {"viewport": {"width": 390, "height": 780}}


def text_of(nodes, edges=(), name="flow"):
    return OPERAD.dump(NodeGraph(nodes, [Edge(*edge) for edge in edges], name)).decode()


def prompts(count):
    """A chain of a start and further nodes."""
    nodes = [START, *(NodeSpec(str(each), "llm", {"system": "", "user": "Hi"}) for each in range(2, count + 1))]
    return text_of(nodes, [(str(each), str(each + 1)) for each in range(1, count)])


def run(page):
    page.press("Control+Enter")
    page.tab.locator(".run button[type=submit]").click()
    page.tab.locator(".result .run-mark.is-done").wait_for()


# Workflows of ComfyUI


def test_each_link_of_a_comfyui_graph_is_drawn_and_it_says_why_it_cannot_run(opened):
    page = opened(json.dumps(COMFY), ".json")
    assert page.tab.locator(".react-flow__edge").count() == 4
    assert page.node("1").locator(".card-port").all_inner_texts() == ["model", "words", "colours"]
    button = page.tab.get_by_role("banner").get_by_role("button", name="Run")
    assert button.is_disabled()
    assert "comfyui" in button.get_attribute("title")
    page.press("Control+Enter")
    assert "comfyui" in page.toast()
    page.node("1").click()
    assert page.tab.locator(".inspector .values").inner_text().split() == ["file", "house.bin", "layers", "12"]


# What is said of a workflow


def test_an_empty_answer_is_listed_and_nothing_says_that_the_workflow_can_run(opened):
    answers = [NodeSpec(str(each), "answer", {"answer": ""}) for each in (2, 3, 4)]
    page = opened(text_of([START, *answers], [("1", "2"), ("2", "3"), ("3", "4")]))
    page.tab.get_by_role("button", name="3 issues").click()
    assert [each["node"] for each in page.document()["issues"]] == ["2", "3", "4"]
    assert page.tab.locator(".issues li code").all_inner_texts() == ["answer"] * 3


def test_a_node_that_was_changed_since_the_run_says_so_until_it_is_as_before_and_also_after_a_reload(opened):
    page = opened(FIVE)
    run(page)
    page.tab.wait_for_selector('.react-flow__node[data-id="2"] .card[data-state="done"]')
    page.node("2").dblclick()
    page.editor("Template").click()
    page.press("Control+End")
    page.tab.keyboard.type(" now")
    page.tab.wait_for_selector('.react-flow__node[data-id="2"] .card[data-state="stale"]')
    assert page.node("4").locator(".card").get_attribute("data-state") == "done"
    page.saved()
    page.node("2").focus()
    page.press("Control+z")
    page.tab.wait_for_selector('.react-flow__node[data-id="2"] .card[data-state="done"]')
    page.press("Control+Shift+z")
    page.tab.wait_for_selector('.react-flow__node[data-id="2"] .card[data-state="stale"]')
    page.saved()
    page.tab.reload()
    page.tab.wait_for_selector('.react-flow__node[data-id="2"] .card[data-state="stale"]')
    page.tab.wait_for_selector('.react-flow__node[data-id="4"] .card[data-state="done"]')


def test_a_request_that_failed_and_took_its_error_branch_is_not_shown_as_done(tmp_path, browser):
    ask = NodeSpec("2", "request", {"method": "get", "url": "http://127.0.0.1:9/", "failure": {"then": "branch"}})
    start = NodeSpec("1", "start", {"variables": []})
    ends = [NodeSpec("3", "answer", {"answer": "yes"}), NodeSpec("4", "answer", {"answer": "{{#2.error_message#}}"})]
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "ask.yaml").write_text(text_of([start, ask, *ends], [("1", "2"), ("2", "3"), ("2", "4", 1)]))
    with (
        served(folder, tmp_path / "histories", trust=True) as url,
        tabs(browser, url, folder) as opened,
    ):
        page = opened()
        page.open("ask.yaml")
        run(page)
        page.tab.wait_for_selector('.react-flow__node[data-id="2"] .card[data-state="fell"]')
        assert "may not be fetched" in page.node("2").locator(".run-mark").get_attribute("title")
        with page.tab.context.expect_page() as timeline:
            page.tab.get_by_role("link", name="Timeline").click()
        timeline.value.locator(".card.is-fell .name", has_text="Request").wait_for()


# Finding one's way


def test_a_node_is_found_by_what_it_says_and_without_words_all_are_listed_in_order(opened):
    around = NodeSpec("5", "iteration", {"iterator_selector": ["letters", "1"], "output_selector": ["item", "5"]})
    nodes = [
        NodeSpec("9", "llm", {"system": "", "user": "Rhyme on harbours"}), around,
        NodeSpec("5-1", "iteration-start", {}, "5"), START,
    ]  # fmt: skip
    page = opened(text_of(nodes, [("1", "5"), ("5", "9")]))
    page.press("Control+f")
    options = page.tab.get_by_role("option")
    assert [each.split("\n")[0].split()[-1] for each in options.all_inner_texts()] == ["1", "5", "5-1", "9"]
    page.tab.keyboard.type("harbours")
    page.until(lambda: options.count() == 1)
    page.press("Enter")
    page.tab.wait_for_selector('.react-flow__node[data-id="9"].selected')
    assert page.tab.locator(".inspector header").inner_text().endswith("id 9")


def test_a_folded_container_hides_its_inside_counts_its_issues_and_opens_where_something_is_found(opened):
    around = NodeSpec("5", "iteration", {"iterator_selector": ["letters", "1"], "output_selector": ["text", "5-2"]})
    inner = NodeSpec("5-2", "llm", {"system": "", "user": "{{#nobody.says#}}"}, "5")
    nodes = [START, around, NodeSpec("5-1", "iteration-start", {}, "5"), inner]
    page = opened(text_of(nodes, [("1", "5"), ("5-1", "5-2")]))
    page.tab.get_by_role("button", name="Fold Iteration").click()
    page.until(lambda: page.tab.locator(".react-flow__node").count() == 2)
    assert page.node("5").locator(".card-issues").count() == 1
    page.tab.reload()
    page.drawn()
    assert page.tab.locator(".react-flow__node").count() == 2
    page.press("Control+f")
    page.tab.keyboard.type("nobody")
    page.press("Enter")
    page.tab.wait_for_selector('.react-flow__node[data-id="5-2"].selected')


def test_a_version_gets_a_name_that_the_history_shows(opened):
    page = opened(FIVE)
    page.tab.get_by_role("button", name="History").click()
    page.tab.get_by_role("button", name="Name step 1").click()
    page.tab.keyboard.type("as sent to Ann")
    page.press("Enter")
    page.tab.get_by_role("button", name="as sent to Ann").wait_for()
    page.tab.reload()
    page.drawn()
    page.tab.get_by_role("button", name="History").click()
    page.tab.get_by_role("button", name="as sent to Ann").wait_for()


def test_the_browser_goes_back_to_the_start_page_and_to_the_file(opened):
    page = opened(FIVE)
    page.tab.go_back()
    page.tab.wait_for_selector(".start")
    page.tab.go_forward()
    page.drawn()
    page.tab.get_by_label("All files").click()
    page.tab.wait_for_selector(".start")
    page.tab.go_back()
    page.drawn()
    assert len(page.nodes()) == 5


def test_titles_can_be_read_at_the_zoom_that_fits_ten_nodes(opened):
    page = opened(prompts(10), viewport={"width": 1280, "height": 800})
    sizes = page.tab.evaluate(
        """() => [...document.querySelectorAll(".card-title")].map((title) => {
          const zoom = title.getBoundingClientRect().height / title.offsetHeight;
          return [parseFloat(getComputedStyle(title).fontSize) * zoom, title.scrollWidth - title.clientWidth];
        })"""
    )
    assert len(sizes) == 10
    assert min(size for size, _ in sizes) >= 10
    assert max(cut for _, cut in sizes) <= 0
    assert page.tab.locator(".react-flow__node").last.bounding_box()["x"] < 1280


def test_a_phone_has_a_button_that_adds_a_node(opened):
    page = opened(FIVE, **PHONE)
    page.tab.get_by_role("button", name="Add a node").click()
    page.tab.wait_for_selector("dialog [role=combobox]")
    page.tab.keyboard.type("llm")
    page.press("Enter")
    page.until(lambda: page.tab.locator(".react-flow__node").count() == 6)


NAME = "letters/to_customers/refund_after_a_complaint.yaml"


def test_the_name_of_the_file_is_readable_in_full(site, page):
    file = site[1] / NAME
    file.parent.mkdir(parents=True)
    file.write_text(FIVE)
    page = page()
    page.open(NAME)
    name, bar = page.tab.locator(".top h1"), page.tab.locator(".top")
    assert name.inner_text() == NAME
    cut = "(each) => [each.scrollWidth - each.clientWidth, each.scrollHeight - each.clientHeight]"
    for width in (320, 390, 800, 1280):
        page.tab.set_viewport_size({"width": width, "height": 780})
        page.settled()
        assert (name.evaluate(cut), bar.evaluate(cut)) == ([0, 0], [0, 0])
        boxes = [box for each in bar.get_by_role("button").all() if (box := each.bounding_box())]
        assert min(box["x"] for box in boxes) >= 0
        assert max(box["x"] + box["width"] for box in boxes) <= width


# Editing


def test_a_long_text_is_pasted_into_the_run_form_without_a_wait(opened):
    page = opened(FIVE)
    page.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.press("Control+Enter")
    page.tab.locator(".run textarea").click()
    text = "lorem ipsum " * 90_000
    page.tab.evaluate("(text) => navigator.clipboard.writeText(text)", text)
    took = page.tab.evaluate("() => { window.began = performance.now(); }")
    page.press("Control+v")
    page.tab.get_by_text("1,080,000 characters").wait_for()
    page.settled()
    took = page.tab.evaluate("() => performance.now() - window.began")
    assert took < 3000
    page.tab.locator(".run button[type=submit]").click()
    page.tab.locator(".result .run-mark.is-done").wait_for()
    page.tab.get_by_role("button", name="Remove").click()
    assert page.tab.locator(".run textarea").input_value() == ""


@pytest.mark.parametrize(
    ("typed", "chosen"), [("/letter", True), ("/Start", True), ("and/or", False), ("http://a/", False)]
)
def test_a_slash_and_a_name_are_replaced_by_the_variable(opened, typed, chosen):
    ask = NodeSpec("2", "llm", {"system": "", "user": "Hi"})
    page = opened(text_of([START, ask], [("1", "2")]))
    page.node("2").click()
    page.editor("User").click()
    page.press("Control+a", "Delete")
    page.tab.keyboard.type("To " + typed, delay=30)
    if chosen:
        page.tab.locator(".cm-tooltip").get_by_role("option").first.click()
        page.until(lambda: page.params("2")["user"] == "To {{#1.letter#}}")
    else:
        page.tab.wait_for_timeout(300)
        assert page.tab.locator(".cm-tooltip").count() == 0


def test_pasted_nodes_cover_no_others(opened):
    nodes = [START, *(NodeSpec(str(each), "llm", {"system": "", "user": "Hi"}) for each in range(2, 6))]
    page = opened(text_of(nodes, [("1", str(each)) for each in range(2, 6)]))
    for ids in (["2"], ["2", "3"], ["1"]):
        for each in ids:
            page.node(each).click(modifiers=["Shift"] if each != ids[0] else [])
        before = page.tab.locator(".react-flow__node").count()
        page.press("Control+d")
        page.until_nodes(before + len(ids))
    boxes = [each.bounding_box() for each in page.tab.locator(".react-flow__node").all()]
    for at, one in enumerate(boxes):
        for other in boxes[at + 1 :]:
            apart = [
                one[place] + one[size] <= other[place] + 0.5 or other[place] + other[size] <= one[place] + 0.5
                for place, size in (("x", "width"), ("y", "height"))
            ]
            assert any(apart), (one, other)


def test_an_iteration_arrives_without_errors_and_gives_what_is_put_into_it(opened):
    page = opened(text_of([START, NodeSpec("2", "end", {"outputs": [["said", ["letter", "1"]]]})], [("1", "2")]))
    page.node("1").click()
    page.press("/")
    page.tab.wait_for_selector("dialog [role=combobox]")
    page.tab.keyboard.type("iteration")
    page.press("Enter")
    page.until_nodes(4)
    assert [each for each in page.document()["issues"] if each["severity"] == "error"] == []
    assert page.params("3")["iterator_selector"] == ["letters", "1"]
    page.node("3-1").click()
    page.add("llm")
    page.until(lambda: page.params("3")["output_selector"] == ["text", "3-2"])


def test_an_evaluator_is_added_in_the_form_of_an_expert(opened):
    page = opened(EXPERTS)
    page.node("Fact checker").click(position={"x": 40, "y": 20})
    assert page.tab.get_by_role("button", name="Add evaluator").count() == 0  # no operator is free
    page.tab.get_by_role("button", name="New evaluator").click()
    page.tab.get_by_label("Criteria", exact=True).last.fill("It is polite.")
    page.tab.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    page.node("evaluator").wait_for()
    assert page.nodes()["evaluator"] == "evaluator"


# Reload


def test_the_chat_and_its_draft_survive_a_reload(tmp_path, browser, stages, conversation):
    paper = conversation("paper")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "new.yaml").write_text("workflow: new\nnodes:\n  1: {type: start, after: [], variables: []}\n")
    with (
        ScriptedModel(stages(paper[0])) as endpoint,
        served(folder, tmp_path / "histories", model=endpoint.model) as url,
        tabs(browser, url, folder) as opened,
    ):
        page = opened()
        page.open("new.yaml")
        page.press("m")
        page.tab.get_by_label("What you need").fill(paper[0]["says"])
        page.tab.get_by_label("What you need").press("Enter")
        page.until(lambda: page.tab.locator(".card.mark-added").count() == 3)
        said = page.tab.locator(".chat .line").all_inner_texts()
        page.tab.reload()
        page.until(lambda: page.tab.locator(".card.mark-added").count() == 3)
        assert page.tab.locator(".chat .line").all_inner_texts() == said
        page.tab.locator(".draft").get_by_role("button", name="Accept", exact=True).click()
        page.until(lambda: "workflow: new" not in (folder / "new.yaml").read_text() or len(page.nodes()) == 4)
        assert len(page.nodes()) == 4
