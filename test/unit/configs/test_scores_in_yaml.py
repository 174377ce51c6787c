"""Each score can judge in YAML, with its threshold and what it measures by."""

import json

import pytest

from operad.configs import load
from operad.evaluators.score_evaluator import ScoreEvaluator
from operad.runtime.values.errors import InvalidError

SCORES = {
    "worfbench.worf_evaluator.WorFEvaluator": {
        "gold": "Node:\n1: a\nEdge: (START,1) (1,END)\n",
        "similarity": "exact",
        "beta": 0.5,
    },
    "chat2workflow.pass_evaluator.PassEvaluator": {"key": {"inputs": ["a"], "outputs": ["b"], "key_nodes": ["llm"]}},
    "chat2workflow.pass_evaluator.SoundEvaluator": {},
}


def configured(folder, name, params):
    path = folder / "expert.yaml"
    judge = {"name": "judge", "instruction": "Measure.", "class": f"operad.integrations.{name}", "params": params}
    workflow = [[{"name": "writer", "instruction": "Write a workflow."}]]
    experts = [{"profile": {"name": "Writer"}, "workflow": workflow, "evaluator": judge}]
    path.write_text(json.dumps({"app": {"name": "Writer"}, "experts": experts}), encoding="utf-8")
    return load(path, trust=True)  # some name files of other folders


@pytest.mark.parametrize("name", SCORES)
def test_a_score_is_an_evaluator_in_yaml(tmp_path, name):
    pytest.importorskip("scipy")
    made = configured(tmp_path, name, {**SCORES[name], "threshold": 0.7}).expert()
    (judge,) = made.workflow.graph().evaluators
    assert isinstance(judge, ScoreEvaluator)
    assert judge.get_id() == "judge"
    assert judge.threshold == 0.7


def test_object_info_is_a_file(tmp_path, shared_data):
    params = {"object_info": str(shared_data / "comfyui/object_info.json")}
    assert configured(tmp_path, "comfyui.comfyflow.evaluator.ComfyFlowEvaluator", params).expert()


def test_a_round_of_the_dataset_is_named(tmp_path, shared_data):
    subtask = {"dataset": str(shared_data / "chat2workflow/dataset"), "task": "PaperDeepReader", "round": 1}
    assert configured(tmp_path, "chat2workflow.resolve_evaluator.ResolveEvaluator", {"subtask": subtask}).expert()
    assert configured(tmp_path, "chat2workflow.pass_evaluator.PassEvaluator", {"key": subtask}).expert()


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("worfbench.worf_evaluator.WorFEvaluator", {"gold": "nowhere.txt"}, "nowhere.txt"),
        (
            "worfbench.worf_evaluator.WorFEvaluator",
            {"gold": "Node:\n1: a\nEdge:", "similarity": "exakt"},
            "did you mean 'exact'",
        ),
        (
            "worfbench.worf_evaluator.WorFEvaluator",
            {"gold": "Node:\n1: a\nEdge:", "threshold": 80},
            "from 0 to 1, not 80",
        ),
        (
            "worfbench.worf_evaluator.WorFEvaluator",
            {"gold": "Node:\n1: a\nEdge:", "threshold": "high"},
            "0 to 1, not 'high'",
        ),
        (
            "worfbench.worf_evaluator.WorFEvaluator",
            {"gold": "Node:\n1: a\nEdge:", "beta": "high"},
            "at most 1, not 'high'",
        ),
        (
            "worfbench.worf_evaluator.WorFEvaluator",
            {"gold": "Node:", "treshold": 1},
            "did you mean 'threshold'?); it has: config, gold",
        ),
        ("chat2workflow.pass_evaluator.PassEvaluator", {"key": {"input": ["a"]}}, "write {inputs"),
        ("chat2workflow.pass_evaluator.PassEvaluator", {"key": {"dataset": ".", "task": "X"}}, "write {dataset"),
        ("chat2workflow.resolve_evaluator.ResolveEvaluator", {"subtask": {}}, "write {dataset"),
        ("comfyui.comfyflow.evaluator.ComfyFlowEvaluator", {"object_info": "nowhere.json"}, "nowhere.json"),
    ],
)
def test_what_is_wrong_is_a_fault_of_the_file(tmp_path, name, params, said):
    pytest.importorskip("scipy")
    with pytest.raises(InvalidError, match="cannot be made with these") as error:
        configured(tmp_path, name, params)
    assert said in str(error.value)
    assert "evaluator.params" in str(error.value)
