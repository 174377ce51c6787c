"""Tools: functions that a model may call."""

from __future__ import annotations

import importlib
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Generic, Protocol, TypeGuard, cast, overload

from pydantic import BeforeValidator, Field, PlainSerializer, PrivateAttr, model_validator
from pydantic.fields import FieldInfo
from typing_extensions import ParamSpec, TypeVar

from operad.runtime.events import current_scope
from operad.runtime.events.run_context import RunContext, deps_in
from operad.runtime.policies.deadline import Deadline, within
from operad.runtime.policies.duration import Duration, in_seconds
from operad.runtime.policies.policy import Timeout
from operad.runtime.tools.approval import Approve, approve, check_condition, is_needed, people
from operad.runtime.tools.signature import (
    Signature,
    by_name,
    checked_by_schema,
    named,
)
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.blob import Blob
from operad.runtime.values.errors import ToolError, describe, did_you_mean
from operad.runtime.values.function_threads import in_function_thread, until_given_up
from operad.runtime.values.message import new_id
from operad.runtime.values.model_text import as_text, with_note
from operad.runtime.values.secret import SecretUse
from operad.runtime.values.value import Value

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from types import ModuleType

P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any, covariant=True)
Q = ParamSpec("Q")
S = TypeVar("S")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Tool(Value, Generic[P, R]):
    """Tool that a model may call.

        def search(claim: str) -> str:
            "Look a claim up."
            return "The moon has no atmosphere to speak of."

        check = Operator("Check each claim.", tools=[Tool.of(search, timeout=20)])

    A tool is usually created from a function, by `Tool.of`: then the arguments of a call are validated by the
    function's signature and converted to the annotated types. If a tool is created from its fields, as those of an MCP
    server are, arguments are validated by the JSON Schema `parameters`. The class is generic in the types of the
    function, so that type checkers know those of a direct call.

    Attributes:
        name: Name for the model: letters, digits, ``_`` and ``-``, at most 64.
        description: Description for the model.
        parameters: JSON Schema of the arguments, an object.
        function: Sync or async function, called with the arguments by name.
        timeout: Maximum duration of a call, in seconds or as a `timedelta`; None for no limit. The thread of a sync
            function continues after it, but the result is discarded.
        id: Id of the tool in a toolkit.
        approve: True to ask a person before each call, showing the arguments; the names of the people who may allow it;
            or a function that takes arguments of the call by name, and returns True if a person is to be asked:
            ``approve=lambda amount: amount > 100``.
        pin: Hash of what a server says of the tool, to which an approval applies; empty for functions.
        read_only: True if the tool changes nothing; generated workflows then call it without a person's approval.
    """

    name: str = Field(pattern=f"^{_NAME.pattern}$")
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    function: Callable[P, R] = Field(exclude=True, repr=False)
    timeout: Annotated[float, BeforeValidator(in_seconds)] | None = Field(default=None, gt=0)
    id: str = Field(default_factory=new_id)
    approve: Annotated[Approve, PlainSerializer(bool, when_used="json")] = False
    pin: str = ""
    read_only: bool = False

    _indifferent = Value._indifferent | {"approve", "pin", "read_only"}
    _signature: Signature | None = PrivateAttr(default=None)

    def __getstate__(self) -> dict[Any, Any]:
        state = super().__getstate__()
        return {**state, "__dict__": {**state["__dict__"], "function": by_name(self.function)}}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        fields = state["__dict__"]
        super().__setstate__({**state, "__dict__": {**fields, "function": named(fields["function"])}})

    @model_validator(mode="after")
    def _check_condition(self) -> Tool[P, R]:
        check_condition(self.name, self.approve, self.parameters.get("properties", {}))
        return self

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function directly, for example in a test, without approval and validation of the arguments."""
        return self.function(*args, **kwargs)

    @classmethod
    def of(
        cls,
        function: Callable[Q, S],
        *,
        name: str = "",
        description: str = "",
        timeout: Duration | None = None,
        approve: Approve = False,
    ) -> Tool[Q, S]:
        """Create a tool from a function, with name, description and schema from its signature and docstring.

        The function may be any callable: a sync or async function, a method, a callable object, or a
        `functools.partial`, whose bound keyword arguments are hidden from the model. A parameter without annotation
        accepts any JSON value. Models give arguments by name, so ``*args``, ``**kwargs`` and positional-only parameters
        are errors.

        Args:
            function: The function.
            name: Name of the tool; by default the name of the function.
            description: Description of the tool; by default the docstring of the function.
            timeout: Maximum duration of a call, in seconds or as a `timedelta`; None for no limit.
            approve: True to ask a person before each call, showing the arguments; or a function that takes arguments of
                the call by name, and returns True if a person is to be asked.

        Raises:
            ToolError: The name is not valid for a tool, a model cannot give a parameter, or `function` is an operator.
        """
        _refuse_operators(function)
        signature = Signature(function, name)
        if not _NAME.fullmatch(signature.name):
            raise ToolError(
                f"tool {signature.name!r}: a model calls a tool by letters, digits, '_' and '-', at most 64 of them; "
                "give it a name: Tool.of(function, name=…)"
            )
        tool: Any = cls(
            name=signature.name,
            description=description or signature.description,
            parameters=signature.schema,
            function=cast("Any", function),
            timeout=in_seconds(timeout),
            approve=approve,
        )
        tool._signature = signature
        return tool

    @classmethod
    def load(cls, module_path: str, name: str, description: str = "") -> Tool:
        """Import a module and create a tool from one of its attributes, as for a LOCAL_TOOL in YAML.

        The attribute may be a `Tool`, a function, or a class. A class is instantiated without arguments; the instance
        must be a `Tool` or callable, and a callable instance gets the name of the class.

        Args:
            module_path: Dotted name of the module.
            name: Name of the attribute.
            description: Description of the tool; by default its own.

        Raises:
            ToolError: The module cannot be imported, has no such attribute, or the attribute has another type.
        """
        try:
            module = importlib.import_module(module_path)
        except (Exception, SystemExit) as error:
            raise ToolError(f"tool {name!r}: module {module_path!r} does not import: {describe(error)}") from error
        return tool_in(module, module_path, name, description)

    @property
    def deps_type(self) -> str:
        """Name of the type of the deps without which the tool cannot be called; empty if it needs none."""
        return deps_in(self._signature.context_type) if self._signature else ""

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Validate the arguments, then call the function; a sync one runs in a thread.

        Args:
            arguments: Arguments by name.

        Returns:
            The unchanged result of the function; if a person changed the arguments, a text that also tells so.

        Raises:
            ToolError: Arguments are wrong (the message names all faults), or the call took longer than the timeout.
                Errors of the function are raised unchanged.
        """
        checked = self._checked(arguments)
        if await is_needed(self.approve, {**self._defaults(), **checked}):
            by = people(self.approve)
            allowed = await approve(self.name, self.parameters, arguments, pin=self.pin, answer_by=by)
            if allowed != arguments:
                return await self._call_instead(allowed)
        return await self._call_in_time(checked)

    def observed(self, observe: Callable[[Any], object]) -> Tool[..., Any]:
        """Return the same tool that also passes the result of each call to a function."""

        async def function(**arguments: Any) -> Any:
            result = await self._call(arguments)
            observe(result)
            return result

        return cast("Tool[..., Any]", self.model_copy(update={"function": function}))

    def _defaults(self) -> dict[str, Any]:
        """Return the values of the arguments that a call may leave out."""
        properties: dict[str, Any] = self.parameters.get("properties", {})
        in_schema = {name: part["default"] for name, part in properties.items() if "default" in part}
        in_signature = self._signature.defaults if self._signature else {}
        return {
            **in_schema,
            **{name: value for name, value in in_signature.items() if not isinstance(value, FieldInfo)},
        }

    async def _call_instead(self, arguments: Mapping[str, Any]) -> str | list[str | Blob]:
        """Call the function with the arguments that a person gave; the result tells the model of them."""
        told = f"a person changed the arguments to {as_text(arguments)}"
        try:
            checked = self._checked(arguments)
        except ToolError as error:
            raise ToolError(f"{told}: {error}") from error
        result = await self._call_in_time(checked)
        return with_note(f"({told})", result)

    def _checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call, converted to the annotated types; see `call` for the errors."""
        if self._signature:
            return self._signature.validate(arguments)
        return checked_by_schema(self.name, self.parameters, dict(arguments))

    async def _call_in_time(self, checked: dict[str, Any]) -> Any:
        """Call the function with valid arguments, within the timeout; see `call` for the errors."""
        if self._signature and self._signature.context:
            checked[self._signature.context] = RunContext.current(annotation=self._signature.context_type)
        if self.timeout is None:
            return await self._call(checked)
        scope = current_scope()
        result = await within(Timeout(run=self.timeout), self._call(checked), scope.deadlines if scope else [])
        if isinstance(result, Deadline):
            raise ToolError(f"tool {self.name!r} {result.expired} and was stopped")
        return result

    async def _call(self, arguments: dict[str, Any]) -> Any:
        function: Callable[..., Any] = self.function
        if inspect.iscoroutinefunction(function):
            result = await function(**arguments)
        else:
            result = await in_function_thread(f"tool {self.name!r}", _called, function, arguments)
        if inspect.isasyncgen(result):
            async with aclosing(result):
                return [item async for item in result]
        return await result if inspect.isawaitable(result) else result


class ToolGroup(Value):
    """Group of tools that are offered together.

        files = ToolGroup(name="files", description="Read and remove files.", tools=(search, delete))
        Operator("Tidy up.", tools=[files])

    Attributes:
        name: Name for people.
        description: Purpose of the tools.
        tools: Tools of the group.
        id: Id of the group in a toolkit.
    """

    name: str
    description: str = ""
    tools: tuple[Tool, ...] = ()
    id: str = Field(default_factory=new_id)


class ToolSource(ToolGroup, ABC):
    """Tool group whose tools are known only while it is open, such as a server to connect to."""

    @property
    def secret_uses(self) -> Sequence[SecretUse]:
        """Secrets that are sent when the source is opened, and where to."""
        return ()

    @abstractmethod
    def open(self) -> AbstractAsyncContextManager[ToolGroup]:
        """Return a context manager that opens the source and yields its tools, which can be called until it exits.

        Raises:
            ToolError: The source cannot be opened.
        """


def tool_in(module: ModuleType, module_path: str, name: str, description: str = "") -> Tool:
    """Create a tool from an attribute of a module; see `Tool.load`.

    Raises:
        ToolError: The module has no such attribute, or the attribute cannot be used as a tool.
    """
    if not hasattr(module, name):
        public = [known for known in vars(module) if not known.startswith("_")]
        raise ToolError(f"tool {name!r}: module {module_path!r} has no {name!r}{did_you_mean(name, public)}")
    attribute = getattr(module, name)
    if isinstance(attribute, type):
        try:
            attribute = cast("type[Any]", attribute)()
        except (Exception, SystemExit) as error:
            raise ToolError(
                f"tool {name!r}: class {module_path}.{name} cannot be instantiated without arguments: {describe(error)}"
            ) from error
    if isinstance(attribute, Tool):
        found = cast("Tool", attribute)
        return found.model_copy(update={"description": description}) if description else found
    if is_described(attribute) or is_of_langchain(attribute):
        return tool_of(attribute, **({"description": description} if description else {}))
    if not callable(attribute):
        raise ToolError(
            f"tool {name!r}: {module_path}.{name} gives {attribute!r}; "
            "it must be a function, a Tool, or a class whose instances are one or can be called"
        )
    return Tool.of(attribute, name=name, description=description)


class _Decorator(Protocol):
    """Decorator that ``tool(…)`` returns if it is called with options."""

    def __call__(self, function: Callable[Q, S], /) -> Tool[Q, S]: ...


@overload
def tool(
    function: Callable[Q, S],
    /,
    *,
    name: str = "",
    description: str = "",
    timeout: Duration | None = None,
    approve: Approve = False,
) -> Tool[Q, S]: ...
@overload
def tool(
    *, name: str = "", description: str = "", timeout: Duration | None = None, approve: Approve = False
) -> _Decorator: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Create a tool from a function, as a decorator.

        @tool
        def search(claim: str) -> str:
            'Look a claim up.'
            return "The moon has no atmosphere to speak of."

        check = Operator("Check each claim.", tools=[search])

    A parameter that is annotated with `RunContext` is not shown to the model. The tool can still be called like the
    function: ``search("…")``.

    Args:
        function: The function; see `Tool.of`.
        options: ``name``, ``description``, ``timeout`` and ``approve``, as for `Tool.of`. With ``approve=True``, a
            person is asked before each call. The answers are ``yes``, ``no``, ``no: REASON``, ``always``, which allows
            the tool for the rest of the run, or an object with other arguments.

    Raises:
        ToolError: An option is unknown, or a model cannot call the function.
    """
    known = ("name", "description", "timeout", "approve")
    if unknown := [f"{each!r}{did_you_mean(each, known)}" for each in options if each not in known]:
        raise ToolError(f"@tool(…) has no option {', '.join(unknown)}; it has: {', '.join(known)}")
    return partial(tool_of, **options) if function is None else tool_of(function, **options)


def tool_of(function: Any, **options: Any) -> Tool:
    """Return a tool for a function; a tool is returned as it is, or as a copy with these options.

    Raises:
        ToolError: The object is neither a function nor a tool, or a model cannot call it.
    """
    if isinstance(function, Tool):
        given = cast("Tool", function)
        check_condition(given.name, options.get("approve", False), given.parameters.get("properties", {}))
        return given.model_copy(update={**options, **_with_timeout_in_seconds(options)}) if options else given
    if is_described(function):
        own_options: dict[str, Any] = {"name": function.name, "description": function.description or ""}
        return Tool.of(function.function, **{**own_options, **options})
    if is_of_langchain(function):
        return tool_of(_of_langchain(function), **options)
    if isinstance(function, type) or not callable(function):
        _refuse_operators(function)
        raise ToolError(f"expected a function or a tool, got {short_repr(function)}")
    return Tool.of(function, **options)


class DescribedFunction(Protocol):
    """Tool of another framework, such as Chat2Graph: an object with a name, a description and a function."""

    @property
    def name(self) -> str:
        """Name for the model."""
        ...

    @property
    def description(self) -> str | None:
        """Description for the model."""
        ...

    @property
    def function(self) -> Callable[..., Any]:
        """Function that the tool calls."""
        ...


def is_described(tool: Any) -> TypeGuard[DescribedFunction]:
    """Return True if an object has the attributes of a `DescribedFunction`."""
    has_name = isinstance(getattr(tool, "name", None), str) and isinstance(
        getattr(tool, "description", None), str | None
    )
    return has_name and not isinstance(tool, type) and callable(getattr(tool, "function", None))


class LangChainTool(Protocol):
    """Tool of LangChain: https://reference.langchain.com/python/langchain_core/tools."""

    @property
    def name(self) -> str:
        """Name for the model."""
        ...

    @property
    def description(self) -> str:
        """Description for the model."""
        ...

    @property
    def tool_call_schema(self) -> Any:
        """Arguments that a model gives: a pydantic model, or a JSON Schema."""
        ...

    async def ainvoke(self, input: dict[str, Any]) -> Any:
        """Call the tool."""
        ...


def is_of_langchain(tool: Any) -> TypeGuard[LangChainTool]:
    """Return True if an object is a tool of LangChain, which is not imported here."""
    return not isinstance(tool, type) and hasattr(tool, "args_schema") and hasattr(tool, "ainvoke")


def _of_langchain(tool: LangChainTool) -> Tool:
    schema = tool.tool_call_schema
    parameters = cast("dict[str, Any]", schema if isinstance(schema, dict) else schema.model_json_schema())

    async def call(**arguments: Any) -> Any:
        return await tool.ainvoke(arguments)

    return Tool(name=tool.name, description=tool.description, parameters=parameters, function=call)


def _refuse_operators(given: Any) -> None:
    """Raise ToolError for an operator or a workflow, whose classes cannot be imported here."""
    if isinstance(given, type):
        return
    recipe = "a tool can run a workflow: async def ask(task: str) -> str: return (await flow.arun(task)).text"
    if callable(getattr(given, "arun", None)):
        raise ToolError(f"{given.name!r} is a workflow; {recipe}")
    if callable(getattr(given, "get_id", None)):
        hint = "give the function, or write @tool" if hasattr(given, "function") else recipe
        raise ToolError(f"{given.get_id()!r} is an operator; {hint}")


def _with_timeout_in_seconds(options: Mapping[str, Any]) -> dict[str, Any]:
    return {"timeout": in_seconds(options["timeout"])} if "timeout" in options else {}


def as_tools(given: Any) -> Any:
    """Return a tuple of tools for an iterable of functions and tools; a validator of pydantic fields.

    Raises:
        ToolError: An item is neither a function nor a tool.
    """
    if isinstance(given, str | Mapping | Value) or not isinstance(given, Iterable):
        raise ToolError(f"tools: expected a list of functions and tools, got {short_repr(cast('object', given))}")
    return tuple(each if isinstance(each, ToolGroup) else tool_of(each) for each in cast("Iterable[Any]", given))


def _called(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a sync function, and return its value; of a generator, all its items."""
    returned = function(**arguments)
    return [*until_given_up(returned)] if inspect.isgenerator(returned) else returned
