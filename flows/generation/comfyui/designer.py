"""The stages of a design for ComfyUI, each an operator: choose classes, draft code, mend it.

`SelectClasses` → `DraftCode` → `MendCode`. The job's goal is the instruction; its inputs may hold ``comfyui_code``, that of the
workflow that is there, and ``rounds``, what was asked for before. Each hands its code on in its outputs. They are told
of the server's classes by `use`, which are too many to be part of a job.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from pydantic import JsonValue

from operad.flows.formats.comfyui import Definitions
from operad.flows.generation import prompts as shared
from operad.flows.generation.comfyui import prompts
from operad.flows.generation.comfyui.classes import by_category, in_full, in_short, offered
from operad.flows.generation.comfyui.drafts import Draft, read_answer, read_lines
from operad.flows.generation.comfyui.findings import findings, known, lines_in, missing_files
from operad.flows.generation.comfyui.rules import mend
from operad.flows.generation.designer import MAX_TRIES, ROUNDS, findings_in
from operad.flows.generation.prompts import Part
from operad.flows.node_graph import NodeGraph
from operad.operators.operator import Operator
from operad.runtime.graph.call import OperatorCall
from operad.runtime.reasoning.reasoner import Reasoner, ask
from operad.runtime.reasoning.task import Task
from operad.runtime.values.errors import AnswerError, InputError, Issue, describe, did_you_mean
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.schema import Schema, validate

CODE, CLASSES = "comfyui_code", "classes"
"""The code of a workflow, among a job's inputs and in outputs; the classes that were chosen, in outputs."""

_NONE = "no class was chosen"

MOST_TOLD = 10
"""Maximum number of unknown names that a model is told."""

CHOICE_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "description": "The steps of the workflow, and the class of each step."},
        "classes": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 200},
    },
    "required": ["reasoning", "classes"],
    "additionalProperties": False,
}
"""The form of an answer that chooses classes; a list of all names would be longer than the prompt."""

LINES_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "description": "What each finding comes from, and what mends it."},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"line": {"type": "integer"}, "code": {"type": "string"}},
                "required": ["line", "code"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["reasoning", "lines"],
    "additionalProperties": False,
}
"""The form of an answer that mends: the lines that change."""


class KnowsClasses:
    """Operator that needs the classes of a ComfyUI server; `use` sets them before its first job."""

    _definitions = Definitions()

    def use(self, definitions: Definitions) -> None:
        """Work by these classes from now on."""
        self._definitions = definitions

    @property
    def definitions(self) -> Definitions:
        """The classes.

        Raises:
            InputError: None were told of.
        """
        if not self._definitions:
            raise InputError("no classes of a ComfyUI server are known: call use(definitions), as ComfyDesigner does")
        return self._definitions

    def asked(self, job: Job) -> Asked:
        """Request of a job."""
        earlier = job.inputs.get(ROUNDS)
        rounds = [*(str(each) for each in (cast("list[Any]", earlier) if isinstance(earlier, list) else ())), job.goal]
        base = read_lines(str(job.inputs.get(CODE) or ""), self.definitions, NodeGraph())
        return Asked(base, rounds, known(base.graph, base))

    def drafted(self, outputs: Mapping[str, Any], base: NodeGraph) -> Draft | None:
        """The code in a message's outputs; None where there is none."""
        code = outputs.get(CODE)
        return read_lines(code, self.definitions, base) if isinstance(code, str) and code else None


class Asked(NamedTuple):
    """Request of a job.

    Attributes:
        base: The workflow that is there; without nodes where there is none.
        rounds: What is asked for, the latest last.
        known: What was wrong before, which needs no correction.
    """

    base: Draft
    rounds: Sequence[str]
    known: frozenset[Issue]

    @property
    def classes(self) -> list[str]:
        """The classes of the workflow that is there."""
        return list(dict.fromkeys(spec.type for spec in self.base.graph.nodes))

    @property
    def shown(self) -> list[Part]:
        """Return the prompt parts with the earlier requests and the existing code."""
        code = "".join(f"{line}\n" for line in self.base.lines)
        before = "\n".join(f"- {each}" for each in self.rounds[:-1])
        return [
            Part("The workflow that is there", shared.fence(code) if code else "", keep=True),
            Part("Asked for before", before),
        ]


class _Stage(Operator, KnowsClasses):
    """Base of the stages."""

    def _message(self, job: Job, text: str, **outputs: Any) -> WorkflowMessage:
        return WorkflowMessage(scratchpad=text, outputs=outputs, job_id=job.id, operator_id=self.get_id())


class SelectClasses(_Stage):
    """Chooses the classes that a workflow needs, among all that the server has.

    Outputs:
        classes: Their names; absent where there are none.
        unknown: Chosen names that no class has, if there are still any when the model has been asked again.
        prompt: How many tokens the parts of the prompt take, roughly.
        failure: Why there are none.
    """

    asks_model = True

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask for the classes; an answer without any, or with names that no class has, is asked for again."""
        asked = self.asked(call.job)
        names = await asyncio.to_thread(offered, "\n".join(asked.rounds), self.definitions, asked.classes)
        parts = shared.fit(
            [
                Part("Rules", prompts.SELECT_RULES, keep=True),
                Part("All classes, by category", shared.fence(by_category(names, self.definitions))),
                Part("Some of them, with inputs and outputs", shared.fence(in_short(names, self.definitions))),
                Part("Classes that are there", ", ".join(asked.classes)),
                *asked.shown[1:],
            ],
            prompts.SELECT_TOKENS,
        )
        sizes, why, said = shared.sizes(parts), "", list[str]()
        for _ in range(MAX_TRIES):
            try:
                answer = await ask(call.reasoner, _task(call.job, parts, CHOICE_SCHEMA, call.lesson, why))
                said = cast("list[str]", validate(CHOICE_SCHEMA, answer)["classes"])
            except AnswerError as error:
                return self._message(call.job, describe(error), failure=describe(error), prompt=sizes)
            why = self._unknown(said)
            if not why:
                break
        chosen = [each for each in dict.fromkeys(said) if each in self.definitions.classes]
        if not chosen:
            return self._message(call.job, why or _NONE, failure=why or _NONE, prompt=sizes)
        unknown = [each for each in dict.fromkeys(said) if each not in chosen]
        more = {"unknown": unknown} if unknown else {}
        return self._message(call.job, ", ".join(chosen), classes=chosen, prompt=sizes, **more)

    def _unknown(self, names: Iterable[str]) -> str:
        """The names that no class has, as a lesson; empty if there are none."""
        known = self.definitions.classes
        wrong = [f"{each!r}{did_you_mean(each, known)}" for each in dict.fromkeys(names) if each not in known]
        return f"The server has no class {', '.join(wrong[:MOST_TOLD])}. Choose again." if wrong else ""


class DraftCode(_Stage):
    """Writes the code of a workflow, by the chosen classes.

    Outputs:
        comfyui_code: The code; absent where there is none.
        classes: The classes that it goes by.
        repairs: What was mended of how it was written.
        prompt: How many tokens the parts of the prompt take, roughly.
        failure: Why there is no code.
    """

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask for all of the code at once; for an answer without any, once more."""
        chosen = _chosen(call.messages)
        if not chosen:
            why = str(call.messages[-1].outputs.get("failure", _NONE)) if call.messages else _NONE
            return self._message(call.job, why, failure=why)
        asked = self.asked(call.job)
        names = dict.fromkeys([*asked.classes, *chosen])
        rules = prompts.DRAFT_RULES + (f"\n{prompts.EDIT_RULES}" if asked.base.lines else "")
        parts = shared.fit(
            [
                Part("Rules", rules, keep=True),
                asked.shown[0],
                Part("Classes", shared.fence(in_full(names, self.definitions))),
                asked.shown[1],
                Part("The form, by an example for other words", shared.fence(prompts.EXAMPLE)),
            ],
            prompts.DRAFT_TOKENS,
        )
        sizes, why = shared.sizes(parts), ""
        for _ in range(MAX_TRIES):
            try:
                said = await ask(call.reasoner, _task(call.job, parts, None, call.lesson, why))
                draft = read_answer(said, self.definitions, asked.base.graph)
            except AnswerError as error:
                why = describe(error)
                continue
            return self._message(
                call.job,
                draft.code,
                **{CODE: draft.code},
                classes=chosen,
                repairs=[*map(str, draft.repairs)],
                prompt=sizes,
            )
        return self._message(call.job, why, failure=why, classes=chosen, prompt=sizes)


class MendCode(_Stage):
    """Mends code by rules, and, where a lesson says what is left, by lines that a model writes anew.

    What makes a workflow worse is not kept.

    Outputs:
        comfyui_code: The code; absent where there is none.
        classes: The classes that it goes by.
        repairs: What rules mended.
        files: The files that it names and that the server does not have.
        lines: The lines that the model changed.
        asked: The findings that the model was asked to mend.
        refused: Why its lines were not taken.
        prompt: How many tokens the parts of the prompt take, roughly.
        failure: Why there is no code.
    """

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Settle what was drafted, the first time; after that, have a model mend what the lesson says."""
        messages = call.messages
        asked = self.asked(call.job)
        told = next((each for each in reversed(messages) if each.operator_id != self.get_id()), None)
        drafted = self.drafted(told.outputs, asked.base.graph) if told else None
        if told is None or drafted is None:
            why = str(told.outputs.get("failure", "there is no code")) if told else "there is no code"
            return self._message(call.job, why, failure=why)
        own = next((each for each in reversed(messages) if each.operator_id == self.get_id()), None)
        again = own is not None and own.outputs.get("drafted") == told.outputs[CODE]
        before = self.drafted(own.outputs, asked.base.graph) if own and again else None
        extra: dict[str, JsonValue] = {}
        if own is None or before is None or not call.lesson:
            draft, repairs = await asyncio.to_thread(_settled, drafted, asked)
            repairs = [*cast("list[str]", told.outputs.get("repairs", [])), *repairs]
        else:  # the findings of earlier rounds are in `lesson`, too
            newest = own.lesson if findings_in(own.lesson) else call.lesson
            draft, repairs, extra = await self._mended(
                call.reasoner, call.job, before, asked, newest, _chosen(messages)
            )
        return self._message(
            call.job,
            draft.code,
            **{CODE: draft.code},
            drafted=told.outputs[CODE],
            classes=_chosen(messages),
            repairs=repairs,
            files=missing_files(draft),
            **extra,
        )

    async def _mended(
        self, reasoner: Reasoner, job: Job, before: Draft, asked: Asked, lesson: str, chosen: Sequence[str]
    ) -> tuple[Draft, list[str], dict[str, JsonValue]]:
        """The code with what a model changed for the lesson; as it was where that made nothing better."""
        was = await asyncio.to_thread(findings, before, asked.known)
        found = findings_in(lesson)[: shared.MOST_FINDINGS]
        concerned = lines_in(found)
        kinds = {number: spec.type for spec in before.graph.nodes if (number := before.numbers[spec.id]) in concerned}
        parts = shared.fit(
            [
                Part("Rules", prompts.FIX_RULES, keep=True),
                Part("Findings", "\n".join(f"- {each}" for each in found)),
                Part("The lines concerned", prompts.numbered(before.lines, concerned)),
                Part("Their classes", shared.fence(in_full(dict.fromkeys(kinds.values()), self.definitions))),
                Part("All lines", prompts.numbered(before.lines)),
                Part("Other classes", shared.fence(in_short(chosen, self.definitions))),
            ],
            prompts.FIX_TOKENS,
        )
        extra: dict[str, JsonValue] = {"asked": list[JsonValue](found), "prompt": dict(shared.sizes(parts))}
        why = ""
        for _ in range(MAX_TRIES):
            try:
                said = await ask(reasoner, _task(job, parts, LINES_SCHEMA, None, why))
                lines = cast("list[dict[str, Any]]", validate(LINES_SCHEMA, said)["lines"])
                text = _replaced(before.lines, lines)
                drafted = read_lines(text, self.definitions, asked.base.graph)
                draft, repairs = await asyncio.to_thread(_settled, drafted, asked)
            except AnswerError as error:
                why = describe(error)
                extra["refused"] = why
                continue
            now = await asyncio.to_thread(findings, draft, asked.known)
            if draft.graph.nodes and len(now) < len(was):
                extra.pop("refused", None)
                return draft, repairs, {**extra, "lines": cast("list[JsonValue]", lines)}
            left = "\n".join(f"- {each}" for each in now[: shared.MOST_FINDINGS])
            why = f"Your lines were taken back, for they make it no better. With them:\n{left}"
            extra["refused"] = "the lines make it no better"
        return before, [], extra


def _settled(draft: Draft, asked: Asked) -> tuple[Draft, list[str]]:
    """Code as rules leave it, and what they mended."""
    graph, repairs = mend(draft.graph, draft.definitions, asked.base.graph)
    settled = Draft(graph, draft.unread, draft.definitions)
    return settled, [str(each) for each in (*draft.repairs, *repairs)]


def _replaced(lines: Sequence[str], changes: Sequence[Mapping[str, Any]]) -> str:
    """The code with some lines changed; several changes of one line come one after the other.

    Raises:
        AnswerError: There is no such line.
    """
    made: dict[int, list[str]] = {number: [line] for number, line in enumerate(lines, 1)}
    last = len(lines) + 1
    made[last] = []
    wrong = [each["line"] for each in changes if each["line"] not in made]
    if wrong or not changes:
        what = f"there is no line {wrong[0]}" if wrong else "no line was changed"
        raise AnswerError(f"{what}; lines are 1 to {last - 1}, and {last} adds some")
    for number in {each["line"] for each in changes}:
        made[number] = [str(each["code"]).strip() for each in changes if each["line"] == number]
    return "\n".join(line for number in sorted(made) for line in made[number] if line)


def _chosen(messages: Sequence[WorkflowMessage] | None) -> list[str]:
    """The latest classes that were chosen."""
    for message in reversed(messages or ()):
        value = message.outputs.get(CLASSES)
        if isinstance(value, list):
            return [str(each) for each in cast("list[Any]", value)]
    return []


def _task(job: Job, parts: Sequence[Part], schema: Schema | None, *lessons: str | None) -> Task:
    """Return the task: the rules as instruction, the user's words as goal, all else as context."""
    return Task(
        job=Job(goal=job.goal, context=shared.shown(parts[1:]), id=job.id, session_id=job.session_id),
        instruction=parts[0].text,
        output_schema=json.dumps(schema, ensure_ascii=False) if schema else "",
        lesson="\n".join(filter(None, lessons)),
    )
