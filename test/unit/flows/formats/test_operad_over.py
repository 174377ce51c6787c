"""A changed workflow over its file: what is the same keeps its text, its comments and its layout."""

from dataclasses import replace

import pytest

from operad.flows.edit.batch import apply
from operad.flows.edit.short import parse
from operad.flows.formats.operad import OPERAD, dump, load
from operad.runtime.values.errors import InvalidError

FILE = b"""\
# what this is for
workflow: translate

nodes:
  # what comes in
  1: {type: start,   variables: [[texts, 'array[string]']]}   # a list
  3:
    type: iteration
    after: 1
    iterator_selector: [texts, '1']
    output_selector: [text, 3-2]
    nodes:
      3-1: {type: iteration-start}
      # for each text
      3-2:
        type: llm
        after: 3-1
        system:   "Be brief."   # and kind
        user: |
          # a heading
          Translate: {{#3.item#}}
  # the end
  4: {type: end, after: 3, outputs: [[out, [output, '3']]]}
# bye
"""


def test_samples_of_answers_come_back_and_keep_their_text():
    text = FILE.replace(b"\nnodes:", b"samples:\n  # as of today\n  '3-2':   {temp: 21}\nnodes:", 1)
    graph = load(text, "translate")
    assert graph.samples == {"3-2": {"temp": 21}}
    assert load(dump(graph), "translate") == graph
    assert OPERAD.dump_keeping_text(graph, text) == text
    assert b"  # as of today\n  '3-2':   {temp: 22}\n" in OPERAD.dump_keeping_text(
        replace(graph, samples={"3-2": {"temp": 22}}), text
    )
    with pytest.raises(InvalidError, match="f:2 samples: must be a mapping"):
        load(b"workflow: x\nsamples: [1]\nnodes: {}\n", "f")


def changed(*operations):
    graph = load(FILE, "translate")
    return OPERAD.dump_keeping_text(
        apply(graph, [each for text in operations for each in parse(text)]).graph, FILE
    ).decode()


def test_a_workflow_without_a_change_is_the_same_file():
    assert OPERAD.dump_keeping_text(load(FILE, "translate"), FILE) == FILE


def test_a_change_touches_its_own_field_only():
    after = changed('set 3-2 user "Translate kindly: {{#3.item#}}"')
    lines = after.splitlines()
    assert [line for line in FILE.decode().splitlines() if line not in lines] == [
        "        user: |",
        "          # a heading",
        "          Translate: {{#3.item#}}",
    ]
    assert [line for line in lines if line not in FILE.decode()] == [
        "        user: 'Translate kindly: {{#3.item#}}'",
    ]


def test_a_new_node_stands_between_lines_that_stay():
    after = changed("add_output name=all value=3.output node=4")
    assert after.replace("  4: {type: end, after: 3, outputs: {out: 3.output, all: 3.output}}", "") == (
        FILE.decode().replace("  4: {type: end, after: 3, outputs: [[out, [output, '3']]]}", "")
    )


def test_what_is_gone_goes_with_its_comment():
    graph = load(FILE, "translate")
    rest = replace(graph, nodes=[each for each in graph.nodes if each.id != "4"], edges=graph.edges[:-1])
    after = OPERAD.dump_keeping_text(rest, FILE).decode()
    assert "# the end" not in after
    assert after.startswith("# what this is for\nworkflow: translate\n\nnodes:\n  # what comes in\n")


def test_a_file_that_cannot_be_kept_is_written_anew():
    graph = load(FILE, "translate")
    for old in (
        b"{workflow: translate, nodes: {}}\n",
        b"\xff",
        b"no: [",
        FILE.replace(b"  3:\n", b"  '3':\n").replace(b"workflow", b"? workflow\n"),
    ):
        assert load(OPERAD.dump_keeping_text(graph, old), "translate") == graph
    assert OPERAD.dump_keeping_text(graph, b"no: [") == dump(graph)
