"""Dry runs: what breaks a workflow is found without a model, a file or the web."""

import sys
from itertools import pairwise

import pytest

from operad.evaluators.dry_run import dry_run
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec


def chain(*nodes):
    edges = [Edge(before.id, after.id) for before, after in pairwise(nodes)]
    return NodeGraph(nodes, edges)


def start(*variables):
    return NodeSpec("1", "start", {"variables": list(variables)})


def end(variable, node):
    return NodeSpec("9", "end", {"outputs": [["result", [variable, node]]]})


def code(text, variables, outputs):
    return NodeSpec("2", "code", {"code": text, "variables": variables, "outputs": outputs})


async def test_a_workflow_that_holds_together_ends():
    llm = NodeSpec("2", "llm", {"system": "", "user": "Say {{#1.topic#}}."})
    done = await dry_run(chain(start(["topic", "string"]), llm, end("text", "2")))
    assert done.ended
    assert done.ran["llm"] == 1


@pytest.mark.parametrize(
    ("asked", "code_of_it"),
    [
        ("Say a JSON object with two keys: 'score' (1 to 10) and 'reason'.", "x = json.loads(t)\n    x['score'] + 1\n    x['reason']"),
        ("Format it as a JSON array of chapters.", "[x.get('a') for x in json.loads(t)]"),
        ("Write the summary, a line ---MERMAID---, and the diagram.", "assert t.split('---MERMAID---', 1)[1].strip().startswith('flowchart')"),
    ],
)  # fmt: skip
async def test_models_say_what_the_prompt_shows(asked, code_of_it):
    llm = NodeSpec("2", "llm", {"system": asked, "user": "{{#1.topic#}}"})
    reads = f"import json\ndef main(t):\n    {code_of_it}\n    return {{'m': t}}"
    code = NodeSpec("3", "code", {"code": reads, "variables": [["t", ["text", "2"]]], "outputs": [["m", "string"]]})
    done = await dry_run(chain(start(["topic", "string"]), llm, code, end("m", "3")))
    assert done.issues == ()


async def test_code_that_breaks_is_named():
    broken = code("def main(n):\n    return {'m': n.none}", [["n", ["n", "1"]]], [["m", "number"]])
    done = await dry_run(chain(start(["n", "number"]), broken, end("m", "2")))
    assert not done.ended
    (issue,) = done.issues
    assert (issue.code, issue.where) == ("dry-run", "2")
    assert "line 2" in issue.message
    assert done.failed["code"] == 1


async def test_a_workflow_that_cannot_be_made_says_all_that_is_wrong():
    llm = NodeSpec("2", "llm", {"system": "", "user": "Say {{#1.topik#}}."})
    done = await dry_run(chain(start(["topic", "string"]), llm, end("test", "2")))
    assert {issue.where for issue in done.issues} == {"2", "9"}


async def test_code_that_does_not_end_is_stopped():
    slow = code("def main(n):\n    while True:\n        pass", [["n", ["n", "1"]]], [["m", "number"]])
    done = await dry_run(chain(start(["n", "number"]), slow, end("m", "2")), seconds=0.3)
    assert done.issues[0].message == "took longer than 0.3 s"


@pytest.mark.parametrize("kind", ["string", "number", "boolean", "file", "array[file]"])
async def test_inputs_of_each_type_are_made_up(kind):
    done = await dry_run(chain(start(["thing", kind]), end("thing", "1")))
    assert done.ended


async def test_given_inputs_are_taken_where_they_fit():
    check = code("def main(n):\n    assert n == 7\n    return {'m': n}", [["n", ["n", "1"]]], [["m", "number"]])
    graph = chain(start(["n", "number"]), check, end("m", "2"))
    assert (await dry_run(graph, {"n": 7})).ended
    assert not (await dry_run(graph, {"n": "seven"})).ended


@pytest.mark.parametrize("suffix", ["pdf", "docx", "xlsx", "txt", "csv"])
async def test_documents_are_made_of_the_kind_that_a_case_names(suffix):
    extractor = NodeSpec("2", "document-extractor", {"variable_selector": ["paper", "1"]})
    graph = chain(start(["paper", "file"]), extractor, end("text", "2"))
    assert (await dry_run(graph, {"paper": {"value": f"my paper.{suffix}"}})).ended


async def test_a_document_is_no_picture_even_where_its_name_says_so():
    extractor = NodeSpec("2", "document-extractor", {"variable_selector": ["image", "1"]})
    assert (await dry_run(chain(start(["image", "file"]), extractor, end("text", "2")))).ended


async def test_what_is_not_installed_is_no_fault_of_the_workflow(monkeypatch):
    for name in ("pypandoc", "typst"):
        monkeypatch.setitem(sys.modules, name, None)
    export = NodeSpec("2", "markdown-exporter", {"target_type": "pdf", "md_text": "{{#1.text#}}"})
    done = await dry_run(chain(start(["text", "string"]), export, end("files", "2")))
    assert not done.issues
    assert not done.ended
    assert "operad[media]" in done.untried
