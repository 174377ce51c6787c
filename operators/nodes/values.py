"""Nodes that work on values: code, template-transform, list-operator, variable-aggregator, assigner, conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import Field, JsonValue

from operad.operators.conditions import ConditionError, compare, fault_of
from operad.operators.node import Fault, NodeCall, NodeError, NodeOperator, NodeParams, TypeOf
from operad.operators.nodes.flow import doubles
from operad.operators.sandbox.code import check_code, parameters_of, run_code
from operad.operators.sandbox.template import check_template, names_of, render_template
from operad.operators.sandbox.uses import walked_through
from operad.operators.variables import (
    ARRAYS,
    Accepts,
    Selector,
    Text,
    Values,
    Variables,
    VariableType,
    file_parts,
    fits,
    plain,
    shown,
    type_of,
    whole,
)
from operad.runtime.values.errors import Issue, did_you_mean
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import WorkflowMessage

T = VariableType


class Argument(NamedTuple):
    """A value by a name of one's own."""

    name: Annotated[str, Field(min_length=1, description="The name that it has here.")]
    value: Annotated[Selector, Field(description="The variable that it is: [name, node id].")]


class Declared(NamedTuple):
    """An output and its type."""

    name: Annotated[str, Field(min_length=1, description="Its name.")]
    type: Annotated[VariableType, Field(description="Its type.")]


def _told(issue: Issue) -> str:
    """What is wrong with code or a template, with its line, which may be said already."""
    return issue.message if not issue.where or issue.where in issue.message else f"{issue.where}: {issue.message}"


class CodeParams(NodeParams):
    """A Python function."""

    variables: list[Argument] = Field(description="The arguments of main, [[name, [variable, node id]], …].")
    outputs: list[Declared] = Field(
        min_length=1,
        description="What main returns, [[name, type], …]; types are string, number, boolean, object, arrays of these.",
    )
    code: str = Field(description="Python with a function main(arguments) that returns a dict with the outputs.")


class Code(NodeOperator[CodeParams]):
    """Runs Python on variables, in a sandbox: no files, no network, no packages beyond a part of the standard library."""

    type = "code"
    params_type = CodeParams
    gives = "the declared outputs"
    example = {
        "variables": [["numbers", ["numbers", "2"]]],
        "outputs": [["total", "number"]],
        "code": "def main(numbers):\n    return {'total': sum(numbers)}",
    }

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """The declared ones."""
        return {output.name: output.type for output in self.params.outputs}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Names that are given twice, and what is wrong with the code that can be seen."""
        yield from doubles("variables", [argument.name for argument in self.params.variables])
        yield from doubles("outputs", [output.name for output in self.params.outputs])
        wrong = check_code(self.params.code)
        yield from (Fault("code", _told(issue), issue.code) for issue in wrong)
        if not any(issue.code == "code" for issue in wrong):
            given = [each.name for each in self.params.variables]
            yield from (Fault("variables", fault) for fault in parameters_of(self.params.code).mismatches(given))
        walked = walked_through(self.params.code)
        for number, (name, selector) in enumerate(self.params.variables):
            if name in walked and (kind := type_of(selector)) in (T.NUMBER, T.BOOLEAN):
                what = f"{name!r} is {kind.value}, and main walks through it, which needs a list or a text"
                yield Fault(f"variables[{number}]", what, "wrong-type")

    async def compute(self, call: NodeCall) -> Values:
        """Call main."""
        arguments = {argument.name: plain(call.get(argument.value)) for argument in self.params.variables}
        returned = await asyncio.to_thread(run_code, self.params.code, arguments, self.services.code)
        return {output.name: self._of(output, returned) for output in self.params.outputs}

    def _of(self, output: Declared, returned: Mapping[str, Any]) -> Any:
        if output.name not in returned:
            raise NodeError(
                f"node {self.get_id()!r} (code): main returned no {output.name!r}, which is declared; "
                f"it returned: {', '.join(returned) or 'an empty dict'}"
            )
        value = returned[output.name]
        if output.type is T.ARRAY_NUMBER and isinstance(value, list):
            return [_as_number(each) for each in cast("list[Any]", value)]
        return _as_number(value) if output.type is T.NUMBER else value


def _as_number(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


class TemplateParams(NodeParams):
    """A Jinja2 template."""

    variables: list[Argument] = Field(description="The names in the template, [[name, [variable, node id]], …].")
    template: str = Field(description="Jinja2; names stand in {{ }}, and only those declared in variables.")


class TemplateTransform(NodeOperator[TemplateParams]):
    """Writes a text from a Jinja2 template."""

    type = "template-transform"
    params_type = TemplateParams
    gives = "output (string)"
    example = {
        "variables": [["lines", ["lines", "2"]]],
        "template": "{% for line in lines %}- {{ line }}\n{% endfor %}",
    }

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """The text."""
        return {"output": T.STRING}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Names that are given twice, and what is wrong with the template."""
        names = [argument.name for argument in self.params.variables]
        yield from doubles("variables", names)
        if "self" in names:  # which Jinja takes for the template itself
            yield Fault("variables", "'self' is a word of Jinja's; name the variable otherwise")
        wrong = check_template(self.params.template)
        yield from (Fault("template", _told(issue), issue.code) for issue in wrong)
        if wrong:
            return
        yield from (
            Fault("template", f"{name!r} is not among its variables{did_you_mean(name, names)}", "undefined-variable")
            for name in names_of(self.params.template)
            if name not in names
        )

    async def compute(self, call: NodeCall) -> Values:
        """Render it."""
        values = {argument.name: plain(call.get(argument.value)) for argument in self.params.variables}
        text = await asyncio.to_thread(render_template, self.params.template, values, self.services.templates)
        return {"output": whole(text)}


class ListOperatorParams(NodeParams):
    """What to do with a list."""

    variable: Annotated[Selector, Accepts(ARRAYS)] = Field(description="The list: [variable, node id].")
    operator: list[Text | int | float | list[str]] = Field(
        min_length=2,
        max_length=3,
        description='["extract_by", n] takes the n-th, from 1; ["limit", n] the first n; ["order_by", "asc" or "desc"]; '
        '["filter_by", comparison, value]: numbers and strings as in if-else, boolean is and is not, file in and not in '
        "(document, image, audio, video).",
    )


_OPERATIONS = ("extract_by", "limit", "order_by", "filter_by")


class ListOperator(NodeOperator[ListOperatorParams]):
    """Takes, orders or filters the items of a list."""

    type = "list-operator"
    params_type = ListOperatorParams
    gives = "result (a list like the one given), first_record and last_record (items of it)"
    example = {"variable": ["attachments", "1"], "operator": ["filter_by", "in", "image"]}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """A list of the same type, its first item and its last."""
        kind = type_of(self.params.variable)
        item = kind.item or T.ANY
        return {"result": kind.array, "first_record": item, "last_record": item}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """What is wrong with the operation."""
        name, *rest = self.params.operator
        where = "operator"
        if name not in _OPERATIONS:
            known = ", ".join(_OPERATIONS)
            yield Fault(where, f"{name!r} is none{did_you_mean(str(name), _OPERATIONS)}; there are: {known}")
        elif name in ("extract_by", "limit"):
            number = rest[0]
            if isinstance(number, Text) and "{{#" in number:
                return
            if len(rest) > 1 or _whole(number) is None or not (_whole(number) or 0) >= 1:
                yield Fault(where, f"{name} needs a whole number from 1, not {shown(rest)}")
        elif name == "order_by":
            if rest not in (["asc"], ["desc"]):
                yield Fault(where, f"order_by needs asc or desc, not {shown(rest)}")
        else:
            kind = type_of(self.params.variable).item or T.ANY
            fault = fault_of(str(rest[0]), rest[1] if len(rest) > 1 else None, T.STRING if kind is T.FILE else kind)
            if fault:
                yield Fault(where, fault)

    async def compute(self, call: NodeCall) -> Values:
        """Do it."""
        given = call.get(self.params.variable)
        if given is None:
            given = []
        if not isinstance(given, list | tuple):
            raise NodeError(
                f"node {self.get_id()!r} (list-operator): variable {str(self.params.variable)!r} is {type_of(given)}, "
                f"and a list is needed: {shown(given)}"
            )
        items = self._changed(list(cast("Sequence[Any]", given)), call)
        return {
            "result": items,
            "first_record": items[0] if items else None,
            "last_record": items[-1] if items else None,
        }

    def _changed(self, items: list[Any], call: NodeCall) -> list[Any]:
        name, first, *rest = self.params.operator
        match name:
            case "order_by":
                return _ordered(items, self.get_id(), descending=first == "desc")
            case "filter_by":
                expected = cast("str | list[str] | None", rest[0] if rest else None)
                expected = call.text(expected) if isinstance(expected, Text) else expected
                expected = str(expected) if isinstance(expected, int | float) else expected
                return [item for item in items if self._passes(item, str(first), expected)]
            case _:
                number = _whole(call.text(first) if isinstance(first, Text) else first)
                if number is None or number < 1:
                    raise NodeError(
                        f"node {self.get_id()!r} (list-operator): {name} by {shown(first)} is no number from 1"
                    )
                if name == "limit":
                    return items[:number]
                if not items:
                    return []
                if number > len(items):
                    raise NodeError(
                        f"node {self.get_id()!r} (list-operator): extract_by {number}, and "
                        f"{str(self.params.variable)!r} has {len(items)} item{'s' if len(items) > 1 else ''}"
                    )
                return [items[number - 1]]

    def _passes(self, item: Any, operator: str, expected: str | list[str] | None) -> bool:
        try:
            return compare(item, operator, expected)
        except ConditionError as error:
            raise ConditionError(f"node {self.get_id()!r} (list-operator): {error}") from error


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and value.strip().isdigit():
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _ordered(items: list[Any], node_id: str, *, descending: bool) -> list[Any]:
    keys = [file_parts(item)["name"] if isinstance(item, FileDescriptor) else item for item in items]
    try:
        order = sorted(range(len(items)), key=keys.__getitem__, reverse=descending)
    except TypeError as error:
        raise NodeError(f"node {node_id!r} (list-operator): {shown(items)} cannot be put in order: {error}") from error
    return [items[place] for place in order]


class AggregatorParams(NodeParams):
    """Variables of branches."""

    variables: list[Selector] = Field(
        min_length=1, description="Variables of one type from different branches, [[variable, node id], …]."
    )


class VariableAggregator(NodeOperator[AggregatorParams]):
    """Brings branches together: gives the variable of the first one, in order, that ran."""

    type = "variable-aggregator"
    params_type = AggregatorParams
    gives = "output (of the type of the variables)"
    example = {"variables": [["text", "3"], ["text", "5"]]}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """The variable that is there."""
        kinds = {type_of(selector) for selector in self.params.variables} - {T.ANY}
        return {"output": kinds.pop() if len(kinds) == 1 else T.ANY}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Variables of different types."""
        kinds = [type_of(selector) for selector in self.params.variables]
        first = next((kind for kind in kinds if kind is not T.ANY), T.ANY)
        for number, kind in enumerate(kinds):
            if not kind.may_be(first):
                name = str(self.params.variables[number])
                yield Fault(f"variables[{number}]", f"{name!r} is {kind.value}, and the others are {first.value}")

    async def compute(self, call: NodeCall) -> Values:
        """Find the one that is there."""
        there = (selector for selector in self.params.variables if selector in call.variables)
        values = (call.get(selector) for selector in there)
        return {"output": next((value for value in values if value is not None), None)}


Operation = Literal[
    "set", "append", "extend", "clear", "add", "subtract", "multiply", "divide", "remove_first", "remove_last"
]


class Assignment(NamedTuple):
    """A new value for a variable."""

    variable: Annotated[Selector, Field(description='The variable: [name, "conversation"], or [name, id of the loop].')]
    operation: Annotated[Operation, Field(description="What to do with it.")] = "set"
    value: Annotated[
        Selector | Text | JsonValue,
        Field(
            description="With what: [variable, node id], or a value itself; none for clear and remove.",
            union_mode="left_to_right",
        ),
    ] = None


class AssignerParams(NodeParams):
    """New values."""

    assignments: list[Assignment] = Field(min_length=1, description="[[variable, operation, value], …], done in order.")


class Assigner(NodeOperator[AssignerParams]):
    """Gives variables of the conversation, or of the loop around it, new values."""

    type = "assigner"
    params_type = AssignerParams
    gives = "the new values, by the names of the variables"
    example = {"assignments": [[["count", "7"], "add", 1]]}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """The variables that it sets."""
        return {each.variable.variable: type_of(each.variable) for each in self.params.assignments}

    @property
    def assigns(self) -> Sequence[Selector]:
        """The variables that it sets."""
        return list(dict.fromkeys(each.variable for each in self.params.assignments))

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Two variables of one name, and operations and values that are not for the variable's type."""
        yield from doubles("assignments", [each.variable for each in self.assigns])
        for number, (target, operation, given) in enumerate(self.params.assignments):
            where, kind = f"assignments[{number}]", type_of(target)
            needed = _NEEDED.get(operation, kind)
            wanted = kind.item or T.ANY if operation == "append" else kind
            if not kind.may_be(needed):
                what = f"{operation} needs {needed.value}, and {str(target)!r} is {kind.value}"
                yield Fault(where, what, "wrong-type")
            elif operation in _ALONE:
                continue
            elif given is None:
                yield Fault(where, f"{operation} needs a value")
            elif isinstance(given, Selector):
                if not type_of(given).may_be(wanted):
                    what = f"{str(given)!r} is {type_of(given).value}, and {operation} needs {wanted.value}"
                    yield Fault(where, what, "wrong-type")
            elif not fits(given, wanted):
                yield Fault(where, f"{shown(given)} is no {wanted.value}", "wrong-type")

    async def compute(self, call: NodeCall) -> Values:
        """Work the new values out, one after another; a value that is not there changes nothing."""
        values: dict[str, Any] = {}
        own = self.get_id()
        assigned = {**self._assigned, **{target: [*self._assigned.get(target, ()), own] for target in self.assigns}}
        for number, (target, operation, given) in enumerate(self.params.assignments):
            now = Variables([*call.messages, WorkflowMessage(outputs=dict(values), operator_id=own)], assigned)
            old = now.get(target)
            value = now.get(given) if isinstance(given, Selector) else given
            value = now.text(value) if isinstance(value, Text) else value
            if value is None and operation not in _ALONE:
                values[target.variable] = old
                continue
            try:
                values[target.variable] = _assigned(old, operation, value)
            except (TypeError, ValueError, ArithmeticError) as error:
                raise NodeError(
                    f"node {self.get_id()!r} (assigner): assignments[{number}]: {operation} on {str(target)!r}, which is "
                    f"{shown(old)}, with {shown(value)}: {error}"
                ) from error
        return values


_ALONE = ("clear", "remove_first", "remove_last")
"""Operations that need no value."""

_NEEDED: Mapping[str, VariableType] = {
    **dict.fromkeys(("append", "extend", "remove_first", "remove_last"), T.ARRAY),
    **dict.fromkeys(("add", "subtract", "multiply", "divide"), T.NUMBER),
}
"""The type that an operation needs, where not every type has it."""


def _assigned(old: Any, operation: Operation, value: Any) -> Any:
    match operation:
        case "set":
            return value
        case "clear":
            return type(old)() if old is not None else None
        case "append":
            return [*(old or []), value]
        case "extend":
            return [*(old or []), *value]
        case "remove_first":
            return list(old or [])[1:]
        case "remove_last":
            return list(old or [])[:-1]
        case _:
            left, right = float(old or 0), float(value)
            result = {
                "add": lambda: left + right,
                "subtract": lambda: left - right,
                "multiply": lambda: left * right,
                "divide": lambda: left / right,
            }[operation]()
            return int(result) if result.is_integer() else result


class ConversationVariable(NamedTuple):
    """A variable that lasts."""

    name: Annotated[str, Field(min_length=1, description="Its name.")]
    type: Annotated[VariableType, Field(description="Its type.")]
    value: Annotated[JsonValue, Field(description="Its value in a new conversation.")] = None


class ConversationParams(NodeParams):
    """The variables of a conversation."""

    variables: list[ConversationVariable] = Field(description="[[name, type, first value], …].")


class Conversation(NodeOperator[ConversationParams]):
    """Holds the variables that last from one run of a session to the next; its id is conversation, and no edge leads to it."""

    type = "conversation"
    params_type = ConversationParams
    gives = "each variable, by its name"
    example = {"variables": [["topics", "array[string]", []]]}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Its variables."""
        return {variable.name: variable.type for variable in self.params.variables}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Another id, and first values of the wrong type."""
        if self.get_id() != self.type:
            yield Fault("id", f"a node of this type has the id {self.type!r}")
        for number, variable in enumerate(self.params.variables):
            if not fits(variable.value, variable.type):
                yield Fault(f"variables[{number}]", f"{shown(variable.value)} is no {variable.type.value}")

    async def compute(self, call: NodeCall) -> Values:
        """What the session has kept."""
        kept = self.services.conversations.get(call.job.session_id)
        return {variable.name: kept.get(variable.name, variable.value) for variable in self.params.variables}
