"""The studio in a real browser: what cards and edges say of a run, and a failure that is handed to the chat."""

import pytest
from studio_page import served, tabs

from operad.flows.formats.operad import OPERAD
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.testing import Fail, Say, ScriptedModel

pytestmark = pytest.mark.slow  # a browser each

JUDGED = """\
operators:
  - name: letter
    instruction: Write a letter.
experts:
  - profile: {name: Writer}
    reasoner: {max_rounds: 1}
    workflow:
      - [letter]
    evaluator: {instruction: It is polite.}
"""


def graph(nodes, edges):
    start = NodeSpec("1", "start", {"variables": [["letter", "string"]], "defaults": {"letter": "Dear Ann"}})
    return OPERAD.dump(NodeGraph([start, *nodes], [Edge(*edge) for edge in edges], "flow")).decode()


@pytest.fixture
def opened(tmp_path, browser):
    """Opens a file in a tab of a studio whose model answers as told."""
    from contextlib import ExitStack

    folder = tmp_path / "folder"
    folder.mkdir()
    with ExitStack() as stack:

        def opened(text, *answers):
            (folder / "flow.yaml").write_text(text)
            endpoint = stack.enter_context(ScriptedModel(list(answers)))
            url = stack.enter_context(served(folder, tmp_path / "histories", model=endpoint.model))
            page = stack.enter_context(tabs(browser, url, folder))()
            page.open("flow.yaml")
            return page

        yield opened


def run(page):
    page.press("Control+Enter")
    page.tab.locator(".run button[type=submit]").click()
    page.tab.locator(".result .run-mark:is(.is-done, .is-failed)").wait_for()


def test_a_card_shows_the_model_and_tokens_and_the_edges_that_were_taken_are_marked(opened):
    nodes = [
        NodeSpec("2", "llm", {"system": "", "user": "{{#1.letter#}}"}),
        NodeSpec("3", "if-else", {"cases": [[None, [[["text", "2"], "contains", "yes"]]]]}),
        NodeSpec("4", "answer", {"answer": "It does"}),
        NodeSpec("5", "answer", {"answer": "It does not"}),
    ]
    page = opened(graph(nodes, [("1", "2"), ("2", "3"), ("3", "4"), ("3", "5", 1)]), Say("yes"))
    run(page)
    summary = page.node("2").locator(".card-summary")
    page.until(lambda: "tokens" in summary.inner_text())
    assert "scripted" in summary.inner_text()
    taken = page.tab.locator(".react-flow__edge:has(.taken)").evaluate_all(
        "(all) => all.map((each) => each.dataset.id)"
    )
    assert taken == ["1:0>2", "2:0>3", "3:0>4"]


def test_the_card_of_an_evaluator_says_its_verdict_and_why(opened):
    page = opened(
        JUDGED,
        Say("Go away."),
        Say('{"status": "JOB_TOO_COMPLICATED_ERROR", "evaluation": "It is rude.", "lesson": "Be polite.", "score": 2}'),
    )
    page.press("Control+Enter")
    page.tab.get_by_role("textbox", name="job string").fill("Write to Ann")
    page.tab.locator(".run button[type=submit]").click()
    verdict = page.tab.locator(".card-summary.verdict.bad")
    verdict.wait_for()
    assert verdict.inner_text() == "rejected, score 2: It is rude."


def test_a_failure_is_handed_to_the_chat_with_the_error_and_the_prompt(opened):
    ask = NodeSpec("2", "llm", {"system": "", "user": "Rhyme on {{#1.letter#}}"})
    page = opened(
        graph([ask, NodeSpec("3", "answer", {"answer": "{{#2.text#}}"})], [("1", "2"), ("2", "3")]), Fail(400)
    )
    run(page)
    page.node("2").click()
    page.press("Enter")
    page.tab.locator(".inspector").get_by_role("button", name="Fix this").click()
    said = page.tab.get_by_label("What you need").input_value()
    assert all(part in said for part in ("Node 2 (LLM) failed", "400", "User: Rhyme on {{#1.letter#}}"))
    page.tab.reload()
    page.drawn()
    page.tab.get_by_role("button", name="Chat").click()
    assert page.tab.get_by_label("What you need").input_value() == said


def test_the_values_of_each_item_can_be_looked_at(opened):
    start = NodeSpec(
        "1", "start", {"variables": [["words", "array[string]"]], "defaults": {"words": ["fig", "oak", "elm"]}}
    )
    around = NodeSpec("2", "iteration", {"iterator_selector": ["words", "1"], "output_selector": ["output", "2-2"]})
    inner = [
        NodeSpec("2-1", "iteration-start", {}, "2"),
        NodeSpec(
            "2-2", "template-transform", {"variables": [["value", ["item", "2"]]], "template": "a {{ value }}"}, "2"
        ),
    ]
    end = NodeSpec("3", "end", {"outputs": [["all", ["output", "2"]]]})
    edges = [Edge("1", "2"), Edge("2-1", "2-2"), Edge("2", "3")]
    page = opened(OPERAD.dump(NodeGraph([start, around, *inner, end], edges, "flow")).decode())
    run(page)
    page.node("2-2").click()
    page.press("Enter")
    last = page.tab.locator(".inspector")
    last.get_by_label("Item").select_option(label="2")
    last.get_by_text("a oak").wait_for()
    last.get_by_label("Item").select_option(label="1")
    last.get_by_text("a fig").wait_for()
