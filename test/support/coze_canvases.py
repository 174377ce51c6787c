"""Canvases as the page of Coze Studio saves them, from few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Fields = dict[str, Any]

START, END = "100001", "900001"


def ref(node: str, name: str, kind: str = "string", **more: Any) -> Fields:
    """Return an input that takes an output of a node."""
    content = {"source": "block-output", "blockID": node, "name": name}
    return {"type": kind, **more, "value": {"type": "ref", "content": content, "rawMeta": {"type": 1}}}


def lit(content: Any, kind: str = "string", **more: Any) -> Fields:
    """Return an input with a literal."""
    return {"type": kind, **more, "value": {"type": "literal", "content": content, "rawMeta": {"type": 1}}}


def of(source: str, *path: str, kind: str = "string") -> Fields:
    """Return an input that takes a variable of the user, the app or the system."""
    content = {"source": f"global_variable_{source}", "path": list(path), "blockID": "", "name": ""}
    return {"type": kind, "value": {"type": "ref", "content": content, "rawMeta": {"type": 1}}}


def named(**inputs: Fields) -> list[Fields]:
    """Return named inputs."""
    return [{"name": name, "input": given} for name, given in inputs.items()]


def out(**kinds: str | Fields) -> list[Fields]:
    """Return declared outputs."""
    return [{"name": name, **({"type": kind} if isinstance(kind, str) else kind)} for name, kind in kinds.items()]


def node(id: str, type: str, outputs: Sequence[Fields] | None = None, blocks: Any = None, **inputs: Any) -> Fields:
    """Return a node with all that the page writes beside its inputs."""
    head = {
        "title": f"Node {id}", "icon": f"https://example.org/{type}.png", "description": "What it is for",
        "subTitle": "Kind", "mainColor": "#5C62FF",
    }  # fmt: skip
    data: Fields = {"nodeMeta": head, **({} if outputs is None else {"outputs": list(outputs)}), "inputs": inputs}
    made: Fields = {"id": id, "type": type, "meta": {"position": {"x": 1.5, "y": -20}}, "data": data}
    if blocks is not None:
        nodes, edges = blocks
        made |= {"blocks": nodes, "edges": edges}
        made["meta"]["canvasPosition"] = {"x": 0, "y": 300}
    return made


def edges(*pairs: str) -> list[Fields]:
    """Return edges from texts such as ``1>2`` and ``1:true>2``."""
    made: list[Fields] = []
    for pair in pairs:
        source, _, target = pair.partition(">")
        (source, _, port), (target, _, target_port) = source.partition(":"), target.partition(":")
        edge = {"sourceNodeID": source, "targetNodeID": target, "sourcePortID": port, "targetPortID": target_port}
        made.append({key: value for key, value in edge.items() if value})
    return made


def canvas(start: Sequence[Fields], nodes: Sequence[Fields], end: Sequence[Fields] | str, *pairs: str) -> Fields:
    """Return a canvas with these nodes between start and end; an end with a text answers in words."""
    first = node(START, "1", start)
    first["data"] |= {"trigger_parameters": list(start)}
    del first["data"]["inputs"]
    plan: Mapping[str, Any] = {"terminatePlan": "returnVariables", "inputParameters": end}
    if isinstance(end, str):
        [*_, (last_id, outputs)] = [(each["id"], each["data"]["outputs"]) for each in nodes]
        inputs = named(**{each["name"]: ref(last_id, each["name"]) for each in outputs})
        plan = {"terminatePlan": "useAnswerContent", "inputParameters": inputs, "content": lit(end)}
        plan = {**plan, "streamingOutput": True}
    return {"nodes": [first, *nodes, node(END, "2", **plan)], "edges": edges(*pairs), "versions": {"loop": "v2"}}


def llm(id: str, prompt: str, outputs: Sequence[Fields], inputs: Sequence[Fields] = (), **more: Any) -> Fields:
    """Return an llm node; `more` are its llmParam by name, and ``error``: its settingOnError, ``vision``: its files."""
    error = more.pop("error", {"switch": False, "processType": 1, "timeoutMs": 180000, "retryTimes": 0})
    vision = {"visionParam": more.pop("vision")} if "vision" in more else {}
    known = {"temperature": ("float", "0.8"), "maxTokens": ("integer", "4096"), "modelType": ("integer", "61010")}
    given = {"modleName": ("string", "Doubao"), "generationDiversity": ("string", "balance"), **known}
    given |= {"responseFormat": ("integer", more.pop("format", "2")), "prompt": ("string", prompt)}
    given |= {
        "systemPrompt": ("string", ""),
        "enableChatHistory": ("boolean", False),
        "chatHistoryRound": ("integer", "3"),
    }
    params = [{"name": key, "input": lit(value, kind)} for key, (kind, value) in (given | more).items()]
    return node(id, "3", outputs, inputParameters=list(inputs), llmParam=params, settingOnError=error,
                fcParamVar={"knowledgeFCParam": {}}, **vision)  # fmt: skip


def condition(id: str, *branches: tuple[int, Sequence[tuple[Fields, int, Fields | None]]]) -> Fields:
    """Return a condition node with branches of logic and comparisons."""
    made = [
        {
            "condition": {
                "logic": logic,
                "conditions": [
                    {"operator": number, "left": {"input": left}, **({"right": {"input": right}} if right else {})}
                    for left, number, right in comparisons
                ],
            }
        }
        for logic, comparisons in branches
    ]
    return node(id, "8", branches=made, inputParameters=[])


def text(id: str, template: str, **inputs: Fields) -> Fields:
    """Return a text node that joins texts."""
    items = {"type": "object", "schema": [{"type": "string", "name": "label"}, {"type": "string", "name": "value"}]}
    params = [
        {"name": "concatResult", "input": lit(template)},
        {"name": "arrayItemConcatChar", "input": lit("，")},
        {"name": "allArrayItemConcatChars", "input": lit([{"label": "comma", "value": "，"}], "list", schema=items)},
    ]
    outputs = [{"type": "string", "name": "output", "required": True}]
    return node(id, "15", outputs, inputParameters=named(**inputs), method="concat", concatParams=params)


def code(id: str, body: str, outputs: Sequence[Fields], **inputs: Fields) -> Fields:
    """Return a code node in Python."""
    error = {"processType": 1, "timeoutMs": 60000, "retryTimes": 0}
    head = "async def main(args: Args) -> Output:\n    params = args.params\n"
    return node(id, "5", outputs, inputParameters=named(**inputs), code=head + body, language=3, settingOnError=error)
