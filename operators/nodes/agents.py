"""Nodes agent, which calls tools until it can answer, and human-input, which asks a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import Field

from operad.operators.node import ADVANCED, Fault, NodeCall, NodeOperator, NodeParams, NodeResult, TypeOf
from operad.operators.nodes.flow import duplicate_faults
from operad.operators.nodes.models import AskingNode, AskingParams, Memory, answer_of, remembered
from operad.operators.secrets import secret_uses_of
from operad.operators.variables import Text, VariableType
from operad.runtime.events.interrupts import interrupt
from operad.runtime.reasoning.reasoner import MonoModelReasoner, Reasoner
from operad.runtime.reasoning.task import Task
from operad.runtime.tools.connections import connections
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import Job
from operad.runtime.values.secret import SecretUse

T = VariableType

TIMEOUT = "__timeout"
"""Port of Dify for a question that is not answered in time; never taken, because questions wait for the answer."""


class AgentParams(AskingParams):
    """A task and the tools for it."""

    instruction: Text = Field(description='Role and rules of the model; "" for none. Variables as {{#id.variable#}}.')
    query: Text = Field(description="Question or task; variables as {{#id.variable#}}.")
    tools: list[str] = Field(default_factory=list[str], description="The names of tools that it may call.")
    strategy: Literal["function_calling", "react"] = Field(
        default="function_calling",
        description="How it calls tools: by the model's own calls, or by thoughts and actions that it writes (react).",
    )
    rounds: int = Field(default=5, ge=1, le=100, description="How many turns it takes at most.")
    memory: Annotated[Memory | None, ADVANCED] = Field(
        default=None, description="Earlier exchanges of the conversation that it sees: {turns: 5}."
    )


class Agent(AskingNode[AgentParams]):
    """Lets a model call tools until it can answer."""

    type = "agent"
    params_type = AgentParams
    gives = "text (string)"
    reports = {"files": T.ARRAY_FILE, "usage": T.OBJECT, "finish_reason": T.STRING}
    example = {"instruction": "You look things up.", "query": "{{#1.question#}}", "tools": ["wikipedia"]}

    @property
    def instruction(self) -> str:
        """Purpose of the node, for evaluators."""
        return "\n".join(filter(None, (self.params.instruction, self.params.query)))

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of its outputs."""
        return {"text": T.STRING}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: no question, and duplicate tools."""
        if not self.params.query.strip():
            yield Fault("query", "is empty: say what the agent is asked")
        yield from duplicate_faults("tools", self.params.tools)

    @property
    def secret_uses(self) -> Sequence[SecretUse]:
        """Secrets that the servers of the tools get."""
        return secret_uses_of(self.services.known_tools)

    async def compute(self, call: NodeCall) -> NodeResult:
        """Ask the model, which may call the tools."""
        params, job = self.params, call.job
        turns = remembered(call, params.memory) if params.memory is not None else []
        files: list[FileDescriptor] = []

        def keep(result: Any) -> None:
            files.extend(self.services.kept_files(result, f"{self.type}-{self.get_id()}"))

        async with connections() as opened:
            known = {tool.name: tool for tool in await opened.tools(self.services.known_tools)}
            tools = tuple(self._service("tool", name, known, "tools").observed(keep) for name in params.tools)
            task = Task(
                job=Job(goal=call.text(params.query), id=job.id, session_id=job.session_id, turns=tuple(turns)),
                instruction=call.text(params.instruction),
                tools=tools,
                lesson=call.lesson or "",
            )
            text, usage, finish_reason = await answer_of(self._reasoner(call), task)
        outputs = {"text": text, "files": files, "usage": usage, "finish_reason": finish_reason}
        return NodeResult(outputs, text=text)

    def _reasoner(self, call: NodeCall) -> Reasoner:
        """Return the reasoner with the agent's strategy and rounds if it has one model, otherwise unchanged."""
        reasoner = self.params.reasoner(call, self.services)
        if not isinstance(reasoner, MonoModelReasoner):
            return reasoner
        model = reasoner.model
        if self.params.strategy == "react":
            model = model.model_copy(update={"tools": "constrained"})
        return MonoModelReasoner(model, max_rounds=self.params.rounds)


class Choice(NamedTuple):
    """An answer to choose."""

    id: Annotated[str, Field(min_length=1, description="Its id.")]
    title: Annotated[str, Field(description="What people read.")]


class HumanParams(NodeParams):
    """A question and its answers."""

    question: Text = Field(description="The question; variables as {{#id.variable#}}.")
    actions: list[Choice] = Field(
        default_factory=list[Choice], description="The answers to choose from; each is a port."
    )
    inputs: list[str] = Field(default_factory=list[str], description="The names of texts that are asked for.")
    answer_by: Annotated[list[str], ADVANCED] = Field(
        default_factory=list[str],
        description="The people who may answer, by the names of their keys at `operad serve`; empty for anyone.",
    )


class HumanInput(NodeOperator[HumanParams]):
    """Asks a person, and follows the port of the answer. The run waits until it is answered."""

    type = "human-input"
    params_type = HumanParams
    hint = "Waits for a person; inputs are names of texts to ask for."
    gives = "the texts that are asked for, by name; action (string): the id of the answer"
    ports_text = "port i is answer i, counted from 0"
    example = {"question": "Send this?\n{{#2.text#}}", "actions": [["yes", "Send"], ["no", "Leave it"]]}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of the requested texts and of the chosen answer."""
        return {**dict.fromkeys(self.params.inputs, T.STRING), "action": T.STRING}

    @property
    def ports(self) -> Sequence[str]:
        """Ids of the answers to choose from, and the port for a timeout."""
        return [*(choice.id for choice in self.params.actions), TIMEOUT] if self.params.actions else super().ports

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: duplicate answers and texts, or none of both."""
        yield from duplicate_faults("actions", [choice.id for choice in self.params.actions])
        yield from duplicate_faults("inputs", self.params.inputs)
        if not (self.params.actions or self.params.inputs):
            yield Fault("actions", "is empty, and so is inputs: say what may be answered")

    async def compute(self, call: NodeCall) -> NodeResult:
        """Ask the person, and wait for the answer."""
        ids = [choice.id for choice in self.params.actions]
        properties: dict[str, Any] = {name: {"type": "string"} for name in self.params.inputs}
        if ids:
            titles = "; ".join(f"{choice.id}: {choice.title}" for choice in self.params.actions)
            properties["action"] = {"type": "string", "enum": ids, "description": titles}
        schema = {
            "type": "object",
            "properties": properties,
            "required": ["action"] if ids else list(properties),  # who approves need not say more
            "additionalProperties": False,
        }
        answer: Any = await interrupt(call.text(self.params.question), schema, answer_by=self.params.answer_by)
        answers = {**dict.fromkeys(self.params.inputs, ""), **cast("Mapping[str, Any]", answer)}
        action = str(answers.get("action", ""))
        return NodeResult({**answers, "action": action}, port=action if ids else None, text=action)
