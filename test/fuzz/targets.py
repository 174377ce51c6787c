"""Every loader and parser of ours that takes what others wrote: what is done with it, and real inputs to begin with."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import samples
from answer_forms import parsed, validate
from bounds import Target, folder
from changelog import component_candidates, name_candidates, read_release, releases, sentences
from inputs import SEPARATOR
from pydantic import ValidationError
from samples import as_json, definitions, fenced, graph, joined, lines

from operad.cli.evaluate.work import evaluate
from operad.configs.capabilities import Capabilities
from operad.configs.expert_file import ExpertFile
from operad.configs.flow import find_graph
from operad.configs.inputs import job_of
from operad.configs.loader import load_text
from operad.configs.optimise.edits import edited, outline
from operad.configs.optimise.folder import opened
from operad.configs.optimise.proposals import Proposal
from operad.configs.optimise.tasks import read_tasks
from operad.configs.services import load_services
from operad.evaluation import Dataset as EvaluationCases
from operad.evaluation import EvaluationReport
from operad.flows.check import check
from operad.flows.edit import apply, difference, read_operations
from operad.flows.edit.batch import in_json
from operad.flows.edit.short import parse
from operad.flows.formats.format import Format
from operad.flows.formats.json_text import read_json
from operad.flows.formats.shapes import fields_of
from operad.flows.formats.table import FORMATS, read
from operad.flows.generation.answers import read_object
from operad.flows.generation.draft import drafted_graph
from operad.flows.generation.graph_json import from_json, to_json, with_originals
from operad.flows.generation.plan import PLAN_KEYS, normal_plan, read_plan
from operad.flows.generation.store import nearest_example
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, flowchart
from operad.flows.repair import repair, repair_graph
from operad.integrations.chat2workflow.commands.pass_rate import generate_run
from operad.integrations.chat2workflow.scores import Dataset, Response, judge, read_dataset, read_run
from operad.integrations.comfyui import comfyflow
from operad.integrations.comfyui.comfyflow.command import read_items as read_comfy_items
from operad.integrations.comfyui.formats import formats, read_definitions, restored
from operad.integrations.comfyui.prompt import assign_values, issues_of, with_values
from operad.integrations.comfyui.work import outputs_of
from operad.integrations.worfbench import worfeval
from operad.integrations.worfbench.command import pair, read_items
from operad.operators.conditions import Case, compare, fault_of
from operad.operators.media import documents
from operad.operators.media.echarts import echarts_option
from operad.operators.media.fences import first_fenced, unfenced
from operad.operators.nodes import NODE_TYPES
from operad.operators.sandbox.code import CodeLimits, check_code, parameters_of, run_code
from operad.operators.sandbox.renames import argument_renamed, result_renamed
from operad.operators.sandbox.template import TemplateLimits, check_template, name_changed, names_of, render_template
from operad.operators.sandbox.uses import walked_through
from operad.operators.variables import Selector, Text, Variables, VariableType, selectors_in, texts_in
from operad.runtime.knowledge.extract import chunks, extract, passages_of
from operad.runtime.knowledge.insights import Experience, Insights
from operad.runtime.knowledge.passage_index import IndexedFile, IndexedPassage, PassageIndex
from operad.runtime.models.messages import Message
from operad.runtime.models.model import Model
from operad.runtime.policies.cache import Cache
from operad.runtime.tools.signature import Docstring
from operad.runtime.values.charset import decoded
from operad.runtime.values.document import parse_document
from operad.runtime.values.errors import OperadError
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.json_schema import check_schema, is_strict
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.text import fence
from operad.runtime.values.typed_answers import WrongAnswerError, describe_answer, read_answer
from operad.runtime.values.words import similarity, words

platform.processor()  # openai asks it, and it starts a program: once, and before that is watched


def text_of(data: bytes) -> str:
    """Any bytes as text; what is not UTF-8 becomes half surrogate pairs, as JSON can hold them."""
    return data.decode("utf-8", "surrogateescape")


def texts_of(data: bytes, count: int) -> list[str]:
    """The parts of an input of several texts."""
    parts = data.split(SEPARATOR, count - 1)
    return [text_of(part) for part in parts] + [""] * (count - len(parts))


def refusing(*steps: Callable[[], object]) -> None:
    """Take steps, each of which may refuse."""
    for step in steps:
        with suppress(OperadError):
            step()


def in_file(name: str, use: Callable[[Path], object]) -> Callable[[bytes], None]:
    """What uses a file of that name."""

    def run(data: bytes) -> None:
        with folder() as home:
            path = Path(home) / name
            path.write_bytes(data)
            use(path)

    return run


# Workflows


@cache
def known() -> Mapping[str, Format]:
    """All formats, with the classes of a server."""
    return {**FORMATS, **{each.name: each for each in formats(definitions())}}


def workflow(data: bytes, name: str = "") -> None:
    """Do all that can be done with a workflow, read as whatever it is, or as one of the format of that name."""
    found, made = (known()[name], known()[name].load(data, "fuzz")) if name else read(data, "fuzz", known())
    refusing(
        lambda: found.check(made),
        lambda: found.lines(data),
        lambda: flowchart(made),
        lambda: found.dump_keeping_text(made, data),
    )
    for other in known().values():
        other.losses(made)
        refusing(lambda other=other: other.dump(made))
    from_json(to_json(made))
    difference(graph(), made)
    refusing(lambda: restored(made, made))


def repaired(data: bytes) -> None:
    repair(text_of(data))


def graph_json(data: bytes) -> None:
    made = from_json(read_json(text_of(data), "fuzz"))
    with_originals(made, graph())
    for other in known().values():
        refusing(lambda other=other: other.check(made))
    repair_graph(made)


def operations(data: bytes) -> None:
    done = read_operations(read_json(text_of(data), "fuzz"))
    in_json(done)
    apply(graph(), done)


def short_operation(data: bytes) -> None:
    apply(graph(), parse(text_of(data)))


def plan(data: bytes) -> None:
    said = normal_plan(read_object(text_of(data), PLAN_KEYS), graph(), NODE_TYPES)
    planned = read_plan(said)
    if not said["faults"]:
        made = drafted_graph(planned, graph(), NODE_TYPES)
        known()["operad"].check(made)


def chat2workflow(data: bytes) -> None:
    response = Response.of(text_of(data))
    judge(response, _subtask())
    refusing(response.json)


@cache
def _subtask() -> Any:
    with folder() as home:
        _dataset(Path(home), *_dataset_files())
        return next(iter(read_dataset(Path(home)).subtasks.values()))


def _dataset_files() -> tuple[bytes, bytes, bytes]:
    case = {"text": "a", "files": [{"mime_type": "image/png", "value": "a.png"}], "ground_truth": "b"}
    key = {"input_var": ["text", "files"], "output_var": [["said"]], "related_nodes": ["llm"], "test1": case}
    query = {"id": 1, "category": "x", "task": "A", "query1": "Make one with (variable text)."}
    queries, keys, extensions = as_json([query], {"A_1": key}, {"A_1": {"said": ".pdf"}})
    return queries, keys, extensions


def _dataset(home: Path, *contents: bytes) -> None:
    for name, content in zip(("query", "check_pass_stage", "check_resolve_stage"), contents, strict=True):
        (home / f"{name}.json").write_bytes(content)


def dataset(data: bytes) -> None:
    parts = ([*data.split(SEPARATOR, 2), b"", b""])[:3]
    with folder() as home:
        _dataset(Path(home), *parts)
        read_dataset(Path(home))


def run_of_responses(data: bytes) -> None:
    with folder() as home:
        path = Path(home) / "run.json"
        path.write_bytes(data)
        everything = Dataset({"A_1": _subtask()})
        nobody: Any = None
        refusing(lambda: read_run(path, everything), lambda: generate_run(path, Dataset({}), nobody))


def comfyflow_answer(data: bytes) -> None:
    answer, gold = ([*data.split(SEPARATOR, 1), b""])[:2]
    known_classes = definitions() or _few_classes()
    comfyflow.score(answer, known_classes, seconds=0.2)
    comfyflow.score(answer, known_classes, gold, seconds=0.2)
    comfyflow.reward(answer, gold, ["KSampler"], known_classes)


def _few_classes() -> Any:
    return read_definitions(
        '{"Save": {"input": {"required": {"image": ["IMAGE"]}}, "output": [], "output_node": true}}'
    )


def worf(data: bytes) -> None:
    predicted, gold = ([*data.split(SEPARATOR, 1), b""])[:2]
    for mode in worfeval.MODES:
        refusing(lambda mode=mode: worfeval.score(predicted, gold or samples.golds()[0], mode=mode, seconds=0.1))


def worf_items(path: Path) -> None:
    items = read_items([path])
    refusing(lambda: pair(items, items), lambda: pair(read_items([path.parent]), items))


# What models say


SCHEMAS = (
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array"}}, "required": ["a"]},
    {"type": "array", "items": {"type": "integer"}},
    {},
)


def output_schema(data: bytes) -> None:
    text = text_of(data)
    schema = parsed(text)
    if schema is not None:
        is_strict(schema)
        refusing(lambda: check_schema(schema), lambda: validate(schema, '{"a": [1, "x", null], "b": {"c": 1.5}}'))


def answer(data: bytes) -> None:
    schema_text, said = texts_of(data, 2)
    schema = parsed(schema_text)
    for each in (*SCHEMAS, schema):
        if each is not None:
            refusing(partial(validate, each, said), partial(validate, each, said, repair=False))


def proposal(data: bytes) -> None:
    proposed = Proposal.model_validate(read_json(text_of(data), "fuzz"))
    outline(edited(_expert(), "Writer", proposed.operations), "Writer")


@cache
def _expert() -> ExpertFile:
    text = (
        "experts:\n  - profile: {name: Writer}\n    workflow: [[draft, polish]]\n    evaluator: {name: judge, "
        "instruction: good}\noperators:\n  - {name: draft, instruction: Draft.}\n  - {name: polish, instruction: Polish.}\n"
    )
    return ExpertFile(text, "fuzz")


class _Heard(Model):
    """A model whose endpoint has said something already."""

    _said: bytes = b""

    def _client(self) -> Any:
        import httpx
        from openai import AsyncOpenAI

        head, _, body = self._said.partition(b"\n\n")
        kind = head.decode("ascii", "ignore").strip()[:80] or "text/event-stream"
        headers = {"content-type": kind if kind.isprintable() else "text/event-stream"}
        transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, content=body))
        client: Any = httpx.AsyncClient(transport=transport)
        return AsyncOpenAI(base_url=self.address, api_key="none", max_retries=0, http_client=client)


def stream(data: bytes) -> None:
    model = _Heard(name="m", base_url="http://model.test/v1", max_retries=0)
    model._said = data

    async def ask() -> None:
        await model.complete([Message.user("Hi")])

    asyncio.run(ask())


_CHUNKS = (
    'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}}]}\n\n'
    'data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "a", "function": '
    '{"name": "f", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]}\n\n'
    'data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}\n\ndata: [DONE]\n\n'
)


# What people write


def harmless_here(capabilities: Capabilities) -> bool:
    """Trust a file, so that all of it is read, unless that would run, start, read or write what is named in it."""
    return {each.kind for each in capabilities.each} <= {"sends", "reaches", "sets", "requests"}


def expert(data: bytes) -> None:
    with folder() as home:
        configuration = load_text(text_of(data), "fuzz", Path(home), trust=harmless_here)
        refusing(configuration.agent, *(partial(configuration.expert, each.name) for each in configuration.profiles))


def asked(data: bytes) -> None:
    schema_text, said = texts_of(data, 2)
    schema = parsed(schema_text)
    if schema is not None:
        describe_answer(schema)
    read_answer(said, schema)


def inputs(data: bytes) -> None:
    name, value, other = texts_of(data, 3)
    for given in ([(name, value)], [("text", value), ("n", other), ("list", value), ("f", other)]):
        refusing(lambda given=given: job_of(graph(), Job(goal="g"), given, may_ask=True))


def condition(data: bytes) -> None:
    value = read_json(text_of(data), "fuzz")
    case: Case = NODE_TYPES["if-else"]("1", {"cases": [value]}).params.cases[0]
    variables = Variables([WorkflowMessage(operator_id="1", outputs={"text": "a", "n": 7, "list": ["a", 1, None]})])
    refusing(lambda: case.holds(variables))
    for each in case.conditions:
        for kind in VariableType:
            fault_of(each.operator, each.value, kind)
        for held in ("a", 7, 1e308, True, [1, "a"], {"a": 1}, None):
            refusing(partial(compare, held, each.operator, each.value))


def variables(data: bytes) -> None:
    text, outputs = texts_of(data, 2)
    value: Any = read_json(outputs or "{}", "fuzz")
    named = Text(text)
    held = Variables([WorkflowMessage(operator_id="1", outputs=value if isinstance(value, dict) else {"text": value})])
    held.text(named)
    _ = named.misshapen, named.renamed(str), named.reselected(lambda each: Selector(each.variable + "x", "2"))
    list(selectors_in(value))
    list(texts_in([named, value]))
    for selector in named.selectors:
        held.get(selector)


def template(data: bytes) -> None:
    text = text_of(data)
    check_template(text)
    given = {"a": ["x", 1, None, {"b": 2.5}], "b": "text", "n": 7}
    limits = TemplateLimits(seconds=0.5, memory_bytes=2**24)
    refusing(lambda: names_of(text), lambda: name_changed(text, "a", "z"), lambda: render_template(text, given, limits))


def code(data: bytes) -> None:
    text = text_of(data)
    check_code(text)
    walked_through(text)
    refusing(
        lambda: parameters_of(text),
        lambda: argument_renamed(text, "a", "z"),
        lambda: result_renamed(text, "b", "z"),
        lambda: run_code(text, {"a": 1}, CodeLimits(seconds=0.2, memory_bytes=2**24)),
    )


def given_code(data: bytes) -> None:
    main = "import ast\n\ndef main(s):\n    return {'r': [ast.literal_eval(s), eval(s)]} if s[:1] in '([{' else {'r': exec(s)}"
    refusing(lambda: run_code(main, {"s": text_of(data)}, CodeLimits(seconds=0.2, memory_bytes=2**24)))


def comfyui_node(data: bytes) -> None:
    params = read_json(text_of(data), "fuzz")
    graph = NodeGraph(
        [NodeSpec("1", "start", {"variables": [["a", "string"]]}), NodeSpec("2", "comfyui", params)], [Edge("1", "2")]
    )
    found = check(graph, NODE_TYPES)
    nodes = fields_of(fields_of(params).get("workflow"))
    if not found and not list(issues_of(nodes)):
        values, _ = assign_values(nodes, fields_of(fields_of(params).get("inputs")))
        with_values(nodes, values)
    FORMATS["operad"].dump(graph)


# Documents and other texts


def document(suffix: str) -> Callable[[bytes], None]:
    """Read a document here, for a process of its own for each input would take most of the time, and show no branches."""

    def run(data: bytes) -> None:
        for reader in (passages_of, partial(documents.text_of, max_chars=documents.MAX_DOCUMENT_CHARS)):
            with suppress(Exception):  # readers may raise anything; the process that runs them makes an error of it
                reader(data, suffix)

    return run


def document_process(data: bytes) -> None:
    """Read a document as users do, in a process of its own."""
    refusing(lambda: extract(data, "file.csv"))
    in_file("file.csv", lambda path: documents.read_document(FileDescriptor.of(path)))(data)


def changelog(data: bytes) -> None:
    text = text_of(data)
    releases(text)
    for entry in read_release(text)[1]:
        sentences(entry)
        name_candidates(entry)
        component_candidates(entry)


def docstring(data: bytes) -> None:
    Docstring.parse(text_of(data))


def plain_text(data: bytes) -> None:
    text, other = texts_of(data, 2)
    list(chunks(text))
    list(chunks(text, headings=False))
    words(text)
    similarity(text, other)
    fence(text)
    unfenced(text, ["json"])
    first_fenced(text, "json")
    refusing(lambda: echarts_option("bar", other, text, other))


def page(data: bytes) -> None:
    kind, body = ([*data.split(SEPARATOR, 1), b""])[:2]
    decoded(body, kind.decode("latin-1"))
    decoded(data, "")


def comfyui_server(data: bytes) -> None:
    value = read_json(text_of(data), "fuzz")
    refusing(lambda: read_definitions(text_of(data)))
    if isinstance(value, dict):
        outputs_of(value)


# Files of ours


def insights(path: Path) -> None:
    store = Insights(path)
    try:
        refusing(store.entries, lambda: store.recall("op"), lambda: store.forget("key"))
        store.learn({"op": Experience(lessons={("job", "lesson"): True}, label="op")}, lambda error: None)
    finally:
        store.close()


def _made_insights(path: Path) -> None:
    store = Insights(path)
    store.learn({"op": Experience(lessons={("job", "lesson"): True}, label="op")}, lambda error: None)
    store.close()


def cached(path: Path) -> None:
    store = Cache(path)
    try:
        refusing(lambda: asyncio.run(store.get("key")))
        refusing(lambda: asyncio.run(store.put("key", WorkflowMessage(scratchpad="a"))))
    finally:
        store.close()


def _made_cache(path: Path) -> None:
    store = Cache(path)
    asyncio.run(store.put("key", WorkflowMessage(scratchpad="said", outputs={"a": [1]})))
    store.close()


def passages(path: Path) -> None:
    index = PassageIndex(path)
    try:
        refusing(index.check, index.files, lambda: index.search("figs", ["a.md"], 5))
        refusing(lambda: index.put("b.md", IndexedFile(1, 1, "hash"), [IndexedPassage("figs", ":1", "")]))
    finally:
        index.close()


def _made_passages(path: Path) -> None:
    index = PassageIndex(path)
    index.put("a.md", IndexedFile(1, 1, "hash"), [IndexedPassage("figs and dates", ":1", "Fruit")])
    index.close()


def kept_results(path: Path) -> None:
    evaluate([], {"metric": "x"}, path)


def search(data: bytes) -> None:
    with folder() as home:
        path = Path(home) / "out"
        path.mkdir()
        (path / "tree.jsonl").write_bytes(data)
        with opened(path, {"a": 1}) as kept:
            if kept.state.candidates:
                kept.state.ranked(1)
                kept.show(1)


_STEP = {
    "line": "step",
    "parent": None,
    "yaml": "experts: []",
    "results": {"t": {"score": 0.5, "answer": "a"}},
    "usage": {"calls": 1},
}
_OPERATIONS = [
    {"op": "connect", "source": "3", "target": "4", "port": 1},
    {"op": "set", "node": "2", "path": "system", "value": "Be brief."},
    {"op": "remove_node", "node": "5"},
    {"op": "add_node", "id": "9", "type": "llm", "params": {"system": "", "user": "x"}},
    {"op": "rename_variable", "node": "1", "old": "text", "new": "words"},
]
_PLAN = {
    "reasoning": "r",
    "nodes": [
        {"id": "1", "type": "start", "change": "keep", "does": "", "inside": "", "after": [], "gives": []},
        {
            "id": "9",
            "type": "code",
            "change": "add",
            "does": "x",
            "inside": "",
            "after": ["1"],
            "gives": [{"name": "a", "type": "string"}],
        },
        {
            "id": "8",
            "type": "end",
            "change": "update",
            "does": "",
            "inside": "",
            "after": ["9"],
            "gives": [],
        },
    ],
    "drop": ["5"],
}


def _cases() -> list[bytes]:
    one = {"name": "a", "job": "Say 4.", "inputs": {"n": 4}, "expected": "4", "tags": ["t"], "accepted": False}
    steps = {"look": "four", "say": {"message": {"scratchpad": "4"}, "before": ["look"]}}
    run = {**one, "steps": steps, "blame": ["look"], "script": [{"text": "4", "calls": [["look", {}]]}]}
    return [lines(run), *as_json([one]), *fenced("yaml", "evaluate")]


def _tasks() -> list[bytes]:
    one = {
        "id": "a",
        "job": "Say 4.",
        "verify": {"number": 4, "contains": ["4"], "matches": "^4$", "schema": "{a: string}"},
    }
    return [lines(one), *as_json([one]), *fenced("yaml", "optimise")]


TARGETS: Mapping[str, Target] = {
    # workflows
    "workflow": Target(workflow, lambda: [each for name in FORMATS for each in samples.of_format(name)[:2]]),
    **{f"format.{name}": Target(partial(workflow, name=name), partial(samples.of_format, name)) for name in FORMATS},
    "graph-json": Target(graph_json, lambda: as_json(to_json(graph()))),
    "repair": Target(repaired, samples.responses),
    "edit-json": Target(operations, lambda: as_json({"operations": _OPERATIONS}, *_OPERATIONS)),
    "edit-short": Target(short_operation, lambda: [b"connect 3 4 port=1", b'set 2 system "Be brief."', b"add_node 9 llm user=x"]),
    "plan": Target(plan, lambda: as_json(_PLAN)),
    "workflow-file": Target(in_file("a.yaml", lambda path: find_graph(str(path))), lambda: samples.of_format("operad")),
    "workflow-store": Target(
        in_file("a.yaml", lambda path: nearest_example(path.parent, "text")), lambda: samples.of_format("operad")
    ),
    # evaluators
    "chat2workflow-response": Target(chat2workflow, lambda: samples.of_format("chat2workflow")),
    "chat2workflow-dataset": Target(dataset, lambda: [joined(*_dataset_files())]),
    "chat2workflow-run": Target(
        run_of_responses,
        lambda: [lines({"task": "A", "round": 1, "response": "<workflow>{}</workflow>"}), *as_json([{"task": "A", "round": 1, "node_selection": "llm", "design_principle": "x", "workflow": "{}"}])],
    ),
    "comfyflow": Target(
        comfyflow_answer,
        lambda: [joined(b"<workflow>" + each + b"</workflow>", each) for each in samples.of_format("comfyui-code")[:4]],
    ),
    "comfyflow-lines": Target(
        in_file("a.jsonl", lambda path: read_comfy_items([path])), lambda: [lines({"id": 1, "answer": "x", "gold": {"a": 1}})]
    ),
    "worfeval": Target(worf, lambda: [joined(each, each) for each in samples.golds()]),
    "worfeval-json": Target(
        in_file("a.json", worf_items), lambda: as_json([{"id": "1", "conversations": [{"content": "Node:\n1: a\nEdge:"}]}])
    ),
    "worfeval-lines": Target(in_file("a.jsonl", worf_items), lambda: [lines({"id": 1, "prediction": "Node:\n1: a\nEdge:"})]),
    # what models say
    "output-schema": Target(
        output_schema,
        lambda: [b"{claims: [string], score: 0.5}", b'{"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "string"}}}'],
    ),
    "answer": Target(
        answer, lambda: [joined(b"{a: [string]}", each) for each in (b'Sure!\n```json\n{"a": ["b",]}\n```', b"{'a': ['b'", *samples.conversations()[:6])]
    ),
    "proposal": Target(
        proposal,
        lambda: as_json({"reasoning": "r", "operations": [{"op": "set_instruction", "operator": "draft", "instruction": "x"}, {"op": "add_operator", "name": "new", "instruction": "y", "after": "draft", "before": "polish"}, {"op": "set_max_rounds", "rounds": 2}]}),
        (ValidationError,),
    ),
    "stream": Target(
        stream,
        lambda: [b"text/event-stream\n\n" + _CHUNKS.encode(), b'application/json\n\n{"choices": [{"message": {"content": "Hi"}}]}'],
    ),
    # what people write
    "yaml": Target(lambda data: parse_document(text_of(data), "fuzz", list_as="list"), lambda: fenced("yaml")[: samples.MOST]),
    "expert": Target(expert, lambda: [*fenced("yaml", "configuration", "leader", "joins", "map")[:20], *samples.files("chat2graph/*.yml")[:3]]),
    "services": Target(in_file("services.yaml", lambda path: load_services(path, None, harmless_here)), lambda: fenced("yaml", "nodes*", "configuration")),
    "tasks-lines": Target(in_file("tasks.jsonl", partial(read_tasks, trust=harmless_here)), _tasks),
    "tasks-yaml": Target(in_file("tasks.yaml", partial(read_tasks, trust=harmless_here)), _tasks),
    "cases-lines": Target(in_file("cases.jsonl", EvaluationCases.load), _cases),
    "cases-yaml": Target(in_file("cases.yaml", EvaluationCases.load), _cases),
    "evaluation-report": Target(in_file("report.json", EvaluationReport.load), lambda: [b'{"workflow": "w", "cases": [{"name": "a", "status": "SUCCESS"}]}', b'{"evaluation": {"workflow": "w"}}\n{"key": "a#1", "result": {"name": "a"}}\n']),
    "asked": Target(asked, lambda: [joined(b"{type: boolean}", b"yes"), joined(b'{"enum": ["a", 1]}', b"1")], (WrongAnswerError,)),
    "inputs": Target(inputs, lambda: [joined(b"text", b'["a"]', b"7")]),
    "condition": Target(condition, lambda: as_json(["and", [[["text", "1"], "contains", "a"], [["n", "1"], ">", "7"]]]), (ValidationError,)),
    "variables": Target(variables, lambda: [joined(b'Say {{#1.text#}} and {{#"1".list.0#}}', b'{"text": "a", "list": {"0": [1]}}')]),
    "template": Target(template, lambda: [b"{% for x in a %}{{ x|upper }}{% endfor %}{{ b ~ n }}{% if n > 3 %}{{ a|join(',') }}{% endif %}"]),
    "code": Target(code, lambda: [b"import json\n\ndef main(a: int) -> dict:\n    return {'b': [x * a for x in range(3)]}\n"]),
    "code-given": Target(given_code, lambda: [b"x = 1\nfor y in [x]:\n    print(f'{y:>5}')", b"[1, {'a': (2.5, None)}]", b"{1: 'a' b}"]),
    # documents and other texts
    **{
        f"document{suffix}": Target(document(suffix), partial(samples.documents, suffix))
        for suffix in (".docx", ".xlsx", ".pptx", ".pdf", ".html", ".csv", ".txt", ".md", ".eml", ".epub")
    },
    "document-process": Target(document_process, lambda: samples.documents(".csv")),
    "changelog": Target(changelog, lambda: samples.files("example/data/NEWS", "unit/data/news/*")),
    "docstring": Target(docstring, lambda: [b"Say it.\n\nArgs:\n    a (int): One.\n        More.\n    *b: Two.\n\nReturns:\n    c", b"S.\n\nParameters\n----------\na, b : int\n    One.\n", b"S.\n\n:param int a: One.\n:type a: int\n"]),
    "text": Target(plain_text, lambda: [joined(b"# A\n\n```json\n[1, 2]\n```\n\n1;2;3", b"a;b;c")]),
    "page": Target(page, lambda: [joined(b"text/html; charset=gbk", b"<meta charset='latin-1'>\xd6l")]),
    "comfyui-node": Target(comfyui_node, lambda: as_json({"server": "http://127.0.0.1:8188", "workflow": {"1": {"class_type": "Load", "inputs": {"image": "a.png"}}, "2": {"class_type": "Save", "inputs": {"images": ["1", 0], "sizes": {"__value__": [1]}}}}, "inputs": {"1.image": ["a", "1"], "2.sizes": [3], "2.images": "{{#1.a#}}"}, "token_env": "COMFYUI_TOKEN"})),
    "comfyui-server": Target(comfyui_server, lambda: as_json({"outputs": {"9": {"images": [{"filename": "a.png", "subfolder": "", "type": "output"}], "text": ["x"]}}}, {"Save": {"input": {"required": {"image": ["IMAGE"], "n": ["INT", {"default": 1}]}}, "output": ["A"], "output_node": True}})),
    # files of ours
    "insights": Target(in_file("a.sqlite", insights), lambda: samples.sqlite(_made_insights)),
    "cache": Target(in_file("a.sqlite", cached), lambda: samples.sqlite(_made_cache)),
    "passages": Target(in_file("a.sqlite", passages), lambda: samples.sqlite(_made_passages)),
    "results": Target(in_file("a.jsonl", kept_results), lambda: [lines({"evaluation": {"metric": "x"}}, {"key": "a", "print": "b", "score": 1})]),
    "search": Target(search, lambda: [lines({"optimisation": {"a": 1}}, _STEP, {**_STEP, "parent": 0, "operations": [{"op": "set_max_rounds", "rounds": 2}]})]),
}  # fmt: skip
"""The targets by name."""
