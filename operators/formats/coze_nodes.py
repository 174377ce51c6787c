"""How Coze writes the parameters of nodes, and ours in them: one pair of functions for each type, out and back.

A parameter that Coze has no field for is not written here; `coze` sees what does not come back, and keeps it in the
description of the node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from operad.operators.conditions import Condition
from operad.operators.nodes.containers import IterationParams, LoopParams
from operad.operators.nodes.files import ImageParams
from operad.operators.nodes.flow import EndParams, IfElseParams, StartParams
from operad.operators.nodes.models import ClassifierParams, ExtractorParams, LLMParams
from operad.operators.nodes.sources import HttpParams
from operad.operators.nodes.values import AggregatorParams, CodeParams, TemplateParams
from operad.operators.variables import Selector, Text, VariableType

Fields = dict[str, Any]
T = VariableType

DEFAULT_CLASS = "default"
"""What the way of an intent node is called that is taken where nothing fits."""

CODE_END = """

_main = main


async def main(args):
    return _main(**args.params)
"""
"""What calls our main the way that Coze calls its own."""

_NAMED = re.compile(r"\{\{\s*(?P<name>[^\s{}.]+)(?P<rest>\.[^\s{}]+)?\s*\}\}")


def normal_text(text: str) -> str:
    """A text with its references as ``{{#id.variable#}}``."""
    return Text(text).renamed(_written)


def is_mixed(text: str) -> bool:
    """Whether a text has variables in it, and more than one of them alone."""
    named = Text(text).selectors
    return bool(named) and not (len(named) == 1 and not Text(text).renamed(lambda _: ""))


def _written(selector: Selector) -> str:
    return f"{{{{#{selector.node}.{selector.variable}#}}}}"


@dataclass(frozen=True)
class Names:
    """What nodes and their outputs are called, here and there.

    Attributes:
        ids: Coze's ids by ours.
        outputs: Per node of ours, Coze's names of its outputs by ours, where they differ.
    """

    ids: Mapping[str, str]
    outputs: Mapping[str, Mapping[str, str]]
    back: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "back", {theirs: ours for ours, theirs in self.ids.items()})

    def reference(self, selector: Selector) -> Fields:
        """A variable, as Coze names it."""
        return {"path": self._path(selector), "ref_node": self.ids.get(selector.node, selector.node)}

    def selector(self, reference: Any) -> list[str]:
        """A variable, as we name it."""
        path, node = reference["path"], self.back.get(str(reference["ref_node"]), str(reference["ref_node"]))
        if not isinstance(path, str):
            raise TypeError(reference)
        for ours, theirs in self.outputs.get(node, {}).items():
            if path == theirs or path.startswith(theirs + "."):
                return [ours + path[len(theirs) :], node]
        return [path, node]

    def merged(self, selector: Selector) -> Fields:
        """A variable, as a variable_merge names it."""
        reference = self.reference(selector)
        content = {"blockID": reference["ref_node"], "name": reference["path"], "source": "block-output"}
        return {"value": {"content": content, "type": "ref"}}

    def of_merged(self, variable: Any) -> list[str]:
        """The other way round."""
        content = variable["value"]["content"]
        return self.selector({"path": content["name"], "ref_node": content["blockID"]})

    def texts(self, *texts: str) -> tuple[list[str], list[Fields]]:
        """Texts with Coze's names in them, and the inputs that these names are."""
        inputs: dict[str, Fields] = {}

        def named(selector: Selector) -> str:
            reference = self.reference(selector)
            name = re.sub(r"\W", "_", f"_{reference['ref_node']}_{reference['path']}")
            while inputs.get(name, reference) != reference or any(f"{{{{{name}}}}}" in text for text in texts):
                name += "_"
            inputs[name] = reference
            return f"{{{{{name}}}}}"

        said = [Text(text).renamed(named) for text in texts]
        return said, [_input(name, reference) for name, reference in inputs.items()]

    def text(self, said: Any, inputs: Any) -> str:
        """A text with our references in it."""
        if not isinstance(said, str):
            raise TypeError(said)
        by_name = _by_name(inputs)

        def referred(found: re.Match[str]) -> str:
            reference = by_name.get(found["name"])
            if not isinstance(reference, Mapping):
                return found[0]
            variable, node = self.selector(reference)
            return _written(Selector(f"{variable}{found['rest'] or ''}", node))

        return _NAMED.sub(referred, said)

    def value(self, text: str) -> tuple[Fields, list[Fields]]:
        """A text as the value of one input: the variable, if it is nothing else."""
        if (named := Text(text).selectors) and not is_mixed(text):
            return {"value": self.reference(named[0])}, []
        (said,), inputs = self.texts(text)
        return {"type": "string", "value": said}, inputs

    def of_value(self, given: Any, inputs: Any) -> str:
        """The other way round."""
        if isinstance(given["value"], Mapping):
            variable, node = self.selector(given["value"])
            return _written(Selector(variable, node))
        return self.text(given["value"], inputs)

    def _path(self, selector: Selector) -> str:
        for ours, theirs in self.outputs.get(selector.node, {}).items():
            if selector.variable == ours or selector.variable.startswith(ours + "."):
                return theirs + selector.variable[len(ours) :]
        return selector.variable


# Types of variables


def type_there(kind: VariableType) -> Fields:
    """A type, as Coze writes it."""
    if kind.item is not None:
        return {"type": "list", "items": {**type_there(kind.item), "value": None}}
    return {"type": {T.NUMBER: "float", T.ANY: "object"}.get(kind, kind.value)}


def type_here(given: Any) -> str:
    """A type, as we write it."""
    name = given["type"]
    if name == "list":
        return T(type_here(given["items"])).array.value
    if name in ("integer", "float", "number"):
        return T.NUMBER.value
    if name in ("image", "audio", "video", "doc", "ppt", "excel", "txt", "zip", "svg", "voice"):
        return T.FILE.value
    return T.STRING.value if name == "time" else T(name).value


def _declared(outputs: Sequence[tuple[str, VariableType]]) -> Fields:
    return {name: {**type_there(kind), "value": None} for name, kind in outputs}


def _input(name: str, reference: Fields) -> Fields:
    return {"name": name, "input": {"value": reference}}


def _arguments(given: Any, names: Names) -> list[Any]:
    return [[each["name"], names.selector(each["input"]["value"])] for each in cast("list[Any]", given or [])]


def _by_name(inputs: Any) -> dict[str, Any]:
    return {each["name"]: each["input"].get("value") for each in cast("list[Any]", inputs or [])}


# One pair a type


def _start(params: StartParams, names: Names) -> Fields:
    return {"node_outputs": _declared(params.variables)}


def _read_start(given: Any, names: Names) -> Fields:
    return {"variables": [[name, type_here(kind)] for name, kind in given.get("node_outputs", {}).items()]}


def _end(params: EndParams, names: Names) -> Fields:
    inputs = [_input(name, names.reference(selector)) for name, selector in params.outputs]
    return {"node_inputs": inputs, "terminatePlan": "returnVariables"}


def _read_end(given: Any, names: Names) -> Fields:
    return {"outputs": _arguments(given.get("node_inputs"), names)}


def _model(answer: str, system: str, prompt: str) -> list[Fields]:
    return [
        {"name": "temperature", "input": {"type": "float", "value": "0.7"}},
        {"name": "responseFormat", "input": {"type": "integer", "value": answer}},
        {"name": "systemPrompt", "input": {"type": "string", "value": system}},
        {"name": "prompt", "input": {"type": "string", "value": prompt}},
    ]


def _read_model(given: Any) -> Mapping[str, Any]:
    return _by_name(given["llmParam"])


def _llm(params: LLMParams, names: Names) -> Fields:
    (system, user), inputs = names.texts(params.system, params.user)
    return {
        "llmParam": _model("0", system, user),
        "node_inputs": inputs,
        "node_outputs": _declared([("text", T.STRING)]),
    }


def _extractor(params: ExtractorParams, names: Names) -> Fields:
    (instruction,), inputs = names.texts(params.instruction)
    outputs = {
        name: {**type_there(kind), "value": None, "description": description}
        for description, name, kind in params.parameters
    }
    return {
        "llmParam": _model("2", instruction, "{{query}}"),
        "node_inputs": [_input("query", names.reference(params.query)), *inputs],
        "node_outputs": outputs,
    }


def _read_llm(given: Any, names: Names) -> Fields:
    model, inputs = _read_model(given), given.get("node_inputs")
    return {
        "system": names.text(model.get("systemPrompt", ""), inputs),
        "user": names.text(model.get("prompt", ""), inputs),
    }


def is_extractor(given: Any) -> bool:
    """Whether an llm node of Coze reads parameters out of one variable."""
    model = _read_model(given)
    by_name = _by_name(given.get("node_inputs"))
    return model.get("responseFormat") == "2" and model.get("prompt") == "{{query}}" and "query" in by_name


def _read_extractor(given: Any, names: Names) -> Fields:
    query = next(each["input"]["value"] for each in given["node_inputs"] if each["name"] == "query")
    inputs = [each for each in given["node_inputs"] if each["name"] != "query"]
    return {
        "query": names.selector(query),
        "parameters": [
            [kind.get("description", ""), name, type_here(kind)] for name, kind in given["node_outputs"].items()
        ],
        "instruction": names.text(_read_model(given).get("systemPrompt", ""), inputs),
    }


def _classifier(params: ClassifierParams, names: Names) -> Fields:
    (instruction,), inputs = names.texts(params.instruction)
    classes = params.classes[:-1] if params.classes[-1] == DEFAULT_CLASS else params.classes
    return {
        "intents": [{"name": name} for name in classes],
        "llmParam": {"prompt": _literal("{{query}}"), "systemPrompt": _literal(instruction)},
        "node_inputs": [_input("query", names.reference(params.query_variable_selector)), *inputs],
        "node_outputs": _declared([("classificationId", T.NUMBER)]),
    }


def _literal(text: str) -> Fields:
    return {"type": "string", "value": {"content": text, "type": "literal"}}


def _read_classifier(given: Any, names: Names) -> Fields:
    first, *inputs = given["node_inputs"]
    system = given.get("llmParam", {}).get("systemPrompt", _literal(""))["value"]["content"]
    instruction = names.text(system, inputs)
    return {
        "query_variable_selector": names.selector(first["input"]["value"]),
        "classes": [each["name"] for each in given["intents"]],
        **({"instruction": instruction} if instruction else {}),
    }


def _code(params: CodeParams, names: Names) -> Fields:
    return {
        "code": params.code + CODE_END,
        "language": 3,
        "node_inputs": [_input(name, names.reference(selector)) for name, selector in params.variables],
        "node_outputs": _declared(params.outputs),
    }


def _read_code(given: Any, names: Names) -> Fields:
    if given["language"] != 3 or not isinstance(given["code"], str):
        raise ValueError("no Python")
    return {
        "variables": _arguments(given.get("node_inputs"), names),
        "outputs": [[name, type_here(kind)] for name, kind in given["node_outputs"].items()],
        "code": given["code"].removesuffix(CODE_END),
    }


_OPERATORS = {
    "is": 1, "=": 1, "is not": 2, "≠": 2, "contains": 7, "not contains": 8, "empty": 9, "not exists": 9,
    "not empty": 10, "exists": 10, ">": 13, "≥": 14, "<": 15, "≤": 16,
    "start with": 7, "end with": 7, "in": 7, "all of": 7, "not in": 8,  # the nearest that there are
}  # fmt: skip
_READ_OPERATORS = {
    1: "is", 2: "is not", 7: "contains", 8: "not contains", 9: "empty", 10: "not empty",
    13: ">", 14: "≥", 15: "<", 16: "≤",
}  # fmt: skip
_OF_NUMBERS = {"is": "=", "is not": "≠"}
_OF_FILES = {"empty": "not exists", "not empty": "exists"}


def _condition(condition: Condition, names: Names) -> Fields:
    number = _OPERATORS.get(condition.operator, 7)
    left: Fields = {"value": names.reference(condition.variable)}
    if condition.operator in _OF_FILES.values():
        left = {"type": "file", **left}
    made: Fields = {"left": {"input": left}, "operator": number}
    value = condition.value
    if isinstance(value, str) and value in ("true", "false") and condition.operator in ("is", "is not"):
        made["right"] = {"input": {"type": "boolean", "value": value == "true"}}
    elif isinstance(value, str):
        given, _ = names.value(value)
        of_number = condition.operator in (*_OF_NUMBERS.values(), ">", "≥", "<", "≤")
        made["right"] = {"input": {**given, "type": "float"} if of_number else given}
    elif value is not None:
        made["right"] = {"input": {"type": "list", "items": {"type": "string"}, "value": json.dumps(value)}}
    return made


def _read_condition(given: Any, names: Names) -> list[Any]:
    operator = _READ_OPERATORS[given["operator"]]
    left, right = given["left"]["input"], given.get("right", {}).get("input")
    if left.get("type") == "file":
        operator = _OF_FILES.get(operator, operator)
    selector = names.selector(left["value"])
    if right is None:
        return [selector, operator]
    if right.get("type") in ("float", "integer", "number"):
        operator = _OF_NUMBERS.get(operator, operator)
    value = right["value"]
    if isinstance(value, bool):
        return [selector, operator, "true" if value else "false"]
    if right.get("type") == "list":
        return [selector, operator, json.loads(value)]
    return [selector, operator, str(value) if isinstance(value, int | float) else names.of_value(right, [])]


def _if_else(params: IfElseParams, names: Names) -> Fields:
    return {
        "branches": [
            {
                "condition": {
                    "conditions": [_condition(each, names) for each in case.conditions],
                    "logic": 1 if case.logic == "or" else 2,
                }
            }
            for case in params.cases
        ]
    }


def _read_if_else(given: Any, names: Names) -> Fields:
    cases: list[Any] = []
    for branch in given["branches"]:
        conditions = [_read_condition(each, names) for each in branch["condition"]["conditions"]]
        both = "and" if len(conditions) > 1 else None
        cases.append(["or" if branch["condition"].get("logic") == 1 else both, conditions])
    return {"cases": cases}


def _template(params: TemplateParams, names: Names) -> Fields:
    return {
        "concatParams": [{"name": "concatResult", "input": {"type": "string", "value": params.template}}],
        "method": "concat",
        "node_inputs": [_input(name, names.reference(selector)) for name, selector in params.variables],
        "node_outputs": _declared([("output", T.STRING)]),
    }


def _read_template(given: Any, names: Names) -> Fields:
    if given["method"] != "concat":
        raise ValueError(given["method"])
    result = next(each["input"]["value"] for each in given["concatParams"] if each["name"] == "concatResult")
    return {"variables": _arguments(given.get("node_inputs"), names), "template": names.text(result, [])}


def _aggregator(params: AggregatorParams, names: Names) -> Fields:
    group = {"name": "output", "variables": [names.merged(selector) for selector in params.variables]}
    return {"mergeGroups": [group], "node_outputs": {"output": {"value": None}}}


def _read_aggregator(given: Any, names: Names) -> Fields:
    (group,) = given["mergeGroups"]
    return {"variables": [names.of_merged(each) for each in group["variables"]]}


def _http(params: HttpParams, names: Names) -> Fields:
    reference = names.reference(params.url)
    url = f"{{{{block_output_{reference['ref_node']}.{reference['path']}}}}}"
    return {
        "apiInfo": {"method": "GET", "url": url},
        "auth": {"authOpen": False},
        "body": {"bodyType": "EMPTY"},
        "node_outputs": _declared([("body", T.STRING), ("statusCode", T.NUMBER), ("headers", T.STRING)]),
    }


def _read_http(given: Any, names: Names) -> Fields:
    found = re.fullmatch(r"\{\{block_output_([^.{}]+)\.([^{}]+)\}\}", given["apiInfo"]["url"])
    if found is None or given["apiInfo"]["method"] != "GET":
        raise ValueError("more than an address")
    return {"url": names.selector({"path": found[2], "ref_node": found[1]})}


def _image(params: ImageParams, names: Names) -> Fields:
    (prompt,), inputs = names.texts(params.prompt)
    size = {"height": 1024, "ratio_type": "fixed", "width": 1024}
    return {
        "modelSetting": {"custom_ratio": size, "ddim_steps": 25, "model": 8, "ratio": 0},
        "prompt": {"negative_prompt": "", "prompt": prompt},
        "node_inputs": inputs,
        "node_outputs": {"data": {"type": "image", "value": None}},
    }


def _read_image(given: Any, names: Names) -> Fields:
    return {"prompt": names.text(given["prompt"]["prompt"], given.get("node_inputs"))}


def _whole(number: int) -> Fields:
    return {"type": "integer", "value": {"content": str(number), "type": "literal"}}


def _iteration(params: IterationParams, names: Names) -> Fields:
    result = {"type": "list", "items": {"type": "string"}, "value": names.reference(params.output_selector)}
    return {
        "batchSize": _whole(1000),
        "concurrentSize": _whole(params.concurrency),
        "node_inputs": [_input("item", names.reference(params.iterator_selector))],
        "node_outputs": {"output": {"value": result}},
    }


def _read_iteration(given: Any, names: Names) -> Fields:
    (iterated,) = given["node_inputs"]
    ((_, result),) = given["node_outputs"].items()
    at_once = int(given.get("concurrentSize", _whole(10))["value"]["content"])
    return {
        "iterator_selector": names.selector(iterated["input"]["value"]),
        "output_selector": names.selector(result["value"]["value"]),
        **({"concurrency": at_once} if at_once != 10 else {}),
    }


def _loop(params: LoopParams, names: Names) -> Fields:
    count = {"type": "integer", "value": {"content": str(params.loop_count), "type": "literal"}}
    return {"loopType": "count", "loopCount": count, "variableParameters": [], "node_inputs": [], "node_outputs": {}}


def _read_loop(given: Any, names: Names) -> Fields:
    if given["loopType"] != "count":
        raise ValueError(given["loopType"])
    return {"loop_count": int(given["loopCount"]["value"]["content"])}


class Kind(NamedTuple):
    """How nodes of one type are written.

    Attributes:
        type: Coze's type.
        icon: The file of its icon.
        write: Our parameters → theirs.
        read: Theirs → ours; raises where they are not of the form that is written.
    """

    type: str
    icon: str
    write: Callable[[Any, Names], Fields]
    read: Callable[[Any, Names], Fields]


KINDS: Mapping[str, Kind] = {
    "start": Kind("start", "icon-Start-v2.jpg", _start, _read_start),
    "end": Kind("end", "icon-End-v2.jpg", _end, _read_end),
    "llm": Kind("llm", "icon-LLM-v2.jpg", _llm, _read_llm),
    "parameter-extractor": Kind("llm", "icon-LLM-v2.jpg", _extractor, _read_extractor),
    "question-classifier": Kind("intent", "icon-Intent-v2.jpg", _classifier, _read_classifier),
    "code": Kind("code", "icon-Code-v2.jpg", _code, _read_code),
    "if-else": Kind("condition", "icon-Condition-v2.jpg", _if_else, _read_if_else),
    "template-transform": Kind("text", "icon-StrConcat-v2.jpg", _template, _read_template),
    "variable-aggregator": Kind("variable_merge", "VariableMerge-icon.jpg", _aggregator, _read_aggregator),
    "http-request": Kind("http", "icon-HTTP.png", _http, _read_http),
    "text2image": Kind("image_generate", "icon-ImageGeneration-v2.jpg", _image, _read_image),
    "iteration": Kind("batch", "icon-Batch-v2.jpg", _iteration, _read_iteration),
    "loop": Kind("loop", "icon-Loop-v2.jpg", _loop, _read_loop),
}
"""The types that Coze has, by our names."""

STARTS: Mapping[str, str] = {"iteration": "iteration-start", "loop": "loop-start"}
"""What begins inside of nodes, for which Coze has no node."""


# Plugins


class Plugin(NamedTuple):
    """A plugin of Coze's store that does what a type of ours does.

    Attributes:
        type: Our type.
        when: The parameter and its value that it is for, if it is for one only.
        name: Its name.
        id: Its id.
        tool: The name of the tool in it.
        tool_id: The id of that.
        inputs: Its inputs by our parameters.
        output: Our output, and its own.
        fixed: Inputs that are always the same.
    """

    type: str
    when: tuple[str, str] | None
    name: str
    id: str
    tool: str
    tool_id: str
    inputs: Mapping[str, str]
    output: tuple[str, str]
    fixed: Mapping[str, str] = {}


def _documents(target: str, named: str) -> Plugin:
    fixed = {"title": "Document", "to_format": named}
    inputs = {"md_text": "formatted_markdown"}
    return Plugin(
        "markdown-exporter", ("target_type", target), "Doc Maker", "7365715035999649829", "create_document",
        "7365715035999666213", inputs, ("files", "data"), fixed,
    )  # fmt: skip


PLUGINS: Sequence[Plugin] = (
    Plugin("document-extractor", None, "文件读取", "7405805158996918299", "read", "7405805158996934683",
           {"variable_selector": "url"}, ("text", "data")),
    Plugin("google-search", None, "联网问答（免费版）", "7380279400157265954", "search_url", "7387323807385829402",
           {"query": "query"}, ("json", "data")),
    Plugin("tts", None, "语音合成", "7426655854067351562", "speech_synthesis", "7426655854067367946",
           {"text": "text"}, ("files", "data.link")),
    Plugin("mermaid-converter", None, "Mermaid图表生成器", "7479445382888603682", "Mermaid", "7479445382888620066",
           {"mermaid_code": "mermaidCode"}, ("files", "editUrl")),
    Plugin("markdown-exporter", ("target_type", "png"), "MD2Image", "7589192736172130350", "generatePosterImage",
           "7589192736172146734", {"md_text": "markdown"}, ("files", "url")),
    Plugin("markdown-exporter", ("target_type", "pptx"), "Doc Maker", "7365715035999649829", "create_pptx",
           "7365715035999682597", {"md_text": "formatted_markdown"}, ("files", "data"), {"title": "Document"}),
    *(_documents(target, {"md": "markdown"}.get(target, target)) for target in ("docx", "pdf", "html", "md")),
)  # fmt: skip
"""Which plugins there are, as Chat2Workflow's own converter names them."""

OWN_PLUGIN = "operad"
"""The name of the plugin, which there is not, that holds a node of a type that Coze has none for."""


def plugin_for(node_type: str, params: Mapping[str, Any]) -> Plugin | None:
    """The plugin for a node of ours."""
    fitting = (each for each in PLUGINS if each.type == node_type)
    return next((each for each in fitting if each.when is None or params.get(each.when[0]) == each.when[1]), None)


def plugin_of(given: Any) -> Plugin | None:
    """The plugin of ours that a node of Coze is."""
    api, inputs = _by_name(given["apiParam"]), _by_name(given.get("node_inputs"))
    return next(
        (
            each
            for each in PLUGINS
            if (api.get("pluginID"), api.get("apiName")) == (each.id, each.tool)
            and all(inputs.get(name) == value for name, value in each.fixed.items() if name != "title")
        ),
        None,
    )


def _called(name: str, plugin_id: str, tool: str, tool_id: str) -> list[Fields]:
    values = {"apiID": tool_id, "apiName": tool, "pluginID": plugin_id, "pluginName": name}
    return [{"name": key, "input": {"type": "string", "value": value}} for key, value in values.items()]


def write_plugin(plugin: Plugin, params: Any, names: Names) -> Fields:
    """Our parameters as those of a plugin."""
    inputs: list[Fields] = []
    more: list[Fields] = []
    for ours, theirs in plugin.inputs.items():
        value = getattr(params, ours)
        if isinstance(value, Text):
            given, used = names.value(value)
            more += (each for each in used if each not in more)
        else:
            given = {"value": names.reference(value)}
        inputs.append({"name": theirs, "input": given})
    inputs += ({"name": key, "input": {"type": "string", "value": value}} for key, value in plugin.fixed.items())
    return {
        "apiParam": _called(plugin.name, plugin.id, plugin.tool, plugin.tool_id),
        "node_inputs": [*inputs, *more],
        "node_outputs": {plugin.output[1].partition(".")[0]: {"type": "string", "value": None}},
    }


def read_plugin(plugin: Plugin, given: Any, names: Names) -> Fields:
    """The other way round."""
    inputs = {each["name"]: each["input"] for each in given["node_inputs"]}
    params: Fields = dict([plugin.when]) if plugin.when else {}
    for ours, theirs in plugin.inputs.items():
        if ours == "variable_selector":
            params[ours] = names.selector(inputs[theirs]["value"])
        else:
            params[ours] = names.of_value(inputs[theirs], given["node_inputs"])
    return params


def write_own(node_type: str, params: Any) -> Fields:
    """A node that Coze has no type for: a plugin that only says what it is."""
    text = json.dumps(params, ensure_ascii=False, default=str)
    return {
        "apiParam": _called(OWN_PLUGIN, "0", node_type, "0"),
        "node_inputs": [{"name": "params", "input": {"type": "string", "value": text}}],
        "node_outputs": {},
    }


def read_own(given: Any) -> tuple[str, Any] | None:
    """The type and the parameters of a node that was written so."""
    api = _by_name(given["apiParam"])
    if api.get("pluginName") != OWN_PLUGIN or not isinstance(api.get("apiName"), str):
        return None
    (params,) = given["node_inputs"]
    return api["apiName"], json.loads(params["input"]["value"])
