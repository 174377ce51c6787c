"""Notes on Dify's canvas."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from operad.flows.edit import apply, read_operations
from operad.flows.formats.operad import OPERAD
from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import NodeGraph, NodeSpec, StickyNote
from operad.integrations.dify.notes import lexical_of, markdown_of

DIFY = FORMATS["dify"]
FILE = Path(__file__).parents[2] / "data" / "dify" / "chat_0.1.5.yml"


def entry(data, note_id="1699"):
    return next(each for each in yaml.safe_load(data)["workflow"]["graph"]["nodes"] if each["id"] == note_id)


@pytest.mark.parametrize(
    "text",
    [
        "Mind **the** *big* ~~old~~ `code`  \nof [a link](https://example.com/a)",
        "First\n\nsecond with **bold** ***and italic***",
        "- one\n  - inner\n- two\n\nand:\n\n1. a\n2. b",
        "2 \\* 3, a_b, \\[no link\\], \\`no code\\`",
        "\\# no heading",
        "",
    ],
)
def test_formatting_that_both_have_comes_back_from_a_note(text):
    written, lost = lexical_of(text)
    assert lost == []
    assert markdown_of(written) == text


@pytest.mark.parametrize(
    "text", ["plain", '{"root": 5}', "[" * 2000, '{"root": {"children": [7, {"type": "list"}]}}', "null"]
)
def test_a_text_that_is_no_document_is_read_without_an_error(text):
    assert isinstance(markdown_of(text), str)


def test_what_a_note_cannot_hold_becomes_plain_text_and_is_told():
    graph = NodeGraph(
        [NodeSpec("1", "start", {"variables": []})], sticky_notes=(StickyNote("n", "# Head\n\n![a](b.png)"),)
    )
    assert [(issue.code, issue.where) for issue in DIFY.losses(graph)] == [("note", "sticky note n")]
    assert DIFY.load(DIFY.dump(graph)).sticky_notes[0].text == "Head\n\nb.png"


def test_unchanged_notes_of_a_file_stay_exactly_as_they_are_also_by_way_of_operads_yaml():
    data = FILE.read_bytes()
    graph = DIFY.load(data)
    again = OPERAD.load(OPERAD.dump(graph))
    assert again.sticky_notes == graph.sticky_notes
    assert entry(DIFY.dump(again)) == entry(data)


def test_a_changed_note_keeps_its_author_and_its_place_in_the_file():
    data = FILE.read_bytes()
    change = {"op": "set_note", "id": "1699", "text": "**Closed**", "color": "pink", "at": [5, 6], "size": [300, 80]}
    made = entry(DIFY.dump_keeping_text(apply(DIFY.load(data), read_operations([change])).graph, data))
    assert (made["position"], made["width"], made["height"]) == ({"x": 5, "y": 6}, 300, 80)
    assert (made["data"]["theme"], made["data"]["author"], made["data"]["showAuthor"]) == ("pink", "clerk", True)
    [paragraph] = json.loads(made["data"]["text"])["root"]["children"]
    assert [(each["text"], each["format"]) for each in paragraph["children"]] == [("Closed", 1)]


def test_new_and_removed_notes_are_written_over_a_file():
    data = FILE.read_bytes()
    graph = DIFY.load(data)
    changed = replace(graph, sticky_notes=(StickyNote("new", "Hi", at=(1, 2)),))
    again = DIFY.load(DIFY.dump_keeping_text(changed, data))
    assert [(note.id, note.text, note.at) for note in again.sticky_notes] == [("new", "Hi", (1, 2))]
    assert [node.id for node in again.nodes] == [node.id for node in graph.nodes]


def test_notes_with_one_id_are_all_kept():
    values = yaml.safe_load(FILE.read_text())
    nodes = values["workflow"]["graph"]["nodes"]
    nodes.append(dict(nodes[0]))
    text = yaml.safe_dump(values)
    graph = DIFY.load(text)
    assert len({note.id for note in graph.sticky_notes}) == 2
    assert yaml.safe_load(DIFY.dump(graph)) == values


def test_letters_of_several_sizes_are_told_once_the_text_is_changed():
    values = yaml.safe_load(FILE.read_text())
    large = {"type": "text", "text": "Large", "format": 1, "style": "font-size: 16px;"}
    document = {"root": {"children": [{"type": "paragraph", "children": [large, {**large, "style": "", "text": "r"}]}]}}
    values["workflow"]["graph"]["nodes"][0]["data"]["text"] = json.dumps(document)
    graph = DIFY.load(yaml.safe_dump(values))
    assert graph.sticky_notes[0].text == "**Larger**"
    assert [each for each in DIFY.losses(graph) if each.where.startswith("sticky")] == []
    changed = apply(graph, read_operations([{"op": "set_note", "id": "1699", "text": "small"}])).graph
    assert [each.code for each in DIFY.losses(changed) if each.where.startswith("sticky")] == ["note"]


def test_formats_without_a_place_for_notes_list_them():
    graph = NodeGraph([NodeSpec("1", "start", {"variables": []})], sticky_notes=(StickyNote("n", "Hello"),))
    for name in ("coze", "chat2workflow", "mermaid"):
        lost = FORMATS[name].losses(graph)
        assert [issue.code for issue in lost if "Hello" in issue.message] == ["note"], name
