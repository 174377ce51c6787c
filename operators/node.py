"""Typed nodes: an operator that declares its parameters, its outputs and its ports once.

Validation, the catalogue (`operad nodes`), YAML, the formats and the prompts that make workflows all
read that one declaration. A type of one's own is a subclass:

    class WordCountParams(NodeParams):
        text: Text = Field(description="The text to count the words of.")

    class WordCount(NodeOperator[WordCountParams]):
        "Counts the words of a text."

        type = "word-count"
        params_type = WordCountParams
        gives = "count (number)"

        def outputs(self, type_of):
            return {"count": VariableType.NUMBER}

        async def compute(self, call):
            return {"count": len(call.text(self.params.text).split())}
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError

from operad.operators.operator import Operator, OperatorConfig
from operad.operators.services import Services
from operad.operators.variables import (
    WITHOUT_FILES,
    Accepts,
    Selector,
    Text,
    Values,
    Variables,
    VariableType,
    fits,
    selectors_in,
    shown,
    texts_in,
    type_of,
)
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.graph import read_outside
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.values.errors import InputError, InvalidError, Issue, OperadError, did_you_mean
from operad.runtime.values.fingerprint import fingerprint, name_of
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.runtime.workflow.workflow import Workflow

TypeOf = Callable[[Selector], VariableType]
"""The type of a variable; `ANY` where nothing is known about it."""


class NodeError(OperadError):
    """What a node cannot do with the values it was given, or what it made that is not as declared."""


class NodeParams(BaseModel):
    """The parameters of a node type; each field has a description that a model can work from."""

    model_config = ConfigDict(frozen=True, extra="forbid")


ParamsT = TypeVar("ParamsT", bound=NodeParams)


class Reference(NamedTuple):
    """A variable that a node's parameters name.

    Attributes:
        where: The path of the parameter.
        selector: The variable.
        accepts: The types that it may have.
    """

    where: str
    selector: Selector
    accepts: Sequence[VariableType]


class Fault(NamedTuple):
    """What is wrong with a node.

    Attributes:
        where: The path of the parameter.
        what: What is wrong with it, and what to do.
        code: What kind of fault.
    """

    where: str
    what: str
    code: str = "param"


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What a node made.

    Attributes:
        outputs: Its variables.
        port: The port that it takes, if it has any.
        text: What it says to people, and to who judges the run.
        status: How a workflow inside of it was judged.
        parts: The messages of what ran inside of it.
    """

    outputs: Values
    port: str | None = None
    text: str = ""
    status: WorkflowStatus = WorkflowStatus.SUCCESS
    parts: tuple[WorkflowMessage, ...] = ()


class NodeCall(OperatorCall, frozen=True, kw_only=True):
    """What a node is given: an `OperatorCall`, with the variables that the node's parameters name.

    Attributes:
        variables: The variables.
    """

    variables: Variables

    def get(self, selector: Selector) -> Any:
        """A variable's value; None where its node did not run."""
        return self.variables.get(selector)

    def text(self, template: Text) -> str:
        """A text with the variables' values in it."""
        return self.variables.text(template)


class NodeOperator(Operator, Generic[ParamsT]):
    """An operator of a declared type. Its docstring says, for people and models, what it does.

    Args:
        id: Its identity in a workflow.
        params: Its parameters, as a value of `params_type` or as what such a value is made of.
        services: What it reaches outside of the workflow.
        body: What runs inside of it, for a type with `body_starts_with`.
        assigned: Per variable that it reads, the nodes before it that may have assigned it anew, in order.

    Attributes:
        type: The name of the type.
        params_type: What its parameters are.
        gives: Its outputs, in words.
        ways: Its ports, in words; empty where it has none.
        example: Parameters as an example.
        body_starts_with: For a type that runs other nodes inside, the type that these begin with.
        ends: Whether what it is given is a result of the whole workflow.

    Raises:
        InvalidError: The parameters are not as declared; every issue is listed.
    """

    type: ClassVar[str] = ""
    params_type: ClassVar[type[NodeParams]] = NodeParams
    gives: ClassVar[str] = "nothing"
    ways: ClassVar[str] = ""
    example: ClassVar[Mapping[str, Any]] = {}
    body_starts_with: ClassVar[str] = ""
    ends: ClassVar[bool] = False

    params: ParamsT

    def __init__(
        self,
        id: str,
        params: ParamsT | Mapping[str, Any] | None = None,
        *,
        services: Services | None = None,
        body: Workflow | None = None,
        assigned: Mapping[Selector, Sequence[str]] | None = None,
    ) -> None:
        try:
            config = OperatorConfig(instruction=summary(type(self)), id=id)
        except ValidationError as error:
            raise InvalidError(f"node {id!r} ({self.type})", [Issue("misshapen-id", "is no id", id)]) from error
        super().__init__(config)
        self.params = self._read_params(id, params or {})
        self.services = services or Services()
        self.body = body
        self._assigned = assigned or {}

    @classmethod
    def _read_params(cls, id: str, params: Any) -> Any:
        if isinstance(params, cls.params_type):
            return params
        try:
            return cls.params_type.model_validate(params)
        except ValidationError as error:
            raise InvalidError(f"node {id!r} ({cls.type})", param_issues(error, cls.params_type, id)) from error
        except UnicodeEncodeError as error:  # of pydantic, as it wants to name the value
            issue = Issue("value", "param: holds half of a surrogate pair where a name is expected", id)
            raise InvalidError(f"node {id!r} ({cls.type})", [issue]) from error

    # What a subclass declares

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Its variables and their types, given the types of those that it reads."""
        return {}

    def inside(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """The variables that it has for the nodes inside of it."""
        return {}

    @property
    def results(self) -> Sequence[tuple[str, Selector]]:
        """The variables of nodes inside of it that it makes its own of, each with the path of the parameter."""
        return ()

    @property
    def assigns(self) -> Sequence[Selector]:
        """The variables of other nodes that it assigns anew: those of a conversation, or of a loop around it."""
        return ()

    @property
    def ports(self) -> Sequence[str]:
        """The ports that its messages take one of; none by default."""
        return ()

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """What is wrong with it beyond the form of its parameters and the types that it accepts."""
        yield from ()

    async def compute(self, call: NodeCall) -> Values | NodeResult:
        """Do the work: return its variables."""
        raise NotImplementedError(f"{type(self).__name__} has no compute")

    # What follows from it

    @cached_property
    def references(self) -> Sequence[Reference]:
        """The variables that its parameters name."""
        results = {where for where, _ in self.results}
        fields = type(self.params).model_fields
        values = {name: getattr(self.params, name) for name in fields if name not in results}
        return list(references_in(type(self.params), values))

    @property
    def texts(self) -> list[Text]:
        """Its parameters in which variables may be named."""
        return [text for name in type(self.params).model_fields for text in texts_in(getattr(self.params, name))]

    @property
    def reads(self) -> Sequence[str]:
        """The nodes whose variables it needs."""
        return self._reads

    @cached_property
    def _reads(self) -> Sequence[str]:
        own = [reference.selector.node for reference in self.references]
        assigners = [assigner for assigners in self._assigned.values() for assigner in assigners]
        outside = read_outside([*self.body.graph().operators.values()]) if self.body else ()
        of_body = [read for read in outside if read != self.get_id()]
        return tuple(dict.fromkeys([*own, *assigners, *of_body]))

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """What is wrong with it, as far as it can tell by itself."""
        return self.issues(_unknown)

    def issues(self, type_of: TypeOf) -> list[Issue]:
        """What is wrong with it, given the types of the variables that it reads."""
        return [Issue(fault.code, f"{fault.where}: {fault.what}", self.get_id()) for fault in self.faults(type_of)]

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        """Its parameters, as JSON values."""
        return self.params.model_dump(mode="json")

    def fingerprint(self) -> dict[str, JsonValue]:
        """What makes two nodes answer alike: type and parameters.

        Raises:
            InputError: It runs a workflow inside, which has none.
        """
        if self.body is not None:
            raise InputError(f"node {self.get_id()!r} runs a workflow, and nothing tells two of these apart")
        return {"type": name_of(type(self)), "params": fingerprint(self.settings)}

    @cached_property
    def _declared(self) -> Mapping[str, VariableType]:
        return self.outputs(_unknown)

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Run it on the variables that it names.

        Returns:
            A message whose outputs are its variables.

        Raises:
            NodeError: An output is not of the type that it is declared with, or `compute` returned no outputs.
        """
        variables = Variables(call.messages, self._assigned)
        running: Any = self.compute(
            NodeCall(call.reasoner, call.job, call.messages, call.previous, call.lesson, variables=variables)
        )
        if not inspect.isawaitable(running):
            raise NodeError(
                f"node {self.get_id()!r} ({self.type}): its compute cannot be awaited; write `async def compute`"
            )
        said = await running
        if not isinstance(said, NodeResult | Mapping):
            raise NodeError(
                f"node {self.get_id()!r} ({self.type}): compute returned {shown(said)}; "
                "return a dict of the outputs, or a NodeResult"
            )
        result = said if isinstance(said, NodeResult) else NodeResult(cast("Values", said))
        for name, kind in self._declared.items():
            value = result.outputs.get(name)
            if not fits(value, kind):
                raise NodeError(
                    f"node {self.get_id()!r} ({self.type}): output {name!r} is declared as {kind.value}, "
                    f"and is {type_of(value)}: {shown(value)}"
                )
        return WorkflowMessage(
            scratchpad=result.text,
            status=result.status,
            outputs=dict(result.outputs),
            ports=None if result.port is None else (result.port,),
            parts=result.parts,
            job_id=call.job.id,
            operator_id=self.get_id(),
        )


Change = Callable[[Selector], Selector]
"""What takes the place of a variable."""


def rewritten(read: Any, written: Any, change: Change) -> Any:
    """What was written, with other variables in the place of those that were read.

    Args:
        read: The parameters, as `readable` reads them.
        written: The same as they are written.
        change: What takes the place of each variable.

    Returns:
        The same object where nothing changes.
    """
    match read, written:
        case Selector(), [_, _]:
            new = change(read)
            return written if new == read else [new.variable, new.node]
        case Selector(), Mapping():
            new = change(read)
            given = cast("Mapping[str, Any]", written)
            return given if new == read else {**given, **new._asdict()}
        case Text(), str():
            text = Text(written).reselected(change)
            return written if text == written else text
        case (list() | tuple(), list() | tuple()):  # a tuple with names may be written without its last ones
            known, raws = cast("Sequence[Any]", read), cast("Sequence[Any]", written)
            inner = [rewritten(one, raw, change) for one, raw in zip(known, raws, strict=False)]
            same = all(new is raw for new, raw in zip(inner, raws, strict=False))
            return raws if same else [*inner, *raws[len(inner) :]]
        case _, Mapping() if isinstance(read, Mapping) or hasattr(read, "_asdict"):
            fields = cast("Mapping[str, Any]", read if isinstance(read, Mapping) else read._asdict())
            given = cast("Mapping[str, Any]", written)
            made = {key: rewritten(fields.get(key), raw, change) for key, raw in given.items()}
            return given if all(made[key] is raw for key, raw in given.items()) else made
        case _:
            return written


def references_in(params_type: type[NodeParams], values: Values) -> Iterator[Reference]:
    """The variables that parameters name.

    Args:
        params_type: What declares them.
        values: Those to look at, by name.
    """
    for name, value in values.items():
        accepts = next(
            (each.types for each in params_type.model_fields[name].metadata if isinstance(each, Accepts)), None
        )
        for where, selector, in_text in selectors_in(value, name):
            yield Reference(where, selector, accepts or (WITHOUT_FILES if in_text else tuple(VariableType)))


def readable(params_type: type[NodeParams], params: Any) -> dict[str, Any]:
    """Of parameters that are wrong as a whole, those that can be read each by itself."""
    if not isinstance(params, Mapping):
        return {}
    given = cast("Values", params)
    values: dict[str, Any] = {}
    for name, field in params_type.model_fields.items():
        if name in given:
            with suppress(ValidationError, UnicodeEncodeError):
                values[name] = TypeAdapter[Any](field.rebuild_annotation()).validate_python(given[name])
    return values


def _unknown(selector: Selector) -> VariableType:
    return VariableType.ANY


def summary(node_type: type[NodeOperator[Any]]) -> str:
    """The first paragraph of a type's docstring, on one line."""
    text = inspect.cleandoc(node_type.__doc__ or node_type.__name__)
    return " ".join(text.partition("\n\n")[0].split())


def param_issues(error: ValidationError, params_type: type[NodeParams], where: str) -> list[Issue]:
    """What is wrong with parameters, with the near names of those that there are."""
    faults = param_faults(error, params_type)
    return [Issue(fault.code, f"{fault.where or 'param'}: {fault.what}", where) for fault in faults]


def param_faults(error: ValidationError, params_type: type[BaseModel]) -> list[Fault]:
    """The same, each with the path of the parameter."""
    faults: list[Fault] = []
    seen: set[tuple[Any, ...]] = set()
    for fault in error.errors(include_url=False):
        loc = tuple(step for step in fault["loc"] if not (isinstance(step, str) and _is_branch(step)))
        if (loc, fault["type"] == "missing") in seen:
            continue  # the same value, held against another form
        seen.add((loc, fault["type"] == "missing"))
        path = _path(loc)
        name = str(loc[0]) if loc else ""
        if fault["type"] == "extra_forbidden":
            known = list(params_type.model_fields)
            message = f"is no parameter{did_you_mean(name, known)}; there are: {', '.join(known) or 'none'}"
            faults.append(Fault(path, message, "unknown-param"))
        elif fault["type"] in ("missing", "missing_argument"):
            faults.append(Fault(path, "is missing", "missing-param"))
        else:
            faults.append(Fault(path, f"{_lower(fault['msg'])}, not {shown(fault['input'])}"))
    return faults


def _is_branch(step: str) -> bool:
    """Whether a step of a pydantic location names a branch of a union, and not a key."""
    return "[" in step or step in ("str", "Text", "call", "function-after", "Selector")


def _path(loc: Sequence[Any]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc).lstrip(".")


def _lower(text: str) -> str:
    text = text.removeprefix("Value error, ")
    return text[:1].lower() + text[1:]
