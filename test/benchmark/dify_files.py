"""Build Dify files from compact declarations, by adding the parts that all files have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Fields = dict[str, Any]

PLUGIN = "langgenius/tongyi:0.1.13@10cbfe85"


@dataclass(frozen=True)
class Case:
    """Dify file with the arguments of its run.

    Attributes:
        name: The name of the file.
        feature: The feature that it shows.
        file: The values of the file.
        inputs: The inputs of its start node; `sys.query` and the like by these names.
        turns: The conversation before, oldest turn first, as (role, text).
        pick: The number of the class that classifiers choose.
        differs: The known difference that `operad check` reports; empty for none.
        refused: The issues that `operad check` reports for a file that cannot run; empty for one that can.
        alone: Reason for which Dify's engine, as it is installed from PyPI, cannot run the file as it is; empty if it can.
        as_given: The file as Dify's server passes it to its engine, which runs it instead; empty if unchanged.
        given_inputs: The inputs that the server adds.
        expects: The expected outputs, if the engine cannot run the file.
    """

    name: str
    feature: str
    file: Fields
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    turns: Sequence[tuple[str, str]] = ()
    pick: int = 0
    differs: str = ""
    refused: str = ""
    alone: str = ""
    as_given: Fields = field(default_factory=dict[str, Any])
    given_inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    expects: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_proved(self) -> bool:
        """True if Dify's engine runs the file."""
        return not (self.refused or self.differs) and (not self.alone or bool(self.as_given))

    @property
    def nodes(self) -> list[Fields]:
        """The nodes of the file."""
        workflow = self.file.get("workflow", self.file)
        return workflow.get("graph", workflow).get("nodes", [])


def node(node_id: str, kind: str, parent: str = "", /, **data: Any) -> Fields:
    """A node; `parent` is the iteration or loop that it runs inside of, ``"loop:9"`` for a loop."""
    holder = parent.removeprefix("loop:")
    inside: Fields = {}
    if parent:
        in_loop = parent != holder
        inside = {"isInLoop": in_loop, "isInIteration": not in_loop, "loop_id" if in_loop else "iteration_id": holder}
    made: Fields = {
        "data": {"type": kind, "title": f"{kind} {node_id}", **inside, **data},
        "id": node_id,
        "type": "custom",
    }
    return made | {"parentId": holder} if parent else made


def start(**variables: Any) -> Fields:
    """A start node ``1`` with inputs by name: a type, or the fields of the variable."""
    listed: list[Fields] = []
    for name, kind in variables.items():
        given: Fields = kind if isinstance(kind, dict) else {"type": kind}
        listed.append({"variable": name, "label": name, "required": True, **given})
    return node("1", "start", variables=listed)


def end(node_id: str, **outputs: str) -> Fields:
    """An end node with outputs ``name="node.variable"``."""
    return node(
        node_id,
        "end",
        outputs=[{"variable": name, "value_selector": value.split(".")} for name, value in outputs.items()],
    )


def answer(node_id: str, text: str, parent: str = "") -> Fields:
    """An answer node."""
    return node(node_id, "answer", parent, answer=text, variables=[])


def llm(node_id: str, *prompt: tuple[str, str], parent: str = "", **data: Any) -> Fields:
    """An LLM node with messages (role, text)."""
    params = data.pop("params", {})
    return node(
        node_id,
        "llm",
        parent,
        **{
            "model": {
                "provider": "langgenius/tongyi/tongyi",
                "name": "qwen-plus",
                "mode": "chat",
                "completion_params": params,
            },
            "prompt_template": [{"role": role, "text": text} for role, text in prompt],
            "context": {"enabled": False, "variable_selector": []},
            "vision": {"enabled": False},
            **data,
        },
    )


def template(node_id: str, text: str, parent: str = "", /, **variables: str) -> Fields:
    """A template node with variables ``name="node.variable"``."""
    return node(node_id, "template-transform", parent, template=text, variables=arguments(variables))


def code(node_id: str, body: str, outputs: Mapping[str, str], parent: str = "", /, **variables: Any) -> Fields:
    """A code node whose function has this body; other keywords than ``name="node.variable"`` are data of the node."""
    own = ("error_strategy", "default_value", "retry_config")
    more = {name: value for name, value in variables.items() if name in own}
    given = {name: value for name, value in variables.items() if name not in more}
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return node(
        node_id,
        "code",
        parent,
        code=f"def main({', '.join(given)}):\n{lines}\n",
        code_language="python3",
        outputs={name: {"type": kind, "children": None} for name, kind in outputs.items()},
        variables=arguments(given),
        **more,
    )


def arguments(variables: Mapping[str, str]) -> list[Fields]:
    """Variables of a node."""
    return [{"variable": name, "value_selector": value.split(".")} for name, value in variables.items()]


def branch(
    node_id: str, selector: str, operator: str, value: Any = "", kind: str = "string", parent: str = ""
) -> Fields:
    """An if-else node with one condition; its handles are ``true`` and ``false``."""
    return node(node_id, "if-else", parent, cases=[case("true", condition(selector, operator, value, kind))])


def case(case_id: str, *conditions: Fields, logic: str = "and") -> Fields:
    """A case of an if-else node."""
    return {"case_id": case_id, "id": case_id, "logical_operator": logic, "conditions": list(conditions)}


def condition(selector: str, operator: str, value: Any = "", kind: str = "string") -> Fields:
    """A condition."""
    return {
        "id": f"{selector} {operator}",
        "variable_selector": selector.split("."),
        "comparison_operator": operator,
        "value": value,
        "varType": kind,
    }


def iteration(node_id: str, over: str, keeps: str, **data: Any) -> list[Fields]:
    """An iteration node and the start inside of it, ``{id}start``."""
    first = {"iteration_id": node_id, "isInIteration": True, "type": "iteration-start", "title": ""}
    return [
        node(
            node_id,
            "iteration",
            **{
                "iterator_selector": over.split("."),
                "output_selector": keeps.split("."),
                "output_type": "array[string]",
                "iterator_input_type": "array[string]",
                "start_node_id": f"{node_id}start",
                "is_parallel": False,
                "parallel_nums": 10,
                "error_handle_mode": "terminated",
                "flatten_output": True,
                **data,
            },
        ),
        {"id": f"{node_id}start", "type": "custom-iteration-start", "parentId": node_id, "data": first},
    ]


def loop(
    node_id: str, count: int, *variables: tuple[str, str, Any], breaks: Sequence[Fields] = (), **data: Any
) -> list[Fields]:
    """A loop node, with variables (name, type, value), and the start inside of it."""
    first = {"loop_id": node_id, "isInLoop": True, "type": "loop-start", "title": ""}
    listed = [
        {
            "label": name,
            "var_type": kind,
            "value_type": "variable" if isinstance(value, list) and kind != "array[string]" else "constant",
            "value": value,
        }
        for name, kind, value in variables
    ]
    return [
        node(
            node_id,
            "loop",
            loop_count=count,
            loop_variables=listed,
            break_conditions=list(breaks),
            logical_operator="and",
            start_node_id=f"{node_id}start",
            error_handle_mode="terminated",
            **data,
        ),
        {"id": f"{node_id}start", "type": "custom-loop-start", "parentId": node_id, "data": first},
    ]


def assign(node_id: str, *items: tuple[str, str, Any], parent: str = "") -> Fields:
    """An assigner of version 2, with items (variable, operation, value); a list as value is a selector."""
    return node(
        node_id,
        "assigner",
        parent,
        version="2",
        items=[
            {
                "variable_selector": target.split("."),
                "operation": operation,
                "input_type": "variable" if isinstance(value, list) or value is None else "constant",
                "value": value,
                "write_mode": operation,
            }
            for target, operation, value in items
        ],
    )


def http(node_id: str, url: str, method: str = "get", **data: Any) -> Fields:
    """An HTTP request node."""
    return node(
        node_id,
        "http-request",
        data.pop("parent", ""),
        **{
            "method": method,
            "url": url,
            "authorization": {"type": "no-auth", "config": None},
            "headers": "",
            "params": "",
            "body": {"type": "none", "data": []},
            "timeout": {"max_connect_timeout": 0, "max_read_timeout": 0, "max_write_timeout": 0},
            "variables": [],
            "retry_config": {"retry_enabled": False, "max_retries": 0, "retry_interval": 100},
            **data,
        },
    )


def app(nodes: Sequence[Any], edges: str, *, mode: str = "", **workflow: Any) -> Fields:
    """A file with these nodes, lists of them included, and edges ``1>2 2.true>3``."""
    flat: list[Fields] = [each for one in nodes for each in (one if isinstance(one, list) else [one])]
    types = {each["id"]: each["data"]["type"] for each in flat}
    for number, each in enumerate(flat):
        each["position"] = {"x": 100 * number, "y": 0}
    links: list[Fields] = []
    for edge in edges.split():
        source, _, target = edge.partition(">")
        source, _, handle = source.partition(".")
        handle = handle or "source"
        links.append({"id": f"{source}-{handle}-{target}", "source": source, "sourceHandle": handle, "target": target})
    chats = "answer" in types.values()
    asks = {"llm", "question-classifier", "parameter-extractor"} & set(types.values())
    made: Fields = {
        "app": {"name": "case", "mode": mode or ("advanced-chat" if chats else "workflow"), "description": ""},
        "kind": "app",
        "version": "0.4.0",
        "workflow": {
            "conversation_variables": [],
            "environment_variables": [],
            "features": {},
            **workflow,
            "graph": {"nodes": flat, "edges": links, "viewport": {"x": 0, "y": 0, "zoom": 1}},
        },
    }
    if asks:
        plugin = {"marketplace_plugin_unique_identifier": PLUGIN}
        made["dependencies"] = [{"current_identifier": None, "type": "marketplace", "value": plugin}]
    return made


def variables(**given: Any) -> list[Fields]:
    """Conversation or environment variables, ``name=(type, value)``."""
    return [
        {"id": name, "name": name, "value_type": kind, "value": value, "description": "", "selector": []}
        for name, (kind, value) in given.items()
    ]
