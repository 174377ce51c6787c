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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, cast

from pydantic import JsonValue, ValidationError

from operad.operators.named_params import named_place
from operad.operators.node_params import ADVANCED, Failure, Fault, NodeParams, Reference, param_faults, references_in
from operad.operators.operator import Operator, OperatorConfig
from operad.operators.services import Services
from operad.operators.variables import (
    Selector,
    Text,
    Values,
    Variables,
    VariableType,
    Writing,
    fits,
    shown,
    texts_in,
    type_of,
)
from operad.runtime.events import FellBack, current_scope, emit
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.graph import read_outside
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.policies.policy import Policy, Retry, causes
from operad.runtime.values.errors import (
    BudgetError,
    InputError,
    InvalidError,
    Issue,
    OperadError,
    describe,
)
from operad.runtime.values.fingerprint import fingerprint, name_of
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.runtime.workflow.workflow import Workflow

__all__ = [
    "ADVANCED",
    "DONE",
    "ERROR_OUTPUTS",
    "FAILED",
    "Failure",
    "Fault",
    "NodeCall",
    "NodeError",
    "NodeOperator",
    "NodeParams",
    "NodeResult",
    "Reference",
    "TypeOf",
    "references_in",
    "summary",
]

TypeOf = Callable[[Selector], VariableType]
"""The type of a variable; `ANY` where nothing is known about it."""


class NodeError(OperadError):
    """A node cannot process its input, or its output is not as declared."""


DONE, FAILED = "done", "failed"
"""The ports of a node whose failure takes a way of its own."""

ERROR_OUTPUTS = ("error_message", "error_type")
"""The variables that say why a node failed, where the workflow goes on."""

ParamsT = TypeVar("ParamsT", bound=NodeParams)


@dataclass(frozen=True, slots=True)
class NodeResult:
    """Result of a node.

    Attributes:
        outputs: Its variables.
        port: The port that it takes, if it has any.
        text: Text for people, and for evaluators.
        status: Verdict on a workflow inside of it.
        parts: Messages of the nodes inside of it.
    """

    outputs: Values
    port: str | None = None
    text: str = ""
    status: WorkflowStatus = WorkflowStatus.SUCCESS
    parts: tuple[WorkflowMessage, ...] = ()


class NodeCall(OperatorCall, frozen=True, kw_only=True):
    """Input of a node: an `OperatorCall`, with the variables that the node's parameters name.

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
    """An operator of a declared type. Its docstring describes it for people and models.

        class Params(NodeParams):
            text: Annotated[Text, Field(description="Text to count.")]

        class CountWords(NodeOperator[Params]):
            type = "count-words"
            params_type = Params

            def outputs(self, type_of):
                return {"words": VariableType.NUMBER}

            async def compute(self, call):
                return {"words": len(call.text(self.params.text).split())}

    Args:
        id: Its identity in a workflow.
        params: Its parameters, as a value of `params_type` or as its fields.
        services: External services.
        body: Nodes inside of it, for a type with `body_starts_with`.
        assigned: Per variable that it reads, the nodes before it that may have assigned it anew, in order.
        carried: Variables of the conversation that nodes inside of it assign.
        writing: Form of values in its texts.

    Attributes:
        type: The name of the type.
        params_type: Type of its parameters.
        gives: Description of its outputs.
        ways: Description of its ports; empty if it has none.
        example: Parameters as an example.
        hint: For models that generate workflows, in a line: what parameters and outputs by name and type leave open.
            None for the summary.
        body_starts_with: For a type that runs other nodes inside, the type that these begin with.
        ends: True if what it is given is a result of the whole workflow.
        answers: True if its output ``answer`` is a part of the answer of the whole workflow, wherever it runs.

    Raises:
        InvalidError: The parameters are not as declared; every issue is listed.
    """

    type: ClassVar[str] = ""
    params_type: ClassVar[type[NodeParams]] = NodeParams
    gives: ClassVar[str] = "nothing"
    ways: ClassVar[str] = ""
    example: ClassVar[Mapping[str, Any]] = {}
    hint: ClassVar[str | None] = None
    body_starts_with: ClassVar[str] = ""
    ends: ClassVar[bool] = False
    answers: ClassVar[bool] = False

    params: ParamsT

    def __init__(
        self,
        id: str,
        params: ParamsT | Mapping[str, Any] | None = None,
        *,
        services: Services | None = None,
        body: Workflow | None = None,
        assigned: Mapping[Selector, Sequence[str]] | None = None,
        carried: Sequence[Selector] = (),
        writing: Writing | None = None,
    ) -> None:
        try:
            config = OperatorConfig(instruction=summary(type(self)), id=id)
        except ValidationError as error:
            raise InvalidError(
                f"node {id!r} ({self.type})", [Issue("misshapen-id", "is not a valid id", id)]
            ) from error
        super().__init__(config)
        self.params = self._read_params(id, params or {})
        if (failure := self.params.failure) and failure.retries:
            wait = max(failure.wait, 0.001)
            self.policy = Policy(retry=Retry(failure.retries + 1, wait, wait, on=Exception))
        self.services = services or Services()
        self.body = body
        self._assigned = assigned or {}
        self._carried = carried
        self._writing = writing

    @classmethod
    def _read_params(cls, id: str, params: Any) -> Any:
        if isinstance(params, cls.params_type):
            return params
        try:
            return cls.params_type.model_validate(params)
        except ValidationError as error:
            faults = param_faults(error, cls.params_type)
            issues = [
                Issue(each.code, f"{named_place(cls.params_type, each.where) or 'param'}: {each.what}", id)
                for each in faults
            ]
            raise InvalidError(f"node {id!r} ({cls.type})", issues) from error
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
        """Variables of other nodes that it assigns: those of a conversation, or of a loop around it."""
        return ()

    @property
    def ports(self) -> Sequence[str]:
        """The ports that its messages take one of; none by default, two where a failure takes a way of its own."""
        failure = self.params.failure
        return (DONE, FAILED) if failure is not None and failure.then == "branch" else ()

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults beyond the form of its parameters and the types that it accepts."""
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
        """Return the issues that the node can determine by itself."""
        return self.issues(_unknown)

    def issues(self, type_of: TypeOf) -> list[Issue]:
        """Return the issues of the node, given the types of the variables that it reads."""
        faults = [*self.faults(type_of), *self._failure_faults(type_of)]
        kind = self.params_type
        return [Issue(each.code, f"{named_place(kind, each.where)}: {each.what}", self.get_id()) for each in faults]

    def variables(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Its variables and their types, with those that say why it failed, where the workflow goes on then."""
        failure = self.params.failure
        if failure is None or not failure.goes_on:
            return self.outputs(type_of)
        more = dict.fromkeys(failure.values, VariableType.ANY)
        return {**more, **self.outputs(type_of), **dict.fromkeys(ERROR_OUTPUTS, VariableType.STRING)}

    def _failure_faults(self, type_of: TypeOf) -> Iterator[Fault]:
        failure = self.params.failure
        if failure is None:
            return
        if failure.then == "branch" and list(self.ports) != [DONE, FAILED]:
            yield Fault("failure.then", f"a node of type {self.type!r} has ways of its own, and takes none on failure")
        declared = self.outputs(type_of)
        for name, value in failure.values.items():
            if name in declared and not fits(value, declared[name]):
                what = f"{shown(value)} is no {declared[name].value}, which the output {name!r} is"
                yield Fault("failure.values", what, "wrong-type")

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        """Its parameters, as JSON values."""
        return self.params.model_dump(mode="json")

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine its answers: type and parameters.

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
        variables = Variables(call.messages, self._assigned, self._writing)
        running: Any = self.compute(
            NodeCall(call.reasoner, call.job, call.messages, call.previous, call.lesson, variables=variables)
        )
        if not inspect.isawaitable(running):
            raise NodeError(
                f"node {self.get_id()!r} ({self.type}): its compute cannot be awaited; write `async def compute`"
            )
        try:
            result = self._result(await running)
        except BudgetError:
            raise
        except Exception as error:  # noqa: BLE001 - raised again, unless the workflow goes on after any failure
            result = self._after(error)
        return WorkflowMessage(
            scratchpad=result.text,
            status=result.status,
            outputs=dict(result.outputs),
            ports=None if result.port is None else (result.port,),
            parts=result.parts,
            job_id=call.job.id,
            operator_id=self.get_id(),
        )

    def _result(self, said: Any) -> NodeResult:
        """Return the result of a node, after checking it against its declaration."""
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
        failure = self.params.failure
        return replace(result, port=DONE) if failure is not None and failure.then == "branch" else result

    def _after(self, error: Exception) -> NodeResult:
        """Return the replacement of its result after the last attempt; otherwise, raise the error.

        Raises:
            Exception: The error.
        """
        failure, scope = self.params.failure, current_scope()
        if failure is None or not failure.goes_on or (scope is not None and scope.attempt <= failure.retries):
            raise error
        if scope is not None:
            emit(FellBack(error=describe(error), to="its values" if failure.then == "values" else "its failed port"))
        first = causes(error)[-1]
        why = dict(zip(ERROR_OUTPUTS, (describe(error), type(first).__name__), strict=True))
        port = FAILED if failure.then == "branch" else None
        return NodeResult({**failure.values, **why}, port=port, text=describe(error))


def _unknown(selector: Selector) -> VariableType:
    return VariableType.ANY


def summary(node_type: type[NodeOperator[Any]]) -> str:
    """The first paragraph of a type's docstring, on one line."""
    text = inspect.cleandoc(node_type.__doc__ or node_type.__name__)
    return " ".join(text.partition("\n\n")[0].split())
