"""Contracts that instructions state, and the alignment of workflows with them.

PYTHONPATH=test/benchmark pytest test/benchmark/aligned
"""

import itertools
import json
from typing import Any

import pytest

import aligned
from aligned.contract import read_contract
from operad.flows.formats.chat2workflow import load

align: Any = aligned.align


def node(id, type, **param):
    return {"id": id, "type": type, "param": param}


def flow(*nodes, edges=None):
    ids = [each["id"] for each in nodes]
    edges = [[one, 0, two] for one, two in itertools.pairwise(ids)] if edges is None else edges
    return json.dumps({"nodes_info": list(nodes), "edges": edges})


def start(*variables):
    return node("1", "start", variables=[list(each) for each in variables])


def llm(user, id="2"):
    return node(id, "llm", system="", user=user)


def end(*outputs, id="9"):
    return node(id, "end", outputs=[[name, list(selector)] for name, selector in outputs])


def names(contract):
    return contract.input_names, [set(each.needed) for each in contract.outputs]


# The contract

FIRST = "The user will provide the paper file (variable paper) as input. It must output the summary (variable summary)."


@pytest.mark.parametrize(
    ("text", "inputs", "outputs"),
    [
        (FIRST, ["paper"], [{"summary"}]),
        (
            "Users give the title (variable 'book') and the author (variable 'author'). Output it (variable 'x').",
            ["book", "author"],
            [{"x"}],
        ),
        ("It takes a question `q` and returns the answer as `a`.", ["q"], [{"a"}]),
        ("A user enters the topic, in the variable topic. It produces a text (call it essay).", ["topic"], [{"essay"}]),
        ("Output the lists (variables a1, b1, and c1).", [], [{"a1", "b1", "c1"}]),
        ("The workflow outputs JSON, which must include 'answer' and 'evidence' fields.", [], []),
        ("The variable names remain unchanged.", [], []),
        ("", [], []),
    ],
)
def test_what_an_instruction_states(text, inputs, outputs):
    assert names(read_contract([text])) == (inputs, outputs)


@pytest.mark.parametrize(
    ("text", "inputs", "outputs", "untold"),
    [
        ("Sum up a paper (variable paper) in the language (variable language). Output the summary (variable summary).", ["language"], ["summary"], ["paper"]),
        ("Translate the text (variable text) into the language (variable language) and output the translation (variable translation).", [], ["translation"], ["text", "language"]),
        ("Generate a story (variable story) about the topic (variable topic).", ["topic"], ["story"], []),
        ("Generate a story about the topic (variable topic). Return the story (variable story).", ["topic"], ["story"], []),
        ("From the invoice (variable invoice), produce a table (variable table).", ["invoice"], ["table"], []),
        ("Based on the outline (variable outline), generate slides (variable slides).", ["outline"], ["slides"], []),
        ("Given a question (variable question), return the answer (variable answer).", ["question"], ["answer"], []),
        ("Summarise the report (variable report). Return the summary (variable summary).", [], ["summary"], ["report"]),
        ("Return the title (variable title) of the paper (variable paper).", [], ["title"], ["paper"]),
        ("Output the main points of the talk (variable points).", [], ["points"], []),
        ("Write a poem (variable poem) in the style (variable style).", ["style"], [], ["poem"]),
        ("Upload a photo (variable photo); generate a caption (variable caption).", ["photo"], ["caption"], []),
        ("Grade the essay (variable essay) using the rubric (variable rubric), and return the grade (variable grade).", ["rubric"], ["grade"], ["essay"]),
        ("Draw a chart (variable chart) from the sales data (variable sales).", ["sales"], [], ["chart"]),
        ("Take the link (variable link) and produce a digest (variable digest).", ["link"], ["digest"], []),
        ("Correct the code (variable code). Output the corrected code (variable fixed) and the explanation (variable why).", [], ["fixed", "why"], ["code"]),
        ("The recipe (variable recipe) is provided by the user. Return the shopping list (variable items).", ["recipe"], ["items"], []),
        ("Compare the two contracts (variables contract_a and contract_b). Generate the differences (variable differences).", [], ["differences"], ["contract_a", "contract_b"]),
        ("Read the log (variable log) and return its errors (variable errors).", [], ["errors"], ["log"]),
        ("Plan a trip to the city (variable city) for the budget (variable budget). Output the plan (variable plan).", [], ["plan"], ["city", "budget"]),
        ("Output the list of the best films (variable best_films) and why (variable reason).", [], ["best_films", "reason"], []),
    ],
)  # fmt: skip
def test_a_name_whose_side_is_not_told_is_left_open(text, inputs, outputs, untold):
    contract = read_contract([text])
    assert contract.input_names == inputs
    assert {name for each in contract.outputs for name in each.needed} == set(outputs)
    assert contract.undirected == set(untold)


@pytest.mark.parametrize(
    ("text", "inputs", "outputs", "untold"),
    [
        ("I upload a file (variable data). Give me a table (variable table).", ["data"], ["table"], []),
        ("Tell me the total (variable total) of a bill (variable bill) that I send.", [], ["total"], ["bill"]),
        ("I want a digest (variable digest) based on the link (variable link) I give you.", ["link"], ["digest"], []),
        ("Send me a report (variable report).", [], ["report"], []),
        ("Show us a chart (variable chart).", [], ["chart"], []),
        ("Translate it and give a text (variable french).", [], ["french"], []),
        ("Users give us a title (variable title).", ["title"], [], []),
        ("The node that gives a table (variable table) is slow.", [], [], ["table"]),
        ("用户上传合同（变量 contract），请输出摘要（变量 summary）和风险（变量：risks）。", ["contract"], ["risks", "summary"], []),
        ("我给你一篇文章（变量 article），给我译文（变量 english、french）。", ["article"], ["english", "french"], []),
        ("一段文字（变量 text）。", [], [], ["text"]),
        ("用户输入城市（变量 city）。搜索活动，写成一份推荐（变量 plan）。", ["city"], [], ["plan"]),
        ("用户上传合同（变量 contract），提取要点（变量 points）。", ["contract"], [], ["points"]),
        ("上传合同（变量 contract，可以不填，默认空），输出译文（变量 french）。", ["contract"], ["french"], []),
    ],
)  # fmt: skip
def test_who_acts_tells_the_direction_and_what_is_unsure_is_open(text, inputs, outputs, untold):
    contract = read_contract([text])
    assert contract.input_names == inputs
    assert {name for each in contract.outputs for name in each.needed} == set(outputs)
    assert contract.undirected == set(untold)


def test_open_names_are_neither_demanded_nor_forbidden():
    said = "Sum up a paper (variable paper) in the language (variable language). Output the summary (variable summary)."
    contract = read_contract([said])
    for inputs in (["language"], ["language", "paper"]):
        for outputs in (["summary"], ["summary", "paper"]):
            whole = flow(start(*((name, "string") for name in inputs)), end(*((name, ("x", "1")) for name in outputs)))
            assert contract.mismatches(load(whole)) == 0
    assert (
        contract.mismatches(
            load(flow(start(("language", "string"), ("title", "string")), end(("summary", ("x", "1")))))
        )
        == 1
    )
    kept = flow(
        start(("paper", "string"), ("language", "string")), llm("{{#1.language#}}"), end(("summary", ("text", "2")))
    )
    assert align(kept, [said]).text == kept


def test_a_side_that_a_later_round_tells_is_told():
    contract = read_contract(
        ["Sum up a paper (variable paper). Output it (variable x).", "The user uploads the paper (variable paper)."]
    )
    assert (contract.input_names, contract.undirected) == (["paper"], set())


@pytest.mark.parametrize(
    ("later", "inputs", "outputs"),
    [
        ("It must also output a review (variable review).", ["paper"], [{"summary", "review"}]),
        ("The workflow only needs to output the file (variable pdf).", ["paper"], [{"pdf"}]),
        ("It needs to output the text (variable text).", ["paper"], [{"text"}]),
        ("The user additionally provides a question (variable question).", ["paper", "question"], [{"summary"}]),
        ("Change the input to a list of images (variable pics).", ["pics"], [{"summary"}]),
        ("The paper is no longer needed as input; the user provides a link (variable link).", ["link"], [{"summary"}]),
        (
            "In this case, it only needs to output the string 'None' (variable none).",
            ["paper"],
            [{"summary"}, {"none"}],
        ),
        ("Make it prettier.", ["paper"], [{"summary"}]),
    ],
)
def test_later_rounds_add_and_replace(later, inputs, outputs):
    assert names(read_contract([FIRST, later])) == (inputs, outputs)


@pytest.mark.parametrize(
    ("what", "kind", "is_document"),
    [("a paper file", "file", True), ("an image of an invoice", "file", False), ("a list of documents", "array[file]", True),
     ("a question", None, False), ("the code documentation", None, False), ("multiple resume files", "array[file]", True)],
)  # fmt: skip
def test_the_kind_of_an_input_is_read_from_the_words_before_it(what, kind, is_document):
    [stated] = read_contract([f"The user will provide {what} (variable x) as input."]).inputs
    assert ((stated.kind and stated.kind.value), stated.is_document) == (kind, is_document)


def test_instructions_are_read_in_bounded_time():
    for text in (
        "(variable " + "a, " * 40_000 + ")",
        "call it the a b c d " * 8_000,
        "variable a and " * 9_000,
        "`" * 100_000,
    ):
        read_contract([text])


# Alignment

ASK = "{{#1.text#}}"


def mended(text, *instructions):
    result = align(text, instructions)
    assert align(result.text, instructions).repairs == []
    return result


def test_inputs_and_outputs_get_the_names_that_are_stated():
    text = flow(start(("question_text", "string")), llm("{{#1.question_text#}}"), end(("reply", ("text", "2"))))
    result = mended(text, "The user will provide a question (variable question). Output the answer (variable answer).")
    assert result.graph.by_id["1"].params == {"variables": [["question", "string"]]}
    assert result.graph.by_id["2"].params["user"] == "{{#1.question#}}"
    assert result.graph.by_id["9"].params == {"outputs": [["answer", ["text", "2"]]]}
    assert {each.rule for each in result.repairs} == {"input-names", "output-names"}


def test_outputs_that_are_no_longer_asked_for_go():
    text = flow(
        start(("text", "string")),
        llm(ASK),
        node("3", "tts", text="{{#2.text#}}"),
        end(("x", ("text", "2")), ("audio", ("files", "3"))),
    )
    rounds = [
        "The user will provide a text (variable text). Output it (variable x).",
        "It only needs to output the audio file (variable audio).",
    ]
    assert mended(text, *rounds).graph.by_id["9"].params == {"outputs": [["audio", ["files", "3"]]]}


def test_an_output_that_one_node_alone_can_be_is_added():
    text = flow(
        start(("text", "string")),
        llm(ASK),
        node("3", "markdown-exporter", target_type="pdf", md_text="{{#2.text#}}"),
        end(("x", ("text", "2"))),
    )
    result = mended(
        text,
        "The user provides a text (variable text). Output the answer (variable x) and the PDF file (variable pdf).",
    )
    assert result.graph.by_id["9"].params == {"outputs": [["x", ["text", "2"]], ["pdf", ["files", "3"]]]}


def test_a_document_is_read_by_an_extractor_before_a_model_is_asked():
    text = flow(start(("paper", "file")), llm("Read {{#1.paper#}}"), end(("summary", ("text", "2"))))
    result = mended(text, FIRST)
    assert result.graph.by_id["2"].params["user"] == "Read {{#3.text#}}"
    assert result.graph.by_id["3"].params == {"variable_selector": ["paper", "1"]}
    assert not result.issues
    picture = FIRST.replace("the paper file", "an image of the paper")
    assert mended(text, picture).graph.by_id["2"].params["user"] == "Read {{#1.paper#}}"


def branches(*last, more=()):
    switch = node("2", "if-else", cases=[[None, [[["text", "1"], "is", "x"]]]])
    edges = [["1", 0, "2"], ["2", 0, "3"], ["2", 1, "4"], *more]
    return flow(start(("text", "string")), switch, llm(ASK, "3"), llm(ASK, "4"), *last, edges=edges)


def test_ends_that_exclude_each_other_are_one_after_an_aggregator():
    text = branches(
        end(("x", ("text", "3")), id="5"), end(("x", ("text", "4")), id="6"), more=[["3", 0, "5"], ["4", 0, "6"]]
    )
    said = "The user provides a text (variable text). Output the answer and a note (variable x)."
    assert mended(text, said).repairs == []  # each gives what is asked for
    text = branches(
        end(("x", ("text", "3")), id="5"), end(("y", ("text", "4")), id="6"), more=[["3", 0, "5"], ["4", 0, "6"]]
    )
    result = mended(text, "The user provides a text (variable text). Output both (variables x, y).")
    assert [each.params for each in result.graph.nodes if each.type == "end"] == [
        {"outputs": [["x", ["text", "3"]], ["y", ["text", "4"]]]}
    ]


def test_an_end_is_split_where_branches_give_different_outputs():
    picture = node("5", "text2image", prompt="{{#4.text#}}")
    together = node("6", "variable-aggregator", variables=[["text", "3"], ["text", "4"]])
    more = [["4", 0, "5"], ["3", 0, "6"], ["4", 0, "6"], ["5", 0, "9"], ["6", 0, "9"]]
    text = branches(picture, together, end(("result", ("output", "6")), ("picture", ("files", "5"))), more=more)
    rounds = ["The user provides a text (variable text). Output the result (variable result).",
              "Add a branch. This branch needs to output the result (variable result) and an image (variable picture). Outputs are aggregated."]  # fmt: skip
    result = mended(text, *rounds)
    ends = [each.params["outputs"] for each in result.graph.nodes if each.type == "end"]
    assert ends == [[["result", ["text", "3"]]], [["result", ["text", "4"]], ["picture", ["files", "5"]]]]
    assert not result.issues
