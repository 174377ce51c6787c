"""What a check of a ComfyUI workflow finds."""

import json
from itertools import pairwise

import pytest

from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.comfyui.formats import Definitions, check, load
from operad.integrations.comfyui.formats.definitions import accepts

CLASSES = Definitions.of(
    {
        "Load": {"input": {"required": {"image": [["a.png"], {"image_upload": True}]}}, "output": ["IMAGE", "MASK"]},
        "Mix": {
            "input": {
                "required": {"a": ["IMAGE"], "by": ["FLOAT", {"min": 0, "max": 1}], "how": [["add", "mul"]]},
                "optional": {"any": ["*"], "either": ["MASK,LATENT"], "model": [["m.pt"]]},
            },
            "output": ["IMAGE"],
        },
        "Grow": {"input": {"required": {"images": ["COMFY_AUTOGROW_V3", {}]}}, "output": ["IMAGE"]},
        "Save": {"input": {"required": {"image": ["IMAGE"]}}, "output": [], "output_node": True},
    }
)


def mix(**inputs):
    """A workflow in the middle of which these inputs are set or, for None, missing."""
    given = {"a": ["1", 0], "by": 0.5, "how": "add", **inputs}
    given = {name: value for name, value in given.items() if value is not None}
    return {
        "1": {"class_type": "Load", "inputs": {"image": "any.png", "upload": "image"}},
        "2": {"class_type": "Mix", "inputs": given},
        "3": {"class_type": "Save", "inputs": {"image": ["2", 0]}},
    }


def found(data, definitions=CLASSES):
    return [(issue.code, issue.where) for issue in check(load(json.dumps(data).encode()), definitions)]


@pytest.mark.parametrize(
    ("inputs", "issues"),
    [
        ({}, []),
        ({"any": ["1", 1], "either": ["1", 1]}, []),
        ({"by": "0.25"}, []),
        ({"a": None, "how": None}, [("missing-param", "2"), ("missing-param", "2")]),
        ({"bye": 1}, [("illegal-param", "2")]),
        ({"bye": ["1", 0]}, [("illegal-param", "2")]),
        ({"either": ["1", 0]}, [("wrong-type", "1 → 2")]),
        ({"a": ["1", 1]}, [("wrong-type", "1 → 2")]),
        ({"a": ["1", 2]}, [("port-out-of-range", "1 → 2")]),
        ({"a": ["1", -1]}, [("port-out-of-range", "1 → 2")]),
        ({"any": ["3", 0]}, [("cycle", "2"), ("port-out-of-range", "3 → 2")]),
        ({"any": ["8", 0]}, [("dangling-edge", "8 → 2")]),
        ({"by": 2}, [("value-out-of-range", "2")]),
        ({"by": -2}, [("value-out-of-range", "2")]),
        ({"by": "much"}, [("wrong-value", "2")]),
        ({"how": "sub"}, [("value-not-in-options", "2")]),
        ({"model": "other.pt"}, [("missing-file", "2")]),
        ({"any": ["2", 0]}, [("cycle", "2")]),
    ],
)
def test_faults_of_a_node(inputs, issues):
    assert found(mix(**inputs)) == issues


def test_an_unknown_class_is_told_with_the_nearest():
    data = mix()
    data["2"]["class_type"] = "Mixx"
    issues = check(load(json.dumps(data).encode()), CLASSES)
    assert [(issue.code, issue.where) for issue in issues] == [("unknown-type", "2")]
    assert "did you mean 'Mix'?" in issues[0].message


def test_without_definitions_only_the_structure_is_judged():
    assert found(mix(bye=1, a=["1", 9], any=["8", 0]), Definitions()) == [("dangling-edge", "8 → 2")]


def test_without_an_output_nothing_would_run():
    assert found({"1": {"class_type": "Load", "inputs": {"image": "a.png"}}}) == [("no-output", "")]


def test_inputs_that_grow_belong_to_one_that_is_declared():
    data = mix()
    data["2"] = {"class_type": "Grow", "inputs": {"images.image0": ["1", 0]}}
    assert found(data) == []
    data["2"]["inputs"] = {"image.image0": ["1", 0]}
    assert found(data) == [("illegal-param", "2"), ("missing-param", "2")]


def test_the_nodes_of_a_cycle_are_named():
    data = {str(number): {"class_type": "A", "inputs": {"x": [str(number % 3 + 1), 0]}} for number in (1, 2, 3)}
    (issue,) = check(load(json.dumps(data).encode()), Definitions())
    assert issue.code == "cycle"
    around = issue.message.rpartition(": ")[2].split(" → ")
    assert sorted(around[1:]) == ["1", "2", "3"]
    assert set(pairwise(around)) == {("2", "1"), ("3", "2"), ("1", "3")}


def test_variables_must_be_assigned_before():
    graph = load(b"B(x=A_1, y=LOST)  # 1\nA_1 = A()  # 2\n")
    assert [str(issue) for issue in check(graph, Definitions())] == [
        "[undefined-variable] 1: x: 'A_1' is assigned only later",
        "[undefined-variable] 1: y: 'LOST' is not assigned anywhere",
    ]


def test_faults_of_what_the_page_saved():
    node = {"type": "A", "inputs": [{"name": "x"}], "outputs": [{"type": "IMAGE"}]}
    inner = {"id": "part", "name": "Part", "nodes": [{"id": 1, **node}], "links": [[1, 1, 0, 9, 0, "IMAGE"]]}
    data = {
        "nodes": [{"id": 1, **node}, {"id": 1, **node}, {"id": 2, **node}, {"id": 3, "type": "part"}],
        "links": [[1, 1, 3, 2, 0, "IMAGE"], [2, 1, 0, 2, 7, "IMAGE"], [3, 5, 0, 2, 0, "IMAGE"]],
        "definitions": {"subgraphs": [inner]},
    }
    assert found(data, Definitions()) == [
        ("duplicate-id", "1"),
        ("port-out-of-range", "1 → 2"),
        ("port-out-of-range", "1 → 2"),
        ("dangling-edge", "5 → 2"),
        ("dangling-edge", "Part: 1 → 9"),
    ]


def test_a_graph_made_by_hand_is_judged_alike():
    graph = NodeGraph([NodeSpec("1", "Load", {"image": "a"}), NodeSpec("2", "Save")], [Edge("1", "2", 1, "image")])
    assert [issue.code for issue in check(graph, CLASSES)] == ["wrong-type"]


@pytest.mark.parametrize(
    ("input_type", "output_type", "fits"),
    [
        ("IMAGE", "IMAGE", True),
        ("IMAGE", "MASK", False),
        ("*", "MASK", True),
        ("IMAGE", "*", True),
        ("IMAGE,MASK", "MASK", True),
        ("IMAGE, MASK", "MASK,LATENT", True),
        ("IMAGE,MASK", "LATENT", False),
        ("COMBO", "COMBO", True),
        ("COMBO", "STRING", False),
    ],
)
def test_which_types_fit(input_type, output_type, fits):
    assert accepts(input_type, output_type) is fits


def test_what_a_real_server_took_has_no_faults_but_files_that_it_lacked(shared_data):
    known = Definitions.of(json.loads((shared_data / "comfyui" / "object_info.json").read_bytes()))
    issues = [
        (file.stem, issue.code)
        for file in sorted((shared_data / "comfyui" / "api").iterdir())
        for issue in check(load(file.read_bytes()), known)
        if issue.code != "missing-file"
    ]
    assert issues == [("templates-photo_to_product_vid", "value-not-in-options")]  # a model newer than the server
