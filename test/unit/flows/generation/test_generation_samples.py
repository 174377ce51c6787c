"""Designs that ask other systems: samples of the answers, what was not tried, and answers with an error."""

import json

import pytest

from operad.configs.generation import Designer
from operad.evaluators.dry_run import DryRun, dry_run
from operad.flows.edit.batch import apply, read_operations
from operad.flows.formats.operad import OPERAD
from operad.flows.formats.table import FORMATS
from operad.runtime.testing import Say, ScriptedModel

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

    def made(*answers, base=None, review=False):
        with ScriptedModel([Say(json.dumps(answer)) for answer in answers]) as scripted:
            designer = Designer(scripted.model, review=review)
            done = designer.design(ASKED, base) if base else designer.design(ASKED)
            prompts = ["\n".join(str(said["content"]) for said in asked["messages"]) for asked in scripted.requests]
        return done, prompts

    return made


def test_code_that_reads_an_unknown_answer_is_accepted_and_said_not_to_be_tried(design):
    made, prompts = design(plan())
    assert (made.accepted, made.samples, len(prompts)) == (True, {}, 1)
    assert [said.partition(":")[0] for said in made.not_tried] == ["node 3 (code)"]


async def test_a_sample_of_the_plan_tries_the_code_and_is_kept_in_the_file():
    with ScriptedModel([Say(json.dumps(plan(samples={"2": SAMPLE, "7": "gone"})))]) as scripted:
        made = await Designer(scripted.model).adesign(ASKED)
    assert (made.accepted, made.not_tried, made.samples) == (
        True,
        ["the sample for node 7: there is no such node"],
        {"2": SAMPLE},
    )
    data = OPERAD.dump(made.graph)
    assert b"samples:\n  2: {current: {temp: 21}}\n" in data
    assert await dry_run(OPERAD.load(data, "workflow")) == DryRun()


def test_a_later_change_is_tried_with_the_samples_of_the_file(design):
    first, _ = design(plan(samples={"2": SAMPLE}))
    base = OPERAD.load(OPERAD.dump(first.graph), "workflow")
    wrong = {"reasoning": "", "nodes": [{"id": "3", "params": {"code": READS.replace("current", "now")}}]}
    right = {"op": "set", "node": "3", "path": "code", "value": READS + "\n"}
    made, prompts = design(wrong, {"reasoning": "", "operations": [right]}, base=base)
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
