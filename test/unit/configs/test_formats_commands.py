"""`operad check`, `convert` and `show`; and which format a file has."""

import json
import sys
from itertools import pairwise

import pytest

from operad.configs import cli
from operad.operators.formats.table import FORMATS, find_format, read
from operad.operators.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.errors import InvalidError

GRAPH = NodeGraph(
    [
        NodeSpec("1", "start", {"variables": [["name", "string"]]}),
        NodeSpec("2", "end", {"outputs": [["text", ["name", "1"]]]}),
    ],
    [Edge("1", "2")],
    "greet",
)
TYPED = ("operad", "chat2workflow", "dify", "coze")


@pytest.fixture
def operad(tmp_path, monkeypatch, capfdbinary):
    """Runs the command in an empty folder: status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def operad(*arguments):
        monkeypatch.setattr(sys, "argv", ["operad", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capfdbinary.readouterr()
        return left.value.code or 0, out.decode(), err.decode()

    return operad


@pytest.mark.parametrize("name", TYPED)
def test_a_format_is_found_by_its_content_and_runs(name, operad, tmp_path):
    data = FORMATS[name].dump(GRAPH)
    assert find_format(data) is FORMATS[name]
    (tmp_path / "flow").write_bytes(data)
    assert operad("check", "flow") == (0, "1 file: no issues\n", "")
    assert operad("run", "flow", "--input", "name=Ann", "--base-url", "http://127.0.0.1:9")[:2] == (0, "Ann\n")


def test_all_issues_of_all_files_are_told_with_their_lines(operad, tmp_path):
    (tmp_path / "a.yaml").write_text(
        "nodes:\n  1: {type: start, variables: []}\n  2: {type: endd, after: 1}\n  3: {type: end, after: 1, outputs: [[x, [y, '1']]]}\n"
    )
    (tmp_path / "b.json").write_text('{"nodes_info": [\n  {"id": "1",}], "edges": []}')
    (tmp_path / "c.yaml").write_text("experts: []\noperatorz: []\n")
    status, out, _ = operad("check", "a.yaml", "b.json", "c.yaml")
    assert status == 1
    lines = out.splitlines()
    assert lines[0] == "unknown-type a.yaml:3 2: 'endd' is no node type (did you mean 'end'?)"
    assert lines[1].startswith("undefined-variable a.yaml:4 3: outputs[0][1]: ")
    assert lines[2].startswith("format b.json:2: is no JSON: ")
    assert any(line.startswith("unknown-key c.yaml:2 operatorz: ") for line in lines)
    status, out, _ = operad("check", "a.yaml", "gone.json", "--json")
    told = json.loads(out)
    assert (status, [each["read"] for each in told]) == (2, [True, False])
    assert told[0]["issues"][0]["line"] == 3


def test_losses_are_listed_and_nothing_is_written_without_leave(operad, tmp_path):
    (tmp_path / "flow.json").write_bytes(FORMATS["chat2workflow"].dump(GRAPH))
    (tmp_path / "out.mmd").write_text("old")
    status, out, err = operad("convert", "flow.json", "out.mmd")
    assert (status, out, (tmp_path / "out.mmd").read_text()) == (1, "", "old")
    assert err.startswith("loss flow.json: a chart shows nodes")
    assert operad("convert", "flow.json", "out.mmd", "--lossy")[0] == 0
    assert (tmp_path / "out.mmd").read_text().startswith("flowchart TD")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["flow.json", "out.mmd"]


def test_a_workflow_goes_through_all_formats_and_comes_back(operad, tmp_path):
    (tmp_path / "a.json").write_bytes(FORMATS["chat2workflow"].dump(GRAPH))
    names = ["a.json", "b.dify.yml", "c.zip", "d.operad.yaml", "e.chat2workflow.json"]
    for source, target in pairwise(names):
        assert operad("convert", source, target) == (0, "", "")
    assert (tmp_path / names[-1]).read_bytes() == (tmp_path / "a.json").read_bytes()
    status, out, _ = operad("convert", "c.zip", "-", "--to", "chat2workflow")
    assert (status, out.encode()) == (0, (tmp_path / "a.json").read_bytes())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x.yaml"], "several formats end so: .dify.yml (dify), .operad.yaml (operad)"),
        (["-"], "say the format with --to"),
        (["x", "--to", "difi"], "did you mean 'dify'?"),
        (["no/x.dify.yml"], "cannot be written: No such file"),
    ],
)
def test_a_target_that_says_no_format_is_refused(arguments, said, operad, tmp_path):
    (tmp_path / "a.json").write_bytes(FORMATS["chat2workflow"].dump(GRAPH))
    status, out, err = operad("convert", "a.json", *arguments)
    assert (status, out) == (2, "")
    assert said in err


def test_a_graph_is_shown(operad, tmp_path):
    (tmp_path / "a.json").write_bytes(FORMATS["chat2workflow"].dump(GRAPH))
    assert operad("show", "a.json")[1].startswith("flowchart TD\n")
    assert operad("show", "a.json", "-o", "a.md")[0] == 0
    assert "```mermaid" in (tmp_path / "a.md").read_text()
    assert operad("show", "a.json", "-o", "a.gif")[0] == 2


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"[]", b'{"a": 1}', b"{", b"\xff\xfe", b"flowchart TD\n", b"PK\x03\x04"]
)
def test_a_file_of_no_format_is_refused_with_a_place(data):
    with pytest.raises(InvalidError) as caught:
        read(data, "given")
    assert all(issue.code and issue.where for issue in caught.value.issues)
