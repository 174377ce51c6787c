"""Designs that ask other systems: samples of the answers, what was not tried, and answers with an error."""

import asyncio
import json
import os
from dataclasses import replace

import pytest

from operad.configs.generation import Designer
from operad.evaluators.dry_run import DryRun, dry_run
from operad.flows.assemble import assemble
from operad.flows.edit.batch import apply, read_operations
from operad.flows.formats.operad import OPERAD
from operad.flows.formats.table import FORMATS
from operad.flows.formats.table import read as read_file
from operad.flows.generation import store
from operad.flows.generation.store import nearest_example
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators import Services
from operad.operators.nodes import NODE_TYPES
from operad.operators.web.fetch import Fetched
from operad.runtime import Job
from operad.runtime.testing import Say, ScriptedModel, ScriptedReasoner
from operad.runtime.values.errors import InputError, OperatorError

ASKED = "The user gives a city (variable city). Ask the weather API for it; output the temperature (variable temp)."
SAMPLE = {"current": {"temp": 21}}
READS = "import json\ndef main(body):\n    return {'temp': json.loads(body)['current']['temp']}"


def node(id, type, after, **params):
    return {"id": id, "type": type, "after": after, "params": params}


def plan(*, code=READS, failure=None, samples=None):
    request = {"url": "https://api.weather.example/v1?q={{#1.city#}}", **({"failure": failure} if failure else {})}
    body = {"name": "body", "value": "2.body"}
    nodes = [
        node("1", "start", [], variables=[{"name": "city", "type": "string"}]),
        node("2", "request", ["1"], **request),
        node("3", "code", ["2"], variables=[body], outputs=[{"name": "temp", "type": "number"}], code=code),
        node("4", "end", ["3"], outputs=[{"name": "temp", "value": "3.temp"}]),
    ]
    return {"reasoning": "", "nodes": nodes, **({"samples": samples} if samples else {})}


@pytest.fixture
def design():
    """Designs with scripted answers: the design, and the prompts."""

    def made(*answers, base=None, review=False, asked=ASKED):
        with ScriptedModel([Say(json.dumps(answer)) for answer in answers]) as scripted:
            designer = Designer(scripted.model, review=review)
            done = designer.design(asked, base) if base else designer.design(asked)
            prompts = ["\n".join(str(said["content"]) for said in each["messages"]) for each in scripted.requests]
        return done, prompts

    return made


def test_code_that_reads_an_unknown_answer_is_accepted_and_said_not_to_be_tried(design):
    made, prompts = design(plan())
    assert (made.accepted, made.samples, len(prompts)) == (True, {}, 1)
    assert [said.partition(":")[0] for said in made.not_tried] == ["node 3 (code)"]


async def test_a_sample_of_the_plan_tries_the_code_and_is_kept_in_the_file():
    with ScriptedModel([Say(json.dumps(plan(samples={"2": SAMPLE, "3": {"temp": 3}, "7": "gone"})))]) as scripted:
        made = await Designer(scripted.model).adesign(ASKED)
    assert (made.accepted, made.not_tried, made.samples) == (
        True,
        [
            "the sample for node 3 is not used: it asks no other system",
            "the sample for node 7 is not used: there is no such node",
        ],
        {"2": SAMPLE},
    )
    data = OPERAD.dump(made.graph)
    assert b"samples:\n  2: {current: {temp: 21}}\n" in data
    assert await dry_run(OPERAD.load(data, "workflow")) == DryRun()


def test_a_later_change_is_tried_with_the_samples_of_the_file(design):
    first, _ = design(plan(samples={"2": SAMPLE}))
    base = OPERAD.load(OPERAD.dump(first.graph), "workflow")
    wrong = {"reasoning": "", "nodes": [{"id": "3", "params": {"code": READS.replace("current", "now")}}]}
    right = {"nodes": [{"id": "3", "params": {"code": READS + "\n"}}]}
    made, prompts = design(wrong, right, base=base)
    assert (made.accepted, made.not_tried, made.samples) == (True, [], {"2": SAMPLE})
    assert "KeyError: 'now' (with the sample of what node 2 is answered)" in prompts[1]


def test_the_reviewer_is_told_what_was_not_tried_and_which_samples_were_used(design):
    content = {"evaluation": "right", "findings": []}
    _, prompts = design(plan(), content, review=True)
    assert "Not tried in the dry run" in prompts[1]
    assert "node 3 (code): it reads what node 2 is answered, which is unknown" in prompts[1]
    _, prompts = design(plan(samples={"2": SAMPLE}), content, review=True)
    assert "Not tried" not in prompts[1]
    assert '2: {"current":{"temp":21}}' in prompts[1]


def test_a_removed_node_takes_its_sample_along(design):
    made, _ = design(plan(samples={"2": SAMPLE}))
    assert apply(made.graph, read_operations([{"op": "remove_node", "node": "2"}])).graph.samples == {}
    assert apply(made.graph, read_operations([{"op": "remove_node", "node": "3"}])).graph.samples == {"2": SAMPLE}


@pytest.mark.parametrize("name", ["dify", "coze", "chat2workflow"])
def test_a_format_without_a_place_for_samples_says_so(design, name):
    made, _ = design(plan(samples={"2": SAMPLE}))
    messages = [issue.message for issue in FORMATS[name].losses(made.graph) if issue.code == "note"]
    assert "the samples of answers, with which dry runs try it" in messages


# Answers with an error


async def status_404(url, sent, guard):
    return Fetched(404, url, {"content-type": "application/json"}, b'{"current": {"temp": 0}}')


async def ran(graph):
    """Run a workflow whose requests get the status 404."""
    workflow = assemble(graph, NODE_TYPES, services=Services(send=status_404), lossy=True)
    return await workflow.aexecute(Job("", inputs={"city": "Oslo"}), ScriptedReasoner({}))


@pytest.mark.parametrize("name", ["operad", "dify"])
def test_a_generated_request_fails_on_a_status_of_400_or_more_also_from_its_file(design, name):
    made, _ = design(plan())
    assert made.graph.by_id["2"].params["failure"] == {"then": "end"}
    assert (made.repairs, FORMATS[name].losses(replace(made.graph, instructions=()))) == ([], [])
    graph = FORMATS[name].load(FORMATS[name].dump(made.graph), "workflow")
    with pytest.raises(OperatorError, match="the address answers with status 404"):
        asyncio.run(ran(graph))


def test_a_dify_file_has_the_request_fail_there(design):
    made, _ = design(plan())
    retry = b"max_retries: 0\n          retry_enabled: true"
    assert retry in FORMATS["dify"].dump(made.graph)
    quiet = [replace(spec, params={key: value for key, value in spec.params.items() if key != "failure"}) for spec in made.graph.nodes]  # fmt: skip
    assert retry not in FORMATS["dify"].dump(replace(made.graph, nodes=quiet))


def test_a_request_whose_status_is_read_or_that_says_what_a_failure_does_is_left_as_it_is(design):
    retried = {"retries": 2, "wait": 1, "then": "end"}
    made, _ = design(plan(failure=retried))
    assert made.graph.by_id["2"].params["failure"] == retried
    reads_status = plan()
    reads_status["nodes"][3]["params"]["outputs"].append({"name": "status", "value": "2.status_code"})
    made, _ = design(reads_status)
    assert "failure" not in made.graph.by_id["2"].params
    assert asyncio.run(ran(made.graph)).outputs == {"temp": 0, "status": 404}


def test_a_change_leaves_existing_requests_as_they_are_and_new_ones_fail(design):
    made, _ = design(plan())
    base = NodeGraph([replace(spec, params={key: value for key, value in spec.params.items() if key != "failure"}) for spec in made.graph.nodes], made.graph.edges)  # fmt: skip
    new = node("5", "request", ["3"], url="https://log.example/{{#3.temp#}}", method="post")
    end = {"id": "4", "after": ["5"]}
    changed, _ = design({"reasoning": "", "nodes": [new, end]}, base=base)
    assert (changed.accepted, changed.graph.by_id["2"]) == (True, base.by_id["2"])
    assert changed.graph.by_id["5"].params["failure"] == {"then": "end"}


def test_a_part_that_files_do_not_have_is_a_finding_with_those_that_they_have(design):
    variable = {"name": "doc", "value": "1.doc"}
    wrong = {"variables": [variable], "template": "# {{ doc.file_name }} {{ doc.title }}"}
    nodes = [
        node("1", "start", [], variables=[{"name": "doc", "type": "file"}]),
        node("2", "template-transform", ["1"], **wrong),
        node("3", "end", ["2"], outputs=[{"name": "heading", "value": "2.output"}]),
    ]
    right = {"nodes": [{"id": "2", "params": {"template": "# {{ doc.name }}"}}]}
    asked = "The user gives a document (variable doc). Output a heading (variable heading)."
    made, prompts = design({"reasoning": "", "nodes": nodes}, right, asked=asked)
    assert made.accepted
    assert "[file-part] 2: template: line 1: 'doc' is a file, which has no 'title'; it has: type, name" in prompts[1]
    assert "has no 'file_name' (did you mean 'filename'?)" in prompts[1]


# A folder of workflows with the words that they were made from: the likest is an example, all else is passed over


PAPER = "Sum a paper file up in a language."
DESK = "Decide whether a question is a complaint, and answer it."


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with workflows, whose names stand for the words that they were made from."""
    words = {"paper": (PAPER,), "desk": (DESK, "Greet the customer."), "mute": ()}

    def read(data, name):
        found, graph = read_file(data, name)
        return found, replace(graph, instructions=words.get(name, ()))

    monkeypatch.setattr(store, "read", read)
    graph = NodeGraph([NodeSpec("1", "start", {"variables": [["x", "string"]]}), NodeSpec("2", "end", {"outputs": []})])
    for name in words:
        (tmp_path / f"{name}.json").write_bytes(FORMATS["chat2workflow"].dump(graph))
    (tmp_path / "notes.txt").write_text("No workflow.")
    (tmp_path / "broken.json").write_text('{"nodes_info": [')
    (tmp_path / "comfy.json").write_text('{"1": {"class_type": "KSampler", "inputs": {}}}')
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "within").mkdir()
    return tmp_path


def test_the_example_is_the_one_that_was_made_from_the_likest_words(folder):
    found = nearest_example(folder, "Sum up a paper in a language that the user names.")
    assert found is not None
    assert found.instructions == PAPER
    assert [spec.type for spec in found.graph.nodes] == ["start", "end"]
    desk = nearest_example(folder, "Is a question a complaint? Answer the customer.")
    assert desk is not None
    assert desk.instructions == f"{DESK}\nGreet the customer."


def test_where_none_is_like_it_there_is_no_example(folder):
    assert nearest_example(folder, "Draw zebras.") is None


def test_a_folder_that_is_none_is_refused(folder):
    for wrong in (folder / "nowhere", folder / "notes.txt"):
        with pytest.raises(InputError, match="there is no such folder of workflows"):
            nearest_example(wrong, PAPER)


def test_files_that_are_too_large_or_cannot_be_read_are_passed_over(folder, monkeypatch):
    monkeypatch.setattr(store, "MAX_BYTES", 10)
    assert nearest_example(folder, PAPER) is None
    monkeypatch.undo()
    os.mkfifo(folder / "pipe.json")
    (folder / "gone.json").symlink_to(folder / "nowhere.json")
    assert nearest_example(folder, PAPER) is None, "files that keep no words are no examples"


def test_the_example_is_shown_to_whom_plans(folder, stages, conversation):
    model = stages(conversation("paper")[0])
    with ScriptedModel(model) as scripted:
        design = Designer(scripted.model, store=folder).design(conversation("paper")[0]["says"])
    assert design.accepted
    assert PAPER in dict(model.asked)["plan"]
