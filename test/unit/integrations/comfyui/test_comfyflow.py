"""ComfyFlow's scores, its reward, and what is made of answers."""

import dataclasses
import json
import random
from importlib import import_module
from pathlib import Path

import networkx as nx
import pytest

from operad.integrations.comfyui.comfyflow import (
    ComfyFlowEvaluator,
    by_difficulty,
    difficulty,
    rates,
    read_answer,
    reward,
    score,
)
from operad.integrations.comfyui.comfyflow.score import MOST_ISSUES, as_json
from operad.integrations.comfyui.formats import Definitions
from operad.operators import Operator, OperatorConfig
from operad.runtime import BuiltinWorkflow, Job, WorkflowStatus
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import InputError, InvalidError

INFO = {
    "Load": {"input": {"required": {"image": [["a.png"], {"image_upload": True}]}}, "output": ["IMAGE", "MASK"]},
    "Mix": {
        "input": {"required": {"a": ["IMAGE"], "by": ["FLOAT"]}, "optional": {"mask": ["MASK"]}},
        "output": ["IMAGE"],
    },
    "Grow": {"input": {"required": {"images": ["COMFY_AUTOGROW_V3", {}]}}, "output": ["IMAGE"]},
    "Draw": {"input": {"required": {"text": ["STRING"]}}, "output": ["IMAGE"], "output_node": True},
    "Save": {"input": {"required": {"image": ["IMAGE"]}}, "output": [], "output_node": True},
}
CLASSES = Definitions.of(INFO)
GOOD = """
IMAGE_1, MASK_1 = Load(image='a.png')  # 1
IMAGE_2 = Mix(by=0.5, a=IMAGE_1, mask=MASK_1)  # 2
Save(image=IMAGE_2)  # 3
"""
RIGHT = ("format", "connected", "sound")
FAULTS = ("terminal", "terminal_but_outputs", "undefined", "illegal", "missing")


def at_fault(text, gold=None):
    found = score(text, CLASSES, gold)
    return {name for name in RIGHT if not getattr(found, name)} | {name for name in FAULTS if getattr(found, name)}


def page(nodes, links):
    return json.dumps({"nodes": nodes, "links": links})


# One metric after the other


def test_a_workflow_without_a_fault_passes():
    found = score(GOOD, CLASSES)
    assert at_fault(GOOD) == set()
    assert (found.passes, found.passes_but_outputs, found.nodes, found.issues) == (True, True, 3, ())
    assert (found.node_f1, found.graph_f1) == (None, None)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("IMAGE_1, MASK_1 = Load(image='a.png')\n", {"terminal", "terminal_but_outputs", "sound"}),
        ("IMAGE_1 = Draw(text='a')\n", {"terminal"}),
        ("IMAGE_1 = Draw(text='a')\nSave(image=IMAGE_1)\n", set()),
        ("IMAGE_1 = Draw(text='a')\nSave(image=IMAGE_1)\nIMAGE_2 = Draw(text='b')\n", {"terminal", "connected"}),
        ("IMAGE_1 = Draw(text='a', size=1)\nSave(image=IMAGE_1)\n", {"illegal", "sound"}),
        ("IMAGE_1 = Draw(text='a', upload='image')\nSave(image=IMAGE_1)\n", set()),
        ("IMAGE_1 = Draw()\nSave(image=IMAGE_1)\n", {"missing", "sound"}),
        ("IMAGE_1 = Draw(text='a')\nSave(image=IMAGE_9)\n", {"undefined", "connected", "terminal", "sound"}),
        ("Save(image=IMAGE_1)\nIMAGE_1 = Draw(text='a')\n", {"undefined", "connected", "terminal", "sound"}),
        ("IMAGE_1 = Draw(text='a')\nSave(image=IMAGE_1[7])\n", {"sound"}),
        ("IMAGE_1, MASK_1 = Load(image='a.png')\nSave(image=MASK_1)\n", {"sound"}),
        ("IMAGE_1 = Grow(**{'images.image0': IMAGE_2})\nSave(image=IMAGE_1)\n", {"undefined", "sound"}),
        ("IMAGE_2 = Draw(text='a')\nIMAGE_1 = Grow(**{'images.image0': IMAGE_2})\nSave(image=IMAGE_1)\n", set()),
        ("IMAGE_2 = Draw(text='a')\nIMAGE_1 = Grow(**{'image.a': IMAGE_2})\nSave(image=IMAGE_1)\n",
         {"illegal", "missing", "sound"}),
        ("IMAGE_1 = Draw(text='a')\nSave(image=IMAGE_1)\nIMAGE_1 = Draw(text='b')\nSave(image=IMAGE_1)\n",
         {"connected"}),
        ("IMAGE_1 = Mix(a=IMAGE_2, by=1)\nIMAGE_2 = Mix(a=IMAGE_1, by=1)\nSave(image=IMAGE_2)\n",
         {"undefined", "connected", "sound"}),
        ("IMAGE_1 = Drow(text='a')\nSave(image=IMAGE_1)\n", {*RIGHT, *FAULTS}),
    ],
)  # fmt: skip
def test_each_fault_is_one_of_its_metric(text, faults):
    assert at_fault(text) == faults


def test_links_of_json_are_judged_like_variables():
    nodes = {
        "1": {"class_type": "Draw", "inputs": {"text": "a"}},
        "2": {"class_type": "Save", "inputs": {"image": ["1", 0]}},
    }
    assert at_fault(json.dumps(nodes)) == set()
    nodes["2"]["inputs"]["image"] = ["7", 0]
    assert at_fault(json.dumps(nodes)) == {"undefined", "connected", "terminal", "sound"}
    nodes["2"]["inputs"]["image"] = ["1", 4]
    assert at_fault(json.dumps(nodes)) == {"sound"}


def test_what_the_page_saved_is_judged_as_a_server_would_get_it():
    draw = {"id": 1, "type": "Draw", "outputs": [{"name": "I", "type": "IMAGE"}], "widgets_values": ["a"]}
    save = {"id": 2, "type": "Save", "inputs": [{"name": "image", "type": "IMAGE", "link": 1}]}
    note = {"id": 3, "type": "Note", "widgets_values": ["no node"]}
    muted = {"id": 4, "type": "Nothing of ours", "mode": 2}
    assert score(page([save, draw, note, muted], [[1, 1, 0, 2, 0, "IMAGE"]]), CLASSES).nodes == 2
    assert at_fault(page([save, draw, note, muted], [[1, 1, 0, 2, 0, "IMAGE"]])) == set()
    assert "undefined" in at_fault(page([save, draw], [[1, 9, 0, 2, 0, "IMAGE"]]))
    assert at_fault(page([draw, draw], [])) == {*RIGHT, *FAULTS}


def test_a_file_that_the_server_lacks_is_no_fault_of_the_workflow():
    info = {**INFO, "Model": {"input": {"required": {"name": [["b.safetensors"]]}}, "output": ["IMAGE"]}}
    text = "IMAGE_1 = Model(name='c.safetensors')\nSave(image=IMAGE_1)\n"
    found = score(text, Definitions.of(info))
    assert found.sound
    assert [issue.code for issue in found.issues] == ["missing-file"]


def test_issues_name_the_node_and_the_way_out_the_gravest_first():
    issues = score("IMAGE_1 = Draw(txt='a')  # 5\nIMAGE_2 = Mix(a=LOST, by=1)  # 6\n", CLASSES).issues
    assert [(issue.code, issue.where) for issue in issues] == [
        ("undefined-variable", "6"),
        ("disconnected", "6"),
        ("missing-param", "5"),
        ("illegal-param", "5"),
        ("terminal-output-node", "5"),
        ("terminal-node", "6"),
    ]
    assert "did you mean 'text'?" in issues[3].message
    (issue,) = [each for each in score(GOOD.replace("a=IMAGE_1", "a=IMAG_1"), CLASSES).issues if each.where == "2"]
    assert issue.message == "a: 'IMAG_1' is not assigned anywhere (did you mean 'IMAGE_1'?)"
    assert "such as Save" in issues[5].message


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "holds no workflow"),
        ("<workflow>\n</workflow>", "holds no workflow"),
        ("I cannot do that.", "is not valid Python"),
        (b"\xff\xfe", "is not UTF-8"),
        ("IMAGE_1 = Draw(text='\ud800')", "is not UTF-8"),
        ('{"a":' * 10_000, "is not JSON"),
        ('{"a":' * 100 + "1" + "}" * 100, "nested deeper"),
        ("A(" * 10_000, "is not valid Python"),
        ("[1, 2]", "must be an object with lists"),
        ("{}", "no node that would run"),
        ('{"nodes": [], "links": []}', "no node that would run"),
        ('{"nodes": [{"id": 1, "type": "Note"}], "links": []}', "no node that would run"),
        (page([{"id": 1, "type": "p"}], [])[:-1] + ', "definitions": {"subgraphs": [{"id": "p", "nodes": '
         '[{"id": 1, "type": "p"}], "links": []}]}}', "contains itself"),
        ("IMAGE_1 = Draw('a')", "give every input by its name"),
        ("<workflow>\0</workflow>", "is not valid Python"),
        ("\n".join(f"IMAGE_{n} = Draww(text='a')" for n in range(3)), "did you mean 'Draw'?"),
    ],
)  # fmt: skip
def test_what_has_no_format_is_at_fault_everywhere_and_says_why(content, reason):
    found = score(content, CLASSES, GOOD)
    assert at_fault(content) == {*RIGHT, *FAULTS}
    assert (found.node_f1, found.graph_f1, found.passes) == (0, 0, False)
    assert reason in str(found.issues[0])


@pytest.mark.slow
def test_a_large_workflow_is_judged_and_its_issues_are_cut_as_json():
    lines = [f"IMAGE_{n} = Draw(text='a', no{n}=1)" for n in range(5_000)]
    found = score("\n".join(lines), CLASSES)
    assert found.nodes == 5_000
    assert not found.connected
    assert len(as_json(found)["issues"]) == MOST_ISSUES + 1


def test_without_classes_nothing_can_be_judged():
    with pytest.raises(InputError, match="/object_info"):
        score(GOOD, Definitions())


@pytest.mark.parametrize(("nodes", "word"), [(1, "easy"), (10, "easy"), (11, "medium"), (25, "medium"), (26, "hard")])
def test_difficulty_is_by_nodes(nodes, word):
    assert difficulty(nodes) == word


# Answers


@pytest.mark.parametrize("tag", ["workflow", "designed_workflow"])
@pytest.mark.parametrize(
    ("before", "after"), [("", ""), ("```python\n", "\n```\n"), ("Here:\n\n```\n", "\n```\nDone.")]
)
def test_an_answer_is_taken_apart(tag, before, after):
    text = f'So.\n<selected_nodes>["Draw", "Save"]</selected_nodes>\n<{tag}>{before}A_1 = Draw()\n{after}</{tag}> Yes.'
    answer = read_answer(text)
    assert answer.selected == ("Draw", "Save")
    assert answer.workflow.strip() == "A_1 = Draw()"
    assert answer.is_tagged


def test_the_last_part_that_is_closed_counts():
    text = (
        "<think>First <selected_nodes>[] then <workflow>...</workflow></think>\n<selected_nodes>['A']</selected_nodes>"
        "<workflow>A()</workflow>\nOr, shorter:\n<workflow>B()</workflow> and <workflow>"
    )
    assert read_answer(text) == ("\n\n\nB()", ("A",), True)
    assert read_answer("<workflow>A()").workflow == "A()"
    assert not read_answer("<workflow>A()").is_tagged


def test_without_tags_a_fence_counts_and_without_one_all_of_it():
    assert read_answer("Nodes:\n```json\n[]\n```\nCode:\n```py\nA()\n```\n").workflow.strip() == "A()"
    assert read_answer("Cut off:\n```\nA()\n").workflow.strip() == "A()"
    assert read_answer("A()\n") == ("A()\n", None, False)


@pytest.mark.parametrize(
    "text",
    [
        "Draw(text='<workflow>B()</workflow>')\n",
        "Draw(text='''\n```\nB()\n```\n''')\n",
        json.dumps({"1": {"class_type": "Draw", "inputs": {"text": "<workflow>B()</workflow>"}}}),
    ],
)
def test_a_bare_workflow_may_speak_of_tags(text):
    assert read_answer(text) == (text, None, False)


@pytest.mark.parametrize("list_", ["", "Draw, Save", "[Draw]", "[1]", "['a'", "('a')", "[" * 9_999, "-" * 9_999, "{}"])
def test_what_is_no_list_of_names_selects_nothing(list_):
    assert read_answer(f"<selected_nodes>{list_}</selected_nodes>").selected is None


def test_lines_are_those_of_the_answer():
    found = score("So:\n\n<workflow>\nIMAGE_1 = Draw(text='a')\nIMAGE_2 = 3\n</workflow>", CLASSES)
    assert [issue.where for issue in found.issues] == ["line 5"]


def test_an_answer_may_hold_json():
    nodes = {"1": {"class_type": "Draw", "inputs": {"text": "a"}}}
    assert at_fault(f"<workflow>\n```json\n{json.dumps(nodes, indent=1)}\n```\n</workflow>") == {"terminal"}


# Reward


def answer(code=GOOD, selected="['Load', 'Mix', 'Save']", tag="workflow"):
    return f"<selected_nodes>{selected}</selected_nodes>\n<{tag}>{code}</{tag}>"


def rewarded(text, gold=GOOD, candidates=tuple(INFO)):
    found = reward(text, gold, candidates, CLASSES)
    return (found.format, found.dag, found.node, found.param), found.correct, found.final


def test_a_right_answer_has_the_whole_reward():
    assert rewarded(answer()) == ((0, 0, 0, 0), 0, 1)
    assert rewarded(answer(tag="designed_workflow")) == ((0, 0, 0, 0), 0, 1)


def test_the_reward_falls_with_the_share_of_the_golds_classes():
    text = answer("IMAGE_1 = Draw(text='a')\nSave(image=IMAGE_1)\nSave(image=IMAGE_1)\n", "['Save', 'Draw', 'Save']")
    assert rewarded(text) == ((0, 0, 0, 0), pytest.approx(-2 / 3), pytest.approx(7 / 9))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (GOOD, (-1, 0, -1, 0)),
        (answer().replace("</workflow>", ""), (-1, 0, 0, 0)),
        (answer(selected="Load, Mix"), (-1, 0, -1, 0)),
        (answer(code=""), (-1, -1, -1, -1)),
        (answer(code="IMAGE_1 ="), (0, -1, -1, -1)),
        (answer(GOOD.replace("a=IMAGE_1", "a=IMAGE_3")), (0, -1, 0, 0)),
        (answer(GOOD.replace("a=IMAGE_1", "a=IMAGE_2")), (0, -1, 0, 0)),
        (answer(selected="['Load', 'Save']"), (0, 0, -1, 0)),
        (answer(GOOD + "IMAGE_3 = Draw(text='a')\n", "['Load', 'Mix', 'Save', 'Draw']"), (0, 0, 0, 0)),
        (answer(GOOD.replace("by=0.5", "by=0.5, bye=1")), (0, 0, 0, -1)),
        (answer(GOOD.replace("by=0.5, ", "")), (0, 0, 0, -1)),
        (answer(GOOD.replace("Mix", "Blend"), "['Load', 'Blend', 'Save']"), (0, 0, -1, -1)),
        ("", (-1, -1, -1, -1)),
    ],
)
def test_each_part_of_the_reward_forbids(text, parts):
    found, _, final = rewarded(text)
    assert found == parts
    assert (final == -1) == (-1 in parts)


def test_a_class_that_was_not_offered_forbids_the_reward():
    assert rewarded(answer(), candidates=("Load", "Save"))[0] == (0, 0, -1, 0)


def test_a_gold_must_be_one():
    with pytest.raises(InvalidError, match="is not valid Python"):
        rewarded(answer(), gold="what?")
    with pytest.raises(InvalidError, match="has no node that would run"):
        rewarded(answer(), gold="{}")


# Rates


def test_rates_are_means_of_all_workflows():
    found = [score(text, CLASSES) for text in (GOOD, "what?", "IMAGE_1 = Draw(text='a')\n", GOOD)]
    all_of_them = rates(found)
    assert (all_of_them.count, all_of_them.format, all_of_them.passes) == (4, 0.75, 0.5)
    assert (all_of_them.passes_but_outputs, all_of_them.terminal, all_of_them.illegal) == (0.75, 0.5, 0.25)
    assert all_of_them.node_f1 is None
    assert by_difficulty(found)["easy"].count == 3
    assert by_difficulty(found)["hard"].format is None


# As an evaluator


def evaluator(**params):
    return ComfyFlowEvaluator(OperatorConfig(instruction="ComfyUI.", id="comfy"), object_info=CLASSES, **params)


def test_a_fault_is_a_lesson_and_the_next_round_mends_it():
    workflow = BuiltinWorkflow(max_rounds=2)
    workflow.add_operator(Operator(OperatorConfig(instruction="Write.", id="writer")))
    workflow.set_evaluator(evaluator())
    reasoner = ScriptedReasoner([answer(GOOD.replace("by=", "bye=")), answer()])
    message = workflow.execute(Job(goal="Mix."), reasoner)
    assert (message.status, message.score) == (WorkflowStatus.SUCCESS, 10)
    assert "[illegal-param] 2: 'bye' is not an input of Mix (did you mean 'by'?)" in reasoner.tasks[1].lesson
    assert message.outputs["comfy"]["passes"] is True
    assert json.loads(json.dumps(message.outputs["comfy"])) == message.outputs["comfy"]


def test_less_faults_score_higher_and_what_cannot_be_read_scores_nothing():
    scores = [
        evaluator().assess(text, Job(goal="")).score
        for text in ("what?", GOOD.replace("by=", "bye="), GOOD.replace("by=0.5, ", ""), GOOD)
    ]
    assert scores == [0, pytest.approx(4 / 7), pytest.approx(5 / 7), 1]


def test_an_output_that_declares_outputs_is_no_lesson():
    found = evaluator().assess("IMAGE_1 = Draw(text='a')\n", Job(goal=""))
    assert (found.score, list(found.findings)) == (1, [])


def test_classes_come_from_a_file(tmp_path):
    file = tmp_path / "object_info.json"
    file.write_text(json.dumps(INFO))
    made = ComfyFlowEvaluator(OperatorConfig(instruction="ComfyUI.", id="c"), object_info=str(file))
    assert made.assess(GOOD, Job(goal="")).score == 1
    with pytest.raises(InputError, match="no such file"):
        ComfyFlowEvaluator(OperatorConfig(instruction="ComfyUI.", id="c"), object_info=tmp_path / "object_inf.json")


# Real workflows, broken on purpose


def test_nothing_that_is_cut_or_mixed_up_raises(shared_data, bench):
    definitions = bench.classes_of(shared_data)
    chance = random.Random(7)  # noqa: S311 - a seed
    texts = [file.read_bytes() for file, _ in bench.workflows(shared_data, definitions)]
    texts += [answer().encode(), GOOD.encode()]
    junk = [b"", b"null", b"-10", b"[]", b'"', b"\xff", b"```\n", b"<workflow>", b"</workflow>", b"9" * 20]
    for _ in range(150):
        text = bytearray(chance.choice(texts))
        for _ in range(chance.randint(1, 4)):
            start = chance.randrange(len(text) + 1)
            text[start : start + chance.choice([0, 1, 4, 400])] = chance.choice(junk)
        found = score(bytes(text), definitions)
        assert found.format or found.issues


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmark")
    return import_module("bench_comfyflow")


@pytest.mark.slow
def test_each_fault_in_real_workflows_is_noticed_by_its_metrics_and_no_other(shared_data, bench):
    definitions = bench.classes_of(shared_data)
    cases = list(bench.cases(shared_data, 1, definitions))
    assert len(cases) >= 500
    assert {(case.fault.name, case.form) for case in cases} == {
        (fault.name, form) for fault in bench.FAULTS for form in fault.forms
    }
    found = [bench.finding(case, definitions) for case in cases]
    assert [each for each in found if each.unnoticed or each.wrongly] == []


@pytest.mark.slow
def test_connectivity_and_ends_are_as_networkx_finds_them(shared_data, bench):
    definitions = bench.classes_of(shared_data)
    for case in bench.cases(shared_data, 1, definitions):
        if case.form != "api" or case.fault.text is not None or case.fault.name == "unknown class":
            continue
        nodes = json.loads(case.text)
        graph = nx.DiGraph()
        graph.add_nodes_from(nodes)
        links = [(value[0], node) for node in nodes for value in nodes[node]["inputs"].values() if type(value) is list]
        graph.add_edges_from(link for link in links if link[0] in nodes)
        ends = [definitions.classes[nodes[node]["class_type"]] for node in nodes if not graph.out_degree(node)]
        found = score(case.text, definitions)
        assert found.connected == (nx.is_weakly_connected(graph) and nx.is_directed_acyclic_graph(graph))
        assert found.terminal == any(end.outputs for end in ends)
        assert found.terminal_but_outputs == any(end.outputs and not end.output_node for end in ends)


def test_the_three_forms_of_a_real_workflow_score_alike(shared_data, bench):
    definitions = bench.classes_of(shared_data)
    for file, nodes in bench.workflows(shared_data, definitions):
        code = bench.dump_code(bench.load(json.dumps(nodes).encode()), definitions)
        scores = [score(each, definitions) for each in (file.read_bytes(), json.dumps(nodes), code)]
        assert len({dataclasses.replace(each, issues=()) for each in scores}) == 1, file.name
