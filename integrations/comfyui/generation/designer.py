"""Stages of a design for ComfyUI, each an operator: choose classes, draft code, mend it.

`SelectClasses` → `DraftCode` → `MendCode`. The job's goal is the instruction. Its inputs may contain ``comfyui_code``,
the code of the existing workflow, and ``rounds``, the earlier instructions. Each stage passes its code on in its
outputs. `use` sets the server's classes, which are too many to be part of a job.
"""

from __future__ import annotations

import asyncio
import io
import json
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from pydantic import JsonValue

from operad.flows.generation import prompts as shared
from operad.flows.generation.answers import ask_object, words_of
from operad.flows.generation.mending import findings_in
from operad.flows.generation.plan import reasons_of, texts_of
from operad.flows.generation.prompts import Part
from operad.flows.generation.stage import MAX_TRIES, ROUNDS, Stage, task_of, texts_in
from operad.flows.node_graph import NodeGraph
from operad.integrations.comfyui.formats import Definitions
from operad.integrations.comfyui.generation import prompts
from operad.integrations.comfyui.generation.classes import by_category, in_full, in_short, offered
from operad.integrations.comfyui.generation.drafts import ID, Draft, read_answer, read_lines
from operad.integrations.comfyui.generation.findings import findings, known, lines_in, missing_files
from operad.integrations.comfyui.generation.rules import mend
from operad.runtime.graph.call import OperatorCall
from operad.runtime.reasoning.exchange import UnfitError, until_fit
from operad.runtime.reasoning.reasoner import Reasoner, ask
from operad.runtime.reasoning.task import Task
from operad.runtime.values.errors import AnswerError, InputError, Issue, describe, did_you_mean
from operad.runtime.values.fault import lesson_of
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.schema import TEXT_FORM, AnswerSchema, object_schema

CODE, CLASSES = "comfyui_code", "classes"
"""Names of the input and output with the code of a workflow, and of the output with the chosen classes."""

_NONE = "no class was chosen"

MOST_TOLD = 10
"""Maximum number of unknown names in a lesson."""

CHOICE_FORM = AnswerSchema.unchecked(
    object_schema(
        {
            "reasoning": {"type": "string", "description": "The steps of the workflow, and the class of each step."},
            "classes": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 200},
            "notes": {"type": "array", "items": {"type": "string"}},
            "left_out": {"type": "object"},
        }
    )
    | {"required": ["reasoning", "classes"]}
)
"""Form of an answer that chooses classes; an enumeration of all names would be longer than the prompt."""

LINES_FORM = AnswerSchema.unchecked(
    object_schema(
        {
            "reasoning": {"type": "string", "description": "In short: what changes, and where."},
            "lines": {
                "type": "array",
                "items": object_schema({"line": {"type": "integer"}, "code": {"type": "string"}}),
            },
            "notes": {"type": "array", "items": {"type": "string"}},
        }
    )
    | {"required": ["reasoning", "lines"]}
)
"""Form of an answer that changes code: the lines that change, and notes for the user."""


class KnowsClasses:
    """Operator that needs the classes of a ComfyUI server; `use` sets them before its first job."""

    _definitions = Definitions()

    def use(self, definitions: Definitions) -> None:
        """Set the classes of the server."""
        self._definitions = definitions

    @property
    def definitions(self) -> Definitions:
        """Classes of the server.

        Raises:
            InputError: No classes were set.
        """
        if not self._definitions:
            raise InputError("no classes of a ComfyUI server are known: call use(definitions), as ComfyDesigner does")
        return self._definitions

    def request_of(self, job: Job) -> DesignRequest:
        """Return the request of a job."""
        rounds = [*texts_in(job.inputs.get(ROUNDS)), job.goal]
        base = read_lines(str(job.inputs.get(CODE) or ""), self.definitions, NodeGraph())
        return DesignRequest(base, rounds, known(base.graph, base))

    def drafted(self, outputs: Mapping[str, Any], base: NodeGraph) -> Draft | None:
        """Return the code in a message's outputs; None if there is none."""
        code = outputs.get(CODE)
        return read_lines(code, self.definitions, base) if isinstance(code, str) and code else None


class DesignRequest(NamedTuple):
    """Request of a job.

    Attributes:
        base: The existing workflow; without nodes if there is none.
        rounds: The instructions, the latest last.
        known: Issues of the existing workflow, which need no correction.
    """

    base: Draft
    rounds: Sequence[str]
    known: frozenset[Issue]

    @property
    def classes(self) -> list[str]:
        """Classes of the existing workflow."""
        return list(dict.fromkeys(spec.type for spec in self.base.graph.nodes))

    @property
    def earlier(self) -> Part:
        """Prompt part with the earlier instructions."""
        return Part("Earlier requests", shared.listed(self.rounds[:-1]))


class SelectClasses(Stage, KnowsClasses):
    """Chooses the classes that a workflow needs among all classes of the server.

    Outputs:
        classes: Names of the classes; absent if none was chosen.
        unknown: Chosen names that no class has, if any remain after the model was asked again.
        notes: Notes for the user; all later stages pass them on.
        left_out: What was asked for and cannot be done, each with the reason; all later stages pass it on.
        prompt: Estimated tokens of each part of the prompt.
        failure: Reason why no class was chosen; the words of a model that answers without any.
    """

    asks_model = True

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask the model for the classes; if the answer has unknown names, ask again with a lesson."""
        request = self.request_of(call.job)
        names = await asyncio.to_thread(offered, "\n".join(request.rounds), self.definitions, request.classes)
        rules = prompts.SELECT_RULES + (f"\n{prompts.SELECT_EDIT_RULES}" if request.base.lines else "")
        parts = shared.fit(
            [
                Part("Rules", rules, keep=True),
                Part("All classes, by category", shared.fence(by_category(names, self.definitions))),
                Part("Some classes, with inputs and outputs", shared.fence(in_short(names, self.definitions))),
                Part("Classes of the existing workflow", ", ".join(request.classes)),
                request.earlier,
            ],
            prompts.SELECT_TOKENS,
        )
        sizes, lesson, names_chosen = shared.sizes(parts), "", list[str]()
        said: dict[str, Any] = {"prompt": sizes}

        async def attempt(fault: str) -> None:
            nonlocal names_chosen, said
            task = task_of(call.job, parts, CHOICE_FORM, [call.lesson, fault])
            answer = await ask_object(call.reasoner, task, ("classes", "notes", "left_out"))
            if words := words_of(answer):
                raise UnfitError(f"the model chose no class, and said: {words}")
            names_chosen = texts_of(answer.get("classes"))
            said = {
                "prompt": sizes,
                "notes": texts_of(answer.get("notes")),
                "left_out": reasons_of(answer.get("left_out")),
            }
            if unknown := self._unknown_lesson(names_chosen):
                raise UnfitError(unknown)

        try:
            await until_fit(attempt, MAX_TRIES)
        except UnfitError as unfit:  # the known ones among them are used
            lesson = str(unfit)
        except AnswerError as error:
            lesson = describe(error)
        chosen = [name for name in dict.fromkeys(names_chosen) if name in self.definitions.classes]
        if not chosen:
            return self._message(call.job, lesson or _NONE, failure=lesson or _NONE, **said)
        unknown = [name for name in dict.fromkeys(names_chosen) if name not in chosen]
        extra = {"unknown": unknown} if unknown else {}
        return self._message(call.job, ", ".join(chosen), classes=chosen, **said, **extra)

    def _unknown_lesson(self, names: Iterable[str]) -> str:
        """Return a lesson on the names that no class has; empty if there are none."""
        known = self.definitions.classes
        unknown = [f"{name!r}{did_you_mean(name, known)}" for name in dict.fromkeys(names) if name not in known]
        return f"The server has no class {', '.join(unknown[:MOST_TOLD])}. Choose again." if unknown else ""


class DraftCode(Stage, KnowsClasses):
    """Writes the code of a workflow with the chosen classes, or the changed lines of an existing one.

    Outputs:
        comfyui_code: The code; absent if there is none.
        classes: The chosen classes.
        repairs: Repairs of misspelt variables.
        prompt: Estimated tokens of each part of the prompt.
        failure: Reason why there is no code.
    """

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask the model for the code, or for the lines that change; if the answer contains none, ask again."""
        chosen = _chosen(call.messages)
        if not chosen:
            failure = str(call.messages[-1].outputs.get("failure", _NONE)) if call.messages else _NONE
            return self._message(call.job, failure, failure=failure, **_said(call.messages))
        request = self.request_of(call.job)
        before = request.base.lines
        names = dict.fromkeys([*request.classes, *chosen])
        parts = shared.fit(
            [
                Part("Rules", prompts.CHANGE_RULES if before else prompts.DRAFT_RULES, keep=True),
                Part("The existing workflow", prompts.numbered(before), keep=True),
                Part("Classes", shared.fence(in_full(names, self.definitions))),
                request.earlier,
                Part("An example of the form", "" if before else shared.fence(prompts.EXAMPLE)),
            ],
            prompts.DRAFT_TOKENS,
        )
        sizes, notes = shared.sizes(parts), list[str]()

        async def attempt(failure: str) -> Draft:
            nonlocal notes
            task = task_of(call.job, parts, LINES_FORM if before else TEXT_FORM, [call.lesson, failure])
            try:
                if before:
                    lines, notes = await _ask_lines(call.reasoner, task)
                    return read_lines(_with_changed_lines(before, lines), self.definitions, request.base.graph)
                return read_answer(await ask(call.reasoner, task), self.definitions, request.base.graph)
            except AnswerError as error:
                raise UnfitError(describe(error)) from error

        try:
            draft = await until_fit(attempt, MAX_TRIES)
        except UnfitError as unfit:
            said = _said(call.messages)
            return self._message(call.job, str(unfit), failure=str(unfit), classes=chosen, prompt=sizes, **said)
        outputs = {CODE: draft.code, "repairs": [*map(str, draft.repairs)], **_said(call.messages, notes)}
        return self._message(call.job, draft.code, classes=chosen, prompt=sizes, **outputs)


class MendCode(Stage, KnowsClasses):
    """Mends code by rules and, if a lesson has findings, by lines that a model rewrites.

    Changes that do not improve the workflow are dropped.

    Outputs:
        comfyui_code: The code; absent if there is none.
        classes: The chosen classes.
        repairs: Repairs by rules.
        files: Messages about files that the code names and the server does not have.
        lines: Lines that the model changed.
        asked: Findings that the model was asked to mend.
        refused: Reason why the model's lines were not used.
        prompt: Estimated tokens of each part of the prompt.
        failure: Reason why there is no code.
    """

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Repair a new draft by rules; in later rounds, ask a model to mend the findings of the lesson."""
        messages = call.messages
        request = self.request_of(call.job)
        draft_message = messages[-1] if messages else None
        drafted = self.drafted(draft_message.outputs, request.base.graph) if draft_message else None
        if draft_message is None or drafted is None:
            outputs = draft_message.outputs if draft_message else {}
            failure = str(outputs.get("failure", "there is no code"))
            return self._message(call.job, failure, failure=failure, **_said(messages))
        own_message = call.rejection.answer if call.rejection else None
        is_same_draft = own_message is not None and own_message.outputs.get("drafted") == draft_message.outputs[CODE]
        before = self.drafted(own_message.outputs, request.base.graph) if own_message and is_same_draft else None
        extra: dict[str, JsonValue] = {}
        if own_message is None or before is None or not call.lesson:
            draft, repairs = await asyncio.to_thread(_repaired, drafted, request)
            repairs = [*cast("list[str]", draft_message.outputs.get("repairs", [])), *repairs]
        else:  # `call.lesson` also contains the findings of earlier rounds
            told = lesson_of(call.rejection.faults) if call.rejection else ""
            newest = told if findings_in(told) else call.lesson
            draft, repairs, extra = await self._ask_mended(
                call.reasoner, call.job, before, request, newest, _chosen(messages)
            )
        return self._message(
            call.job,
            draft.code,
            **{CODE: draft.code},
            drafted=draft_message.outputs[CODE],
            classes=_chosen(messages),
            repairs=repairs,
            files=missing_files(draft),
            **_said(messages, texts_in(extra.pop("notes", None))),
            **extra,
        )

    async def _ask_mended(
        self, reasoner: Reasoner, job: Job, before: Draft, request: DesignRequest, lesson: str, chosen: Sequence[str]
    ) -> tuple[Draft, list[str], dict[str, JsonValue]]:
        """Return the code with a model's changes, unchanged if these improve nothing, the repairs, and more outputs."""
        findings_before = await asyncio.to_thread(findings, before, request.known)
        shown_findings = findings_in(lesson)[: shared.MOST_FINDINGS]
        line_numbers = lines_in(shown_findings)
        classes_by_line = {
            number: spec.type for spec in before.graph.nodes if (number := before.numbers[spec.id]) in line_numbers
        }
        parts = shared.fit(
            [
                Part("Rules", prompts.FIX_RULES, keep=True),
                Part("Findings", shared.listed(shown_findings)),
                Part("The lines concerned", prompts.numbered(before.lines, line_numbers)),
                Part("Their classes", shared.fence(in_full(dict.fromkeys(classes_by_line.values()), self.definitions))),
                Part("All lines", prompts.numbered(before.lines)),
                Part("Other classes", shared.fence(in_short(chosen, self.definitions))),
            ],
            prompts.FIX_TOKENS,
        )
        extra: dict[str, JsonValue] = {"asked": list[JsonValue](shown_findings), "prompt": dict(shared.sizes(parts))}

        async def attempt(fault: str) -> tuple[Draft, list[str], list[dict[str, Any]]]:
            try:
                lines, notes = await _ask_lines(reasoner, task_of(job, parts, LINES_FORM, [fault]))
                text = _with_changed_lines(before.lines, lines)
                drafted = read_lines(text, self.definitions, request.base.graph)
                draft, repairs = await asyncio.to_thread(_repaired, drafted, request)
            except AnswerError as error:
                extra["refused"] = describe(error)
                raise UnfitError(describe(error)) from error
            extra["notes"] = list[JsonValue](notes)
            findings_after = await asyncio.to_thread(findings, draft, request.known)
            if draft.graph.nodes and len(findings_after) < len(findings_before):
                return draft, repairs, lines
            extra["refused"] = "the lines make it no better"
            remaining = shared.listed(findings_after[: shared.MOST_FINDINGS])
            raise UnfitError(
                f"Nothing was changed, because your lines do not improve the workflow. Findings with them:\n{remaining}"
            )

        try:
            draft, repairs, lines = await until_fit(attempt, MAX_TRIES)
        except UnfitError:  # `extra` says why
            return before, [], extra
        extra.pop("refused", None)
        return draft, repairs, {**extra, "lines": cast("list[JsonValue]", lines)}


async def _ask_lines(reasoner: Reasoner, task: Task) -> tuple[list[dict[str, Any]], list[str]]:
    """Ask a model for lines that change; return them, and its notes.

    Raises:
        AnswerError: The answer has no lines; the message has its words.
    """
    answer = await ask_object(reasoner, task, ("lines",))
    if words := words_of(answer):
        raise AnswerError(f"the model changed no line, and said: {words}")
    lines = LINES_FORM.validate(json.dumps(answer))["lines"]
    return cast("list[dict[str, Any]]", lines), texts_of(answer.get("notes"))


def _repaired(draft: Draft, request: DesignRequest) -> tuple[Draft, list[str]]:
    graph, repairs = mend(draft.graph, draft.definitions, request.base.graph)
    settled = Draft(graph, draft.unread, draft.definitions)
    return settled, [str(repair) for repair in (*draft.repairs, *repairs)]


def _with_changed_lines(lines: Sequence[str], changes: Sequence[Mapping[str, Any]]) -> str:
    """Return the code with lines changed; several changes of the same line follow each other.

    Raises:
        AnswerError: A line does not exist, has the id of another one that stays, or no line was changed.
    """
    lines_by_number: dict[int, list[str]] = {number: [line] for number, line in enumerate(lines, 1)}
    next_number = len(lines) + 1
    lines_by_number[next_number] = []
    missing = [change["line"] for change in changes if change["line"] not in lines_by_number]
    if missing or not changes:
        what = f"there is no line {missing[0]}" if missing else "no line was changed"
        raise AnswerError(f"{what}; lines are 1 to {next_number - 1}, and {next_number} adds some")
    numbers = {change["line"] for change in changes}
    staying = {
        node_id: number for number, line in enumerate(lines, 1) if number not in numbers and (node_id := _id_of(line))
    }
    for change in changes:
        if own := staying.get(_id_of(str(change["code"]))):  # a number that is off by one would replace another node
            raise AnswerError(f"line {change['line']}: the id after # is that of line {own}, which stays; give its own")
    for number in numbers:
        lines_by_number[number] = [str(change["code"]).strip() for change in changes if change["line"] == number]
    return "\n".join(line for number in sorted(lines_by_number) for line in lines_by_number[number] if line)


def _id_of(line: str) -> str:
    """Return the id in the comment of a line of code; empty if there is none."""
    try:
        tokens = tokenize.generate_tokens(io.StringIO(line).readline)
        comments = [each.string for each in tokens if each.type == tokenize.COMMENT]
    except (tokenize.TokenError, SyntaxError):
        return ""
    words = comments[-1].removeprefix("#").split() if comments else []
    return words[0] if words and ID.fullmatch(words[0]) else ""


def _chosen(messages: Sequence[WorkflowMessage] | None) -> list[str]:
    """Return the classes that were chosen last; empty if there are none."""
    chosen = [texts_in(each.outputs[CLASSES]) for each in messages or () if CLASSES in each.outputs]
    return chosen[-1] if chosen else []


def _said(messages: Sequence[WorkflowMessage] | None, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the notes and what is left out, of the latest message that has them, with further notes."""
    outputs = next((each.outputs for each in reversed(messages or ()) if "notes" in each.outputs), None)
    if outputs is None:
        return {"notes": list(notes), "left_out": {}} if notes else {}
    return {"notes": list(dict.fromkeys([*texts_in(outputs["notes"]), *notes])), "left_out": outputs["left_out"]}
