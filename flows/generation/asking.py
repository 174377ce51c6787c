"""Plan of a workflow for the person who asked, before it is built: its steps, open questions, and estimated costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from operad.flows.check import Checker, NodeType
from operad.flows.edit.variables import named_outputs
from operad.flows.formats.shapes import fields_of, list_of, pairs_of
from operad.flows.generation.draft import drafted_graph
from operad.flows.generation.nodes_shown import compact
from operad.flows.generation.plan import Plan, read_plan
from operad.flows.generation.prompts import Part, planned, text
from operad.flows.node_graph import NodeGraph
from operad.operators.variables import VariableType, plain
from operad.runtime.models.prices import ListPrice
from operad.runtime.models.turn import Price
from operad.runtime.values.errors import InputError
from operad.runtime.values.json_schema import Schema
from operad.runtime.values.message import Usage
from operad.runtime.values.schema import object_schema

MOST_QUESTIONS = 5
"""Maximum number of questions of a plan."""

PROMPT_TOKENS, ANSWER_TOKENS = 1_000, 300
"""Assumed tokens of a call of a model in a run."""

AGENT_CALLS, ITEMS = 5, 5
"""Assumed calls of an agent, and rounds of a container."""


class Question(NamedTuple):
    """Question that a request leaves open.

    Attributes:
        text: The question.
        default: Answer that the plan follows; empty if the model gives none.
    """

    text: str
    default: str


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Estimated cost of a plan, by the price of one model.

    Attributes:
        model: The model.
        run: Usage of one run.
        calls: Calls of the model in a run, by node type.
    """

    model: str
    run: Usage
    calls: Mapping[str, int]

    @property
    def lines(self) -> list[str]:
        """The estimate in words, with what it assumes."""
        calls = ", ".join(f"{count} of {kind}" for kind, count in self.calls.items())
        assumed = (
            f"calls: {calls}; assumed are {PROMPT_TOKENS:,} tokens read and {ANSWER_TOKENS} written in each, {ITEMS} rounds "
            f"of each container, {AGENT_CALLS} calls of each agent; other services are not counted"
        )
        run = self.run
        money = f"no price known for {self.model}" if run.known_cost is None else f"about {run.money()}"
        tokens = f"about {run.prompt_tokens:,} tokens read, {run.completion_tokens:,} written"
        return [f"a run: {money} ({tokens}; {assumed if calls else 'no node calls a model'})"]


@dataclass(frozen=True)
class WorkflowPlan:
    """Plan of a workflow, or of a change of one, before it is built.

        plan = designer.plan("Sum up a paper (variable paper). Output the summary (variable summary).")
        print(plan.lines, plan.questions)
        design = designer.design("Sum up a paper …", plan=plan.answered("In French"))

    Attributes:
        steps: A line for each node that is new, changed, reconnected or removed.
        inputs: Inputs of the planned workflow, with their types.
        outputs: Its outputs, with their types; ``any`` if a type is unknown.
        questions: Questions that the request leaves open, with the answers that the plan follows.
        answers: Answers to the questions: by default those that the plan follows; see `answered`.
        left_out: What was asked for and will not be done, each with the reason.
        notes: Assumptions and contradictions.
        cost: Estimated cost.
        failure: Reason why there is no plan; otherwise empty.
        answer: The plan as the model gave it, as JSON; empty if there is none.
        base: The workflow that it changes; without nodes for a new one.
    """

    steps: tuple[str, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    outputs: Mapping[str, str] = field(default_factory=dict[str, str])
    questions: tuple[Question, ...] = ()
    answers: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()
    cost: CostEstimate | None = None
    failure: str = ""
    answer: Mapping[str, Any] = field(default_factory=dict[str, Any])
    base: NodeGraph = field(default_factory=NodeGraph)

    @property
    def decisions(self) -> list[str]:
        """A line for each question that has an answer, with the answer; they become a part of the request."""
        pairs = zip(self.questions, self.answers, strict=True)
        return [f"{question.text} {answer}" for question, answer in pairs if answer]

    @property
    def decided_otherwise(self) -> bool:
        """True if the plan follows another answer than the one given, so that it has to change."""
        return any(question.default != answer for question, answer in zip(self.questions, self.answers, strict=True))

    def answered(self, *answers: str) -> WorkflowPlan:
        """Return the plan with answers to its questions, in their order; empty and missing ones keep the default.

        Raises:
            InputError: There are more answers than questions.
        """
        if len(answers) > len(self.questions):
            raise InputError(f"the plan has {len(self.questions)} questions, but {len(answers)} answers were given")
        given = [*answers, *[""] * (len(self.questions) - len(answers))]
        pairs = zip(self.questions, given, strict=True)
        return replace(self, answers=tuple(" ".join(each.split()) or question.default for question, each in pairs))

    @property
    def lines(self) -> list[str]:
        """The plan in words, without its questions."""
        variables = {"inputs": self.inputs, "outputs": self.outputs} if self.steps else {}
        return [
            *self.steps,
            *(
                f"{key}: {', '.join(f'{name} ({kind})' for name, kind in of.items()) or 'none'}"
                for key, of in variables.items()
            ),
            *(f"no plan: {line}" for line in self.failure.splitlines()),
            *(f"left: {fault}" for fault in list_of(self.answer.get("faults"))),
            *(f"left out: {asked}: {why}" for asked, why in self.left_out.items()),
            *(f"note: {note}" for note in self.notes),
            *(f"estimated cost of {line}" for line in (self.cost.lines if self.cost else ())),
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON; costs are in US dollars, null if no price is known."""
        return {
            "steps": list(self.steps),
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "questions": [{"question": question.text, "default": question.default} for question in self.questions],
            "left_out": dict(self.left_out),
            "notes": list(self.notes),
            "failure": self.failure,
            "cost": self.cost
            and {
                "model": self.cost.model,
                "run": self.cost.run.known_cost,
                "calls": dict(self.cost.calls),
                "estimate": self.cost.lines,
            },
        }


def with_questions(schema: Schema) -> Schema:
    """Return the schema of a plan that may also ask questions."""
    question = object_schema({"question": {"type": "string"}, "default": {"type": "string"}})
    properties = {**schema["properties"], "questions": {"type": "array", "items": question}}
    return {**schema, "properties": properties}


def to_ask(parts: Sequence[Part]) -> list[Part]:
    """Return the prompt for a plan, extended to one that a person is shown."""
    rules, *others = parts
    return [rules._replace(text=f"{rules.text}\n\n{text('ask')}"), *others]


def so_far(answer: Mapping[str, Any]) -> Part:
    """Return the prompt part with a plan that a person has seen."""
    title = "The plan so far: keep its ids, and change only what the last lines of the job decide"
    return Part(title, compact(answer), keep=True, data=True)


def plan_for_people(
    answer: Mapping[str, Any],
    request: str,
    base: NodeGraph,
    types: Mapping[str, NodeType],
    model: str,
    price: Price | ListPrice | None,
) -> WorkflowPlan:
    """Return a model's plan for the person who asked.

    Args:
        answer: The plan, as JSON of its schema.
        request: The request; questions that it already contains are not asked again.
        base: The existing workflow.
        types: Node types by name.
        model: The model, for the estimate.
        price: Its price; None if it is not known.
    """
    plan = read_plan(answer)
    asked = [_question(each) for each in list_of(answer.get("questions"))]
    questions = tuple(question for question in asked if question.text and question.text not in request)[:MOST_QUESTIONS]
    graph = drafted_graph(plan, base, types)
    checker = Checker(graph, types)
    calls = _calls(graph, types)
    return WorkflowPlan(
        steps=(*in_words(plan), *(f"{node_id} {base.by_id[node_id].type} (removed)" for node_id in plan.drop)),
        inputs={
            name: kind.value
            for spec in graph.nodes
            if spec.type == "start"
            for name, kind in checker.outputs.get(spec.id, {}).items()
        },
        outputs={
            name: next((kind.value for kind in _kinds(value, checker)), "any")
            for spec in graph.nodes
            if spec.type in types and types[spec.type].ends
            for name, value in named_outputs(spec)
        },
        questions=questions,
        answers=tuple(question.default for question in questions),
        left_out=plan.left_out,
        notes=plan.notes,
        cost=CostEstimate(
            model,
            run=_usage(sum(calls.values()), price),
            calls=calls,
        ),
        answer=answer,
        base=base,
    )


def in_words(plan: Plan) -> list[str]:
    """Return a line for each node of a plan, for people: nodes are new unless marked as changed or reconnected."""
    marks = {" [add]": "", " [update]": " (changed)", " [keep]": " (reconnected)"}
    lines = planned(plan).splitlines()
    for mark, words in marks.items():
        lines = [line.replace(mark, words, 1) for line in lines]
    return lines


def _question(value: Any) -> Question:
    """Return a question, which may also be a text without a default."""
    fields = {"question": value} if isinstance(value, str) else fields_of(value)
    # in the request, a name in backquotes would be one that the person marks as a variable
    said = (str(fields.get(key) or "").replace("`", "") for key in ("question", "default"))
    return Question(*(" ".join(each.split()) for each in said))


def _kinds(value: Any, checker: Checker) -> Iterator[VariableType]:
    """Yield the type of the variable that an output of an end is, if it is one and its type is known."""
    for variable, node in pairs_of([plain(value)]):
        yield from filter(None, [checker.outputs.get(str(node), {}).get(str(variable))])


def _calls(graph: NodeGraph, types: Mapping[str, NodeType]) -> dict[str, int]:
    """Return the calls of a model in a run of a workflow by node type."""
    calls: dict[str, int] = {}
    for spec in graph.nodes:
        if spec.type in types and types[spec.type].asks_model:
            count = (AGENT_CALLS if spec.type == "agent" else 1) * ITEMS ** len(graph.around(spec.id))
            calls[spec.type] = calls.get(spec.type, 0) + count
    return calls


def _usage(calls: int, price: Price | ListPrice | None) -> Usage:
    """Return the usage of calls with the assumed tokens, with its cost."""
    each = Usage(calls=1, prompt_tokens=PROMPT_TOKENS, completion_tokens=ANSWER_TOKENS)
    return Usage(
        calls=calls,
        prompt_tokens=calls * PROMPT_TOKENS,
        completion_tokens=calls * ANSWER_TOKENS,
        cost=calls * price.of(each) if price else 0.0,
        unpriced=0 if price else calls,
    )
