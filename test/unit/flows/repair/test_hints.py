"""Names that instructions state, and findings on names that a workflow lacks: none that is mistaken."""

import pytest

from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.flows.repair import read_contract
from operad.flows.repair.hints import hints, hints_on

READ = [
    ("Give me the answer (variable result, exactly one text).", [], ["result"]),
    ("Output the answer (variable answer and nothing else).", [], ["answer"]),
    (
        "Output the lines (variable lines, one per item) and tags (variable tags, list of strings).",
        [],
        ["lines", "tags"],
    ),
    ("The user gives a date (variable date, ISO) and a city (variable city, string).", ["date", "city"], []),
    ("Output the reply (variable reply, string, Markdown).", [], ["reply"]),
    ("Output the answer (variable answer, e.g. yes).", [], ["answer"]),
    ("The user gives drafts (variables short and long, one text each).", ["long", "short"], []),
    ("The user gives names (variables first, last).", ["first", "last"], []),
    ("The user gives two numbers (variable number_1, number_2).", ["number_1", "number_2"], []),
    ("The user uploads a resume (variable resume; PDF or Word. Nothing else).", ["resume"], []),
    ("Write a file named report.docx and output it (variable report).", [], ["report"]),
    ("Take my notes (variable notes), turn them into minutes (variable minutes).", ["notes"], []),
    ("I upload a contract (variable contract), you list the risks (variable risks).", ["contract"], []),
    ("The user enters a text (variable text) and the workflow corrects it (variable corrected).", ["text"], []),
    ("The user enters a text (variable text), the summary (variable summary) has ten words.", ["text"], []),
    ("Users upload a photo (variable photo) to receive a caption (variable caption).", ["photo"], []),
    ("Output a summary (variable summary), where the text (variable text) may be long.", [], ["summary"]),
    (
        "The user gives a topic (variable topic), a style (variable style) and a length (variable length).",
        ["topic", "style", "length"],
        [],
    ),
    ("输出结果（变量 result，恰好一个文本）。", [], ["result"]),
    ("输出正文（变量 body，string）和标题（变量 title，string）。", [], ["body", "title"]),
    ("输出摘要（变量：摘要，中文）和标签（变量：标签，列表）。", [], ["摘要", "标签"]),
    ("用户上传简历（变量 resume；PDF 或 Word）。", ["resume"], []),
    ("用户给出姓名（变量 first、last）。", ["first", "last"], []),
    ("根据主题（变量 topic）写一首诗（变量 poem）。", ["topic"], []),
    ("上传合同（变量 contract，PDF），找出风险（变量 risks），打分（变量 score，0 到 100）。", ["contract"], []),
    ("返回给用户的答案（变量 answer）要简短，用户的问题（变量 question）可能是英文。", [], []),
    ("用户上传照片（变量 photo），工作流描述它（变量 caption）。", ["photo"], []),
    ("用户输入文章（变量 text），摘要（变量 summary）不超过一百字。", ["text"], []),
]


@pytest.mark.parametrize(("text", "inputs", "outputs"), READ)
def test_words_that_describe_a_variable_or_begin_another_clause_are_no_names_of_that_side(text, inputs, outputs):
    contract = read_contract([text])
    assert sorted(contract.input_names) == sorted(inputs)
    assert sorted(name for each in contract.outputs for name in each.needed) == sorted(outputs)


ENGLISH = (
    "The user gives a text (variable text) and a language (variable language). "
    "Output a summary (variable summary) and keywords (variable keywords)."
)
CHINESE = "用户输入一段文字（变量 text）和语言（变量 language）。输出摘要（变量 summary）和关键词（变量 keywords）。"


def workflow(inputs, outputs):
    start = NodeSpec("1", "start", {"variables": [[name, "string"] for name in inputs]})
    return NodeGraph([start, NodeSpec("9", "end", {"outputs": [[name, ["text", "2"]] for name in outputs]})])


BASE = workflow(["text", "language"], ["summary", "keywords"])
CHANGES = [
    ("Rename the output `summary` to `abstract`.", ["text", "language"], ["abstract", "keywords"]),
    ("Remove `keywords`.", ["text", "language"], ["summary"]),
    ("Drop the variable keywords.", ["text", "language"], ["summary"]),
    ("把变量 `summary` 改名为 `abstract`。", ["text", "language"], ["abstract", "keywords"]),
    ("Remove the keywords.", ["text", "language"], ["summary"]),
    ("Drop the keywords output.", ["text", "language"], ["summary"]),
    ("I don't need the keywords any more.", ["text", "language"], ["summary"]),
    ("Leave out the language; always answer in French.", ["text"], ["summary", "keywords"]),
    ("The language is always French, so do not ask for it.", ["text"], ["summary", "keywords"]),
    ("Rename the output summary to abstract.", ["text", "language"], ["abstract", "keywords"]),
    ("Call the summary abstract from now on (variable abstract).", ["text", "language"], ["abstract", "keywords"]),
    ("Replace the keywords by a title (variable title).", ["text", "language"], ["summary", "title"]),
    (
        "Instead of a summary, output a translation (variable translation).",
        ["text", "language"],
        ["translation", "keywords"],
    ),
    ("Output only the summary.", ["text", "language"], ["summary"]),
    ("Just the summary, please.", ["text", "language"], ["summary"]),
    ("Merge summary and keywords into one text (variable result).", ["text", "language"], ["result"]),
    ("The input should be a PDF (variable paper) now.", ["paper", "language"], ["summary", "keywords"]),
    ("Take a file (variable file) instead of the text.", ["file", "language"], ["summary", "keywords"]),
    ("No keywords.", ["text", "language"], ["summary"]),
    ("Put the keywords below the summary, as one output.", ["text", "language"], ["summary"]),
    ("Make the keywords part of the summary.", ["text", "language"], ["summary"]),
    ("去掉关键词。", ["text", "language"], ["summary"]),
    ("不要关键词了。", ["text", "language"], ["summary"]),
    ("语言固定为法语，不用再输入。", ["text"], ["summary", "keywords"]),
    ("把输出 summary 改名为 abstract。", ["text", "language"], ["abstract", "keywords"]),
    ("关键词换成标题（变量 title）。", ["text", "language"], ["summary", "title"]),
    ("只输出摘要。", ["text", "language"], ["summary"]),
    ("把摘要和关键词合并成一个文本（变量 result）。", ["text", "language"], ["result"]),
    ("输入改为 PDF（变量 paper）。", ["paper", "language"], ["summary", "keywords"]),
    ("删除语言输入，一律用中文。", ["text"], ["summary", "keywords"]),
    ("取消关键词，另外输出标题（变量 title）。", ["text", "language"], ["summary", "title"]),
    ("Shorten the summary.", ["text", "language"], ["summary", "keywords"]),
    ("The summary (variable summary) should have three sentences.", ["text", "language"], ["summary", "keywords"]),
    ("摘要（变量 summary）限三句话。", ["text", "language"], ["summary", "keywords"]),
    ("Also output the number of words (variable words).", ["text", "language"], ["summary", "keywords", "words"]),
    ("Use the variable language in the prompt of the keywords, too.", ["text", "language"], ["summary", "keywords"]),
    (
        "If the text (variable text) is empty, output an error (variable error).",
        ["text", "language"],
        ["summary", "keywords", "error"],
    ),
    (
        "Let me give a tone, too (variable tone, default friendly).",
        ["text", "language", "tone"],
        ["summary", "keywords"],
    ),
    ("The tone (variable tone) should be optional.", ["text", "language", "tone"], ["summary", "keywords"]),
    ("Ask me for the tone (variable tone) as well.", ["text", "language", "tone"], ["summary", "keywords"]),
]


@pytest.mark.parametrize("first", [ENGLISH, CHINESE])
@pytest.mark.parametrize(("request_", "inputs", "outputs"), CHANGES)
def test_what_a_change_takes_away_as_asked_is_no_finding(request_, inputs, outputs, first):
    assert hints_on([first, request_], workflow(inputs, outputs), BASE) == []


@pytest.mark.parametrize("first", [ENGLISH, CHINESE])
@pytest.mark.parametrize("request_", ["Also output the count (variable count).", "另外输出字数（变量 count）。"])
def test_a_name_that_a_change_lacks_is_a_finding_and_so_is_one_that_it_loses(request_, first):
    lacks = "[output] 9: no end node gives {!r}, which the request seems to name; add it, or contest this"
    rounds = [first, request_]
    assert hints_on(rounds, BASE, BASE) == [lacks.format("count")]
    assert hints_on(rounds, workflow(["text", "language"], ["summary", "count"]), BASE) == [lacks.format("keywords")]


def test_a_fault_of_the_workflow_before_is_no_finding_on_the_change():
    before = workflow(["text", "language"], ["summary"])
    assert hints_on([ENGLISH, "Also make it short."], before, before) == []


def test_an_output_in_the_words_of_an_input_is_no_finding():
    said = "Get the weather of a city (variable city) from the service with my key, and say what to wear (variable advice)."
    contract = read_contract([said])
    assert contract.input_names == ["advice"]
    assert hints(contract, workflow(["city"], ["advice"])) == []
    [finding] = hints(contract, workflow(["city"], ["clothes"]))
    assert "no start node declares 'advice'" in finding


def test_only_names_that_nobody_asked_for_are_taken_for_slips():
    [finding] = hints(read_contract([ENGLISH]), workflow(["text", "language"], ["summary", "keyword"]))
    assert "rename 'keyword', or add it" in finding
    [finding] = hints(read_contract([ENGLISH + " Output words (variable words)."]), BASE)
    assert "rename" not in finding
