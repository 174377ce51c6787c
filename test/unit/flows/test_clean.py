"""Cleaning of imported workflows."""

from pathlib import Path

import pytest
from amounts import amount, sample

from operad.flows.formats.format import check_nodes
from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.clean import cleaned
from operad.runtime.values.errors import InvalidError

CASES = sorted((Path(__file__).parents[1] / "data" / "dify_cases").glob("*.yml"))


def test_ids_are_made_of_titles_and_types_and_references_follow():
    graph = NodeGraph(
        [
            NodeSpec("1731", "start", {"variables": [["mail", "string"]]}, title="1731"),
            NodeSpec("1732", "llm", {"system": "", "user": "Sum up {{#1731.mail#}}."}, title="Sum it up!"),
            NodeSpec("1733", "llm", {"system": "", "user": "Translate {{#1732.text#}}."}, title="Sum it up"),
            NodeSpec("1734", "end", {"outputs": [["text", ["text", "1733"]]]}, title="结束"),
        ],
        [Edge("1731", "1732"), Edge("1732", "1733"), Edge("1733", "1734")],
        samples={"1732": {"text": "Short."}},
    )
    clean = cleaned(graph)
    assert [node.id for node in clean.nodes] == ["start", "sum_it_up", "sum_it_up_2", "结束"]
    assert clean.by_id["sum_it_up_2"].params["user"] == "Translate {{#sum_it_up.text#}}."
    assert clean.samples == {"sum_it_up": {"text": "Short."}}
    assert check_nodes(clean) == []


def test_files_of_dify_keep_nothing_of_dify_and_get_no_issue():
    read = 0
    for file in sample(CASES, 4):
        try:
            graph = FORMATS["dify"].load(file)
        except InvalidError:  # cases of what is refused
            continue
        read += 1
        clean = FORMATS["operad"].load(FORMATS["operad"].dump(cleaned(graph)), "clean")
        assert not clean.is_imported
        assert {issue.code for issue in check_nodes(clean)} <= {issue.code for issue in check_nodes(graph)}, file.name
    assert read > amount(50, 200)


@pytest.mark.parametrize("target", ["operad", "dify"])
def test_the_command_writes_a_clean_workflow(operad, tmp_path, target):
    graph = NodeGraph(
        [
            NodeSpec("17", "start", {"variables": [["name", "string"]]}),
            NodeSpec("18", "answer", {"answer": "{{#17.name#}}"}),
        ],
        [Edge("17", "18")],
    )
    (tmp_path / "a.yml").write_bytes(FORMATS["dify"].dump(graph))
    assert operad("convert", "a.yml", "--to", target, "--clean", "-o", "b")[0] == 0
    written = FORMATS[target].load(tmp_path / "b")
    assert [node.id for node in written.nodes] == ["start", "answer"]
    assert written.by_id["answer"].params["answer"] == "{{#start.name#}}"


def test_a_format_of_other_nodes_has_nothing_to_clean(operad, tmp_path):
    (tmp_path / "a.json").write_text('{"1": {"class_type": "KSampler", "inputs": {"seed": 1}}}')
    status, _, err = operad("convert", "a.json", "--to", "comfyui", "--clean")
    assert (status, "--clean" in err) == (2, True)
