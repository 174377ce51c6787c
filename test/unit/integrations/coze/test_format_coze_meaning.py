"""What an archive does at Coze."""

import asyncio
import io
import zipfile
from types import SimpleNamespace

import pytest
import yaml

from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.coze.format import dump, load, losses

START = NodeSpec("1", "start", {"variables": [["text", "string"], ["n", "number"]]})
CLASSIFIER = NodeSpec("2", "question-classifier", {"query_variable_selector": ["text", "1"], "classes": ["a", "b"]})


def written_code(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        flow = next(path for path in archive.namelist() if path.endswith("-draft.yaml"))
        nodes = yaml.safe_load(archive.read(flow))["nodes"]
    return next(node["parameters"]["code"] for node in nodes if node["type"] == "code")


@pytest.mark.parametrize(
    "code",
    [
        "def main(n):\n    return {'product': n * main(n - 1)['product'] if n else 1}",
        "def before(n):\n    return main(n - 1)['product']\n\n"
        "def main(n):\n    return {'product': n * before(n) if n else 1}",
        "def ours(n):\n    return _main(n)\n\ndef _main(n):\n    return n * main(n - 1)['product'] if n else 1\n\n"
        "def main(n):\n    return {'product': ours(n)}",
    ],
    ids=["itself", "through another", "with names like ours"],
)
def test_code_that_calls_its_main_calls_its_own(code):
    params = {"variables": [["n", ["n", "1"]]], "outputs": [["product", "number"]], "code": code}
    data = dump(NodeGraph([START, NodeSpec("2", "code", params)], [Edge("1", "2")]))
    there = {}
    exec(written_code(data), there)  # noqa: S102 - what Coze does
    for n, product in ((5, 120), (3, 6)):
        assert asyncio.run(there["main"](SimpleNamespace(params={"n": n}))) == {"product": product}
    assert load(data).by_id["2"].params["code"] == code


def test_code_that_fails_can_be_called_again():
    code = "def main(n):\n    return {'product': 1 / n}"
    params = {"variables": [["n", ["n", "1"]]], "outputs": [["product", "number"]], "code": code}
    there = {}
    data = dump(NodeGraph([START, NodeSpec("2", "code", params)], []))
    exec(written_code(data), there)  # noqa: S102 - what Coze does
    with pytest.raises(ZeroDivisionError):
        asyncio.run(there["main"](SimpleNamespace(params={"n": 0})))
    assert asyncio.run(there["main"](SimpleNamespace(params={"n": 2}))) == {"product": 0.5}


@pytest.mark.parametrize(
    "node",
    [
        NodeSpec("3", "llm", {"system": "", "user": "It is {{#2.class_name#}}, yes, {{#2.class_name#}}."}),
        NodeSpec("3", "if-else", {"cases": [[None, [[["class_name", "2"], "is", "a"]]]]}),
        NodeSpec("3", "end", {"outputs": [["said", ["class_name", "2"]]]}),
    ],
    ids=lambda node: node.type,
)
def test_the_name_of_a_class_that_is_read_is_said_to_be_a_number_there(node):
    (issue,) = losses(NodeGraph([START, CLASSIFIER, node], [Edge("1", "2"), Edge("2", "3")]))
    assert (issue.code, issue.where) == ("loss", "3")
    assert issue.message.startswith("2.class_name: Coze gives the number of the class as classificationId")


@pytest.mark.parametrize(("variable", "name"), [("class_id", "class_id"), ("usage.total_tokens", "usage")])
def test_a_report_that_is_read_is_a_loss(variable, name):
    node = NodeSpec("3", "end", {"outputs": [["said", [variable, "2"]]]})
    (issue,) = losses(NodeGraph([START, CLASSIFIER, node], [Edge("1", "2"), Edge("2", "3")]))
    assert (issue.where, issue.message) == (
        "3",
        f"2.{variable}: nodes of this type have no {name} at Coze; do without it",
    )


def test_it_is_said_of_several_ends():
    ends = [
        NodeSpec("3", "end", {"outputs": [["said", ["class_name", "2"]]]}),
        NodeSpec("4", "end", {"outputs": [["said", ["text", "1"]]]}),
    ]
    graph = NodeGraph([START, CLASSIFIER, *ends], [Edge("1", "2"), Edge("2", "3"), Edge("2", "4", 1)])
    assert [issue.where for issue in losses(graph)] == ["3"]


def test_what_a_classifier_leads_to_loses_nothing():
    llm = NodeSpec("3", "llm", {"system": "", "user": "{{#1.text#}}"})
    assert losses(NodeGraph([START, CLASSIFIER, llm], [Edge("1", "2"), Edge("2", "3")])) == []
