"""Nodes that compute values: code, template-transform, variable-aggregator, assigner, conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import Field, JsonValue

from operad.operators.node import ADVANCED, Fault, NodeCall, NodeError, NodeOperator, NodeParams, TypeOf
from operad.operators.nodes.flow import duplicate_faults
from operad.operators.sandbox.code import call_code, check_code, parameters_of
from operad.operators.sandbox.javascript import call_javascript, check_javascript
from operad.operators.sandbox.template import check_template, names_of, render_template, template_parts_read
from operad.operators.sandbox.uses import PartRead, parts_read, walked_through
from operad.operators.variables import (
    FILE_FIELDS,
    Selector,
    Text,
    Values,
    Variables,
    VariableType,
    file_parts,
    files_in,
    fits,
    no_file_part,
    plain,
    short_json,
)
from operad.runtime.values.errors import Issue, did_you_mean
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.text import whole

T = VariableType


class Argument(NamedTuple):
    """A value by a name of one's own."""

    name: Annotated[str, Field(min_length=1, description="The name that it has here.")]
    value: Annotated[Selector, Field(description="The variable that it is.")]


class Declared(NamedTuple):
    """An output and its type."""

    name: Annotated[str, Field(min_length=1, description="Its name.")]
    type: Annotated[VariableType, Field(description="Its type.")]


def issue_text(issue: Issue) -> str:
    """Return the message of an issue in code or a template, with its line unless the message contains it."""
    return issue.message if not issue.where or issue.where in issue.message else f"{issue.where}: {issue.message}"


def _file_faults(
    where: str, reads: Sequence[PartRead], variables: Sequence[Argument], type_of: TypeOf
) -> Iterator[Fault]:
    """Yield the parts of files that code or a template reads and that files do not have."""
    kinds = {argument.name: type_of(argument.value) for argument in variables}
    for name, part, of_item, line, as_attribute in dict.fromkeys(reads):
        if kinds.get(name) is not (T.ARRAY_FILE if of_item else T.FILE):
            continue
        what = f"an item of {name!r}" if of_item else repr(name)
        if part not in FILE_FIELDS:
            yield Fault(where, f"line {line}: {no_file_part(what, part)}", "file-part")
        elif as_attribute:
            yield Fault(where, f"line {line}: in code, a file is an object: write [{part!r}], not .{part}", "file-part")


class CodeParams(NodeParams):
    """A function."""

    variables: list[Argument] = Field(description="The arguments of main.")
    outputs: list[Declared] = Field(
        min_length=1,
        description="What main returns; types are string, number, boolean, object, arrays of these, and file, for files that it was given.",
    )
    code: str = Field(
        description="Code with a function main that returns the outputs by their names: Python main(arguments), "
        "JavaScript main({arguments})."
    )
    language: Literal["python", "javascript"] = Field(default="python", description="The language of the code.")


class Code(NodeOperator[CodeParams]):
    """Runs Python (or JavaScript) on variables, in a sandbox: no files, no network, no packages beyond a part of the standard library."""

    type = "code"
    params_type = CodeParams
    hint = "Python main(a, b) by the names of the variables, or JavaScript main({a, b}), returns an object with the outputs (string, number, boolean, object, or arrays). Sandbox: a part of the standard library, no classes that inherit; no files, no network; no next() of a generator."
    gives = "the declared outputs"
    example = {
        "variables": [["numbers", ["numbers", "2"]]],
        "outputs": [["total", "number"]],
        "code": "def main(numbers):\n    return {'total': sum(numbers)}",
    }

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of the declared outputs."""
        return {output.name: output.type for output in self.params.outputs}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: duplicate names, and faults of the code that can be found without running it."""
        yield from duplicate_faults("variables", [argument.name for argument in self.params.variables])
        yield from duplicate_faults("outputs", [output.name for output in self.params.outputs])
        if self.params.language == "javascript":
            yield from (Fault("code", issue_text(issue), issue.code) for issue in check_javascript(self.params.code))
            return
        wrong = check_code(self.params.code, self.services.code)
        yield from (Fault("code", issue_text(issue), issue.code) for issue in wrong)
        if not any(issue.code == "code" for issue in wrong):
            arguments = [each.name for each in self.params.variables]
            yield from (Fault("variables", fault) for fault in parameters_of(self.params.code).mismatches(arguments))
        yield from _file_faults("code", parts_read(self.params.code), self.params.variables, type_of)
        walked = walked_through(self.params.code)
        for number, (name, selector) in enumerate(self.params.variables):
            if name in walked and (kind := type_of(selector)) in (T.NUMBER, T.BOOLEAN):
                problem = f"{name!r} is {kind.value}, but main iterates over it, which requires a list or a text"
                yield Fault(f"variables[{number}]", problem, "wrong-type")

    async def compute(self, call: NodeCall) -> Values:
        """Call main and return the declared outputs."""
        arguments = {argument.name: plain(call.get(argument.value)) for argument in self.params.variables}
        code, limits = self.params.code, self.services.code
        returned = (
            await call_javascript(code, arguments, limits)
            if self.params.language == "javascript"
            else await call_code(code, arguments, limits, self.services.send_for_code)
        )
        given = {}
        if any(output.type.is_file for output in self.params.outputs):
            values = [call.get(argument.value) for argument in self.params.variables]
            given = {file_parts(file)["url"]: file for file in files_in(values)}
        return {output.name: self._output_value(output, returned, given) for output in self.params.outputs}

    def _output_value(self, output: Declared, returned: Mapping[str, Any], given: Mapping[str, FileDescriptor]) -> Any:
        """Return the value of an output from what main returned.

        Booleans become numbers if the output is one, and objects become files that main was given, by their URL.
        """
        if output.name not in returned:
            raise NodeError(
                f"{self._who}: main returned no {output.name!r}, which is declared; "
                f"it returned: {', '.join(returned) or 'an empty dict'}"
            )
        value = returned[output.name]
        if output.type is T.FILE:
            return _as_file(value, given)
        if output.type is T.ARRAY_FILE and isinstance(value, list):
            return [_as_file(each, given) for each in cast("list[Any]", value)]
        if output.type is T.ARRAY_NUMBER and isinstance(value, list):
            return [_as_number(each) for each in cast("list[Any]", value)]
        return _as_number(value) if output.type is T.NUMBER else value


def _as_file(value: Any, given: Mapping[str, FileDescriptor]) -> Any:
    """Return the file that an object describes, if code was given that file; any other value unchanged."""
    described = cast("dict[str, Any]", value)
    return given.get(str(described.get("url")), described) if isinstance(value, dict) else value


def _as_number(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


class TemplateParams(NodeParams):
    """A Jinja2 template."""

    variables: list[Argument] = Field(description="The names in the template.")
    template: str = Field(description="Jinja2; names stand in {{ }}, and only those declared in variables.")


class TemplateTransform(NodeOperator[TemplateParams]):
    """Writes a text from a Jinja2 template."""

    type = "template-transform"
    params_type = TemplateParams
    hint = "Jinja2."
    answer_output = "output"
    gives = "output (string)"
    example = {
        "variables": [["lines", ["lines", "2"]]],
        "template": "{% for line in lines %}- {{ line }}\n{% endfor %}",
    }

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the type of the text."""
        return {"output": T.STRING}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: duplicate names, and faults of the template."""
        names = [argument.name for argument in self.params.variables]
        yield from duplicate_faults("variables", names)
        if "self" in names:  # Jinja's name of the template itself
            yield Fault("variables", "'self' is reserved by Jinja; rename the variable")
        wrong = check_template(self.params.template)
        yield from (Fault("template", issue_text(issue), issue.code) for issue in wrong)
        if wrong:
            return
        yield from (
            Fault("template", f"{name!r} is not among its variables{did_you_mean(name, names)}", "undefined-variable")
            for name in names_of(self.params.template)
            if name not in names
        )
        yield from _file_faults("template", template_parts_read(self.params.template), self.params.variables, type_of)

    async def compute(self, call: NodeCall) -> Values:
        """Render the template."""
        values = {argument.name: plain(call.get(argument.value)) for argument in self.params.variables}
        text = await asyncio.to_thread(render_template, self.params.template, values, self.services.templates)
        return {"output": whole(text)}


class Group(NamedTuple):
    """Variables of which one is given."""

    name: Annotated[str, Field(min_length=1, description="Its name.")]
    variables: Annotated[list[Selector], Field(description="Variables of one type from different branches.")]


class AggregatorParams(NodeParams):
    """Variables of branches."""

    variables: list[Selector] = Field(description="Variables of one type from different branches.")
    groups: Annotated[list[Group], ADVANCED] = Field(
        default_factory=list[Group],
        description="Instead of variables, groups of them by name; each is an output, an "
        "object with the variable as output.",
    )


class VariableAggregator(NodeOperator[AggregatorParams]):
    """Brings branches together: gives the first variable of its list whose branch ran."""

    type = "variable-aggregator"
    params_type = AggregatorParams
    hint = "The first of the list that ran; joins alternative branches."
    gives = "output (of the type of the variables)"
    example = {"variables": [["text", "3"], ["text", "5"]]}

    @property
    def answer_output(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Name of the variable; None with groups."""
        return None if self.params.groups else "output"

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the type of the variable; with groups, an object for each group."""
        if self.params.groups:
            return {group.name: T.OBJECT for group in self.params.groups}
        kinds = {type_of(selector) for selector in self.params.variables} - {T.ANY}
        return {"output": kinds.pop() if len(kinds) == 1 else T.ANY}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: no variables, variables of different types, and duplicate names of groups."""
        yield from duplicate_faults("groups", [group.name for group in self.params.groups])
        named = [(f"groups[{number}]", group.variables) for number, group in enumerate(self.params.groups)]
        for where, variables in named or [("variables", self.params.variables)]:
            if not variables:
                yield Fault(where, "is empty: name one variable or more")
            kinds = [type_of(selector) for selector in variables]
            first = next((kind for kind in kinds if kind is not T.ANY), T.ANY)
            for number, kind in enumerate(kinds):
                if not kind.may_be(first):
                    name = str(variables[number])
                    yield Fault(
                        f"{where}[{number}]",
                        f"{name!r} is {kind.value}, and the others are {first.value}; make them of one type before, by a template or code node",
                    )

    async def compute(self, call: NodeCall) -> Values:
        """Return the first variable that there is, even if its value is None; with groups, of each group."""
        if not self.params.groups:
            present = (selector for selector in self.params.variables if selector in call.variables)
            return {"output": next(map(call.get, present), None)}
        chosen = {
            group.name: [selector for selector in group.variables if selector in call.variables]
            for group in self.params.groups
        }
        return {name: {"output": call.get(present[0])} for name, present in chosen.items() if present}


Operation = Literal[
    "set", "append", "extend", "clear", "add", "subtract", "multiply", "divide", "remove_first", "remove_last"
]


class Assignment(NamedTuple):
    """A new value for a variable."""

    variable: Annotated[
        Selector,
        Field(description="The variable, of the conversation (conversation.name) or of the loop around (its id.name)."),
    ]
    operation: Annotated[Operation, Field(description="What to do with it.")] = "set"
    value: Annotated[
        Selector | Text | JsonValue,
        Field(
            description="With what: a variable, or a value itself; none for clear and remove.",
            union_mode="left_to_right",
        ),
    ] = None


class AssignerParams(NodeParams):
    """New values."""

    assignments: list[Assignment] = Field(min_length=1, description="The new values, set in this order.")


class Assigner(NodeOperator[AssignerParams]):
    """Gives variables of the conversation, or of the loop around it, new values."""

    type = "assigner"
    params_type = AssignerParams
    hint = "Changes variables of the loop around it, or of the conversation."
    gives = "the new values, by name"
    example = {"assignments": [[["count", "7"], "add", 1]]}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of the assigned variables."""
        return {each.variable.variable: type_of(each.variable) for each in self.params.assignments}

    @property
    def assigns(self) -> Sequence[Selector]:
        """The assigned variables."""
        return list(dict.fromkeys(each.variable for each in self.params.assignments))

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: variables with the same name, and operations and values that do not fit the variable's type."""
        yield from duplicate_faults("assignments", [each.variable for each in self.assigns])
        for number, (target, operation, given) in enumerate(self.params.assignments):
            where, kind = f"assignments[{number}]", type_of(target)
            needed = _REQUIRED_TYPES.get(operation, kind)
            permitted = kind.item or T.ANY if operation == "append" else kind
            if not kind.may_be(needed):
                problem = f"{operation} needs {needed.value}, and {str(target)!r} is {kind.value}"
                yield Fault(where, problem, "wrong-type")
            elif operation in _WITHOUT_VALUE:
                continue
            elif given is None:
                yield Fault(where, f"{operation} needs a value")
            elif isinstance(given, Selector):
                if not type_of(given).may_be(permitted):
                    problem = f"{str(given)!r} is {type_of(given).value}, and {operation} needs {permitted.value}"
                    yield Fault(where, problem, "wrong-type")
            elif not fits(given, permitted):
                yield Fault(where, f"{short_json(given)} is not a valid {permitted.value}", "wrong-type")

    async def compute(self, call: NodeCall) -> Values:
        """Return the new values, computed in order; an operation whose value is None changes nothing."""
        values: dict[str, Any] = {}
        own_id = self.get_id()
        assigned = {**self._assigned, **{target: [*self._assigned.get(target, ()), own_id] for target in self.assigns}}
        for number, (target, operation, given) in enumerate(self.params.assignments):
            messages = [*call.messages, WorkflowMessage(outputs=dict(values), operator_id=own_id)]
            current = Variables(messages, assigned, self._writing)
            old = current.get(target)
            value = current.get(given) if isinstance(given, Selector) else given
            value = current.text(value) if isinstance(value, Text) else value
            if value is None and operation not in _WITHOUT_VALUE:
                values[target.variable] = old
                continue
            try:
                values[target.variable] = _apply_operation(old, operation, value)
            except (TypeError, ValueError, ArithmeticError) as error:
                raise NodeError(
                    f"{self._who}: assignments[{number}]: {operation} on {str(target)!r}, which is "
                    f"{short_json(old)}, with {short_json(value)}: {error}"
                ) from error
        self.services.conversations.keep(
            call.job.session_id,
            {each.variable: values[each.variable] for each in self.assigns if each.node == Conversation.type},
        )
        return values


_WITHOUT_VALUE = ("clear", "remove_first", "remove_last")
"""Operations that need no value."""

_REQUIRED_TYPES: Mapping[str, VariableType] = {
    **dict.fromkeys(("append", "extend", "remove_first", "remove_last"), T.ARRAY),
    **dict.fromkeys(("add", "subtract", "multiply", "divide"), T.NUMBER),
}
"""Types that operations require; other operations support every type."""


def _apply_operation(old: Any, operation: Operation, value: Any) -> Any:
    """Return the new value of a variable after an operation."""
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
            left, right = _number(old or 0), _number(value)
            return {
                "add": lambda: left + right,
                "subtract": lambda: left - right,
                "multiply": lambda: left * right,
                "divide": lambda: left / right,
            }[operation]()


def _number(value: Any) -> int | float:
    if isinstance(value, int | float):
        return value
    number = float(value)
    return int(number) if number.is_integer() else number


class ConversationVariable(NamedTuple):
    """A variable that lasts."""

    name: Annotated[str, Field(min_length=1, description="Its name.")]
    type: Annotated[VariableType, Field(description="Its type.")]
    value: Annotated[JsonValue, Field(description="Its value in a new conversation.")] = None


class ConversationParams(NodeParams):
    """The variables of a conversation."""

    variables: list[ConversationVariable] = Field(
        description="The variables, each with its value in a new conversation."
    )


class Conversation(NodeOperator[ConversationParams]):
    """Holds the variables that last from one run of a session to the next; its id is conversation, and no edge leads to it."""

    type = "conversation"
    params_type = ConversationParams
    gives = "each variable, by its name"
    example = {"variables": [["topics", "array[string]", []]]}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of the variables."""
        return {variable.name: variable.type for variable in self.params.variables}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: an id other than the type, and initial values of a wrong type."""
        if self.get_id() != self.type:
            yield Fault("id", f"a node of this type has the id {self.type!r}")
        for number, variable in enumerate(self.params.variables):
            if not fits(variable.value, variable.type):
                yield Fault(
                    f"variables[{number}]", f"{short_json(variable.value)} is not a valid {variable.type.value}"
                )

    async def compute(self, call: NodeCall) -> Values:
        """Return the kept variables of the session."""
        stored = self.services.conversations.get(call.job.session_id)
        return {variable.name: stored.get(variable.name, variable.value) for variable in self.params.variables}
