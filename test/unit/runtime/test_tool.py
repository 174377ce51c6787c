from __future__ import annotations

import asyncio
import functools
import sys
import threading
from contextvars import ContextVar
from datetime import date
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from operad.runtime.tools.signature import Docstring
from operad.runtime.tools.tool import Tool, tool
from operad.runtime.values.errors import ToolError

if TYPE_CHECKING:
    from decimal import Decimal


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    name: str
    age: int = 0


def search(query: str, limit: int = 5, *, kind: Literal["web", "news"] = "web") -> list[str]:
    """Search the web.

    Results come best first.

    Args:
        query: What to look for.
        limit: How many results,
            at most 20.

    Returns:
        Titles.
    """
    return [query, str(limit), kind]


def test_a_function_becomes_a_tool_with_name_description_and_schema():
    tool = Tool.of(search)

    assert tool.name == "search"
    assert tool.description == "Search the web.\n\nResults come best first.\n\nReturns:\n    Titles."
    assert tool.parameters == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "limit": {"type": "integer", "default": 5, "description": "How many results, at most 20."},
            "kind": {"type": "string", "enum": ["web", "news"], "default": "web"},
        },
        "required": ["query"],
    }


def test_nested_models_optionals_lists_and_field_descriptions_are_in_the_schema():
    def invite(
        people: list[Person],
        note: Annotated[str | None, Field(description="A greeting.", max_length=80)] = None,
    ) -> None:
        """Invite.

        Args:
            people: Whom.
            note: Not this: the annotation says it.
        """

    schema = Tool.of(invite).parameters

    assert schema["properties"]["people"] == {
        "type": "array",
        "items": {"$ref": "#/$defs/Person"},
        "description": "Whom.",
    }
    assert schema["$defs"]["Person"]["required"] == ["name"]
    assert schema["properties"]["note"] == {
        "anyOf": [{"type": "string", "maxLength": 80}, {"type": "null"}],
        "default": None,
        "description": "A greeting.",
    }


async def test_a_function_without_parameters_takes_none():
    tool = Tool.of(lambda: 7, name="seven")

    assert tool.parameters == {"type": "object", "additionalProperties": False, "properties": {}}
    assert await tool.call({}) == 7


async def test_parameters_may_be_named_like_anything():
    def odd(_id: int, json: str, schema: str, model_config: str, self: str) -> tuple[Any, ...]:
        return _id, json, schema, model_config, self

    tool = Tool.of(odd)

    assert list(tool.parameters["properties"]) == ["_id", "json", "schema", "model_config", "self"]
    assert await tool.call({"_id": 1, "json": "j", "schema": "s", "model_config": "m", "self": "me"}) == (
        1,
        "j",
        "s",
        "m",
        "me",
    )


async def test_a_parameter_without_annotation_takes_any_json_value():
    tool = Tool.of(lambda value: value, name="same")

    assert tool.parameters["properties"] == {"value": {}}
    assert await tool.call({"value": [1, {"a": None}]}) == [1, {"a": None}]


async def test_a_default_that_json_cannot_say_stays_the_functions_own():
    nothing = object()

    def get(key: str, default: Any = nothing) -> bool:
        return default is nothing

    tool = Tool.of(get)

    assert tool.parameters["properties"]["default"] == {}
    assert await tool.call({"key": "k"}) is True


async def test_arguments_are_converted_to_the_annotated_types():
    def record(who: Person, colour: Colour, day: date, where: Path, count: int) -> tuple[Any, ...]:
        return who, colour, day, where, count

    tool = Tool.of(record)

    assert await tool.call(
        {"who": {"name": "Ada"}, "colour": "red", "day": "2024-02-29", "where": "/tmp", "count": "3"}  # noqa: S108
    ) == (Person(name="Ada"), Colour.RED, date(2024, 2, 29), Path("/tmp"), 3)  # noqa: S108


async def test_all_faults_of_a_call_are_named_at_once():
    with pytest.raises(ToolError) as raised:
        await Tool.of(search).call({"qeury": "x", "limit": "many", "kind": "film"})

    assert str(raised.value) == (
        "tool 'search' was called with wrong arguments: 'query' is missing; "
        "'limit': Input should be a valid integer, unable to parse string as an integer; "
        "'kind': Input should be 'web' or 'news'; "
        "'qeury' is not an argument (did you mean 'query'?)"
    )


async def test_a_fault_deep_in_an_argument_is_named_by_its_path():
    def greet(people: list[Person]) -> None: ...

    with pytest.raises(ToolError, match=r"'people\.1\.age': Input should be a valid integer"):
        await Tool.of(greet).call({"people": [{"name": "Ada"}, {"name": "Bob", "age": "old"}]})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *values: values, r"tool 'f': parameter '\*values' is variadic positional"),
        (lambda **options: options, r"tool 'f': parameter '\*\*options' is variadic keyword"),
        (lambda x, /: x, "tool 'f': parameter 'x' is positional-only"),
        (dict.fromkeys, "tool 'f'"),
    ],
)
def test_a_parameter_that_a_model_cannot_give_by_name_is_refused(function: Any, message: str):
    with pytest.raises(ToolError, match=message):
        Tool.of(function, name="f")


def test_a_type_without_json_schema_is_refused_by_parameter():
    def listen(name: str, lock: threading.Lock, event: threading.Event) -> None: ...

    with pytest.raises(ToolError, match="tool 'listen': a model cannot be told the type of parameter 'lock', 'event'"):
        Tool.of(listen)


def test_an_annotation_that_cannot_be_resolved_is_refused_by_parameter():
    def pay(to: str, amount: Decimal) -> None: ...

    with pytest.raises(ToolError, match="type of parameter 'amount': name 'Decimal' is not defined"):
        Tool.of(pay)


async def test_a_return_annotation_need_not_resolve():
    def price(item: str) -> Decimal:
        return len(item)  # pyright: ignore

    assert await Tool.of(price).call({"item": "tea"}) == 3


def test_the_decorator_called_with_a_function_keeps_the_options():
    def delete(path: str) -> str:
        """Delete a file."""
        return path

    made = tool(delete, name="remove", description="Remove.", timeout=5, approve=True)
    assert (made.name, made.description, made.timeout, made.approve) == ("remove", "Remove.", 5, True)
    assert tool(made, approve=False).approve is False


def test_a_nameless_function_needs_a_name():
    with pytest.raises(ToolError, match=r"tool '<lambda>': a model calls a tool by letters"):
        Tool.of(lambda: None)


class Counter:
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        self.value = start

    def add(self, step: int = 1) -> int:
        """Add to it.

        Args:
            step: How much.
        """
        self.value += step
        return self.value

    def __call__(self, times: int) -> int:
        """Count so many times."""
        return self.value + times


async def test_a_bound_method_is_a_tool_without_self():
    tool = Tool.of(Counter(10).add)

    assert (tool.name, tool.description) == ("add", "Add to it.")
    assert tool.parameters["properties"] == {"step": {"type": "integer", "default": 1, "description": "How much."}}
    assert await tool.call({"step": 5}) == 15


async def test_a_callable_object_is_a_tool_named_after_its_class():
    tool = Tool.of(Counter(10))

    assert (tool.name, tool.description) == ("Counter", "Count so many times.")
    assert await tool.call({"times": 2}) == 12


async def test_what_a_partial_binds_is_neither_offered_nor_shown():
    tool = Tool.of(functools.partial(search, "secret", limit=3))

    assert tool.name == "search"
    assert list(tool.parameters["properties"]) == ["kind"]
    assert await tool.call({"kind": "news"}) == ["secret", "3", "news"]


async def test_a_decorated_function_keeps_its_signature():
    def shouting(function: Any) -> Any:
        @functools.wraps(function)
        def shout(*args: Any, **kwargs: Any) -> str:
            return function(*args, **kwargs).upper()

        return shout

    @shouting
    def greet(who: Person) -> str:
        """Greet."""
        return f"hello {who.name}"

    assert await Tool.of(greet).call({"who": {"name": "ada"}}) == "HELLO ADA"


async def test_an_async_function_runs_in_the_loop():
    async def here() -> int:
        return threading.get_ident()

    assert await Tool.of(here).call({}) == threading.get_ident()


async def test_a_sync_function_runs_in_a_thread_with_the_callers_context():
    user: ContextVar[str] = ContextVar("user")
    user.set("ada")

    def who() -> tuple[str, bool]:
        return user.get(), threading.get_ident() == caller

    caller = threading.get_ident()
    assert await Tool.of(who).call({}) == ("ada", False)


async def test_an_awaitable_from_a_sync_function_is_awaited():
    async def later(x: int) -> int:
        await asyncio.sleep(0)
        return x + 1

    assert await Tool.of(functools.partial(later, 1), name="partial").call({}) == 2
    assert await Tool.of(lambda: later(2), name="lambda_").call({}) == 3


async def test_what_the_function_raises_comes_through():
    error = KeyError("gone")

    def lose() -> None:
        raise error

    with pytest.raises(KeyError) as raised:
        await Tool.of(lose).call({})
    assert raised.value is error


async def test_a_stop_iteration_in_a_thread_is_an_error_and_not_a_hang():
    def first() -> int:
        return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(Tool.of(first).call({}), 20)


def echo(**arguments: Any) -> dict[str, Any]:
    return arguments


SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}},
    "required": ["path"],
    "additionalProperties": False,
}


async def test_a_tool_with_a_schema_of_its_own_is_checked_against_it():
    tool = Tool(name="tree", parameters=SCHEMA, function=echo)

    assert await tool.call({"path": "."}) == {"path": "."}
    assert await tool.call({"path": ".", "depth": "10"}) == {"path": ".", "depth": 10}
    with pytest.raises(ToolError) as raised:
        await tool.call({"paht": ".", "depth": "2"})
    assert str(raised.value) == (
        "tool 'tree' was called with wrong arguments: 'depth': '2' is not of type 'integer'; "
        "'path' is missing; 'paht' is not an argument (did you mean 'path'?)"
    )


async def test_a_required_argument_with_a_default_may_be_left_out():
    clip = {"type": "object", "properties": {"x": {"default": 0}, "width": {}}, "required": ["x", "width"]}
    schema: dict[str, Any] = {
        "properties": {"scale": {"enum": ["css", "device"], "default": "css"}, "clip": clip},
        "required": ["scale"],
    }
    tool = Tool(name="shoot", parameters=schema, function=echo)

    assert await tool.call({}) == {"scale": "css"}
    assert await tool.call({"scale": "device", "clip": {"width": 9}}) == {
        "scale": "device",
        "clip": {"x": 0, "width": 9},
    }
    with pytest.raises(ToolError, match=r"'width' is a required property"):
        await tool.call({"clip": {}})


@pytest.mark.parametrize("schema", [{"type": "objekt"}, {"$ref": "http://127.0.0.1:9/schema.json"}])
async def test_a_schema_that_is_broken_or_lies_elsewhere_is_an_error(schema: dict[str, Any]):
    with pytest.raises(ToolError, match="tool 'tree': its parameters are not a usable JSON Schema"):
        await Tool(name="tree", parameters=schema, function=echo).call({})


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "my_tools.py").write_text(
        '''
from operad.runtime.tools.tool import Tool

def shout(text: str) -> str:
    """Shout."""
    return text.upper()

whisper = Tool.of(shout, name="whisper", description="Whisper.")

class SchemaGetter:
    """Gets a schema."""
    def __call__(self, graph: str) -> str:
        return graph

class Reader(Tool):
    def __init__(self):
        super().__init__(name="read_document", description="Read.", function=self.read)
    def read(self): ...

class NeedsKey:
    def __init__(self, key): ...

class Inert: ...

limit = 3
'''
    )
    (tmp_path / "broken_tools.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "my_tools"
    for name in ("my_tools", "broken_tools"):
        sys.modules.pop(name, None)


async def test_functions_tools_and_classes_load_from_a_module(module: str):
    assert await Tool.load(module, "shout").call({"text": "hi"}) == "HI"
    assert Tool.load(module, "shout", "Be loud.").description == "Be loud."
    assert Tool.load(module, "whisper") is sys.modules[module].whisper
    assert Tool.load(module, "whisper", "Softly.").description == "Softly."
    getter = Tool.load(module, "SchemaGetter")
    assert (getter.name, getter.description) == ("SchemaGetter", "Gets a schema.")
    assert await getter.call({"graph": "g"}) == "g"
    assert Tool.load(module, "Reader").name == "read_document"


@pytest.mark.parametrize(
    ("path", "name", "message"),
    [
        (
            "no.such",
            "shout",
            "tool 'shout': module 'no.such' does not import: ModuleNotFoundError: No module named 'no'",
        ),
        ("broken_tools", "x", "tool 'x': module 'broken_tools' does not import: .*No module named 'no_such_library'"),
        ("my_tools", "shoot", r"tool 'shoot': module 'my_tools' has no 'shoot' \(did you mean 'shout'\?\)"),
        ("my_tools", "NeedsKey", "class my_tools.NeedsKey cannot be instantiated without arguments: TypeError"),
        (
            "my_tools",
            "Inert",
            "tool 'Inert': my_tools.Inert gives <my_tools.Inert object at .*>; it must be a function",
        ),
        ("my_tools", "limit", "tool 'limit': my_tools.limit gives 3; it must be a function"),
    ],
)
@pytest.mark.usefixtures("module")
def test_what_does_not_load_says_why(path: str, name: str, message: str):
    with pytest.raises(ToolError, match=message):
        Tool.load(path, name)


def test_numpy_docstrings_are_read():
    parsed = Docstring.parse(
        """Scale it.

        Parameters
        ----------
        x, y : float
            Where
            it is.
        by
            How much.

        Returns
        -------
        float
        """
    )
    assert parsed.arguments == {"x": "Where it is.", "y": "Where it is.", "by": "How much."}
    assert parsed.text == "Scale it.\n\nReturns\n-------\nfloat"


def test_rest_docstrings_are_read():
    parsed = Docstring.parse(
        """Scale it.

        :param float x: Where
            it is.
        :param by: How much.
        :type by: float
        :returns: It.
        """
    )
    assert parsed.arguments == {"x": "Where it is.", "by": "How much."}
    assert parsed.text == "Scale it.\n\n:returns: It."


def test_google_docstrings_with_types_are_read():
    parsed = Docstring.parse(
        """Scale it.

        Args:
            x (dict[str, int], optional): Where: here.
                And there.

            **more: The rest.

        The end.
        """
    )
    assert parsed.arguments == {"x": "Where: here. And there.", "more": "The rest."}
    assert parsed.text == "Scale it.\n\nThe end."


def test_no_docstring_says_nothing():
    assert Docstring.parse(None) == Docstring()
