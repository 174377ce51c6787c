"""If-else on lists of files: conditions on their properties hold as in Dify."""

import pytest
import yaml
from amounts import sample

from operad.flows.assemble import assemble
from operad.flows.formats.remarks import remarks_of
from operad.flows.formats.table import FORMATS
from operad.integrations.dify.format import DIFY
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.message import Job


def flow(operator, logic, *conditions):
    condition = {
        "id": "c",
        "varType": "array[file]",
        "variable_selector": ["1", "files"],
        "comparison_operator": operator,
        "value": "",
        "sub_variable_condition": {
            "case_id": "s",
            "logical_operator": logic,
            "conditions": [
                {"id": str(number), "key": key, "comparison_operator": how, "value": value, "varType": "string"}
                for number, (key, how, value) in enumerate(conditions)
            ],
        },
    }
    template = {"type": "template-transform", "title": "T", "variables": []}
    nodes = [
        {"id": "1", "data": {"type": "start", "title": "S", "variables": [{"variable": "files", "type": "file-list"}]}},
        {
            "id": "2",
            "data": {
                "type": "if-else",
                "title": "If",
                "cases": [{"case_id": "yes", "logical_operator": "and", "conditions": [condition]}],
            },
        },
        {"id": "3", "data": {**template, "template": "yes"}},
        {"id": "4", "data": {**template, "template": "no"}},
        {
            "id": "5",
            "data": {
                "type": "variable-aggregator",
                "title": "A",
                "output_type": "string",
                "variables": [["3", "output"], ["4", "output"]],
            },
        },
        {
            "id": "6",
            "data": {"type": "end", "title": "E", "outputs": [{"variable": "r", "value_selector": ["5", "output"]}]},
        },
    ]
    edges = [
        ("1", "source", "2"),
        ("2", "yes", "3"),
        ("2", "false", "4"),
        ("3", "source", "5"),
        ("4", "source", "5"),
        ("5", "source", "6"),
    ]
    graph = {"nodes": nodes, "edges": [{"source": a, "sourceHandle": b, "target": c} for a, b, c in edges]}
    return {"kind": "app", "version": "0.4.0", "app": {"mode": "workflow", "name": "f"}, "workflow": {"graph": graph}}


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / name for name in ("photo.png", "letter.pdf")]
    for path, size in zip(paths, (10, 3000), strict=True):
        path.write_bytes(b"x" * size)
    return [str(path) for path in paths]


@pytest.mark.parametrize("operator", sample(["all of", "contains", "not contains"], 3))
@pytest.mark.parametrize(
    ("logic", "conditions", "expected"),
    [
        ("and", [("type", "in", ["image"])], True),
        ("and", [("type", "in", ["audio", "video"])], False),
        ("and", [("type", "not in", ["image"])], False),
        ("and", [("type", "not in", ["audio"])], True),
        ("and", [("name", "contains", "photo"), ("size", ">", "2000")], True),
        ("and", [("name", "contains", "photo"), ("size", ">", "5000")], False),
        ("or", [("name", "contains", "photo"), ("size", ">", "5000")], True),
        ("and", [("name", "not contains", "photo")], False),
        ("and", [("name", "start with", "let")], True),
        ("and", [("name", "end with", ".pdf")], True),
        ("and", [("extension", "is", "pdf")], True),
        ("and", [("extension", "is", ".pdf")], True),
        ("and", [("extension", "is not", "pdf")], False),
        ("and", [("mime_type", "is", "image/png")], True),
        ("and", [("size", "≥", "10"), ("size", "<", "11")], True),
        ("and", [("transfer_method", "in", ["local_file"])], True),
        ("and", [("transfer_method", "in", ["remote_url"])], False),
        ("and", [("name", "empty", "")], False),
        ("and", [("name", "not empty", "")], True),
        ("and", [("name", "exists", "")], True),
    ],
)
def test_conditions_on_files_hold_as_in_dify(files, operator, logic, conditions, expected):
    graph = DIFY.load(yaml.safe_dump(flow(operator, logic, *conditions)))
    assert DIFY.check(graph) == []
    assert [remark for remark in remarks_of(graph) if remark.lossy] == []
    outputs = assemble(graph, NODE_TYPES).run(Job("", inputs={"files": files})).outputs
    assert outputs["r"] == ("yes" if expected else "no")


def test_without_files_a_positive_condition_fails_and_a_negative_one_holds():
    for how, expected in (("in", "no"), ("not in", "yes")):
        graph = DIFY.load(yaml.safe_dump(flow("contains", "and", ("type", how, ["image"]), ("name", how, ["a"]))))
        assert assemble(graph, NODE_TYPES).run(Job("", inputs={"files": []})).outputs["r"] == expected


@pytest.mark.parametrize("operator", ["contains", "not contains", "all of"])
def test_conditions_on_files_are_written_back(operator):
    root = flow(operator, "or", ("type", "in", ["image"]), ("size", ">", "5"), ("name", "empty", ""))
    graph = DIFY.load(yaml.safe_dump(root))
    assert yaml.safe_load(DIFY.dump(graph)) == root
    through = FORMATS["operad"].load(FORMATS["operad"].dump(graph))
    assert yaml.safe_load(DIFY.dump(through)) == root
    assert DIFY.check(through) == []


def test_a_property_or_a_comparison_that_there_is_not_is_an_issue():
    for condition in (
        ("colour", "is", "red"),
        ("size", "contains", "5"),
        ("size", ">", "much"),
        ("name", "greater", "a"),
    ):
        graph = DIFY.load(yaml.safe_dump(flow("contains", "and", condition, ("name", "is", "a"))))
        assert [issue.where for issue in DIFY.check(graph)] == ["2"]
