"""`operad.flows.repair` as a whole: the contract, alignment, the guards, hostile input, and recorded responses."""

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from amounts import amount
from hypothesis import given, settings
from hypothesis import strategies as st

from operad.flows import repair as package
from operad.flows.formats.chat2workflow import issues_of, load
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair import ALIGNED, FORMAT, PAPER, PROFILES, RULES, Standing, read_contract
from operad.flows.repair import engine as engine_of_repair
from operad.flows.repair.hints import hints
from operad.flows.repair.state import Proposal, State
from operad.operators.nodes import NODE_TYPES

repair: Any = package.repair
repair_graph: Any = package.repair_graph


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


def test_a_hint_tells_of_a_missing_name_and_never_of_one_too_many():
    contract = read_contract(["The user gives a text (variable text). Output the summary (variable summary)."])
    graph = load(
        flow(start(("text", "string"), ("more", "string")), end(("summery", ("text", "1")), ("x", ("text", "1"))))
    )
    [hint] = hints(contract, graph)
    assert hint.startswith("[output] ")
    assert "no end node gives 'summary'" in hint
    assert "rename 'summery', or add it, or contest this" in hint


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
    assert repair(kept, [said]).text == kept


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


def aligned(text, *instructions):
    result = repair(text, instructions)
    assert repair(result.text, instructions).repairs == []
    return result


def test_inputs_and_outputs_get_the_names_that_are_stated():
    text = flow(start(("question_text", "string")), llm("{{#1.question_text#}}"), end(("reply", ("text", "2"))))
    result = aligned(text, "The user will provide a question (variable question). Output the answer (variable answer).")
    assert result.graph.by_id["1"].params == {"variables": [["question", "string"]]}
    assert result.graph.by_id["2"].params["user"] == "{{#1.question#}}"
    assert result.graph.by_id["9"].params == {"outputs": [["answer", ["text", "2"]]]}
    assert {each.rule for each in result.repairs} == {"input-names", "output-names"}


def test_an_input_that_is_stated_and_not_declared_is_a_lesson():
    said = "The user will provide a text (variable text) and a tone (variable tone). Output it (variable x)."
    text = flow(start(("text", "string")), llm("{{#1.text#}}"), end(("x", ("text", "2"))))
    result = aligned(text, said)
    assert result.graph.by_id["1"].params == {"variables": [["text", "string"]]}
    assert "the instruction states the input 'tone'" in result.lessons[0]


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
    assert aligned(text, *rounds).graph.by_id["9"].params == {"outputs": [["audio", ["files", "3"]]]}


def test_an_output_that_one_node_alone_can_be_is_added():
    text = flow(
        start(("text", "string")),
        llm(ASK),
        node("3", "markdown-exporter", target_type="pdf", md_text="{{#2.text#}}"),
        end(("x", ("text", "2"))),
    )
    result = aligned(
        text,
        "The user provides a text (variable text). Output the answer (variable x) and the PDF file (variable pdf).",
    )
    assert result.graph.by_id["9"].params == {"outputs": [["x", ["text", "2"]], ["pdf", ["files", "3"]]]}


def test_a_document_is_read_by_an_extractor_before_a_model_is_asked():
    text = flow(start(("paper", "file")), llm("Read {{#1.paper#}}"), end(("summary", ("text", "2"))))
    result = aligned(text, FIRST)
    assert result.graph.by_id["2"].params["user"] == "Read {{#3.text#}}"
    assert result.graph.by_id["3"].params == {"variable_selector": ["paper", "1"]}
    assert not result.issues
    picture = FIRST.replace("the paper file", "an image of the paper")
    assert aligned(text, picture).graph.by_id["2"].params["user"] == "Read {{#1.paper#}}"


def branches(*last, more=()):
    switch = node("2", "if-else", cases=[[None, [[["text", "1"], "is", "x"]]]])
    edges = [["1", 0, "2"], ["2", 0, "3"], ["2", 1, "4"], *more]
    return flow(start(("text", "string")), switch, llm(ASK, "3"), llm(ASK, "4"), *last, edges=edges)


def test_ends_that_exclude_each_other_are_one_after_an_aggregator():
    text = branches(
        end(("x", ("text", "3")), id="5"), end(("x", ("text", "4")), id="6"), more=[["3", 0, "5"], ["4", 0, "6"]]
    )
    said = "The user provides a text (variable text). Output the answer and a note (variable x)."
    assert aligned(text, said).repairs == []  # each gives what is asked for
    text = branches(
        end(("x", ("text", "3")), id="5"), end(("y", ("text", "4")), id="6"), more=[["3", 0, "5"], ["4", 0, "6"]]
    )
    result = aligned(text, "The user provides a text (variable text). Output both (variables x, y).")
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
    result = aligned(text, *rounds)
    ends = [each.params["outputs"] for each in result.graph.nodes if each.type == "end"]
    assert ends == [[["result", ["text", "3"]]], [["result", ["text", "4"]], ["picture", ["files", "5"]]]]
    assert not result.issues


# The guards


def test_a_repair_that_makes_something_worse_is_not_made(monkeypatch):
    def harmful(state):
        yield Proposal("2", "is left out", "for fun", replace(state.graph, nodes=[]))

    def useless(state):
        yield Proposal("2", "is renamed", "for fun", replace(state.graph, name=state.graph.name + "!"))

    monkeypatch.setattr(engine_of_repair, "MEANING_RULES", {"harmful": harmful, "useless": useless})
    text = flow(start(("text", "string")), llm(ASK), end(("x", ("text", "2"))))
    assert repair(text, (), {"harmful", "useless"}).repairs == []


@pytest.mark.parametrize(
    ("before", "after", "is_better"),
    [
        (Standing(1, 0, 0, 0), Standing(0, 0, 0, 0), True),
        (Standing(1, 0, 0, 0), Standing(0, 0, 1, 0), False),
        (Standing(0, 0, 1, 0), Standing(1, 0, 0, 0), False),
        (Standing(0, 1, 0, 0), Standing(0, 0, 3, 0), True),  # what could not be read before is seen now
        (Standing(0, 0, 1, 0), Standing(0, 1, 0, 0), False),
        (Standing(0, 0, 1, 0), Standing(0, 0, 0, 2), True),
        (Standing(0, 0, 1, 1), Standing(0, 0, 1, 1), False),
    ],
)
def test_what_counts_as_better(before, after, is_better):
    assert after.improves_on(before) is is_better


def test_the_sets_of_rules():
    every = {rule.name for rule in RULES}
    assert PAPER < FORMAT < ALIGNED == every
    assert PROFILES == {"format": FORMAT, "chat2workflow": ALIGNED}
    assert {rule.level for rule in RULES if rule.name not in FORMAT} == {"aligned"}


def test_nothing_but_the_response_and_the_instructions_is_read(monkeypatch):
    text = flow(start(("paper", "file")), llm("{{#1.paper#}}"), end(("summry", ("txt", "2")))).replace("}", "},", 1)
    repair(text, [FIRST])  # imports what it needs

    def refuse(*args, **kwargs):
        raise AssertionError(f"opened {args}")

    for name in ("builtins.open", "io.open", "os.open", "pathlib.Path.open", "socket.socket"):
        monkeypatch.setattr(name, refuse)
    assert repair(text, [FIRST]).graph.by_id["9"].params == {"outputs": [["summary", ["text", "2"]]]}


# Hostile input


@pytest.mark.parametrize(
    "text",
    ["", " ", "null", "[]", "{}", "7", '"x"', "no workflow", "[" * 100_000, '{"nodes_info":' * 20_000, "{" * 3000 + "}" * 10,
     '{"nodes_info": 7, "edges": {}}', '{"nodes_info": [[[]]], "edges": [[]]}', "<workflow>", "<workflow></workflow>",
     b"\xff\xfe\x00", b"\x00" * 1000, "\ud800", '"' * 100_001, "/*" * 50_000, "```" * 10_000,
     '{"nodes_info": [{"id": "", "type": ""}], "edges": []}', '{"nodes_info": [{"id": "a-a-a", "type": "iteration", "param": []}], "edges": []}'],
)  # fmt: skip
def test_what_is_no_workflow_ends_in_issues(text):
    result = repair(text, ["Output it (variable x)."])
    assert result.issues
    assert result.graph is None or result.lessons


def test_a_huge_workflow_is_read_and_left_as_it_is():
    last = amount(1000, 3000)
    nodes = [
        start(("text", "string")),
        *(llm("{{#1.text#}}", str(n)) for n in range(2, last)),
        end(("x", ("txt", "2")), id=str(last)),
    ]
    result = repair(flow(*nodes), ["Output it (variable x)."])
    assert result.repairs == []
    assert result.issues


@pytest.mark.slow
def test_many_faults_end_in_bounded_work():
    nodes = [start(("text", "string")), *(llm(f"{{{{#{n}.tekst#}}}}", str(n + 1)) for n in range(1, 100))]
    repair(flow(*nodes, end(("x", ("zzz", "100")), id="101")))


odd = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "1", "2", "2-1", "text", "llm", "{{#1.text#}}", "{{#item#}}", "end"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["id", "type", "param", "variables", "name"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
params = st.dictionaries(
    st.sampled_from(["variables", "outputs", "user", "system", "cases", "template", "code", "iterator_selector", "output_selector", "query"]), odd
)  # fmt: skip
odd_nodes = st.builds(
    lambda name, kind, param: {"id": name, "type": kind, "param": param},
    st.sampled_from(["1", "2", "2-1", "2-2", "3", "4-1"]),
    st.sampled_from([*NODE_TYPES, "Template", "?"]),
    params,
)
odd_edges = st.lists(st.sampled_from(["1", "2", "2-1", "2-2", "3", 0, 1, None]), min_size=1, max_size=4)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("1", "start", variables=1), node("2", "start", variables=None), node("3", "start", variables={"a": 1})],
        [node("1", "iteration", output_selector=[["a"], ["b"]], iterator_selector=[[], {}]), llm("{{#1.x#}}")],
        [start(("text", "string")), node("2", "end", outputs=None), node("3", "end", outputs=[["x", {}], 3])],
        [node("1", "mermaid-converter", mermaid_code="x"), node("1", "template-transform", template=1, variables=2)],
        [node("1", "start", variables=[]), node("1", "parameter-extractor", query=1)],
        [start(("text", "string")), node("2", "template-transform", template="{{#1.text#}}", variables=[[["a"], [["b"], {}]]])],
    ],
)  # fmt: skip
def test_parameters_of_odd_shapes(nodes):
    said = ["The user provides a text (variable text). Output it (variable x)."]
    result = repair(flow(*nodes), said)
    assert repair(result.text, said).text == result.text


def test_where_no_workflow_can_be_read_the_text_stays_the_same_the_second_time():
    text = (
        "<workflow>\n"
        + json.dumps({"nodes_info": [{"id": "1", "type": "llm"}, {"id": 1}, []], "edges": 3, "nodes_info ": 1})
        + "\n</workflow>"
    )
    for each in (text, text.replace('"llm"', "null"), text.replace('"1"', '""')):
        result = repair(each)
        assert repair(result.text).text == result.text


@settings(max_examples=amount(25, 100))
@given(st.lists(odd_nodes | odd, max_size=6), st.lists(odd_edges, max_size=6))
def test_whatever_is_given_it_ends_once_and_for_all(nodes, edges):
    said = ["The user provides a text (variable text). Output it (variable x)."]
    result = repair(json.dumps({"nodes_info": nodes, "edges": edges}), said)
    again = repair(result.text, said)
    assert again.text == result.text
    assert again.repairs == [] or result.graph is None


# Recorded responses


def recorded(folder):
    query = json.loads((folder / "dataset/query.json").read_text(encoding="utf-8"))
    rounds = {each["task"]: [each[f"query{n}"] for n in range(1, 9) if f"query{n}" in each] for each in query}
    for path in sorted([*folder.glob("may/*.json"), *folder.glob("apr/*.json")]):
        for each in json.loads(path.read_text(encoding="utf-8")):
            if each["workflow"]:
                tags = ("node_selection", "design_principle", "workflow")
                text = "\n".join(f"<{tag}>\n{each[tag]}\n</{tag}>" for tag in tags)
                yield each["valid"], text, rounds[each["task"]][: int(each["round"])]


def test_recorded_responses_never_stand_worse_and_are_mended_once(shared_data):
    every = list(recorded(shared_data / "chat2workflow"))
    for passes, text, instructions in every[:: amount(60, 12)]:
        result = repair(text, instructions)
        assert repair(result.text, instructions).text == result.text
        if passes:
            before, contract = load(text), read_contract(instructions)
            assert State(result.graph, contract).standing <= State(before, contract).standing
            assert repair(text, (), PAPER).graph is not None
        if result.graph is not None and not result.issues:
            assert issues_of(load(result.text), NODE_TYPES) == []


def test_a_sound_recorded_response_stays_to_the_letter_without_instructions(shared_data):
    sound = 0
    for passes, text, _ in list(recorded(shared_data / "chat2workflow"))[:120]:
        if passes and not issues_of(load(text), NODE_TYPES):
            sound += 1
            assert repair(text).text == text
    assert sound > 20


def test_what_stands_around_the_tags_comes_back():
    inner = flow(start(("text", "string")), llm(ASK), end(("x", ("txt", "2"))))
    text = f"So:\n<node_selection>Start, LLM, End</node_selection>\n<workflow>```json\n{inner}\n```</workflow>\nDone.\n"
    mended = repair(text).text
    assert mended.startswith("So:\n<node_selection>Start, LLM, End</node_selection>\n<workflow>\n{")
    assert mended.endswith("}\n</workflow>\nDone.\n")
    assert re.search(r'"text",\s*"2"', mended)


def test_the_graph_of_any_format_is_mended():
    graph = NodeGraph(
        [NodeSpec("a", "start", {"variables": [["q", "string"]]}), NodeSpec("b-c", "llm", {"system": "", "user": "{{#a.q#}}"}),
         NodeSpec("z", "end", {"outputs": [["x", ["answer", "b-c"]]]})],
        [Edge("a", "b-c"), Edge("b-c", "z")],
    )  # fmt: skip
    result = repair_graph(graph)
    assert [each.id for each in result.graph.nodes] == ["a", "b-c", "z"]
    assert not result.issues
