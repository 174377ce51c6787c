"""Operad under the names of Chat2Graph: importing this module makes them importable.

Chat2Graph's constructors take arguments by position, and their objects can be changed; Operad's are frozen values with
named arguments. The classes here are Operad's own with these two freedoms. docs/from_chat2graph.md lists what runs,
what needs a change, and what is not possible.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# ruff: noqa: A001 - arguments are named as in Chat2Graph
import asyncio
import inspect
import json
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType
from typing import Any

from networkx import DiGraph
from pydantic import ConfigDict, Field, field_validator

from operad import operators, runtime
from operad.operators.instruction import instruction_of
from operad.runtime import WorkflowStatus
from operad.runtime.tools import tool as tools
from operad.runtime.tools.tool import as_tools
from operad.runtime.values.errors import InvalidError
from operad.runtime.values.message import new_id

FREE = ConfigDict(frozen=False)


class Free(type(runtime.Job)):
    """Type of classes whose constructors take the arguments that their `__init__` declares."""

    def __call__(cls, *args, **kwargs):
        return type.__call__(cls, *args, **kwargs)


def run_async_function(function, *args, **kwargs):
    """Wait for a coroutine function in a thread, so that it works inside of a running event loop, too."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(function(*args, **kwargs))).result()


def parse_jsons(text, start_marker="```json", end_marker="```"):
    """Return the JSON values between the markers, or the error of each that cannot be parsed."""
    values = []
    for part in re.findall(f"{re.escape(start_marker)}(.*?){re.escape(end_marker)}", text, re.DOTALL):
        try:
            values.append(json.loads(re.sub(r",(\s*[}\]])", r"\1", part)))
        except json.JSONDecodeError as error:
            values.append(error)
    return values


# app.core.common


class Singleton(type):
    _instances: dict[type, Any] = {}  # noqa: RUF012 - as in Chat2Graph, shared by all classes of this type

    def __call__(cls, *args, **kwargs):
        if cls not in Singleton._instances:
            Singleton._instances[cls] = super().__call__(*args, **kwargs)
        return Singleton._instances[cls]

    @property
    def instance(cls):
        return cls()


class SystemEnvType(type):
    """Settings of Chat2Graph: read from the environment, and writable; none of them has an effect in Operad."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return os.environ.get(name.upper(), {"MAX_RETRY_COUNT": 3, "LIFE_CYCLE": 3}.get(name.upper()))


class SystemEnv(metaclass=SystemEnvType):
    pass


def named(name, *members):
    return Enum(name, {member: member for member in members})


MessageSourceType = named("MessageSourceType", "THINKER", "ACTOR", "MODEL")
JobStatus = named("JobStatus", "CREATED", "RUNNING", "FINISHED", "FAILED", "STOPPED")
JobType = named("JobType", "JOB", "SUB_JOB")
ReasonerType = named("ReasonerType", "MONO", "DUAL")
ToolType = named("ToolType", "LOCAL_TOOL", "MCP_TOOL")
ToolGroupType = named("ToolGroupType", "MCP", "TOOL_PACKAGE")
McpTransportType = named("McpTransportType", "STDIO", "SSE", "WEBSOCKET", "STREAMABLE_HTTP")
WorkflowPlatformType = named("WorkflowPlatformType", "BUILTIN", "DBGPT")
ChatMessageRole = named("ChatMessageRole", "USER", "SYSTEM")
FunctionCallStatus = named("FunctionCallStatus", "SUCCEEDED", "FAILED")


# app.core.model


class Job(runtime.Job, metaclass=Free):
    model_config = FREE
    dag: str | None = None

    def __init__(self, goal="", context="", **fields):
        super().__init__(goal=goal, context=context, **fields)


class SubJob(runtime.SubJob, Job, metaclass=Free):
    original_job_id: str | None = None
    expert_id: str | None = None
    output_schema: str = ""
    life_cycle: int = 3
    is_legacy: bool = False
    thinking: str | None = None


FIELDS = {"scratchpad", "status", "evaluation", "lesson", "outputs", "blame", "score"}


class WorkflowMessage(runtime.WorkflowMessage, metaclass=Free):
    """A message with its fields in a `payload`; fields that only Chat2Graph knows are outputs."""

    model_config = FREE
    scratchpad: Any = ""  # any value, as the text for a model is written from it

    def __init__(self, payload, job_id="", timestamp=None, id=None):
        given = {key: value for key, value in payload.items() if key in FIELDS and value is not None}
        own = {key: value for key, value in payload.items() if key not in FIELDS}
        if own:
            given["outputs"] = {**given.get("outputs", {}), **own}
        super().__init__(**given, job_id=job_id if isinstance(job_id, str) else "")
        self._keys = tuple(payload)
        self._id, self._timestamp = id or new_id(), timestamp or time.time_ns() // 1_000_000

    @classmethod
    def of(cls, message):
        """Return an answer of an operator as a message of this class."""
        if isinstance(message, cls):
            return message
        if isinstance(message, str):
            return cls({"scratchpad": message})
        found = cls({"scratchpad": message.scratchpad, **message.outputs}, job_id=message.job_id)
        vars(found).update(vars(message))
        found._keys = ("scratchpad", "status", "evaluation", "lesson", *message.outputs)
        return found

    def __getattr__(self, name):
        if not name.startswith("_") and name in self.outputs:
            return self.outputs[name]
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def __setattr__(self, name, value):
        if name.startswith("_") or name in type(self).model_fields:
            super().__setattr__(name, value)
        else:
            self.outputs[name] = value
        if not name.startswith("_") and name not in self._keys:
            self._keys = (*self._keys, name)

    def __await__(self):  # `execute` of earlier versions of Chat2Graph is awaited, that of later ones is not
        yield from ()
        return self

    def get_payload(self):
        return {key: self.outputs[key] if key in self.outputs else getattr(self, key) for key in self._keys}

    def get_id(self):
        return self._id

    def get_timestamp(self):
        return self._timestamp

    def get_job_id(self):
        return self.job_id

    def copy(self):
        return WorkflowMessage(self.get_payload(), self.job_id, self._timestamp, self._id)

    @staticmethod
    def serialize_payload(payload):
        return json.dumps(payload, default=lambda value: value.value)

    @staticmethod
    def deserialize_payload(payload):
        values = json.loads(payload)
        return {key: WorkflowStatus(value) if key == "status" else value for key, value in values.items()}


@dataclass
class Message:
    """Message of a model, an agent or a person: its attributes have methods `get_…` and `set_…`."""

    payload: Any = None
    job_id: str = ""
    step: int = 0
    timestamp: int | None = None
    id: str = field(default_factory=new_id)
    source_type: Any = MessageSourceType.MODEL
    function_calls: Any = None
    workflow_messages: list = field(default_factory=list)
    lesson: str | None = None
    artifact_ids: list = field(default_factory=list)
    session_id: str | None = None
    role: Any = None
    assigned_expert_name: str | None = None

    def __getattr__(self, name):
        verb, _, attribute = name.partition("_")
        if attribute in Message.__dataclass_fields__:
            if verb == "get":
                return lambda: getattr(self, attribute)
            if verb == "set":
                return lambda value: setattr(self, attribute, value)
        raise AttributeError(name)

    def get_workflow_result_message(self):
        if len(self.workflow_messages) != 1:
            raise ValueError(f"expected one message of a workflow, got {len(self.workflow_messages)}")
        return self.workflow_messages[0]

    def get_text(self):
        return self.payload

    def copy(self):
        return type(self)(**vars(self))


class ModelMessage(Message):
    pass


class AgentMessage(Message):
    pass


class ChatMessage(Message):
    pass


class TextMessage(ChatMessage):
    pass


@dataclass
class JobResult:
    job_id: str
    status: Any = JobStatus.CREATED
    duration: float = 0
    tokens: int = 0

    def has_result(self):
        return self.status not in (JobStatus.CREATED, JobStatus.RUNNING)


class Graph:
    """A networkx graph, with Chat2Graph's words for it."""

    def __init__(self, graph=None):
        self._graph = DiGraph() if graph is None else graph

    def add_vertex(self, id, **properties):
        self._graph.add_node(id, **properties)

    def add_edge(self, start, end):
        self._graph.add_edge(start, end)

    def get_graph(self):
        return self._graph

    def vertices(self):
        return list(self._graph)

    def vertices_data(self):
        return list(self._graph.nodes(data=True))

    def edges(self):
        return list(self._graph.edges())

    def has_vertex(self, id):
        return id in self._graph

    def successors(self, id):
        return list(self._graph.successors(id))

    def predecessors(self, id):
        return list(self._graph.predecessors(id))

    def out_degree(self, id):
        return self._graph.out_degree(id)

    def vertices_count(self):
        return len(self._graph)

    def update(self, other):
        self._graph.update(other.get_graph())

    def remove_vertex(self, id):
        self._graph.remove_node(id)

    def remove_vertices(self, ids):
        self._graph.remove_nodes_from(ids)

    def remove_edge(self, start, end):
        self._graph.remove_edge(start, end)

    def subgraph(self, ids):
        return type(self)(self._graph.subgraph(ids).copy())

    def to_json_str(self):
        edges = [{"source": start, "target": end} for start, end in self.edges()]
        return json.dumps({"vertices": [{"id": id} for id in self.vertices()], "edges": edges})

    @classmethod
    def from_json_str(cls, text):
        read, graph = json.loads(text), cls()
        graph.get_graph().add_nodes_from(vertex["id"] for vertex in read["vertices"])
        graph.get_graph().add_edges_from((edge["source"], edge["target"]) for edge in read["edges"])
        return graph


class JobGraph(Graph):
    pass


@dataclass
class Task:
    """The parts of a task as Chat2Graph's tests give them to a reasoner."""

    job: Any
    operator_config: Any = None
    workflow_messages: Any = None
    tools: list = field(default_factory=list)
    actions: list = field(default_factory=list)
    knowledge: Any = None
    insights: Any = None
    lesson: str | None = None
    file_descriptors: Any = None

    def of_operad(self):
        """Return the task in Operad's form."""
        config = self.operator_config
        return runtime.Task(
            job=self.job,
            instruction=(config.instruction if config else "") or self.job.goal,
            output_schema=config.output_schema if config else "",
            actions=tuple(self.actions),
            tools=tuple(self.tools),
            workflow_messages=tuple(self.workflow_messages or ()),
            lesson=self.lesson or "",
        )


# app.core.toolkit


class Tool(tools.Tool, metaclass=Free):
    model_config = FREE
    name: str  # any: only a model's interface wants identifiers

    def __init__(self, name="", description="", function=None, tool_type=ToolType.LOCAL_TOOL, id=None):
        called = tools.Tool.of(function, name="tool", description=description or " ")
        super().__init__(
            name=name, description=description, parameters=called.parameters, function=function, id=id or new_id()
        )
        self._signature, self._tool_type = called._signature, tool_type

    def __setattr__(self, name, value):
        super().__setattr__("id" if name == "_id" else name, value)

    @property
    def tool_type(self):
        return self._tool_type

    def copy(self):
        return Tool(self.name, self.description, self.function, self._tool_type)


@dataclass
class ToolGroupConfig:
    type: Any
    name: str


@dataclass
class McpTransportConfig:
    transport_type: Any
    url: str = "http://localhost:8931"
    command: str = "npx"
    args: list | None = None
    env: dict = field(default_factory=dict)
    headers: dict = field(default_factory=dict)
    timeout: float = 5.0
    sse_read_timeout: float = 300.0


@dataclass
class McpConfig(ToolGroupConfig):
    transport_config: Any


class ToolGroup(tools.ToolGroup, metaclass=Free):
    """A group that is named by a configuration; subclasses list its tools."""

    model_config = FREE

    def __init__(self, tool_group_config, tools=()):
        super().__init__(name=tool_group_config.name, tools=tuple(tools))
        self._tool_group_config = tool_group_config

    def get_id(self):
        return self.id

    async def list_tools(self):
        return list(self.tools)


class Action(runtime.Action, metaclass=Free):
    model_config = FREE
    tools: Any = Field(default_factory=list)

    def __init__(self, id=None, name="", description="", next_action_names=(), tools=()):
        super().__init__(id=id or new_id(), name=name, description=description, tools=[*as_tools(tools or ())])


class Toolkit(runtime.Toolkit):
    """A toolkit in which an unknown id is None, as in Chat2Graph, and a changed score counts."""

    def add_vertex(self, id, data):
        self._add_item(data)
        if id != data.id:
            self._items[id], self._scores[id] = self._items.pop(data.id), self._scores.pop(data.id)

    def add_edge(self, start, end):
        self._connect(start, end, 1.0)

    def has_vertex(self, id):
        return id in self._items

    def vertices_data(self):
        return [(id, {"data": item}) for id, item in self._items.items()]

    def vertices_count(self):
        return len(self._items)

    def out_degree(self, id):
        return len(self._scores[id])

    def get_score(self, start, end):
        return super().get_score(start, end) if self.has_edge(start, end) else 1.0

    def get_action(self, id):
        return next((action for action in self.actions if action.id == id), None)

    def get_tool(self, id):
        return next((tool for tool in self.tools if id in (tool.id, tool.name)), None)

    def get_tool_group(self, id):
        return next((group for group in self.tool_groups if group.id == id), None)

    def remove_vertex(self, id):
        self._remove_id(id)

    def remove_edge(self, start, end):
        del self._scores[start][end]

    def update(self, other):
        self._items.update(other._items)
        for start, scores in other._scores.items():
            self._scores.setdefault(start, {}).update(scores)

    def subgraph(self, ids):
        part = Toolkit()
        part.update(super().subgraph(ids))
        return part


class ToolkitService(metaclass=Singleton):
    def __init__(self):
        self._toolkit = Toolkit()

    def get_toolkit(self):
        return self._toolkit

    def add_action(self, action, next_actions=(), prev_actions=()):
        self._toolkit.add_action(action)
        edges = [(action.id, other.id, score) for other, score in next_actions]
        for start, end, score in [*edges, *((other.id, action.id, score) for other, score in prev_actions)]:
            if self._toolkit.has_vertex(start) and self._toolkit.has_vertex(end):
                self._toolkit.add_edge(start, end)
                self._toolkit.set_score(start, end, score)

    def add_tool(self, tool, connected_actions=()):
        callers = [(action, score) for action, score in connected_actions if self._toolkit.has_vertex(action.id)]
        add = self._toolkit.add_tool_group if isinstance(tool, tools.ToolGroup) else self._toolkit.add_tool
        if callers:  # a tool that no action calls is not kept
            add(tool, callers)
            for action, score in callers:
                self._toolkit.set_score(action.id, tool.id, score)

    add_tool_group = add_tool

    def get_action(self, action_id):
        if (found := self._toolkit.get_action(action_id)) is None:
            raise ValueError(f"no action has the id {action_id!r}")
        return found

    def remove_action(self, id):
        self._toolkit.remove_vertex(id)

    def remove_tool(self, id):
        self._toolkit.remove_vertex(id)

    def recommend_subgraph(self, actions, threshold=0.5, hops=0):
        known = [action for action in actions if self._toolkit.has_vertex(action.id)]
        found = self._toolkit.recommend(known, threshold, hops)
        part = self._toolkit.subgraph([each.id for each in (*found.actions, *found.tools)])
        for start, end in part.edges():
            if part.get_score(start, end) < threshold:
                part.remove_edge(start, end)
        return part

    def recommend_tools_actions(self, actions, threshold=0.5, hops=0):
        part = self.recommend_subgraph(actions, threshold, hops)
        return list(part.tools), list(part.actions)


class ToolkitWrapper:
    def __init__(self, toolkit=None):
        self.toolkit = toolkit or ToolkitService.instance.get_toolkit()

    def chain(self, *items):
        service, before = ToolkitService.instance, None
        flat = [each for item in items for each in (item if isinstance(item, tuple) else (item,))]
        for item in flat:
            if isinstance(item, runtime.Action):
                service.add_action(item, [], [(before, 1.0)] if isinstance(before, runtime.Action) else [])
            else:
                service.add_tool(item, [(before, 1.0)] if isinstance(before, runtime.Action) else [])
            before = item
        return self


# app.core.reasoner


class MonoModelReasoner(runtime.MonoModelReasoner):
    async def infer(self, task):
        return await super().infer(task.of_operad() if isinstance(task, Task) else task)


class DualModelReasoner(runtime.DualModelReasoner):
    async def infer(self, task):
        return await super().infer(task.of_operad() if isinstance(task, Task) else task)


# app.core.workflow


class OperatorConfig(operators.OperatorConfig, metaclass=Free):
    model_config = FREE

    def __init__(self, instruction="", actions=(), id=None, output_schema="", threshold=0.5, hops=0, **fields):
        fields |= {"output_schema": output_schema or "", "threshold": threshold, "hops": hops, "id": id or new_id()}
        super().__init__(instruction=instruction, actions=tuple(actions or ()), **fields)

    @field_validator("instruction")
    @classmethod
    def _check_instruction(cls, instruction):
        return instruction  # may be empty: an operator with an `execute` of its own needs none


class Operator(operators.Operator):
    """An operator with the toolkit of the service, whose `execute` may be sync or async."""

    def __init__(self, config):
        super().__init__(config, toolkit=ToolkitService.instance.get_toolkit())
        self._toolkit_service = ToolkitService.instance

    def __init_subclass__(cls, **options):
        execute = vars(cls).get("execute")
        if execute is not None and not inspect.iscoroutinefunction(execute):

            async def run(self, call):
                parts = (
                    {"previous_expert_outputs": [*call.previous]} if _takes(execute, "previous_expert_outputs") else {}
                )
                messages = [WorkflowMessage.of(message) for message in call.messages]
                answer = await asyncio.to_thread(
                    execute, self, call.reasoner, call.job, workflow_messages=messages, lesson=call.lesson, **parts
                )
                return await answer if inspect.isawaitable(answer) else answer

            cls.run = run
        elif execute is not None and not _takes(execute, "previous_expert_outputs"):

            async def run_without(self, call):
                messages = [WorkflowMessage.of(message) for message in call.messages]
                return await execute(self, call.reasoner, call.job, workflow_messages=messages, lesson=call.lesson)

            cls.run = run_without
        super().__init_subclass__(**options)
        if execute is not None:
            cls.execute = execute  # as it was written: a sync one stays sync

    def _instruction(self):
        text = self.config.instruction.replace("{", "{{").replace("}", "}}")  # plain text, not a template
        return instruction_of(text, None, self.get_id())

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        answer = await super().execute(reasoner, job, workflow_messages, previous_expert_outputs, lesson)
        return WorkflowMessage.of(answer)


def _takes(function, name):
    parameters = inspect.signature(function).parameters
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


class EvalOperator(Operator):
    """An evaluator whose model answers with a JSON object of status, evaluation and lesson; asked again once."""

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        judged = workflow_messages[0].scratchpad
        for hint in (lesson, f"{lesson or ''} Answer with one JSON object in a fence ```json."):
            answer = await super().execute(reasoner, job, workflow_messages, previous_expert_outputs, hint)
            text = answer.scratchpad
            for found in parse_jsons(text if "```json" in text else f"```json{text}```"):
                if isinstance(found, dict):
                    verdict = {"evaluation": found["evaluation"], "lesson": found["lesson"]}
                    payload = {"scratchpad": judged, "status": WorkflowStatus[found["status"]], **verdict}
                    return WorkflowMessage(payload, job.id)
        raise ValueError(f"the evaluator gave no JSON: {text}")


class InvalidValueError(InvalidError, ValueError):
    """An issue of a workflow, also for callers that expect a ValueError."""

    @classmethod
    def of(cls, error):
        return cls(str(error).split(f": {len(error.issues)} issue")[0], error.issues)


class DbgptWorkflow(runtime.DbgptWorkflow):
    """A workflow whose `execute` also works inside of a running event loop, and may be awaited."""

    def execute(self, job, reasoner=None, workflow_messages=None, lesson=None):
        try:
            answer = run_async_function(self.aexecute, job, reasoner, workflow_messages, lesson)
        except InvalidError as error:
            raise InvalidValueError.of(error) from error
        return WorkflowMessage.of(answer)

    def add_operator(self, operator, previous_ops=None, next_ops=None):
        for other in (*(previous_ops or ()), *(next_ops or ())):
            if other.get_id() not in {each.get_id() for each in self.get_operators()}:
                super().add_operator(other)
        super().add_operator(operator, previous_ops, next_ops)

    def get_operator(self, operator_id):
        if (found := super().get_operator(operator_id)) is None:
            raise ValueError(f"no operator has the id {operator_id!r}")
        return found

    def update_operator(self, operator):
        try:
            super().update_operator(operator)
        except InvalidError as error:
            raise InvalidValueError.of(error) from error

    @property
    def _operator_graph(self):
        return self.graph().get_graph()


class OperatorWrapper:
    def __init__(self):
        self._fields, self._operator = {"actions": []}, None

    def instruction(self, text):
        self._fields["instruction"] = text
        return self

    def output_schema(self, text):
        self._fields["output_schema"] = text
        return self

    def actions(self, actions):
        self._fields["actions"] += actions
        return self

    def build(self):
        for needed in ("instruction", "output_schema"):
            if not self._fields.get(needed):
                raise ValueError(f"{needed} is required")
        self._operator = Operator(OperatorConfig(**self._fields))
        return self

    @property
    def operator(self):
        if self._operator is None:
            raise ValueError("the operator is not built")
        return self._operator

    def get_id(self):
        return self.operator.get_id()


class WorkflowWrapper:
    def __init__(self, platform=None):
        self.workflow = DbgptWorkflow()

    def chain(self, *items):
        before = None
        for item in items:
            for each in item if isinstance(item, tuple) else (item,):
                operator = each.operator if isinstance(each, OperatorWrapper) else each
                self.workflow.add_operator(operator, previous_ops=[before] if before else [])
                before = operator
        return self


# app.core.agent


@dataclass
class Profile:
    name: str
    description: str = ""


@dataclass
class AgentConfig:
    profile: Any
    reasoner: Any
    workflow: Any


def load_service(yaml_path, encoding="utf-8"):
    """Load a YAML file: Operad's configuration, with an expert for each of Chat2Graph's."""
    from operad.configs import load

    return load(yaml_path, trust=True)


class AgenticService:
    load = staticmethod(load_service)


for name, content in {
    "app.core.agent.agent": {"AgentConfig": AgentConfig, "Profile": Profile},
    "app.core.common.async_func": {"run_async_function": run_async_function},
    "app.core.common.singleton": {"Singleton": Singleton},
    "app.core.common.system_env": {"SystemEnv": SystemEnv},
    "app.core.common.type": {
        each.__name__: each
        for each in (WorkflowStatus, MessageSourceType, JobStatus, JobType, ReasonerType, ToolType, ToolGroupType)
    }
    | {"McpTransportType": McpTransportType, "WorkflowPlatformType": WorkflowPlatformType}
    | {"PlatformType": WorkflowPlatformType, "ChatMessageRole": ChatMessageRole}
    | {"FunctionCallStatus": FunctionCallStatus},
    "app.core.common.util": {"parse_jsons": parse_jsons},
    "app.core.model.graph": {"Graph": Graph},
    "app.core.model.job": {"Job": Job, "SubJob": SubJob, "JobType": JobType},
    "app.core.model.job_graph": {"JobGraph": JobGraph},
    "app.core.model.job_result": {"JobResult": JobResult},
    "app.core.model.message": {
        each.__name__: each for each in (WorkflowMessage, Message, ModelMessage, AgentMessage, ChatMessage, TextMessage)
    },
    "app.core.model.task": {"Task": Task},
    "app.core.reasoner.reasoner": {"Reasoner": runtime.Reasoner},
    "app.core.reasoner.mono_model_reasoner": {"MonoModelReasoner": MonoModelReasoner},
    "app.core.reasoner.dual_model_reasoner": {"DualModelReasoner": DualModelReasoner},
    "app.core.service.toolkit_service": {"ToolkitService": ToolkitService},
    "app.core.toolkit.action": {"Action": Action},
    "app.core.toolkit.tool": {"Tool": Tool},
    "app.core.toolkit.tool_config": {each.__name__: each for each in (ToolGroupConfig, McpConfig, McpTransportConfig)},
    "app.core.toolkit.tool_group": {"ToolGroup": ToolGroup},
    "app.core.toolkit.toolkit": {"Toolkit": Toolkit, "ToolkitService": ToolkitService},
    "app.core.sdk.agentic_service": {"AgenticService": AgenticService},
    "app.core.sdk.init_server": {"init_server": lambda: None},
    "app.core.sdk.wrapper.operator_wrapper": {"OperatorWrapper": OperatorWrapper},
    "app.core.sdk.wrapper.toolkit_wrapper": {"ToolkitWrapper": ToolkitWrapper},
    "app.core.sdk.wrapper.workflow_wrapper": {"WorkflowWrapper": WorkflowWrapper},
    "app.core.workflow.operator": {"Operator": Operator},
    "app.core.workflow.operator_config": {"OperatorConfig": OperatorConfig},
    "app.core.workflow.eval_operator": {"EvalOperator": EvalOperator},
    "app.core.workflow.workflow": {"Workflow": DbgptWorkflow, "BuiltinWorkflow": DbgptWorkflow},
    "app.plugin.dbgpt.dbgpt_workflow": {"DbgptWorkflow": DbgptWorkflow},
}.items():
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(content)
    child = sys.modules[name]
    while name := name.rpartition(".")[0]:
        parent = sys.modules.setdefault(name, ModuleType(name))
        setattr(parent, child.__name__.rpartition(".")[2], child)
        child = parent
