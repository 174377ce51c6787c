"""The studio in a real browser: what new nodes begin with, and forms that need no JSON."""

import json

import pytest
from studio_page import served, tabs

from operad.flows.formats.operad import OPERAD
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.models.model import Model
from operad.runtime.models.turn import Price

pytestmark = pytest.mark.slow  # a browser each

START = NodeSpec("1", "start", {"variables": [["letter", "string"], ["letters", "array[string]"], ["scan", "file"]]})


@pytest.fixture
def opened(opened):
    """Opens a new file with nodes in a new tab."""
    return lambda nodes=(START,), edges=(): opened(
        OPERAD.dump(NodeGraph(nodes, [Edge(*edge) for edge in edges], "flow")).decode()
    )


def add(page, node_type, after):
    """Select a node, and click a type in the palette; return the id of the new node."""
    before = set(page.nodes())
    page.node(after).locator(".card-head").first.click()
    page.tab.locator(f'.palette-item[data-type="{node_type}"]').click()
    page.until(lambda: set(page.nodes()) > before)
    return min(set(page.nodes()) - before)  # a container comes with the node that its inside starts with


def test_a_new_node_reads_what_stands_before_it(opened):
    page = opened()
    for node_type, params in [
        ("iteration", {"iterator_selector": ["letters", "1"], "output_selector": ["item", "2"]}),
        ("answer", {"answer": "{{#1.letter#}}"}),
        ("end", {"outputs": [["letter", ["letter", "1"]]]}),
        ("llm", {"system": "", "user": "{{#1.letter#}}"}),
        ("template-transform", {"variables": [["value", ["letter", "1"]]], "template": "{{ value }}"}),
        ("request", {"url": ""}),
    ]:
        assert page.params(add(page, node_type, "1")).items() >= params.items()


def test_a_new_code_node_runs_as_it_is(opened):
    page = opened()
    code = add(page, "code", "1")
    end = add(page, "end", code)
    assert page.params(code)["outputs"] == [["result", "string"]]
    assert page.params(end)["outputs"] == [["result", ["result", code]]]
    assert page.document()["issues"] == []


def test_a_node_that_is_connected_later_reads_what_it_follows_unless_a_person_filled_it_in(opened):
    nodes = [START, NodeSpec("2", "answer", {"answer": ""}), NodeSpec("3", "answer", {"answer": "Hello"})]
    page = opened(nodes)
    page.drag_edge("1", "2")
    page.drag_edge("1", "3")
    assert page.params("2")["answer"] == "{{#1.letter#}}"
    assert page.params("3")["answer"] == "Hello"
    page.node("2").focus()
    page.press("Control+z", "Control+z")
    page.until(lambda: page.params("2")["answer"] == "")


def test_an_iteration_gives_the_result_of_its_last_inner_node(opened):
    page = opened()
    around = add(page, "iteration", "1")
    first = add(page, "llm", f"{around}-1")
    assert page.params(first)["user"] == f"{{{{#{around}.item#}}}}"
    page.until(lambda: page.params(around)["output_selector"] == ["text", first])
    second = add(page, "template-transform", first)
    page.until(lambda: page.params(around)["output_selector"] == ["output", second])


def test_what_follows_a_failure_reads_its_message(opened):
    page = opened([START, NodeSpec("2", "request", {"url": "http://127.0.0.1:9/", "method": "get"})], [("1", "2")])
    page.node("2").click()
    page.tab.get_by_label("If it fails").select_option(label="the error branch is taken")
    page.until(lambda: page.params("2").get("failure") == {"then": "branch"})
    good, bad = add(page, "answer", "2"), add(page, "answer", "2")
    assert page.params(good)["answer"] == "{{#2.body#}}"
    assert page.params(bad)["answer"] == "{{#2.error_message#}}"
    page.node("2").click()
    page.tab.get_by_label("If it fails").select_option(label="the run ends")
    page.until(lambda: not page.params("2").get("failure"))


def test_values_in_place_of_a_failed_node_begin_with_its_outputs(opened):
    page = opened([START, NodeSpec("2", "llm", {"system": "", "user": "Hi"})], [("1", "2")])
    page.node("2").click()
    page.tab.get_by_label("If it fails").select_option(label="the run goes on with values")
    page.until(lambda: page.params("2").get("failure", {}).get("then") == "values")
    assert page.params("2")["failure"]["values"]["text"] == ""
    assert [each for each in page.document()["issues"] if each["node"]] == []


def test_a_list_is_filled_in_item_by_item_and_by_pasting_lines(opened):
    nodes = [START, NodeSpec("2", "end", {"outputs": [["letters", ["letters", "1"]]]})]
    page = opened(nodes, [("1", "2")])
    page.press("Control+Enter")
    page.tab.get_by_label("letters 1").fill("one")
    page.tab.get_by_label("letters 2").focus()
    page.tab.evaluate(
        """() => {
          const data = new DataTransfer();
          data.setData("text/plain", "two\\n\\nthree");
          document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
        }"""
    )
    page.tab.get_by_label("Remove letters 1").click()
    page.tab.get_by_role("textbox", name="letter string").fill("A")
    rows = page.tab.get_by_role("group", name="letters").get_by_role("textbox")
    assert [row.input_value() for row in rows.all()] == ["two", "three", ""]


def test_a_model_is_chosen_with_its_price_in_view(tmp_path, browser, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    asked = []
    folder = tmp_path / "folder"
    folder.mkdir()
    ask = NodeSpec("2", "llm", {"system": "", "user": "{{#1.letter#}}"})
    (folder / "flow.yaml").write_bytes(OPERAD.dump(NodeGraph([START, ask], [Edge("1", "2")], "flow")))
    model = Model(name="mine", base_url="http://127.0.0.1:9/v1", price=Price(prompt=2, completion=8))
    with served(folder, tmp_path / "histories", model=model) as url, tabs(browser, url, folder) as opened:
        page = opened()
        page.tab.on("request", lambda request: asked.append(request) if request.url.endswith("data/run") else None)
        page.open("flow.yaml")
        page.press("Control+Enter")
        page.tab.get_by_text("Model", exact=True).click()
        hint = page.tab.locator(".run .more .hint")
        hint.wait_for()
        assert "2 USD in, 8 USD out" in hint.inner_text()
        names = page.tab.locator(".run datalist option").evaluate_all("(all) => all.map((each) => each.value)")
        assert any(name.startswith("openai:gpt") for name in names)
        page.tab.get_by_label("Model of the run").fill("nothing:at all")
        page.tab.get_by_role("textbox", name="letter string").fill("A")
        page.tab.locator(".run button[type=submit]").click()
        page.tab.locator(".toast").wait_for()
        assert json.loads(asked[0].post_data)["model"] == "nothing:at all"
        assert "nothing" in page.toast()
