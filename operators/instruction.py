"""Instructions of operators with values of a job: templates such as ``"Translate {text}."``, and functions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple, cast

from pydantic import JsonValue

from operad.runtime.events import Scope, current_scope
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.reasoning.task import Filled
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import FaultError, InputError, Issue, did_you_mean, shorten
from operad.runtime.values.fingerprint import name_of
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.model_text import as_json, text_of
from operad.runtime.values.near_names import near_name
from operad.runtime.values.text import fence
from operad.runtime.workflow.function import FunctionOperator
from operad.runtime.workflow.function_evaluator import FunctionEvaluator
from operad.runtime.workflow.map import declared, fault_in_path
from operad.runtime.workflow.parameters import answers_by_id, ids_by_name, item_in, without_partial

LONGEST_IN_LINE = 200
"""Maximum length in characters of a value that is put into a line; longer ones, and those with lines, are fenced."""

_TOKEN = re.compile(r"\{\{|\{[ \t]*(?P<path>[^\W\d]\w*(?:-\w+)*(?:\.\w+(?:-\w+)*)*)[ \t]*\}|[{}]")
_IDENTIFIERS = re.compile(r"\{[^\W\d]\w*(?:\.[^\W\d]\w*)*\}")


@dataclass(frozen=True, slots=True)
class Field:
    """Field of a template, such as ``{facts.title}``.

    Attributes:
        name: Name before the first dot.
        path: Names after it.
        written: The field as it is written, with its braces.
    """

    name: str
    path: tuple[str, ...]
    written: str

    @property
    def may_be_text(self) -> bool:
        """True if the field is text unless its name is known, as for ``{check-facts}`` and ``{ facts }``."""
        return not _IDENTIFIERS.fullmatch(self.written)


class Template:
    """Template of an instruction.

    ``{name}`` and ``{name.path}`` are fields. ``{{`` stands for a brace, and the ``}}`` that closes it, too. All other
    braces are text, as in ``{"a": {"b": 1}}`` and ``{}``.

        template = Template('Answer in {language}, in the form {"text": "…"}.')
        print([field.name for field in template.fields])  # ['language']
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = _parts(text)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields, in their order, each once."""
        return tuple(dict.fromkeys(part for part in self._parts if isinstance(part, Field)))

    @property
    def escaped(self) -> tuple[str, ...]:
        """Names in doubled braces, which are text: ``name`` for ``{{ name }}``."""
        return tuple(dict.fromkeys(re.findall(r"(?<!\{)\{\{\s*([^\W\d]\w*)\s*\}\}(?!\})", self.text)))

    def filled(self, value_of: Callable[[Field], str | None]) -> tuple[str, int | None]:
        """Return the text with values in place of the fields, and the start of the first paragraph with a value.

        Values are not searched for fields. A value with several lines, or of more than `LONGEST_IN_LINE` characters,
        becomes a block between backticks.
        """
        text, first, after_block = "", None, False
        for part in self._parts:
            value = part if isinstance(part, str) else value_of(part)
            if isinstance(part, Field) and value is not None and first is None:
                first = len(text)
            if isinstance(part, Field) and value is not None and not _fits_in_line(value):
                text = text if not text or text.endswith("\n") else text.rstrip(" ") + "\n"
                text, after_block = text + fence(value), True
                continue
            added = part.written if value is None and isinstance(part, Field) else value or ""
            if after_block and (added := added.lstrip(" ")):
                added = added if added.startswith("\n") else f"\n{added}"
                after_block = False
            text += added
        return text, None if first is None else max(text.rfind("\n\n", 0, first), 0)


def _fits_in_line(value: str) -> bool:
    return len(value) <= LONGEST_IN_LINE and "\n" not in value.strip() and "```" not in value


@lru_cache(maxsize=256)
def _parts(text: str) -> tuple[str | Field, ...]:
    """Return the fields of a template and the texts between them, with doubled braces replaced."""
    return tuple(_joined(_tokens(text)))


def _tokens(text: str) -> Iterator[str | Field]:
    opened: list[str] = []  # the braces of the text that are open, as written
    position = 0
    while found := _TOKEN.search(text, position):
        yield text[position : found.start()]
        position = found.end()
        written, path = found[0], found["path"]
        if path:
            name, *rest = path.split(".")
            yield Field(name, tuple(rest), written)
            continue
        if written != "}":
            opened.append(written)
        elif opened and opened.pop() == "{{" and text.startswith("}", position):
            position += 1  # closes a doubled brace
        yield written[0]
    yield text[position:]


def _joined(parts: Iterator[str | Field]) -> Iterator[str | Field]:
    """Yield the parts with adjacent texts joined, without empty ones."""
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        if text:
            yield text
        text = ""
        yield part
    if text:
        yield text


InstructionFunction = Callable[..., str | Awaitable[str]]
"""Function that returns an instruction; its parameters are bound like those of an operator made of a function."""

TextSource = str | InstructionFunction
"""The text of an instruction, or a function that returns it."""

_NEAR = 0.75
"""Minimum similarity of a name in braces to the id of a predecessor that is certainly meant, and not an input."""

_OF_JOB = ("goal", "context")
"""Fields of the job, as in ``{job.goal}``."""


class Written(NamedTuple):
    """Instruction for one call: its text, and the values in it."""

    text: str
    filled: Filled | None = None


@dataclass(frozen=True)
class FunctionInstruction:
    """Instruction that a function returns."""

    binding: FunctionOperator[Any] | FunctionEvaluator
    operator_id: str

    @property
    def deps_type(self) -> str:
        """Name of the type of the deps that a parameter requires; empty if there is none."""
        return self.binding.deps_type

    def check(self, before: Mapping[str, BaseOperator], others: Collection[str]) -> list[Issue]:
        """Return the issues of the parameters, as of an operator made of the function, and of the returned type."""
        issues = self.binding.check_among(before, others)
        kind = self.binding.added.answer_type
        if isinstance(kind, type) and not issubclass(kind, str):
            issues.append(Issue("instruction", f"its function returns {kind.__name__}; return text", self.operator_id))
        return issues

    def check_inside(self, before: Mapping[str, BaseOperator], *, of_map: bool) -> list[Issue]:
        """Return the issues of the function as one of the first operators of a nested workflow, or of a map's body."""
        return self.binding.check_inside(before, of_map=of_map)

    def check_inputs(self, inputs: Mapping[str, JsonValue], before: Collection[str]) -> list[Issue]:
        """Return no issues: the function is checked when the workflow is built, and when it is called."""
        return []

    async def write(self, call: OperatorCall, messages: Sequence[WorkflowMessage]) -> Written:
        """Call the function.

        Raises:
            InputError: The function returns no text.
        """
        text = await self.binding.returned(call)
        if not isinstance(text, str) or not text.strip():
            raise InputError(
                f"operator {self.operator_id!r}: its instruction is a function, which returned {short_repr(text)}; "
                "return a text that says what the operator is to do"
            )
        return Written(text, Filled())


@dataclass(frozen=True)
class TemplateInstruction:
    """Instruction as text, with names in braces."""

    template: Template
    operator_id: str

    deps_type: ClassVar[str] = ""

    @property
    def names(self) -> Sequence[str]:
        """Names in the braces."""
        return [field.name for field in self.template.fields]

    def check(self, before: Mapping[str, BaseOperator | None], others: Collection[str]) -> list[Issue]:
        """Return the issues of fields that name another operator, or nearly a predecessor, or no part of its answer.

        Other names may be inputs of a job; `check_inputs` checks them when the job is known.

        Args:
            before: The predecessors, by id; None for those whose answers are unknown.
            others: Ids of the operators that may be added as predecessors.
        """
        issues: list[Issue] = []
        ids = ids_by_name(list(before))
        for field in self.template.fields:
            if field.name in ids:
                operator = before[ids[field.name]]
                if operator is not None and (text := _fault_in_answer(field, operator)):
                    issues.append(Issue("unknown-output", self._told(field, text), self.operator_id))
            elif not _is_of_job(field) and (text := self._fault_in_name(field, list(before), others)):
                issues.append(Issue("unknown-name", self._told(field, text), self.operator_id))
        return issues

    def _told(self, field: Field, text: str) -> str:
        return f"its instruction has {field.written}: {text}. For braces in the text, write {{{field.written}}}"

    def _fault_in_name(self, field: Field, before: Sequence[str], others: Collection[str]) -> str:
        """Return the fault of a field that does not name a predecessor, as text; empty if it may be an input."""
        other, ids = ids_by_name([each for each in others if each not in before]).get(field.name), ids_by_name(before)
        if other is not None:
            return (
                f"operator {other!r} has no edge to {self.operator_id!r}; add the edge, or name the input differently"
            )
        named = {ids[name] for name in self.names if name in ids}
        near = _nearest(field.name, [name for name, each in ids.items() if each not in named])
        return f"no operator before it is {field.name!r} (did you mean {near!r}?); {_listed(before)}" if near else ""

    def check_inside(self, before: Mapping[str, BaseOperator], *, of_map: bool) -> list[Issue]:
        """Return the issues of fields that nearly name an operator before a nested workflow or map, or the item."""
        return self.check({**before, **dict.fromkeys(("item", "index") if of_map else ())}, ())

    def check_inputs(self, inputs: Mapping[str, JsonValue], before: Collection[str]) -> list[Issue]:
        """Return the issues of fields that are neither inputs of a job nor operators before the operator.

        Args:
            before: Names of the operators before it, and of the item of a map around it.
        """
        issues: list[Issue] = []
        known = ids_by_name(list(before))
        for field in self.template.fields:
            if field.name in known or _is_of_job(field):
                continue
            text = ""
            if field.name not in inputs and not (field.may_be_text and not _nearest(field.name, [*known, *inputs])):
                text = self._unknown(field, inputs, before)
            elif field.name in inputs and field.path:
                text = _part(inputs[field.name], field.path, f"input {field.name!r}")[1]
            if text:
                issues.append(Issue("unknown-name", self._told(field, text), self.operator_id))
        return issues

    def _unknown(self, field: Field, inputs: Mapping[str, JsonValue], before: Collection[str]) -> str:
        names = [*ids_by_name(list(before)), *inputs]
        job = "; the text of the job is {job.goal}" if not inputs else ""
        return (
            f"no operator before it and no input of the job is {field.name!r}{did_you_mean(field.name, names)}; "
            f"{_listed(list(before))}; inputs: {shorten(list(inputs)) or 'none'}{job}"
        )

    async def write(self, call: OperatorCall, messages: Sequence[WorkflowMessage]) -> Written:
        """Return the text with values in place of the fields.

        Args:
            messages: Messages of the operators before it.

        Raises:
            InputError: A field names nothing, or no part of an input.
            FaultError: A field names no part of an operator's answer; the operator is blamed.
        """
        if not self.template.fields:
            return Written(self.template.filled(lambda _: None)[0])
        values = Values.of(call, messages)
        text, start = self.template.filled(lambda field: self._value(field, values))
        if start is None:
            return Written(text)
        whole = [
            values.keys[field.name] for field in self.template.fields if field.name in values.keys and not field.path
        ]
        of_job = [("job", field.path[0]) for field in self.template.fields if _is_of_job(field)]
        return Written(text, Filled(start=start, shown=(*whole, *of_job)))

    def _value(self, field: Field, values: Values) -> str | None:
        if field.name in values.messages:
            message = values.messages[field.name]
            return _of_message(field, message, self.operator_id) if field.path or message is None else text_of(message)
        if field.name in values.inputs:
            value, fault = _part(values.inputs[field.name], field.path, f"input {field.name!r}")
        elif _is_of_job(field):
            value, fault = getattr(values.job, field.path[0]), ""
        elif field.may_be_text:
            return None
        else:
            before = dict.fromkeys(each for kind, each in values.keys.values() if kind == "operator")
            value, fault = None, self._unknown(field, values.inputs, list(before))
        if fault:
            raise InputError(f"operator {self.operator_id!r}: {self._told(field, fault)}")
        return _text(value)


class Values(NamedTuple):
    """Values that a template may name.

    Attributes:
        messages: Messages by name; None for an operator that was skipped.
        inputs: Inputs of the job, without those that have the name of a message.
        keys: Kind and id of each value, by name; see `Filled`.
    """

    messages: Mapping[str, WorkflowMessage | None]
    inputs: Mapping[str, JsonValue]
    keys: Mapping[str, tuple[str, str]]
    job: Job

    @classmethod
    def of(cls, call: OperatorCall, messages: Sequence[WorkflowMessage]) -> Values:
        """Return the values for a call; of equal names, an item precedes an answer, and an answer an input."""
        scope = current_scope()
        answers: dict[str, WorkflowMessage | None] = {**answers_by_id(messages)}
        item = item_in(messages, scope)
        named: dict[str, WorkflowMessage | None] = {}
        keys = {name: ("input", name) for name in call.job.inputs}
        if item is not None:
            answers.pop(item.operator_id, None)
            named["index"] = WorkflowMessage(_text(item.outputs["index"]))
            keys["index"] = ("index", "index")
        for name, operator_id in ids_by_name([*_expected(scope), *answers]).items():
            named[name], keys[name] = answers.get(operator_id), ("operator", operator_id)
        if item is not None:
            named["item"], keys["item"] = item, ("item", item.operator_id)
        inputs = {name: value for name, value in call.job.inputs.items() if name not in named}
        return cls(named, inputs, keys, call.job)


def _expected(scope: Scope | None) -> Iterator[str]:
    """Yield the ids of the operators before an operator, of which some may have been skipped."""
    while scope is not None:
        run: Any = scope.run  # a `Run`
        if scope.operator_id in run.build.evaluators:
            yield from run.build.before
            return
        if before := cast("Sequence[str]", run.build.before.get(scope.operator_id, ())):
            yield from before
            return
        scope = run.outer


def _of_message(field: Field, message: WorkflowMessage | None, operator_id: str) -> str:
    """Return a part of an answer as text; an empty text if the operator was skipped."""
    if message is None:
        return ""
    path = field.path
    value: object = message.value
    holds_fields = isinstance(value, Mapping) and path[0] in value
    if path[0] == "output" and not holds_fields and "output" not in message.outputs:
        path = path[1:]
    whole = message.outputs if path[0] in message.outputs and not holds_fields else cast("object", message.value)
    value, fault = _part(whole, path, f"the answer of {message.operator_id!r}")
    if fault and message.over is not None:
        raise InputError(f"operator {operator_id!r}: its instruction has {field.written}: {fault}")
    if fault:
        raise FaultError(
            f"operator {operator_id!r}: its instruction has {field.written}: {fault}",
            lesson=f"Give {'.'.join(path)} in the answer.",
            blame=[message.operator_id],
        )
    return _text(value)


def _part(value: Any, path: Sequence[str], of: str) -> tuple[Any, str]:
    """Return the part of a value at a path, or a description of what it lacks."""
    for name in path:
        if isinstance(value, Mapping) and name in value:
            value = cast("Mapping[str, Any]", value)[name]
        elif isinstance(value, list | tuple) and name.isdecimal() and int(name) < len(cast("Sequence[Any]", value)):
            value = cast("Sequence[Any]", value)[int(name)]
        else:
            names = list(map(str, cast("Mapping[str, Any]", value))) if isinstance(value, Mapping) else []
            has = f"it has: {shorten(names)}" if names else f"it is {short_repr(cast('object', value))}"
            return None, f"{of} has no {name!r}{did_you_mean(name, names)}; {has}"
        of = f"{of}.{name}"
    return value, ""


def _fault_in_answer(field: Field, operator: BaseOperator) -> str:
    """Return the fault of a path into the declared answer of an operator, as text; empty for none."""
    if field.path and operator.answer_type is str and not declared(operator):
        return f"the answer of {operator.get_id()!r} is text, which has no {field.path[0]!r}"
    if any(name.isdecimal() for name in field.path) or operator.gives_items:
        return ""
    return (fault_in_path(declared(operator), operator.get_id(), field.path) or ("", ""))[1]


def _is_of_job(field: Field) -> bool:
    return field.name == "job" and len(field.path) == 1 and field.path[0] in _OF_JOB


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return a known name that a name is certainly meant to be; empty for none."""
    near = near_name(name, known)
    return near if near and SequenceMatcher(None, name, near).ratio() >= _NEAR else ""


def _listed(before: Sequence[str]) -> str:
    return f"before it: {shorten(before) or 'no operator'}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


def description_of(function: InstructionFunction) -> str:
    """Return a text that stands for a function as an instruction: the first line of its docstring, or its name.

    Raises:
        InputError: It is not a function, is a generator, or has parameters that cannot be bound by name.
    """
    made = FunctionOperator[Any](function)
    plain: Any = inspect.unwrap(without_partial(function))
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise InputError(f"instruction: the function {made.get_id()!r} is a generator; return the text instead")
    return made.instruction or f"(Text of the function {name_of(plain)}.)"


def default_id(function: InstructionFunction) -> str:
    """Return the default id of an operator whose instruction is a function: the function's name."""
    return FunctionOperator[Any](function).get_id()


Instruction = TemplateInstruction | FunctionInstruction


def instruction_of(
    text: str, function: InstructionFunction | None, operator_id: str, *, of_evaluator: bool = False
) -> Instruction:
    """Return the instruction of an operator.

    Args:
        text: The instruction as text, which is a template.
        function: The function that returns the text instead; None without one.
        of_evaluator: True if a function may name all operators, as an evaluator's does.
    """
    if function is None:
        return TemplateInstruction(Template(text), operator_id)
    bound = FunctionOperator[Any](function, id=operator_id)
    return FunctionInstruction(FunctionEvaluator(bound) if of_evaluator else bound, operator_id)
