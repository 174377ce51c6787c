"""Evaluator: an operator whose message has a status, an evaluation, a lesson and blame."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from operad.operators import Operator, OperatorConfig
from operad.operators.instruction import Instruction, InstructionFunction, TemplateInstruction, instruction_of
from operad.runtime.evaluation.cases import CasesLike
from operad.runtime.evaluation.measurement import Measurement
from operad.runtime.events import current_scope
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator, HasGraph
from operad.runtime.knowledge.knowledge import KnowledgeBase
from operad.runtime.models.model import Model
from operad.runtime.policies.policy import Policy, Retry
from operad.runtime.reasoning.evidence import (
    evidence,
    evidence_alone,
    in_order,
    judge_again,
    length_of,
    prompt_budget,
    without_evidence,
)
from operad.runtime.reasoning.exchange import Exchange, Rejection
from operad.runtime.reasoning.prompt import LEAST_EVIDENCE, report_cut
from operad.runtime.reasoning.reasoner import MonoModelReasoner, Reasoner, reasoner_of
from operad.runtime.reasoning.task import Example, Task
from operad.runtime.tools.toolkit import Action, Toolkit, Tools
from operad.runtime.values.arguments import known_arguments
from operad.runtime.values.errors import AnswerError, InputError, Issue
from operad.runtime.values.fault import NOT_VERIFIED, Fault, blamed_by, lesson_of
from operad.runtime.values.map_item import MapItem
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.runtime.values.model_text import is_of_map
from operad.runtime.values.schema import AnswerSchema, SchemaMismatch
from operad.runtime.values.step_record import StepRecord
from operad.runtime.values.sync import run_sync
from operad.runtime.workflow.measure import AT_ONCE, measure
from operad.runtime.workflow.records import transcript

INSTRUCTION = """\
Judge what the operators produced for the job.

1. Take what the job demands and each criterion in turn. Compare every name, number, date and quotation of the result with \
its source (job, inputs, files, tool results, passages), recompute every sum and count, and look for what is missing. What \
an operator says of its own work proves nothing. In `evaluation`, say briefly what is wrong, and why.
2. For each wrong point, walk the operators in order and name the first whose result is wrong in it although what it \
received (the job, and the results after which it ran) was right, even if its instruction does not mention the point; of \
an operator that consists of others, name one of these. In `wrong`, quote its words, or say what it left out; in `right`, \
what they must be; in `lesson`, what to do differently.
- At fault too: an operator that had to check for this point and found nothing.
- Not at fault: an operator that passed a fault on; an error that is no longer in the result; a breached instruction that \
no criterion mentions and that makes the result no worse.
- If you cannot tell where a fault began, name the likeliest operator with `sure` false.
3. In `unsure`, list what a criterion requires and you cannot verify, because you are not shown what it rests on. This is \
not a fault, and must not pass in silence. If you are shown the source, a statement that it does not support is wrong.
4. Choose `status` by where the first wrong result is:
- EXECUTION_ERROR: of an operator here.
- INPUT_DATA_ERROR: of an earlier expert, named in `faults`; or the job contradicts itself or lacks what the result needs, \
so that no result can be right (`faults` empty).
- JOB_TOO_COMPLICATED_ERROR: no operator here could do it, whatever it is told.
- SUCCESS: nothing is wrong (`faults` empty).
5. In `score`, rate from 0 to 10 how far the result does the job.

Criteria:
"""
"""Instruction of a judge, the same for every workflow; the criteria follow."""

CRITERIA_START = INSTRUCTION.index("Criteria:")

_ITEM_RULE = "Index of the map's item at fault, from 0; null if it is not a single item, or no map."

_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class VerdictForm:
    """Form of the verdicts on a run.

    Attributes:
        operators: Places of the operators that may be at fault, with ``[]`` for the index of an item.
        earlier: Ids of the earlier experts.
        maps: Ids of the maps, of which an item alone may be at fault.
    """

    operators: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    maps: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, steps: Iterable[StepRecord], judged: Iterable[WorkflowMessage], earlier: Iterable[WorkflowMessage]
    ) -> VerdictForm:
        """Return the form for the operators of a run; outside of a run, for the authors of the judged messages."""
        ran = [step for step in steps if not step.skipped]
        places = [_INDEX.sub("[]", step.operator_id) for step in ran] or [each.operator_id for each in judged]
        maps = {step.operator_id for step in ran if is_of_map(step.message)}
        maps |= {place.partition("[]")[0] for place in places if "[]" in place}
        known = [place for place in places if place and not place.endswith("[]")]
        experts = [each.operator_id for each in earlier if each.operator_id]
        return cls(tuple(dict.fromkeys(known)), tuple(dict.fromkeys(experts)), frozenset(maps))

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of a verdict."""
        return self._schema([*dict.fromkeys([*self.operators, *self.earlier])])

    def _schema(self, places: Sequence[str] | None) -> dict[str, Any]:
        """Return the schema of a verdict that may name some places, or any if they are None."""
        operator: dict[str, Any] = {"type": "string", **({"enum": list(places)} if places else {})}
        text = {"type": "string"}
        fields: dict[str, Any] = {"wrong": text, "right": text, "operator": operator}
        if self.maps:
            fields["item"] = {"type": ["integer", "null"], "description": _ITEM_RULE}
        fields |= {"sure": {"type": "boolean"}, "lesson": text}
        faults: dict[str, Any] = {"type": "array", "items": _closed(fields)}
        if places is not None and not places:
            faults["maxItems"] = 0
        properties: dict[str, Any] = {
            "evaluation": text,
            "faults": faults,
            "unsure": {"type": "array", "items": text},
            "status": {"type": "string", "enum": [status.value for status in WorkflowStatus]},
            "score": {"type": "integer", "minimum": 0, "maximum": 10},
        }
        return _closed(properties)

    def accepted(self, *, any_operator: bool) -> AnswerSchema:
        """Return the form of the answers that are read: less is required, `blame` and `lesson` may replace `faults`.

        Args:
            any_operator: True if an answer may name operators that do not exist.
        """
        places = None if any_operator else [*dict.fromkeys([*self.operators, *self.earlier])]
        schema = self._schema(places)
        fault = schema["properties"]["faults"]["items"]
        operator = fault["properties"]["operator"]
        faults = {**schema["properties"]["faults"], "items": {**fault, **_open("operator")}}
        blame = {"type": "array", "items": operator, **({"maxItems": 0} if places == [] else {})}
        properties = {**schema["properties"], "faults": faults, "blame": blame, "lesson": {"type": "string"}}
        return AnswerSchema.unchecked({**schema, "properties": properties, **_open("evaluation", "status")})

    def faults_in(self, said: Mapping[str, Any]) -> tuple[Fault, ...]:
        """Return the faults in an answer."""
        return tuple(self._fault(each) for each in cast("list[dict[str, Any]]", said.get("faults", [])))

    def _fault(self, said: Mapping[str, Any]) -> Fault:
        operator, item = cast("str", said["operator"]), cast("int | None", said.get("item"))
        if "[]" in operator:  # of an operator inside of a map's items
            map_id, _, inner = operator.partition("[]")
            operator = map_id if item is None or "[]" in inner else f"{map_id}[{item}]{inner}"
            item = item if operator == map_id else None
        elif written := MapItem.parse(operator):
            operator, item = written.map_id, written.index
        texts = {name: cast("str", said.get(name) or "").strip() for name in ("wrong", "right", "lesson")}
        item = item if operator in self.maps and item is not None and item >= 0 else None
        return Fault(operator=operator, item=item, sure=said.get("sure") is not False, **texts)

    def objection(self, said: Mapping[str, Any]) -> str:
        """Return what contradicts itself in an answer, and how to answer instead; empty if nothing does."""
        faults = self.faults_in(said)
        named = ", ".join(blamed_by(fault for fault in faults if fault.sure))
        status = WorkflowStatus(said["status"])
        if status is WorkflowStatus.SUCCESS and named:
            return (
                f"`status` is SUCCESS, but `faults` names {named}. If the result is wrong, choose `status` by where the "
                "fault began; if it is right, leave `faults` empty"
            )
        if status is WorkflowStatus.EXECUTION_ERROR and not faults and "blame" not in said:
            return (
                "`status` is EXECUTION_ERROR, but `faults` is empty. Walk the operators from the first to the last, and "
                "name the first whose result is wrong although what it received was right, with `sure` false if you "
                "cannot tell; if nothing is wrong with the result, choose SUCCESS"
            )
        here = {fault.operator for fault in faults} - {*self.earlier}
        if (
            status is WorkflowStatus.INPUT_DATA_ERROR
            and faults
            and len(here) == len({each.operator for each in faults})
        ):
            return (
                f"`status` is INPUT_DATA_ERROR, but `faults` names {named or ', '.join(sorted(here))} and not an earlier expert. "
                "If the fault began with an operator here, choose EXECUTION_ERROR; if it lies in the job, leave `faults` "
                "empty"
            )
        return ""


class VerdictReader:
    """Reader of the answers to one request for a verdict, which objects once to a verdict that contradicts itself.

    Args:
        objects: False to accept contradictions.

    Attributes:
        disputed: The verdict to which it has objected; None if there is none.
    """

    def __init__(self, form: VerdictForm, *, objects: bool = True) -> None:
        self._form = form
        self._objects = objects
        self.disputed: dict[str, Any] | None = None

    def read(self, text: str) -> dict[str, Any]:
        """Return the verdict in an answer.

        Raises:
            SchemaMismatch: The answer cannot be read as a verdict.
            ValueError: The first verdict that contradicts itself.
        """
        try:
            said = cast("dict[str, Any]", self._form.accepted(any_operator=False).validate(text))
            objection = self._form.objection(said)
        except SchemaMismatch as mismatch:
            said = cast("dict[str, Any]", self._form.accepted(any_operator=True).validate(text))
            objection = str(mismatch)  # the name of an operator
        if objection and self._objects and self.disputed is None:
            self.disputed = said
            raise ValueError(objection)
        return said


def verdict_of(said: Mapping[str, Any], form: VerdictForm, **fields: Any) -> WorkflowMessage:
    """Return an answer as the message of an evaluator.

    Args:
        fields: Further fields of the message.
    """
    status, faults = WorkflowStatus(said["status"]), form.faults_in(said)
    unsure = [each.strip() for each in cast("list[str]", said.get("unsure", [])) if each.strip()]
    if status is WorkflowStatus.SUCCESS:
        unsure += [": ".join(filter(None, [fault.place, fault.wrong or fault.advice])) for fault in faults]
        faults = ()
    evaluation = cast("str", said["evaluation"])
    doubts = NOT_VERIFIED + "; ".join(unsure) if unsure else ""
    return WorkflowMessage(
        status=status,
        evaluation="\n".join(filter(None, [evaluation, doubts])),
        faults=faults,
        blame=blamed_by(faults) or tuple(said.get("blame", ())),
        lesson=lesson_of(faults) or said.get("lesson", ""),
        unsure=tuple(unsure),
        score=said.get("score"),
        **fields,
    )


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _open(*required: str) -> dict[str, Any]:
    """Return the part of an object's schema that requires these properties and allows others."""
    return {"required": list(required), "additionalProperties": True}


_logger = logging.getLogger(__name__)

LONG_TRANSCRIPT = 4_000
"""Length in characters of instructions and results from which a model is asked first without them."""

RESULT_FIRST = """

You see the results and the evidence first. If everything is right and verified, give the verdict. Otherwise say in \
`evaluation` and `unsure` what is wrong or not verified, and leave `faults` empty: you will see the work of each operator \
next."""
"""Addition to the instruction of a judge who is asked first without the transcript."""

TRANSCRIPT_NEXT = "This is the work of each operator. Judge again with all of it in view, and give a whole verdict."


class Evaluator(Operator):
    """Evaluator of the result of a workflow (Chat2Graph, Workflow module, section 2.3).

        evaluator = Evaluator("Every sentence rests on a checked claim.")
        workflow = Workflow(facts >> answer, evaluator=evaluator, max_rounds=3)

    This class asks the reasoner. An evaluator without a model is a subclass whose `execute` returns a message with the
    same fields: status, evaluation, faults (or lesson and blame), and optionally unsure and score; `transcript()` returns the messages of all
    operators.

    Args:
        instruction: The criteria, as text or a function, as for `Operator`, which may name every operator of the
            workflow; or an `OperatorConfig`.
        id: Id of the evaluator; further arguments are those of `Operator`, except ``output`` and ``ports``, as the
            answer is always a verdict.

    Raises:
        InputError: A value has another type, or an argument is unknown.
    """

    asks_model = True
    _fills = True

    @known_arguments
    def __init__(
        self,
        instruction: OperatorConfig | str | InstructionFunction,
        *,
        id: str = "",
        tools: Tools = (),
        actions: Sequence[Action] = (),
        examples: Sequence[Example] = (),
        model: Model | Reasoner | str | None = None,
        policy: Policy | None = None,
        retry: Retry | int | Literal[False] | None = None,
        memory: bool = True,
        toolkit: Toolkit | None = None,
        knowledge_base: KnowledgeBase | None = None,
    ) -> None:
        parts: dict[str, Any] = {"id": id, "tools": tools, "actions": actions, "examples": examples, "memory": memory}
        parts |= {"model": model, "policy": policy, "retry": retry, "toolkit": toolkit}
        super().__init__(instruction, knowledge_base=knowledge_base, **parts)

    def _instruction(self) -> Instruction:
        return instruction_of(self.config.instruction, self.config.written_by, self.get_id(), of_evaluator=True)

    def _messages_to_name(self, call: OperatorCall) -> Sequence[WorkflowMessage]:
        """Return the messages of the last operators, and those of all operators."""
        return [*call.messages, *(step.message for step in call.transcript or transcript())]

    def check_among(self, before: Mapping[str, BaseOperator], others: Collection[str]) -> list[Issue]:
        """Return the issues of the evaluator, whose criteria may name every operator of the workflow."""
        issues = self.check(before)
        if not self.names_operators:
            return issues
        instruction = self._instruction()
        if isinstance(instruction, TemplateInstruction):
            return [*issues, *instruction.check({**dict.fromkeys(others), **before}, ())]
        return [*issues, *instruction.check(before, others)]

    def check_model(self) -> None:
        """Check the evaluator's own model, if it has one.

        Raises:
            InputError: The model is not configured, or too small.
        """
        super().check_model()
        if self._own_reasoner is not None and type(self).asks_model:
            self.check_reasoner(self._own_reasoner)

    def check_reasoner(self, reasoner: Reasoner) -> None:
        """Check that the model of a reasoner can judge.

        Raises:
            InputError: The model is too small.
        """
        if not getattr(reasoner, "writes_prose", True):
            raise InputError(
                f"evaluator {self.get_id()!r}: the embedded model cannot judge results; name an endpoint's model for the "
                "run (--model, `model:`) or for the evaluator, or write the evaluator as a function"
            )

    def measure(
        self,
        cases: CasesLike,
        *,
        workflow: HasGraph | None = None,
        model: Model | Reasoner | str | None = None,
        max_concurrency: int = AT_ONCE,
        results: str | Path | None = None,
    ) -> Measurement:
        """Judge labelled cases, and return how often verdicts and blame are right; for callers without an event loop.

            measured = Evaluator("The answer is polite.").measure("labelled.jsonl", workflow=flow)
            print(measured.accuracy, measured.false_rejections, measured.blame_precision, measured.blame_recall)

        Arguments and errors are those of `ameasure`.

        Raises:
            RunningLoopError: An event loop is running here: await `ameasure` instead.
        """
        options: dict[str, Any] = {"workflow": workflow, "model": model}
        options |= {"max_concurrency": max_concurrency, "results": results}
        return run_sync(partial(self.ameasure, cases, **options), instead="evaluator.ameasure(…)")

    async def ameasure(
        self,
        cases: CasesLike,
        *,
        workflow: HasGraph | None = None,
        model: Model | Reasoner | str | None = None,
        max_concurrency: int = AT_ONCE,
        results: str | Path | None = None,
    ) -> Measurement:
        """Judge labelled cases, and return how often verdicts and blame are right.

        Args:
            cases: Cases with the answers of the operators (``steps``), ``accepted`` and ``blame``, or a file of these.
            workflow: The workflow whose operators they are; by default, the steps say which operators follow each other.
            model: Model of the evaluator, if it has none of its own.
            max_concurrency: Number of cases that are judged at the same time.
            results: File that keeps the verdicts; those in it that match are used again.

        Raises:
            InputError: The cases, or the file, cannot be read.
            InvalidError: Cases have no label or no steps, or have other operators than the workflow.
        """
        graph = None if workflow is None else workflow.graph()
        options: dict[str, Any] = {"max_concurrency": max_concurrency, "results": results}
        return await measure([self], cases, graph, reasoner_of(model), **options)

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask the reasoner for a verdict on the messages of the direct predecessors.

        In a run, the reasoner sees the work of every operator and may find any of them at fault, also those inside of
        others; outside of a run, the authors of `workflow_messages`. It may find the authors of
        `previous_expert_outputs` at fault, too.

        If an answer cannot be parsed, the reasoner is asked again, with the fault added to the lesson. It is asked once
        about a verdict that contradicts itself: a SUCCESS with faults, an EXECUTION_ERROR without, or an unknown
        operator. In a later round, a model goes on in the conversation of its last verdict.

        Returns:
            The verdict; its scratchpad is the text that was judged, and its score is from 0 to 10.

        Raises:
            AnswerError: No answer can be parsed as a verdict.
            InputError: The model is too small.
        """
        thinker = self.thinker(call.reasoner)
        self.check_reasoner(thinker)
        steps, last = in_order(call.transcript or transcript()), call.rejection
        if not isinstance(thinker, MonoModelReasoner):
            verdict = await self._ask_verdict(call, steps, steps, last)
        elif last is None:
            verdict = await self._ask_in_stages(call, steps, thinker)
        elif last.exchange is None or last.answer.status is WorkflowStatus.SUCCESS:  # perhaps without the transcript
            verdict = await self._ask_verdict(call, steps, steps, last.model_copy(update={"exchange": None}))
        else:
            known = judge_again(steps, last.exchange, _room(thinker, last.exchange))
            report_cut(known)
            verdict = await self._ask_verdict(call, steps, steps, last, known.operators)
        scope = current_scope()
        if scope and scope.trace and not scope.run.repeats:
            scope.trace.exchange = None  # no later round goes on with it
        if verdict.unsure:
            _logger.warning("evaluator %r could not verify: %s", self.get_id(), "; ".join(verdict.unsure))
        return verdict

    async def _ask_in_stages(
        self, call: OperatorCall, steps: Sequence[StepRecord], thinker: MonoModelReasoner
    ) -> WorkflowMessage:
        """Return a verdict: on the results and the evidence alone if the transcript is long and all is right.

        Otherwise, the transcript follows in the same conversation.
        """
        judged = {message.operator_id for message in call.messages}
        if length_of(steps, judged) <= LONG_TRANSCRIPT:
            return await self._ask_verdict(call, steps, steps)
        verdict = await self._ask_verdict(call, steps, evidence_alone(steps, judged), is_first=True)
        if verdict.status is WorkflowStatus.SUCCESS and not verdict.unsure:
            return verdict
        scope = current_scope()
        exchange: Exchange | None = scope.trace.exchange if scope and scope.trace else None
        if exchange is None:
            return await self._ask_verdict(call, steps, steps)
        known = evidence(without_evidence(steps), call.messages, _room(thinker, exchange))
        report_cut(known)
        followup = f"{TRANSCRIPT_NEXT}\n\n## Operators\n{known.operators}"
        return await self._ask_verdict(call, steps, steps, Rejection(answer=verdict, exchange=exchange), followup)

    async def _ask_verdict(
        self,
        call: OperatorCall,
        steps: Sequence[StepRecord],
        shown: Sequence[StepRecord],
        rejection: Rejection | None = None,
        followup: str = "",
        *,
        is_first: bool = False,
    ) -> WorkflowMessage:
        """Ask for a verdict.

        Args:
            steps: Records of the operators, which may be at fault.
            shown: Records that the prompt shows.
            rejection: Last verdict.
            followup: What is said in the conversation of the last verdict.
            is_first: True if the transcript may follow.
        """
        operator_id = self.get_id()
        form = VerdictForm.of(steps, call.messages, call.previous)
        reader = VerdictReader(form, objects=not is_first)

        def judging(task: Task) -> Task:
            """Return the task with the criteria in the instruction of a judge."""
            start = len(INSTRUCTION) + task.filled.start if task.filled and task.filled.start else CRITERIA_START
            return task.model_copy(
                update={
                    "instruction": f"{INSTRUCTION}{task.instruction}{RESULT_FIRST if is_first else ''}",
                    "filled": task.filled and task.filled.model_copy(update={"start": start, "shown": ()}),
                    "transcript": tuple(shown),
                    "output_schema": AnswerSchema.unchecked(form.schema),
                    "rejection": rejection,
                    "followup": followup,
                    "goes_on": is_first,
                }
            )

        try:
            said = await self._ask_until_read(
                call, reader.read, operator_id, "verdict", f"evaluator {operator_id!r}", judging
            )
        except AnswerError:
            if reader.disputed is None:
                raise
            said = reader.disputed
        text = "\n\n".join(message.scratchpad for message in call.messages)
        return verdict_of(said, form, scratchpad=text, job_id=call.job.id, operator_id=operator_id)


def _room(reasoner: MonoModelReasoner, exchange: Exchange) -> int:
    """Return how many characters fit into the window of a model beside a conversation."""
    budget = prompt_budget(reasoner.model.profile.context)
    return max(budget - sum(len(message.text) for message in exchange.messages), int(budget * LEAST_EVIDENCE))
