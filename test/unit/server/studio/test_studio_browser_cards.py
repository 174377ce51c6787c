"""The studio in a real browser: what cards and edges say of a run, and a failure that is handed to the chat."""

from contextlib import ExitStack

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


def taken(page):
    """Return the edges that are marked as taken."""
    edges = page.tab.locator(".react-flow__edge:has(.taken)")
    return sorted(edges.evaluate_all("(all) => all.map((each) => each.dataset.id)"))


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
    assert taken(page) == ["1:0>2", "2:0>3", "3:0>4"]


BRANCHES = [
    NodeSpec("2", "if-else", {"cases": [[None, [[["letter", "1"], "contains", "Ann"]]]]}),
    NodeSpec("3", "template-transform", {"variables": [["it", ["letter", "1"]]], "template": "Yes: {{ it }}"}),
    NodeSpec("4", "template-transform", {"variables": [["it", ["letter", "1"]]], "template": "No: {{ it }}"}),
    NodeSpec("5", "variable-aggregator", {"variables": [["output", "3"], ["output", "4"]]}),
    NodeSpec("6", "answer", {"answer": "{{#5.output#}}"}),
]
LINES = [("1", "2"), ("2", "3"), ("2", "4", 1), ("3", "5"), ("4", "5"), ("5", "6")]


def test_a_run_of_a_part_marks_only_the_edges_that_it_took(opened):
    """The node joins two branches, of which the last run took one; all other nodes do not run."""
    page = opened(graph(BRANCHES, LINES))
    run(page)
    page.until(lambda: taken(page) == ["1:0>2", "2:0>3", "3:0>5", "5:0>6"])
    page.node("5").click()
    page.press("Control+Enter")
    for button, said, edges in [
        ("Run “Variable aggregator” alone", "Variable aggregator alone", ["3:0>5"]),
        ("Run from here", "from Variable aggregator", ["3:0>5", "5:0>6"]),
    ]:
        page.tab.get_by_role("button", name=button).click()
        page.tab.locator(".result header", has_text=said).wait_for()
        page.tab.locator(".result .run-mark.is-done").wait_for()
        page.settled()
        assert taken(page) == edges


def test_the_items_of_an_iteration_are_looked_at_and_its_edges_are_marked_when_it_runs_alone(opened):
    start = NodeSpec("1", "start", {"variables": [["words", "array[string]"]], "defaults": {"words": ["fig", "oak"]}})
    around = NodeSpec("2", "iteration", {"iterator_selector": ["words", "1"], "output_selector": ["output", "2-2"]})
    inner = [
        NodeSpec("2-1", "iteration-start", {}, "2"),
        NodeSpec("2-2", "template-transform", {"variables": [["it", ["item", "2"]]], "template": "a {{ it }}"}, "2"),
    ]
    end = NodeSpec("3", "end", {"outputs": [["all", ["output", "2"]]]})
    edges = [Edge("1", "2"), Edge("2-1", "2-2"), Edge("2", "3")]
    page = opened(OPERAD.dump(NodeGraph([start, around, *inner, end], edges, "flow")).decode())
    run(page)
    page.node("2-2").click()
    page.press("Enter")
    last = page.tab.locator(".inspector")
    for number, said in (("2", "a oak"), ("1", "a fig")):
        last.get_by_label("Item").select_option(label=number)
        last.locator("pre", has_text=said).wait_for()
    page.press("Escape")
    page.node("2").click(position={"x": 60, "y": 14})
    page.press("Control+Enter")
    page.tab.get_by_role("button", name="Run “Iteration” alone").click()
    page.node("3").locator(".run-mark.is-reused").wait_for()
    page.tab.locator(".result .run-mark.is-done").wait_for()
    page.settled()
    assert taken(page) == ["1:0>2", "2-1:0>2-2"]


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
