"""What a workflow was made from, in words: kept by every format that has a place for it."""

import json
from dataclasses import replace

import pytest
from amounts import amount
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_flows import GREET

from operad.flows.formats.table import FORMATS, find_format, read
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.comfyui.formats import Definitions, executable, restored
from operad.integrations.dify.write import EXTRA
from operad.runtime.values.errors import InvalidError

KEEPING = ("operad", "dify", "coze", "chat2workflow")
ASKED = (
    "Greet somebody by name.",
    "Say \"hello\", not 'hi'.\n\n  And:\n\t- kindly 😀\n",
    "Answer within <workflow>…</workflow> and <node_selection> tags:\n<workflow>\n{}\n</workflow>\n",
    "kind: app\nversion: 0.4.0\napp:\nworkflow:\nnodes:\nedges: (1,2)\n1: a task\nflowchart TD\n",
    '{"nodes_info": [], "edges": [], "id": "1"}',
    "operad {}\n# ---\n...\n%YAML 1.1\n\x00\x07\x1b\x7f\x85\u2028\ufeff\r\n",
    "",
)
TEXTS = (
    st.text()
    | st.text("ab \t\n\r:#-|>'\"{}[]&*!%@`,\x00\x85\u2028\ufeff<é😀", max_size=30)
    | st.lists(st.sampled_from(["<workflow>", "</workflow>", "\n", " ", "nodes: ", "kind: app\n", "operad {", '"', "\\"]))
    .map("".join)
)  # fmt: skip


def given_to(graph, name):
    return FORMATS[name].load(FORMATS[name].dump(graph), "greet")


@pytest.mark.parametrize("name", KEEPING)
@pytest.mark.parametrize("instructions", [ASKED, *((text,) for text in ASKED)])
def test_a_file_keeps_them_and_is_told_by_its_content(name, instructions):
    graph = replace(GREET, instructions=instructions)
    data = FORMATS[name].dump(graph)
    assert find_format(data) is FORMATS[name]
    assert read(data, "greet") == (FORMATS[name], graph)
    assert FORMATS[name].losses(graph) == FORMATS[name].losses(GREET)


@pytest.mark.parametrize("name", KEEPING)
def test_a_workflow_without_them_is_written_as_before(name):
    data = FORMATS[name].dump(GREET)
    assert b"instructions" not in data
    assert FORMATS[name].load(data, "greet").instructions == ()


@given(st.lists(TEXTS, max_size=4).map(tuple))
@example(("\ud83d\ude00"[:1],))
@settings(max_examples=amount(10, 60))
def test_any_texts_come_back_through_all_of_them(instructions):
    graph = replace(GREET, instructions=instructions)
    whole = not any("\ud800" <= each <= "\udfff" for text in instructions for each in text)
    for name in KEEPING:
        data = FORMATS[name].dump(graph)
        assert find_format(data) is FORMATS[name]
        graph = FORMATS[name].load(data, "greet")
        assert len(graph.instructions) == len(instructions)
        assert graph.instructions == instructions or not whole, name
    graph = given_to(graph, "operad")
    assert (list(graph.nodes), list(graph.edges)) == (GREET.nodes, GREET.edges)


def test_a_whole_response_keeps_them_in_its_json():
    response = f"So <b>:\n<workflow>\n{FORMATS['chat2workflow'].dump(GREET).decode()}</workflow>\nDone.".encode()
    graph = replace(FORMATS["chat2workflow"].load(response, "greet"), instructions=ASKED)
    data = FORMATS["chat2workflow"].dump(graph)
    assert find_format(data) is FORMATS["chat2workflow"]
    assert data.startswith(b"So <b>:\n<workflow>\n{")
    assert data.endswith(b"}\n</workflow>\nDone.")
    assert FORMATS["chat2workflow"].load(data, "greet") == graph


def test_json_that_others_wrote_anew_may_name_the_tags_plainly():
    graph = replace(GREET, instructions=ASKED)
    again = json.dumps(json.loads(FORMATS["chat2workflow"].dump(graph)), sort_keys=True)
    assert "<workflow>" in again
    assert FORMATS["chat2workflow"].load(again.encode(), "greet") == graph


@pytest.mark.parametrize("text", ["So: <workflow>{}</workflow>", "  <workflow>{", "nodes: I take two.\n<workflow>\n{"])
def test_a_response_is_still_told_by_its_tags(text):
    assert find_format(text.encode()) is FORMATS["chat2workflow"]


def test_yaml_for_people_is_read_and_misshapen_is_told_with_its_line():
    text = "workflow: greet\ninstructions:\n- Greet.\n- |-\n  Kindly,\n  please.\nnodes: {}\n"
    graph = FORMATS["operad"].load(text.encode(), "")
    assert graph.instructions == ("Greet.", "Kindly,\nplease.")
    assert FORMATS["operad"].dump(graph).decode() == text
    for given_, where in (("Greet.", "f:2 instructions"), ("\n- a\n- 3\n- [b]", "f:4 instructions[1]")):
        with pytest.raises(InvalidError) as caught:
            FORMATS["operad"].load(f"workflow: x\ninstructions: {given_}\nnodes: {{}}\n".encode(), "f")
        assert (caught.value.issues[0].code, caught.value.issues[0].where) == ("shape", where)
    assert len(caught.value.issues) == 2


@pytest.mark.parametrize("value", [None, 3, "Greet.", {"a": "b"}, [], ["a", 3], [["a"]], {"instructions": "a"}])
def test_what_is_none_of_ours_is_not_taken_for_them(value):
    flow = json.loads(FORMATS["chat2workflow"].dump(GREET))
    assert FORMATS["chat2workflow"].load(json.dumps({**flow, "instructions": value}).encode(), "greet") == GREET
    data = FORMATS["dify"].dump(GREET)
    for own in (value, {"instructions": value}, {"instructions": value, "more": 1}):
        file = data + f"operad: {json.dumps(own)}\n".encode()
        graph = FORMATS["dify"].load(file, "greet")
        assert graph.instructions == ()
        assert FORMATS["dify"].load(FORMATS["dify"].dump(graph), "greet") == graph
        made = given_to(replace(graph, instructions=ASKED), "dify")
        assert made.instructions == ASKED, "those that are made later take their place"


def test_what_stands_beside_them_in_a_dify_file_stays():
    file = FORMATS["dify"].dump(GREET) + b"operad: {instructions: [Greet.], more: 1}\n"
    graph = FORMATS["dify"].load(file, "greet")
    assert graph.instructions == ("Greet.",)
    assert "Greet." not in str(graph.extra)
    assert graph.extra.keys() == {EXTRA}
    written = FORMATS["dify"].dump(replace(graph, instructions=("Greet.", "Now."))).decode()
    assert "operad:\n  instructions:\n  - Greet.\n  - Now.\n  more: 1\n" in written


def test_an_archive_of_coze_keeps_them_beside_the_words_of_people():
    graph = replace(GREET, name="said: greet", instructions=("Greet.",))
    said = {"flow": {"schema_version": "1.0.0", "id": 7, "description": "Says hello.", "mode": "workflow"}}
    graph = given_to(replace(graph, extra={"coze": said}), "coze")
    assert (graph.name, graph.instructions) == ("said: greet", ("Greet.",))
    assert graph.extra["coze"]["flow"]["description"] == "Says hello.", "they stand in one place only"
    again = given_to(replace(graph, instructions=("Greet.", "Louder!")), "coze")
    assert again == replace(graph, instructions=("Greet.", "Louder!"))
    assert given_to(replace(graph, instructions=()), "coze") == replace(graph, instructions=())


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in (*KEEPING, "mermaid")])
def test_the_others_say_that_they_lose_them(name):
    lost = {(issue.code, issue.message) for issue in FORMATS[name].losses(replace(GREET, instructions=("Greet.",)))}
    assert lost - {(issue.code, issue.message) for issue in FORMATS[name].losses(GREET)} == {
        ("note", "the instructions that it was made from")
    }


def test_what_is_made_of_a_workflow_keeps_them_and_a_part_does_not():
    graph = NodeGraph([NodeSpec("1", "Load", {"image": "a"}), NodeSpec("2", "Save")], [Edge("1", "2", 0, "image")], "x")
    graph = replace(graph, instructions=ASKED, notes=("No size was given.",))
    code = FORMATS["comfyui-code"].load(FORMATS["comfyui-code"].dump(graph), "x")
    for made in (restored(code, graph), executable(graph, Definitions())):
        assert (made.instructions, made.notes) == (ASKED, ("No size was given.",))
    assert (graph.inside("").instructions, graph.inside("").notes) == ((), ())


@pytest.mark.parametrize("name", KEEPING)
def test_many_come_back(name):
    graph = replace(GREET, instructions=tuple(f"word {number}\n" * 5 for number in range(500)))
    assert given_to(graph, name) == graph


@pytest.mark.parametrize("name", ["operad", "dify"])
def test_aliases_make_no_more_text_of_a_file_than_it_may_have(name):
    def file(aliases):
        texts = ", ".join([f"&a {'x' * 100_000}", *["*a"] * aliases])
        own = f"instructions: [{texts}]" if name == "operad" else f"operad: {{instructions: [{texts}]}}"
        return FORMATS[name].dump(GREET) + f"{own}\n".encode()

    assert len(FORMATS[name].load(file(3), "greet").instructions) == 4
    with pytest.raises(InvalidError, match="once"):
        FORMATS[name].load(file(50), "greet")
