"""Typed nodes: operators with declared parameters, outputs and ports.

Validation, the catalogue (`operad nodes`), YAML, the formats and the prompts that generate workflows all use that
declaration. A custom node type is a subclass:

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
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, cast

from pydantic import JsonValue, ValidationError

from operad.operators.named_params import named_place
from operad.operators.node_params import (
    ADVANCED,
    DONE,
    FAILED,
    Failure,
    Fault,
    NodeParams,
    Reference,
    param_faults,
    references_in,
)
from operad.operators.secrets import FindSecret, missing_secrets
from operad.operators.services import Services
from operad.operators.variables import (
    Selector,
    Text,
    Values,
    Variables,
    VariableType,
    Writing,
    fits,
    short_json,
    texts_in,
    type_of,
)
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.graph import read_outside
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.policies.policy import ERROR_OUTPUTS, NO_POLICY, Policy
from operad.runtime.values.errors import InputError, InvalidError, Issue, OperadError, did_you_mean
from operad.runtime.values.fingerprint import fingerprint, name_of
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.runtime.values.secret import without_keys
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
"""Function that returns the type of a variable; `ANY` if the type is unknown."""


class NodeError(OperadError):
    """A node cannot process its input, or its output is not as declared."""


ParamsT = TypeVar("ParamsT", bound=NodeParams)
_ServiceT = TypeVar("_ServiceT")


@dataclass(frozen=True, slots=True)
class NodeResult:
    """Result of a node.

    Attributes:
        outputs: Variables of the node.
        port: Port taken, if the node has ports.
        text: Text for people, and for evaluators.
        status: Verdict on the workflow inside the node.
        parts: Messages of the nodes inside the node.
    """

    outputs: Values
    port: str | None = None
    text: str = ""
    status: WorkflowStatus = WorkflowStatus.SUCCESS
    parts: tuple[WorkflowMessage, ...] = ()


class NodeCall(OperatorCall, frozen=True, kw_only=True):
    """Input of a node: an `OperatorCall` with the variables that the node's parameters refer to."""

    variables: Variables

    def get(self, selector: Selector) -> Any:
        """Return the value of a variable; None if its node did not run."""
        return self.variables.get(selector)

    def text(self, template: Text) -> str:
        """Return a text with its variables replaced by their values."""
        return self.variables.text(template)


class NodeOperator(BaseOperator[Any], Generic[ParamsT]):
    """Base class of node types. The docstring of a type describes it for people and models.

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
        id: Id of the node in a workflow.
        params: Parameters, as an instance of `params_type` or as a mapping of its fields.
        services: External services.
        body: Workflow of the nodes inside the node, for a type with `body_starts_with`.
        assigned: For each variable that the node reads, the earlier nodes that may have assigned it, in order.
        carried: Variables of the conversation that nodes inside the node assign.
        writing: Representation of values in texts.

    Attributes:
        before: Function that is awaited before the node runs, with its id and call, and returns the call that it runs
            with; None for none.
        type: Name of the type.
        params_type: Class of the parameters.
        gives: Description of the outputs.
        reports: Types of the variables that say how the node ran, beside its outputs; for those who look for them.
        ports_text: Description of the ports; empty if there are none.
        example: Example of the parameters.
        hint: Line for models that generate workflows, with information that the names and types of parameters and
            outputs do not give. None for the summary.
        body_starts_with: Type of the first node inside; empty if a type has no nodes inside.
        ends: True if the inputs of the node are results of the whole workflow.
        answer_output: Name of the output that is the whole answer of the node, for functions and in results; None if the
            answer is the object of all outputs.
        file_secrets: Values of secrets that the imported file of the workflow contains, by name.
        answers: True if the output ``answer`` is a part of the answer of the whole workflow, also inside other nodes.

    Raises:
        InvalidError: The parameters do not fit their declaration; every issue is listed.
    """

    type: ClassVar[str] = ""
    params_type: ClassVar[type[NodeParams]] = NodeParams
    gives: ClassVar[str] = "nothing"
    reports: ClassVar[Mapping[str, VariableType]] = {}
    ports_text: ClassVar[str] = ""
    example: ClassVar[Mapping[str, Any]] = {}
    hint: ClassVar[str | None] = None
    body_starts_with: ClassVar[str] = ""
    ends: ClassVar[bool] = False
    answers: ClassVar[bool] = False
    answer_output: str | None = None
    file_secrets: Mapping[str, str] = {}

    takes_one_port = True
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
        if not isinstance(id, str) or not id:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidError(f"node {id!r} ({self.type})", [Issue("misshapen-id", "is not a valid id", str(id))])
        self._id = id
        self.params = self._read_params(id, params or {})
        self.policy = self.params.failure.policy if self.params.failure else None
        self.services = services or Services()
        self.body = body
        self._assigned = assigned or {}
        self._carried = carried
        self._writing = writing
        self.before: Callable[[str, OperatorCall], Awaitable[OperatorCall]] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._id!r}>"

    def get_id(self) -> str:
        """Return the id of the node."""
        return self._id

    @property
    def instruction(self) -> str:
        """Purpose of the node: the summary of its type."""
        return summary(type(self))

    @classmethod
    def _read_params(cls, id: str, params: Any) -> Any:
        """Return validated parameters."""
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
        except UnicodeEncodeError as error:  # pydantic fails to encode the value for its error
            issue = Issue("value", "param: holds half of a surrogate pair where a name is expected", id)
            raise InvalidError(f"node {id!r} ({cls.type})", [issue]) from error

    # Declarations of subclasses

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of the node's variables by name, given the types of the variables that it reads."""
        return {}

    def inside(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of the variables that only the nodes inside can read, by name."""
        return {}

    @property
    def results(self) -> Sequence[tuple[str, Selector]]:
        """Variables of nodes inside from which the node makes its outputs, each with the path of the parameter."""
        return ()

    @property
    def assigns(self) -> Sequence[Selector]:
        """Variables of other nodes that this node assigns: of the conversation, or of the enclosing loop."""
        return ()

    @property
    def unknown_outputs(self) -> Sequence[str]:
        """Outputs whose content another system decides, so that no made-up value stands for them in a dry run."""
        return ()

    @property
    def ports(self) -> Sequence[str]:
        """Ports, of which each message takes one; none by default, two if failures take a branch of their own."""
        failure = self.params.failure
        return (DONE, FAILED) if failure is not None and failure.then == "branch" else ()

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults other than those of the form of parameters and of the types of variables."""
        yield from ()

    async def compute(self, call: NodeCall) -> Values | NodeResult:
        """Do the work of the node and return its variables."""
        raise NotImplementedError(f"{type(self).__name__} has no compute")

    # Helpers of subclasses

    @property
    def _who(self) -> str:
        """Id and type of the node, for errors."""
        return f"node {self.get_id()!r} ({self.type})"

    def _service(self, what: str, name: str, known: Mapping[str, _ServiceT], field: str) -> _ServiceT:
        """Return a configured service by its name."""
        if name in known:
            return known[name]
        names = ", ".join(known) or f"none; name them in Services({field}=…)"
        raise InputError(f"{self._who}: no {what} is called {name!r}{did_you_mean(name, known)}; there are: {names}")

    # Derived from the declarations

    @cached_property
    def references(self) -> Sequence[Reference]:
        """Variables that the parameters refer to."""
        results = {where for where, _ in self.results}
        fields = type(self.params).model_fields
        values = {name: getattr(self.params, name) for name in fields if name not in results}
        return list(references_in(type(self.params), values))

    @property
    def texts(self) -> list[Text]:
        """Texts of the parameters that may contain variables."""
        return [text for name in type(self.params).model_fields for text in texts_in(getattr(self.params, name))]

    @property
    def reads(self) -> Sequence[str]:
        """Ids of the nodes whose variables this node needs."""
        return self._reads

    @cached_property
    def _reads(self) -> Sequence[str]:
        own_reads = [reference.selector.node for reference in self.references]
        assigners = [assigner for assigners in self._assigned.values() for assigner in assigners]
        outside = read_outside([*self.body.graph().operators.values()]) if self.body else ()
        of_body = [read for read in outside if read != self.get_id()]
        return tuple(dict.fromkeys([*own_reads, *assigners, *of_body]))

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return the issues that the node can determine by itself."""
        return self.issues(_unknown)

    def check_policy(self, policy: Policy) -> list[Issue]:
        """Return the issues of a policy with which a workflow runs the node, and which overrides its `failure`."""
        own = NO_POLICY if self.policy is None else self.policy
        return [
            Issue(
                "two-policies",
                f"failure.{field}: the policy that the node is added with sets its {kind}, too; give it in one of the two",
                self.get_id(),
            )
            for kind, field in (("retry", "retries"), ("fallback", "then"))
            if (said := getattr(own, kind)) is not None and getattr(policy, kind) != said
        ]

    def issues(self, type_of: TypeOf) -> list[Issue]:
        """Return the issues of the node, given the types of the variables that it reads."""
        faults = [*self.faults(type_of), *self._failure_faults(type_of)]
        kind = self.params_type
        return [Issue(each.code, f"{named_place(kind, each.where)}: {each.what}", self.get_id()) for each in faults]

    def variables(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of all variables by name, with `ERROR_OUTPUTS` if the workflow continues after a failure."""
        failure = self.params.failure
        own = {**self.outputs(type_of), **self.reports}
        if failure is None or not failure.goes_on:
            return own
        declared = dict.fromkeys(failure.values, VariableType.ANY)
        return {**declared, **own, **dict.fromkeys(ERROR_OUTPUTS, VariableType.STRING)}

    def _failure_faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield the faults of the parameter `failure`."""
        failure = self.params.failure
        if failure is None:
            return
        if failure.then == "branch" and list(self.ports) != [DONE, FAILED]:
            problem = f"a node of type {self.type!r} has ports of its own, and cannot have one for failures"
            yield Fault("failure.then", problem)
        declared = self.outputs(type_of)
        for name, value in failure.values.items():
            if name in declared and not fits(value, declared[name]):
                problem = f"{short_json(value)} is not a valid {declared[name].value}, the type of the output {name!r}"
                yield Fault("failure.values", problem, "wrong-type")

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        """Parameters as JSON values, for caches and durable runs, without keys that are written in them."""
        return cast("Mapping[str, JsonValue]", without_keys(self.params.model_dump(mode="json")))

    def missing_secrets(self) -> Sequence[str]:
        """Return the names of the secrets that the node sends and that have no value, also not in its file."""
        return missing_secrets((use.secret for use in self.secret_uses), self._find_secret)

    @property
    def _find_secret(self) -> FindSecret:
        return lambda name: self.file_secrets.get(name) or self.services.secrets(name)

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine the node's outputs: type and parameters.

        Raises:
            InputError: The node runs a workflow inside, which has no fingerprint.
        """
        if self.body is not None:
            raise InputError(f"node {self.get_id()!r} runs a workflow, which has no fingerprint")
        return {"type": name_of(type(self)), "params": fingerprint(self.settings)}

    @cached_property
    def _declared(self) -> Mapping[str, VariableType]:
        return self.outputs(_unknown)

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Run the node with the variables that its parameters refer to.

        Returns:
            A message whose outputs are the node's variables.

        Raises:
            NodeError: An output has another type than declared, or `compute` did not return outputs.
        """
        if self.before is not None:
            call = await self.before(self._id, call)
        variables = Variables(call.messages, self._assigned, self._writing)
        fields = {name: getattr(call, name) for name in OperatorCall.__struct_fields__}
        running: Any = self.compute(NodeCall(**fields, variables=variables))
        if not inspect.isawaitable(running):
            raise NodeError(f"{self._who}: its compute cannot be awaited; write `async def compute`")
        result = self._result(await running)
        return WorkflowMessage(
            scratchpad=result.text,
            status=result.status,
            outputs=dict(result.outputs),
            answer=self.answer_output,
            ports=None if result.port is None else (result.port,),
            parts=result.parts,
            job_id=call.job.id,
            operator_id=self.get_id(),
        )

    def _result(self, returned: Any) -> NodeResult:
        """Return the value of `compute` as a result, after checking the outputs against their declaration."""
        if not isinstance(returned, NodeResult | Mapping):
            raise NodeError(
                f"{self._who}: compute returned {short_json(returned)}; return a dict of the outputs, or a NodeResult"
            )
        result = returned if isinstance(returned, NodeResult) else NodeResult(cast("Values", returned))
        for name, kind in self._declared.items():
            value = result.outputs.get(name)
            if not fits(value, kind):
                raise NodeError(
                    f"{self._who}: output {name!r} is declared as {kind.value}, "
                    f"and is {type_of(value)}: {short_json(value)}"
                )
        failure = self.params.failure
        return replace(result, port=DONE) if failure is not None and failure.then == "branch" else result


def _unknown(selector: Selector) -> VariableType:
    return VariableType.ANY


def summary(node_type: type[NodeOperator[Any]]) -> str:
    """Return the first paragraph of the docstring of a node type, on one line."""
    text = inspect.cleandoc(node_type.__doc__ or node_type.__name__)
    return " ".join(text.partition("\n\n")[0].split())
