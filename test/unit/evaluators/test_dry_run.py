"""Dry runs: what breaks a workflow is found without a model, a file or the web."""

import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from operad.evaluators.dry_run import DryRun, dry_run
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.values.pip import pip_install


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


async def test_a_model_says_a_table_where_a_spreadsheet_is_made_of_it():
    llm = NodeSpec("2", "llm", {"system": "", "user": "Complaints by product: {{#1.topic#}}."})
    sheet = NodeSpec("3", "markdown-exporter", {"target_type": "xlsx", "md_text": "{{#2.text#}}"})
    done = await dry_run(chain(start(["topic", "string"]), llm, sheet, end("files", "3")))
    assert done.issues == ()


async def test_code_that_breaks_is_named():
    broken = code("def main(n):\n    return {'m': n.none}", [["n", ["n", "1"]]], [["m", "number"]])
    done = await dry_run(chain(start(["n", "number"]), broken, end("m", "2")))
    assert not done.ended
    (issue,) = done.issues
    assert (issue.code, issue.where) == ("dry-run", "2")
    assert "line 2" in issue.message


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
    assert pip_install("media") in done.skipped_reason


async def test_an_end_without_outputs_that_is_reached_is_an_end():
    quiet = NodeSpec("9", "end", {"outputs": []})
    assert (await dry_run(chain(start(["topic", "string"]), quiet))).ended


# Branches


def choice(id, *cases):
    return NodeSpec(id, "if-else", {"cases": [[None, [[["language", "1"], *case]]] for case in cases]})


def breaks(id, text="raise ValueError('no')"):
    params = {
        "code": f"def main():\n    {text}\n    return {{'m': 'x'}}",
        "variables": [],
        "outputs": [["m", "string"]],
    }
    return NodeSpec(id, "code", params)


def ends(id, variable, node):
    return NodeSpec(id, "end", {"outputs": [["result", [variable, node]]]})


def forked(fork, before=(), behind=None, variables=(("language", "string"),)):
    """A workflow whose branch 0 ends at once, and whose branch 1 has a node that may break."""
    behind = behind or breaks("4")
    nodes = [start(*map(list, variables)), *before, fork, ends("8", "language", "1"), behind, ends("9", "m", "4")]
    line = [Edge(one.id, other.id) for one, other in pairwise([nodes[0], *before, fork])]
    others = [Edge(fork.id, "8", port) for port in range(2, len(fork.params.get("cases", ())) + 1)]
    return NodeGraph(nodes, [*line, Edge(fork.id, "8", 0), Edge(fork.id, "4", 1), Edge("4", "9"), *others])


CLASSIFIER = NodeSpec("3", "question-classifier", {"query_variable_selector": ["language", "1"], "classes": ["A", "B"]})
PERSON = NodeSpec("3", "human-input", {"question": "Well?", "actions": [["y", "Yes"], ["n", "No"]]})


@pytest.mark.parametrize("fork", [CLASSIFIER, PERSON, choice("3", ["is not", "French"]), choice("3", ["not empty"])])
async def test_a_node_that_fails_behind_any_branch_is_found(fork):
    done = await dry_run(forked(fork))
    (issue,) = done.issues
    assert issue.where == "4"
    assert "ValueError: no" in issue.message
    assert f"of node {fork.id})" in issue.message
    assert done.not_tried == ()


@pytest.mark.parametrize("fork", [CLASSIFIER, PERSON, choice("3", ["is", "French"], ["start with", "G"], ["empty"])])
async def test_each_branch_is_taken_once(fork):
    done = await dry_run(forked(fork, behind=breaks("4", "pass")))
    assert done.ended
    assert done.not_tried == ()


@pytest.mark.parametrize("fork", [CLASSIFIER, PERSON, choice("3", ["is not", "French"]), choice("3", ["not empty"])])
async def test_a_branch_that_leads_to_no_node_is_found_where_nothing_else_gives_a_result(fork):
    open_ended = forked(fork, behind=breaks("4", "pass"))
    open_ended = replace(open_ended, edges=[edge for edge in open_ended.edges if (edge.source, edge.port) != ("3", 1)])
    open_ended = replace(open_ended, nodes=[each for each in open_ended.nodes if each.id not in ("4", "9")])
    open_ended = replace(open_ended, edges=[edge for edge in open_ended.edges if edge.source != "4"])
    assert (await dry_run(open_ended)).ended
    (issue,) = (await dry_run(open_ended, open_ends=True)).issues
    assert issue.where == "3"
    assert "has no result" in issue.message
    assert "(on port 1" in issue.message
    aside = replace(
        open_ended,
        nodes=[*open_ended.nodes, ends("9", "language", "1")],
        edges=[*open_ended.edges, Edge("1", "9")],
    )
    assert (await dry_run(aside, open_ends=True)).ended


async def test_the_words_of_conditions_are_said_by_models():
    asks = NodeSpec("2", "llm", {"system": "", "user": "Is {{#1.language#}} spoken in Mali? Yes or no."})
    fork = NodeSpec("3", "if-else", {"cases": [["and", [[["text", "2"], "contains", "yes"], [["text", "2"], "contains", "sure"]]]]})  # fmt: skip
    done = await dry_run(forked(fork, [asks]))
    assert [issue.where for issue in done.issues] == ["4"]
    flipped = NodeSpec("3", "if-else", {"cases": [[None, [[["text", "2"], "not contains", "yes"]]]]})
    assert [issue.where for issue in (await dry_run(forked(flipped, [asks]))).issues] == ["4"]


async def test_values_go_by_their_names_through_json_and_code():
    asks = NodeSpec("2", "llm", {"system": "", "user": 'Answer with JSON: {"score": 1, "why": ""}'})
    reads = NodeSpec("5", "code", {
        "code": "import json\ndef main(t):\n    return {'score': json.loads(t)['score']}",
        "variables": [["t", ["text", "2"]]], "outputs": [["score", "number"]],
    })  # fmt: skip
    fork = NodeSpec("3", "if-else", {"cases": [[None, [[["score", "5"], "<", "60"]]]]})
    done = await dry_run(forked(fork, [asks, reads]))
    assert [issue.where for issue in done.issues] == ["4"]


async def test_a_branch_behind_another_is_taken():
    inner = choice("5", ["is", "French"])
    nodes = [start(["language", "string"]), PERSON, inner, breaks("4"), ends("8", "language", "1"), ends("9", "m", "4"), ends("7", "language", "1")]  # fmt: skip
    edges = [Edge("1", "3"), Edge("3", "8", 0), Edge("3", "5", 1), Edge("5", "4", 0), Edge("5", "7", 1), Edge("4", "9")]
    done = await dry_run(NodeGraph(nodes, edges))
    assert [issue.where for issue in done.issues] == ["4"]
    assert done.issues[0].message.endswith("(on port 0 of node 5)")


async def test_branches_that_no_value_takes_are_told_with_the_reason():
    counts = NodeSpec("2", "code", {
        "code": "def main(t):\n    return {'n': len(t)}", "variables": [["t", ["language", "1"]]], "outputs": [["n", "number"]],
    })  # fmt: skip
    long = NodeSpec("3", "if-else", {"cases": [[None, [[["n", "2"], "<", "50000"]]]]})
    done = await dry_run(forked(long, [counts]))
    assert done.ended
    assert done.not_tried == (
        "port 1 (else) of node 3: no run took it: 2.n (code) was 4, then 10400",
    )  # fmt: skip
    never = choice("3", ["contains", "a"], ["is", "a"])
    assert (await dry_run(forked(never))).not_tried == (
        "port 1 of node 3: no made-up value of 1.language makes it hold",
    )


LIKES = NodeSpec("10", "code", {
    "code": "def main(t):\n    return {'ok': t.strip() == 'text'}", "variables": [["t", ["language", "1"]]], "outputs": [["ok", "boolean"]],
})  # fmt: skip


async def test_a_branch_behind_a_join_does_not_depend_on_the_branches_before_the_join():
    fork = NodeSpec("2", "if-else", {"cases": [[None, [[["ok", "10"], "is", "false"]]]]})
    nodes = [start(["language", "string"]), LIKES, fork, breaks("5", "pass"), breaks("6", "pass"), CLASSIFIER, breaks("4"), ends("8", "language", "1"), ends("9", "m", "4")]  # fmt: skip
    edges = [Edge("1", "10"), Edge("10", "2"), Edge("2", "5", 0), Edge("2", "6", 1), Edge("5", "3"), Edge("6", "3"), Edge("3", "8", 0), Edge("3", "4", 1), Edge("4", "9")]  # fmt: skip
    done = await dry_run(NodeGraph(nodes, edges), {"language": "text"})
    assert [issue.where for issue in done.issues] == ["4"]
    assert all("of node 3" not in said for said in done.not_tried)


async def test_a_branch_that_shares_a_variable_with_a_branch_before_it_fits_both():
    inner = choice("5", ["is", "French"])
    outer = choice("3", ["not contains", "r"])
    nodes = [start(["language", "string"]), outer, inner, breaks("4"), ends("8", "language", "1"), ends("9", "m", "4"), ends("7", "language", "1")]  # fmt: skip
    edges = [Edge("1", "3"), Edge("3", "8", 0), Edge("3", "5", 1), Edge("5", "4", 0), Edge("5", "7", 1), Edge("4", "9")]
    done = await dry_run(NodeGraph(nodes, edges))
    assert [issue.where for issue in done.issues] == ["4"]
    assert done.not_tried == ()


async def test_a_branch_that_no_run_reaches_names_the_port_that_leads_to_it():
    never = choice("3", ["contains", "a"], ["is", "a"])
    nodes = [start(["language", "string"]), never, replace(PERSON, id="5"), breaks("4", "pass"), ends("8", "language", "1"), ends("9", "m", "4")]  # fmt: skip
    edges = [Edge("1", "3"), Edge("3", "8", 0), Edge("3", "5", 1), Edge("3", "8", 2), Edge("5", "8", 0), Edge("5", "4", 1), Edge("4", "9")]  # fmt: skip
    done = await dry_run(NodeGraph(nodes, edges))
    assert done.not_tried == (
        "port 1 of node 3: no made-up value of 1.language makes it hold",
        "port 0 (y) of node 5: no run reached the node, as none took port 1 of node 3",
        "port 1 (n) of node 5: no run reached the node, as none took port 1 of node 3",
    )


async def test_long_texts_and_large_numbers_take_branches_that_code_decides():
    counts = NodeSpec("2", "code", {
        "code": "def main(t, n):\n    return {'n': len(t) - n}",
        "variables": [["t", ["language", "1"]], ["n", ["limit", "1"]]], "outputs": [["n", "number"]],
    })  # fmt: skip
    fork = NodeSpec("3", "if-else", {"cases": [[None, [[["n", "2"], ">", "0"]]]]})
    done = await dry_run(forked(fork, [counts], variables=[("language", "string"), ("limit", "number")]))
    assert [issue.where for issue in done.issues] == ["4"]


async def test_a_run_that_fails_before_a_branch_is_no_finding():
    reads = code("def main(t):\n    return {'m': {'a': 'b'}[t]}" , [["t", ["language", "1"]]], [["m", "string"]])  # fmt: skip
    fork = NodeSpec("3", "if-else", {"cases": [[None, [[["m", "2"], "is", "b"]]]]})
    done = await dry_run(forked(fork, [reads]), {"language": "a"})
    assert done.ended
    (said,) = done.not_tried
    assert said.startswith("port 1 (else) of node 3: the run stopped before: operator '2'")
    assert "KeyError: 'text'" in said


async def test_a_text_that_must_contain_a_part_of_an_address_is_one():
    fetches = NodeSpec("4", "http-request", {"url": ["language", "1"]})
    fork = choice("3", ["not contains", "http"])
    graph = forked(fork, behind=fetches)
    graph.nodes[-1].params["outputs"][0][1][0] = "body"
    done = await dry_run(graph)
    assert done.issues == ()
    assert done.not_tried == ()


async def test_a_comfyui_server_is_not_asked():
    workflow = {"1": {"class_type": "Save", "inputs": {}}}
    draws = NodeSpec("2", "comfyui", {"server": "http://127.0.0.1:9", "workflow": workflow})
    end = NodeSpec("3", "end", {"outputs": [["name", ["files.0.name", "2"]]]})
    done = await dry_run(
        NodeGraph([NodeSpec("1", "start", {"variables": []}), draws, end], [Edge("1", "2"), Edge("2", "3")])
    )
    assert done.issues == ()


async def test_a_file_is_always_given():
    fork = NodeSpec("3", "if-else", {"cases": [[None, [[["paper", "1"], "exists"]]]]})
    done = await dry_run(forked(fork, variables=[("language", "string"), ("paper", "file")]))
    assert done.not_tried == ("port 1 (else) of node 3: no made-up value of 1.paper makes it hold",)


# Answers of other systems

READS_TEMPERATURE = "import json\ndef main(t):\n    return {'m': json.loads(t)['current']['temp']}"


def asks(id="2"):
    return NodeSpec(id, "request", {"url": "https://api.weather.example/v1?q={{#1.city#}}"})


def reads(text, variable=("body", "2"), id="3", output="string"):
    params = {"code": text, "variables": [["t", list(variable)]], "outputs": [["m", output]]}
    return NodeSpec(id, "code", params)


def weather(*nodes, samples=None):
    graph = chain(start(["city", "string"]), *nodes, ends("9", "m", nodes[-1].id))
    return replace(graph, samples=samples or {})


async def test_code_behind_a_request_that_fails_on_a_made_up_answer_is_not_tried():
    done = await dry_run(weather(asks(), reads(READS_TEMPERATURE, output="number")))
    assert done.ended
    (said,) = done.not_tried
    assert said.startswith("node 3 (code): it reads what node 2 is answered, which is unknown")
    assert "KeyError: 'current'" in said


@pytest.mark.parametrize(
    "asking",
    [
        NodeSpec("2", "http-request", {"url": ["city", "1"]}),
        NodeSpec("2", "tool", {"tool": "weather", "arguments": {"city": ["city", "1"]}}),
        NodeSpec("2", "sub-workflow", {"workflow": "weather", "outputs": [["text", "string"]]}),
    ],
)
async def test_other_systems_that_answer_in_an_unknown_form_are_no_fault_of_the_workflow(asking):
    name = "body" if asking.type == "http-request" else "text"
    done = await dry_run(weather(asking, reads(READS_TEMPERATURE, (name, "2"), output="number")))
    assert done.ended
    assert [said[:13] for said in done.not_tried] == ["node 3 (code)"]


async def test_the_samples_of_a_workflow_are_what_its_nodes_are_answered():
    checks = f"{READS_TEMPERATURE}\n".replace("return", "assert json.loads(t)['current']['temp'] == 21\n    return")
    graph = weather(asks(), reads(checks, output="number"), samples={"2": {"current": {"temp": 21}}})
    assert await dry_run(graph) == DryRun()
    as_text = replace(graph, samples={"2": '{"current": {"temp": 21}}'})
    assert await dry_run(as_text) == DryRun()
    as_outputs = replace(graph, samples={"2": {"status_code": 200, "body": {"current": {"temp": 21}}}})
    assert await dry_run(as_outputs) == DryRun()


STATUS = "import json\ndef main(t):\n    return {'m': json.loads(t)['status']}"


def order(reading=STATUS, sample: Any = '{"status": "open"}', value="open"):
    """A workflow that asks a person if the status of an answer has a value; a refusal has a node that breaks."""
    fork = NodeSpec("5", "if-else", {"cases": [[None, [[["m", "2"], "is", value]]]]})
    nodes = [start(["city", "string"]), asks("10"), reads(reading, ("body", "10"), "2"), fork, PERSON, breaks("4"), ends("7", "city", "1"), ends("8", "city", "1"), ends("9", "m", "4")]  # fmt: skip
    edges = [Edge("1", "10"), Edge("10", "2"), Edge("2", "5"), Edge("5", "3", 0), Edge("5", "7", 1), Edge("3", "8", 0), Edge("3", "4", 1), Edge("4", "9")]  # fmt: skip
    return NodeGraph(nodes, edges, samples={"10": sample})


async def test_a_branch_behind_a_condition_that_a_sample_meets_is_tried_with_the_sample():
    done = await dry_run(order())
    assert [issue.where for issue in done.issues] == ["4"]
    assert done.issues[0].message.endswith("(on port 1 (n) of node 3)")
    assert done.not_tried == ()


@pytest.mark.parametrize("sample", ['{"status": "sent"}', {"status": "sent"}, {"body": {"status": "sent"}}])
async def test_a_sample_gets_another_value_in_the_field_that_a_condition_reads(sample):
    as_named = STATUS.replace("json.loads(t)['status']", "json.loads(t)['m'].lower()")
    for reading, given in ((STATUS, sample), (as_named, {"m": "SENT"})):
        done = await dry_run(order(reading, given))
        assert [issue.where for issue in done.issues] == ["4"]
        assert done.not_tried == ()


async def test_a_branch_that_a_sample_does_not_take_is_told_with_its_value():
    renamed = STATUS.replace("return {'m': json.loads(t)['status']}", "return {'m': 'late' if 'late' in t else 'soon'}")
    done = await dry_run(order(renamed, '{"due": "late"}', "never"))
    assert done.not_tried[0] == (
        "port 0 of node 5: no run took it: 2.m (code) was 'late' with the sample for node 10, then 'soon'"
    )
    assert done.not_tried[1].endswith("no run reached the node, as none took port 0 of node 5")


async def test_a_sample_for_a_node_with_values_of_a_known_form_is_not_used():
    search = NodeSpec("2", "google-search", {"query": "{{#1.city#}}"})
    llm = NodeSpec("3", "llm", {"system": "", "user": "{{#2.json#}}"})
    graph = chain(start(["city", "string"]), search, llm, end("text", "3"))
    done = await dry_run(replace(graph, samples={"2": {"organic_results": []}, "3": "Rain."}))
    assert done.not_tried == (
        "the sample for node 2 is not used: google-search gives values of a known form, which are made up",
        "the sample for node 3 is not used: llm gives values of a known form, which are made up",
    )


async def test_code_that_fails_on_a_sample_is_a_finding_that_names_the_sample():
    graph = weather(asks(), reads(READS_TEMPERATURE, output="number"), samples={"2": {"now": {"temp": 21}}})
    done = await dry_run(graph)
    assert [issue.where for issue in done.issues] == ["3"]
    assert done.issues[0].message.endswith("KeyError: 'current' (with the sample of what node 2 is answered)")
    assert done.not_tried == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def main(t):\n    return {'m': t['current']}", "TypeError"),
        ("def main(t):\n    return {'m': jsn.loads(t)}", "NameError"),
        ("def main(t):\n    return {'n': t}", "main returned no 'm'"),
    ],
)
async def test_code_that_fails_whatever_it_is_answered_is_a_finding(text, told):
    done = await dry_run(weather(asks(), reads(text)))
    assert [issue.where for issue in done.issues] == ["3"]
    assert told in done.issues[0].message


async def test_a_failure_that_reads_no_answer_stays_a_finding_beside_and_behind_a_request():
    broken = reads("def main(t):\n    return {'m': {}[t]}", ("city", "1"), "4")
    done = await dry_run(weather(asks(), reads(READS_TEMPERATURE, output="number"), broken))
    assert [issue.where for issue in done.issues] == ["4"]
    assert [said[:13] for said in done.not_tried] == ["node 3 (code)"]


async def test_a_model_that_reads_an_unknown_answer_gives_a_known_one():
    llm = NodeSpec("3", "llm", {"system": "", "user": "{{#2.body#}}"})
    done = await dry_run(weather(asks(), llm, reads("def main(t):\n    return {'m': {}[t]}", ("text", "3"), "4")))
    assert [issue.where for issue in done.issues] == ["4"]
    assert done.not_tried == ()


async def test_nodes_behind_a_node_that_was_not_tried_run_with_values_of_the_declared_types():
    later = NodeSpec("4", "template-transform", {"variables": [["n", ["m", "3"]]], "template": "{{ 1 / (n - 1) }}"})
    graph = weather(asks(), reads(READS_TEMPERATURE, output="number"), later)
    graph.nodes[-1].params["outputs"][0][1][0] = "output"
    done = await dry_run(graph)
    assert done.ended
    assert [said.partition(":")[0] for said in done.not_tried] == ["node 3 (code)", "node 4 (template-transform)"]


async def test_items_of_an_unknown_list_are_unknown_and_items_of_a_known_one_are_not():
    inside = [NodeSpec("4-1", "iteration-start", {}, "4"), replace(reads("def main(t):\n    return {'m': {}[t]}", ("item", "4"), "4-2"), parent="4")]  # fmt: skip
    lists = reads("import json\ndef main(t):\n    return {'m': json.loads(t)['names']}", output="array[string]")
    loop = NodeSpec("4", "iteration", {"iterator_selector": ["m", "3"], "output_selector": ["m", "4-2"]})

    def over(iterator):
        each = replace(loop, params={**loop.params, "iterator_selector": iterator})
        nodes = [start(["city", "string"], ["names", "array[string]"]), asks(), lists, each, *inside, ends("9", "output", "4")]  # fmt: skip
        edges = [Edge("1", "2"), Edge("2", "3"), Edge("3", "4"), Edge("4-1", "4-2"), Edge("4", "9")]
        return NodeGraph(nodes, edges)

    unknown = await dry_run(over(["m", "3"]))
    assert unknown.ended
    assert [said.partition(":")[0] for said in unknown.not_tried] == ["node 3 (code)", "node 4-2 (code)"]
    known = await dry_run(over(["names", "1"]))
    assert [issue.where for issue in known.issues] == ["4"]


async def test_conditions_on_unknown_answers_take_each_branch_and_answers_made_up_for_one_are_no_finding():
    fork = NodeSpec("3", "if-else", {"cases": [[None, [[["body", "2"], "contains", "error"]]]]})
    behind = reads("import json\ndef main(t):\n    return {'m': json.loads(t)['x']}", id="4")
    done = await dry_run(forked(fork, [asks()], behind, variables=[("language", "string"), ("city", "string")]))
    assert done.ended
    assert [said.partition(":")[0] for said in done.not_tried] == ["node 4 (code)"]


async def test_a_model_that_is_asked_for_a_list_of_objects_answers_with_one():
    quiz = {"system": "", "user": 'Questions on {{#1.topic#}} as JSON. Form: [{"question": "…", "options": ["…"]}]'}
    code = "import json\ndef main(quiz):\n    return {'asked': json.loads(quiz)[0]['question']}"
    reads_quiz = NodeSpec(
        "3", "code", {"variables": [["quiz", ["text", "2"]]], "outputs": [["asked", "string"]], "code": code}
    )
    done = await dry_run(chain(start(["topic", "string"]), NodeSpec("2", "llm", quiz), reads_quiz, end("asked", "3")))
    assert (done.issues, done.not_tried) == ((), ())
