"""Canvases with the nodes of Coze Studio in their richer forms: they run, are written back, and keep an edited word."""

import json
from dataclasses import replace

import pytest
from amounts import sample
from coze_canvases import START, canvas, code, condition, edges, lit, llm, named, node, of, out, ref, text
from coze_runs import outputs_of, told

from operad.flows.check import check
from operad.flows.formats.table import FORMATS
from operad.integrations.coze.format import COZE, COZE_CANVAS
from operad.operators.nodes import NODE_TYPES

TEXTS = {"type": "list", "schema": {"type": "string"}}
GIVEN, LIST = ref(START, "text"), ref(START, "l", "list", schema={"type": "string"})


def merge(id, *sources):
    group = {"name": "Group1", "variables": [ref(source, "output") for source in sources]}
    return node(id, "32", out(Group1="string"), mergeGroups=[group])


def loop(blocks, inside, outputs, **inputs):
    kind = {"loopCount": lit("3", "integer"), "variableParameters": [], "inputParameters": []} | inputs
    return node("1", "21", outputs, blocks=(blocks, edges(*inside)), **kind)


def failing(**setting):
    """A code node that fails, with the outputs that Coze adds for errors."""
    fields = [{"type": "string", "name": "errorMessage", "readOnly": True}]
    outputs = out(
        output="string", errorBody={"type": "object", "schema": fields, "readOnly": True}, isSuccess="boolean"
    )
    made = code("1", "    raise ValueError('bad')\n", outputs, a=GIVEN)
    made["data"]["inputs"]["settingOnError"] = {"switch": True, "timeoutMs": 60000, "retryTimes": 1, **setting}
    return made


def lengths():
    branches = [
        (2, [(GIVEN, 3, lit(3, "integer")), (LIST, 6, lit(2, "integer"))]),
        (1, [(GIVEN, 5, lit(2, "integer"))]),
    ]
    nodes = [
        condition("1", *branches),
        text("2", "long"),
        text("3", "short"),
        text("4", "mid"),
        merge("5", "2", "3", "4"),
    ]
    pairs = ["1:true>2", "1:true_1>3", "1:false>4", "2>5", "3>5", "4>5"]
    start = out(text="string", l=TEXTS)
    return canvas(start, nodes, named(said=ref("5", "Group1")), "100001>1", *pairs, "5>900001")


def literals():
    kinds = {"n": ("21", "integer"), "l": ('["a", "b"]', "list"), "o": ('{"k": 1}', "object"), "b": (True, "boolean")}
    outputs = out(n="integer", l=TEXTS, o="object", b="boolean")
    of_texts = {"type": "string"}
    body = "    return {**params, 'n': params['n'] * 2}\n"
    nodes = [
        text("1", "{{a}} is {{b}}", a=GIVEN, b=lit("ripe")),
        code("2", body, outputs, **{name: lit(*each, schema=of_texts) for name, each in kinds.items()}),
    ]
    results = named(said=ref("1", "output"), fixed=lit("f"), **{name: ref("2", name) for name in kinds})
    return canvas(out(text="string"), nodes, results, "100001>1", "1>2", "2>900001")


def global_variables():
    new = [
        {"name": "name", "left": of("user", "name"), "input": GIVEN},
        {"name": "n", "left": of("app", "n", kind="integer"), "input": lit("3", "integer")},
    ]
    nodes = [
        node("1", "40", out(isSuccess="boolean"), inputParameters=new, variableTypeMap={}),
        text("2", "{{a}} {{b}}", a=of("user", "name"), b=of("app", "n", kind="integer")),
    ]
    return canvas(out(text="string"), nodes, named(said=ref("2", "output")), "100001>1", "1>2", "2>900001")


def question(kind, **more):
    asked = node(
        *("1", "18", out(optionId="string", optionContent="string")), inputParameters=named(a=GIVEN), limit=3,
        question="Which {{a}}?", answer_type="option", option_type=kind, extra_output=False, **more,
    )  # fmt: skip
    nodes = [asked, text("2", "one {{a}}", a=ref("1", "optionContent")), text("4", "other"), merge("5", "2", "4")]
    pairs = ["1:branch_0>2", "1:branch_1>2", "1:default>4"] if kind == "static" else ["1:branch_0>2", "1:default>4"]
    start = out(text="string", l=TEXTS)
    return canvas(start, nodes, named(said=ref("5", "Group1")), "100001>1", *pairs, "2>5", "4>5", "5>900001")


def asking(outputs, results, *nodes, **more):
    """A canvas with an llm node, and text nodes after it."""
    asked = llm("1", "Grow {{a}} {{b}}", outputs, named(a=GIVEN, b=lit("now")), **more)
    last = [asked, *nodes][-1]["id"]
    pairs = ["100001>1", *(f"1>{each['id']}" for each in nodes), f"{last}>900001"]
    return canvas(out(text="string"), [asked, *nodes], results, *pairs)


def fields_of_an_answer():
    inner = {"type": "object", "schema": out(k="string")}
    shown = text("2", "{{s}} {{k}}", s=ref("1", "size", "integer"), k=ref("1", "o.k"))
    outputs = out(size={"type": "integer", "description": "cm"}, names=TEXTS, o=inner)
    return asking(outputs, named(said=ref("2", "output"), names=ref("1", "names", "list")), shown)


def on_error(kind, *pairs):
    nodes = [
        failing(processType=kind, dataOnErr='{"output": "none"}' if kind == 2 else '{"output": ""}'),
        condition("2", (2, [(ref("1", "isSuccess", "boolean"), 11, None)])),
        text("3", "good"), text("4", "bad: {{m}}", m=ref("1", "errorBody.errorMessage")), merge("5", "3", "4"),
    ]  # fmt: skip
    nodes = nodes if kind == 2 else [nodes[0], *nodes[2:]]
    results = named(said=ref("5", "Group1"), **({"output": ref("1", "output")} if kind == 2 else {}))
    return canvas(out(text="string"), nodes, results, "100001>1", *pairs, "3>5", "4>5", "5>900001")


def plugin():
    values = {"apiID": "1", "apiName": "weather", "pluginID": "2", "pluginName": "Weather", "pluginVersion": "0"}
    api = named(**{name: lit(value) for name, value in values.items()})
    inputs = named(a=GIVEN, days=lit("3", "integer"))
    called = node("1", "4", out(data="string", code="integer"), apiParam=api, inputParameters=inputs)
    return canvas(out(text="string"), [called], named(said=ref("1", "data")), "100001>1", "1>900001")


def knowledge():
    found = {"type": "list", "schema": {"type": "object", "schema": out(output="string")}}
    given = named(datasetList=lit(["1"], "list", schema={"type": "string"}), topK=lit(5, "integer"))
    searched = node("1", "6", out(outputList=found), datasetParam=given, inputParameters=named(Query=GIVEN))
    return canvas(out(text="string"), [searched], named(said=ref("1", "outputList", "list")), "100001>1", "1>900001")


def loop_with_variables():
    inner = [
        text("21", "{{a}}{{b}};", a=ref("1", "sum"), b=ref("1", "input")),
        node("22", "20", [], inputParameters=[{"left": ref("1", "sum"), "right": ref("21", "output")}]),
    ]
    inside = ["1:loop-function-inline-output>21", "21>22", "22>1:loop-function-inline-input"]
    outputs = named(sum=ref("1", "sum"), all=ref("21", "output", "list"), total=ref("1", "sum"))
    made = loop(
        inner,
        inside,
        outputs,
        loopType="array",
        variableParameters=named(sum=lit("")),
        inputParameters=named(input=LIST),
    )
    results = named(sum=ref("1", "sum"), all=ref("1", "all", "list"), total=ref("1", "total"))
    return canvas(out(l=TEXTS), [made], results, "100001>1", "1:loop-output>900001")


def loop_with_break_and_continue(**more):
    index = ref("1", "index", "integer")
    inner = [
        condition("21", (2, [(index, 14, lit("2", "integer"))])), node("22", "19"),
        condition("23", (2, [(ref("1", "input"), 1, lit("a"))])), node("24", "29"),
        text("25", "{{i}}{{v}}", i=index, v=ref("1", "input")),
    ]  # fmt: skip
    inside = ["1:loop-function-inline-output>21", "21:true>22", "21:false>23", "23:true>24", "23:false>25"]
    lists = named(input=LIST, **more)
    made = loop(inner, inside, named(all=ref("25", "output", "list")), loopType="array", inputParameters=lists)
    return canvas(out(l=TEXTS), [made], named(all=ref("1", "all", "list")), "100001>1", "1:loop-output>900001")


def loop_with_a_count():
    inside = ["1:loop-function-inline-output>21", "21>1:loop-function-inline-input"]
    made = loop(
        [text("21", "p{{i}}", i=ref("1", "index", "integer"))],
        inside,
        named(all=ref("21", "output", "list")),
        loopType="count",
    )
    return canvas(out(text="string"), [made], named(all=ref("1", "all", "list")), "100001>1", "1:loop-output>900001")


def defaults():
    start = [{"type": "string", "name": "a", "required": False, "defaultValue": "fig"}, *out(text="string")]
    start.append({"type": "integer", "name": "n", "required": False})
    made = text("1", "{{a}} {{t}}", a=ref(START, "a"), t=GIVEN)
    return canvas(start, [made], named(said=ref("1", "output")), "100001>1", "1>900001")


WORDS = canvas(out(text="string"), [text("1", "a {{a}}", a=GIVEN)], "Here: {{output}}!", "100001>1", "1>900001")
STATIC = question("static", options=[{"name": "fig"}, {"name": "elm"}])
ANSWER = {"size": 3, "names": ["a"], "o": {"k": "v"}}
HISTORY = {"enableChatHistory": ("boolean", True), "chatHistoryRound": ("integer", "5"), "format": "0"}

CASES = {
    "length, one of several": (lengths(), {"text": "figs", "l": ["a"]}, {"said": "long"}),
    "length, the second": (lengths(), {"text": "f", "l": []}, {"said": "short"}),
    "length, else": (lengths(), {"text": "fi", "l": []}, {"said": "mid"}),
    "literals": (
        *(literals(), {"text": "fig"}),
        {"said": "fig is ripe", "fixed": "f", "n": 42, "l": ["a", "b"], "o": {"k": 1}, "b": True},
    ),
    "variables of user and app": (global_variables(), {"text": "fig"}, {"said": "fig 3"}),
    "an option": (STATIC, {"text": "tree", "l": []}, {"said": "one elm"}, {"action": "elm"}),
    "no option": (STATIC, {"text": "tree", "l": []}, {"said": "other"}, {"action": "other"}),
    "options of a list": (
        *(question("dynamic", dynamic_option=LIST, options=[{"name": ""}]), {"text": "tree", "l": ["fig", "elm"]}),
        *({"said": "one elm"}, {"action": "option", "optionContent": "elm"}),
    ),
    "an end in words": (WORDS, {"text": "fig"}, {"answer": "Here: a fig!"}),
    "fields of an answer": (
        *(fields_of_an_answer(), {"text": "fig"}, {"said": "3 v", "names": ["a"]}, None, [json.dumps(ANSWER)]),
    ),
    "thoughts of a model": (
        asking(
            out(output="string", reasoning_content="string"),
            named(said=ref("1", "output"), why=ref("1", "reasoning_content")),
            format="0",
        ),
        *({"text": "fig"}, {"said": "ok", "why": "hm"}, None, ["<think>hm</think>ok"]),
    ),
    "history": (
        asking(out(output="string"), named(said=ref("1", "output")), **HISTORY),
        *({"text": "fig"}, {"said": "user: Grow fig now"}),
    ),
    "values after an error": (
        on_error(2, "1>2", "2:true>3", "2:false>4"), {"text": "x"},
        {"said": "bad: the snippet failed at line 10, `raise ValueError('bad')`: ValueError: bad", "output": "none"},
    ),
    "a branch after an error": (
        on_error(3, "1:default>3", "1:branch_error>4"), {"text": "x"},
        {"said": "bad: the snippet failed at line 10, `raise ValueError('bad')`: ValueError: bad"},
    ),
    "a plugin": (plugin(), {"text": "Rome"}, {"said": "3 days of sun over Rome"}),
    "knowledge": (knowledge(), {"text": "fig"}, {"said": [{"content": "On fig.", "source": "a.md", "score": 0.0}]}),
    "a loop over a list with variables": (
        *(loop_with_variables(), {"l": ["a", "b"]}, {"sum": "a;b;", "all": ["a;", "a;b;"], "total": "a;b;"}),
    ),
    "break and continue": (loop_with_break_and_continue(), {"l": ["a", "b", "c", "d"]}, {"all": ["1b"]}),
    "a loop over two lists": (
        loop_with_break_and_continue(other=lit("[1, 2, 3, 4]", "list", schema={"type": "integer"})),
        *({"l": ["a", "b", "c", "d"]}, {"all": ["1b"]}),
    ),
    "a loop with a count": (loop_with_a_count(), {"text": ""}, {"all": ["p0", "p1", "p2"]}),
    "defaults": (defaults(), {"text": "x"}, {"said": "fig x"}),
}  # fmt: skip


def loaded(name):
    return COZE_CANVAS.load(json.dumps(CASES[name][0], ensure_ascii=False), "canvas")


def ran(graph, name):
    _, inputs, outputs, *more = CASES[name]
    answers, said = [*more, None, None][:2]
    return outputs_of(graph, {"inputs": inputs, "answers": answers, "said": said}), outputs


@pytest.mark.parametrize("name", sample(CASES, 2))
def test_a_canvas_runs_as_at_coze_and_is_written_back(name):
    graph = loaded(name)
    assert (check(graph, NODE_TYPES), told(graph)) == ([], ([], []))
    found, outputs = ran(graph, name)
    assert found == outputs
    assert COZE_CANVAS.losses(graph) == []
    assert json.loads(COZE_CANVAS.dump(graph)) == CASES[name][0]
    kept = FORMATS["operad"].load(FORMATS["operad"].dump(graph))
    assert json.loads(COZE_CANVAS.dump(kept)) == CASES[name][0]


@pytest.mark.parametrize("name", CASES)
def test_a_canvas_becomes_an_archive_that_runs_the_same(name):
    found, outputs = ran(COZE.load(COZE.dump(loaded(name))), name)
    assert found == outputs


@pytest.mark.parametrize("name", CASES)
def test_a_word_is_changed_in_its_node_alone(name):
    graph, document = loaded(name), CASES[name][0]
    texts = ("template", "user", "question", "answer", "code")
    for spec in graph.nodes:
        for key in [key for key in texts if str(spec.params.get(key, "")).strip()]:
            was = spec.params[key]
            params = {**spec.params, key: f"{was}\n# more" if key == "code" else f"More {was}"}
            changed = replace(
                graph, nodes=[replace(each, params=params) if each is spec else each for each in graph.nodes]
            )
            written = json.loads(COZE_CANVAS.dump(changed))
            again = COZE_CANVAS.load(json.dumps(written), "canvas")
            assert COZE_CANVAS.losses(changed) == []
            assert [(each.id, each.type, each.params) for each in again.nodes] == [
                (each.id, each.type, each.params) for each in changed.nodes
            ]
            assert again.edges == graph.edges
            pairs = zip(written["nodes"], document["nodes"], strict=True)
            assert len([one for one, other in pairs if one != other]) == 1


def test_a_global_variable_that_nothing_sets_is_a_loss():
    document = canvas(out(text="string"), [text("1", "{{a}}", a=of("user", "name"))], [], "100001>1", "1>900001")
    refusals, losses = told(COZE_CANVAS.load(json.dumps(document)))
    assert (refusals, [each.where for each in losses]) == ([], ["conversation"])


@pytest.mark.parametrize("kind", ["FORM_DATA", "BINARY"])
def test_a_request_sends_files_and_global_variables(kind):
    file = ref(START, "f", assistType=1)
    data = {"formData": {"data": named(f=file, t=lit("x"))}} if kind == "FORM_DATA" else {"binary": {"fileURL": file}}
    url = 'https://example.org/{{block_output_100001.text}}?u={{global_variable_user["id"]}}'
    made = node(
        *("1", "45", out(body="string", statusCode="integer")), apiInfo={"method": "POST", "url": url},
        body={"bodyType": kind, "bodyData": data}, headers=named(X=GIVEN), params=[], auth={"authOpen": False},
    )  # fmt: skip
    start = out(text="string", f={"type": "string", "assistType": 1})
    graph = COZE_CANVAS.load(json.dumps(canvas(start, [made], [], "100001>1", "1>900001")))
    parts = {"FORM_DATA": [["f", ["f", START]], ["t", "x"]], "BINARY": [["", ["f", START]]]}[kind]
    assert check(graph, NODE_TYPES) == []
    assert (
        graph.by_id["1"].params["url"] == f"https://example.org/{{{{#{START}.text#}}}}?u={{{{#conversation.user_id#}}}}"
    )
    assert graph.by_id["1"].params["body"][1] == parts
