"""Conversations of three rounds with a scripted model: what is made of them, run here and written for other platforms."""

import json

import pytest
from amounts import sample
from pydantic import JsonValue

from operad.configs.generation import Designer
from operad.evaluators import dry_run_services
from operad.flows.assemble import assemble
from operad.flows.formats.table import FORMATS
from operad.operators.nodes import NODE_TYPES
from operad.runtime import Job, MonoModelReasoner
from operad.runtime.testing import ScriptedModel
from operad.runtime.values.file import FileDescriptor

NAMES = ("paper", "support", "documents", "invoice", "research")


def designed(stages, conversation, name):
    """Each round of a conversation: what it says, what was asked for it, the design."""
    designs = []
    for said in conversation(name):
        model = stages(said)
        with ScriptedModel(model) as scripted:
            base = [designs[-1][2].graph] if designs else []
            designs.append((said, model, Designer(scripted.model, review=True).design(said["says"], *base)))
    return designs


@pytest.fixture(params=sample(NAMES, 2), scope="module")
def rounds(request, stages, conversation):
    return designed(stages, conversation, request.param)


def shown(value):
    """A value for comparison: of files their kinds."""
    if isinstance(value, FileDescriptor):
        return value.path.suffix
    return [shown(each) for each in value] if isinstance(value, list | tuple) else value


async def ran(graph, run, folder, model):
    """The outputs of a workflow that is run with a round's inputs."""
    for name, text in run.get("files", {}).items():
        (folder / name).write_text(text, encoding="utf-8")
    placed = {name: str(folder / name) for name in run.get("files", {})}
    inputs: dict[str, JsonValue] = {
        name: [placed.get(each, each) for each in value] if isinstance(value, list) else placed.get(value, value)
        for name, value in run["inputs"].items()
    }
    workflow = assemble(graph, NODE_TYPES, services=dry_run_services.services(folder / "made"))
    with ScriptedModel(model) as scripted:
        message = await workflow.aexecute(Job(goal="run", inputs=inputs), MonoModelReasoner(scripted.model))
    return {name: shown(value) for name, value in message.outputs.items()}


def test_each_round_is_accepted_and_asks_no_more_than_it_must(rounds):
    for said, model, design in rounds:
        assert design.accepted, design.findings
        assert model.stages == said["asked"]
    assert list(rounds[-1][2].graph.instructions) == [said["says"] for said, _, _ in rounds]


def test_what_a_round_does_not_plan_stays_the_very_same(rounds):
    for said, _, design in rounds[1:]:
        plan = said["plan"][-1]
        planned = {node["id"] for node in plan["nodes"]} | set(plan["drop"])
        kept = set(design.base.by_id) - planned
        assert kept
        assert all(design.graph.by_id[each] is design.base.by_id[each] for each in kept)
        assert {each.node for each in design.changes.changed} <= planned


@pytest.mark.parametrize("name", sample(NAMES, 2))
async def test_what_each_round_makes_runs_here(name, stages, conversation, tmp_path):
    designs = []
    for said in conversation(name):
        with ScriptedModel(stages(said)) as scripted:
            base = [designs[-1].graph] if designs else []
            designs.append(await Designer(scripted.model, review=True).adesign(said["says"], *base))
        assert await ran(designs[-1].graph, said["run"], tmp_path, stages(said)) == said["run"]["outputs"]


@pytest.mark.parametrize("target", ["operad", "chat2workflow", "dify", "coze"])
def test_what_is_made_can_be_written_for_other_platforms(rounds, target):
    wanted = FORMATS[target]
    for _, _, design in rounds:
        lost = wanted.losses(design.graph)
        again = wanted.load(wanted.dump(design.graph), design.graph.name)
        assert wanted.check(again) == []
        assert len(again.nodes) >= len(design.graph.nodes), lost


def test_slips_are_mended_by_rules_or_told_to_the_model(stages, conversation):
    by_rules = designed(stages, conversation, "paper")[0][2]
    assert by_rules.graph.by_id["4"].params == {"outputs": [["summary", ["text", "3"]]]}
    assert "{{#1.language#}}" in by_rules.graph.by_id["3"].params["user"]
    support = designed(stages, conversation, "support")
    assert "[param] 3: user: is empty" in dict(support[0][1].asked)["mend"]
    assert "is there already" in support[1][1].asked[1][1]
    invoice = designed(stages, conversation, "invoice")
    assert "[dry-run] 4" in dict(invoice[0][1].asked)["mend"]
    assert json.dumps(invoice[2][2].graph.by_id["5"].params["outputs"]) == '[["gross", ["gross", "4"]]]'
    assert [spec.id for spec in invoice[2][2].graph.nodes] == ["1", "2", "3", "4", "5"]
