"""What a function returns is what the next one gets, on every way that a value can go; each reader has its own."""

import datetime as dt
import enum
import math
import re
import threading
import uuid
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import pytest
from amounts import amount, sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import (
    AnyUrl,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    PlainSerializer,
    PrivateAttr,
    RootModel,
    SecretStr,
    computed_field,
    model_validator,
)
from pydantic_core import core_schema
from typing_extensions import TypedDict

from operad import (
    Cache,
    Evaluator,
    InputError,
    InvalidError,
    Job,
    Map,
    Operator,
    OperatorError,
    PausedError,
    Policy,
    RunContext,
    Take,
    Workflow,
    WorkflowMessage,
    WorkflowStatus,
    events,
    operator,
)
from operad.operators import OperatorConfig
from operad.runtime import BuiltinWorkflow, DbgptWorkflow
from operad.runtime.durable import Ledger
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.values.message import Turn
from operad.runtime.values.own import own
from operad.runtime.workflow.records import transcript
from operad.testing import Say, ScriptedModel

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"


class Word(str, enum.Enum):  # noqa: UP042 - as users write it
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Coordinates:
    """A class of a library: it has no `__eq__`, and only pydantic knows how to write and read it."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return core_schema.no_info_plain_validator_function(
            lambda given: given if isinstance(given, cls) else cls(given),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda given: given.numbers),
        )


class Place(BaseModel):
    at: Coordinates


class Odd(BaseModel):
    """A model whose validator raises an error of its own for a value that was not validated."""

    number: int

    @model_validator(mode="after")
    def is_even(self):
        if self.number % 2:
            raise KeyError("odd")
        return self


def nested_lists(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


class Answer(BaseModel):
    output: str


class Items(BaseModel):
    items: list[int]


class Empty(BaseModel):
    pass


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


class Box(BaseModel, Generic[T]):
    value: T


class Renamed(BaseModel):
    number: int = Field(alias="Number")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: dt.date


class Bytes(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    data: bytes


class Computed(BaseModel):
    price: int

    @computed_field
    @property
    def total(self) -> int:
        return self.price * 2


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Quiet(BaseModel):
    shown: int = 1
    hidden: int = Field(default=2, exclude=True)


class Remembers(BaseModel):
    a: int
    _seen: list[int] = PrivateAttr(default_factory=list)


@dataclass
class Point:
    output: int


class Entry(TypedDict):
    output: int


class Pair(NamedTuple):
    a: int
    b: str


Numbers = RootModel[list[int]]
Shortened = Annotated[
    int, PlainSerializer(lambda number: hex(number), return_type=str), BeforeValidator(lambda text: int(text, 16))
]
NOON = dt.datetime(2026, 1, 2, 12, 0, 0, 6, tzinfo=dt.UTC)

EXACT: dict[str, tuple[Any, Any]] = {
    "a field output": (Answer, Answer(output="x")),
    "a field items": (Items, Items(items=[1])),
    "no fields": (Empty, Empty()),
    "a dataclass with a field output": (Point, Point(1)),
    "a typed dict with a key output": (Entry, {"output": 1}),
    "a dict with the key output": (dict[str, int], {"output": 3}),
    "a dict with the key items": (dict[str, list[int]], {"items": [1]}),
    "a dict with the keys of an item": (dict[str, int], {"item": 1, "index": 0}),
    "an empty dict": (dict[str, int], {}),
    "an empty list": (list[int], []),
    "an empty text": (str, ""),
    "the text null": (str | None, "null"),
    "nothing": (str | None, None),
    "not a number": (float, math.nan),
    "an infinity": (float, -math.inf),
    "a large number": (int, 10**30),
    "half a surrogate": (list[str], ["\ud800"]),
    "a zero byte": (dict[str, str], {"a": "\0"}),
    "a decimal": (Decimal, Decimal("1.10")),
    "a time with a zone": (dt.datetime, dt.datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/Berlin"))),
    "a date": (dt.date, dt.date(2026, 1, 1)),
    "a time of day": (dt.time, dt.time(12, 30)),
    "a duration": (dt.timedelta, dt.timedelta(days=1, microseconds=3)),
    "bytes of text": (bytes, b"text"),
    "bytes as base64": (Bytes, Bytes(data=b"\xff\x00")),
    "bytes with a type of base64": (Base64Bytes, b"text"),
    "an id": (uuid.UUID, uuid.UUID(int=5)),
    "a set": (set[int], {1, 2}),
    "a frozen set": (frozenset[str], frozenset("ab")),
    "a tuple": (tuple[int, str], (1, "a")),
    "a bare tuple": (tuple, (1, 2)),
    "a named tuple": (Pair, Pair(1, "b")),
    "a deque": (deque[int], deque([1])),
    "a counter": (Counter[str], Counter("aab")),
    "an ordered dict": (OrderedDict[str, int], OrderedDict(a=1)),
    "keys that are numbers": (dict[int, str], {1: "a"}),
    "keys that are dates": (dict[dt.date, int], {dt.date(2026, 1, 1): 1}),
    "a path": (Path, Path("/a/b")),
    "an address": (IPv4Address, IPv4Address("1.2.3.4")),
    "an URL": (AnyUrl, AnyUrl("http://a.example/c")),
    "a pattern": (re.Pattern, re.compile("a+")),
    "a fraction": (Fraction, Fraction(1, 3)),
    "a complex number": (complex, 1 + 2j),
    "an enum": (Color, Color.RED),
    "an enum of texts": (Word, Word.RED),
    "an enum of numbers": (Number, Number.ONE),
    "a choice": (Literal["a", "1"], "1"),
    "a text among numbers": (int | str, "5"),
    "a number among texts": (int | str, 5),
    "a text like a list": (list[str] | str, '["a"]'),
    "a text like a date": (dt.date | str, "2026-01-01"),
    "texts like dates": (list[dt.date | str], ["2026-01-01"]),
    "a generic model": (Box[Decimal], Box[Decimal](value=Decimal("1.0"))),
    "a recursive model": (Tree, Tree(name="a", children=[Tree(name="b")])),
    "a model in a list": (list[Answer], [Answer(output="x")]),
    "a model in a dict": (dict[str, Answer], {"output": Answer(output="x")}),
    "one of two models": (Answer | Items, Items(items=[])),
    "a root model": (Numbers, Numbers([1])),
    "an alias": (Renamed, Renamed(Number=1)),
    "a strict model": (Strict, Strict(day=dt.date(2026, 1, 1))),
    "a computed field": (Computed, Computed(price=1)),
    "further fields": (Loose, Loose.model_validate({"a": 1, "output": [{"b": 1}]})),
    "an excluded field at its default": (Quiet, Quiet()),
    "a private attribute": (Remembers, Remembers(a=1)),
    "a serializer": (Shortened, 255),
}


def passing(kind: Any, value: Any, got: list[Any]) -> tuple[Any, Any]:
    """A function that returns the value, and one that gets it; both name the type."""

    def give():
        return value

    def take(give):
        got.append(give)
        return "taken"

    give.__annotations__["return"], take.__annotations__["give"] = kind, kind
    return operator(give), operator(take)


def in_memory(give: Any, take: Any, got: list[Any], tmp_path: Path) -> None:
    for engine in (BuiltinWorkflow, DbgptWorkflow):
        engine(give >> take).run("q")


def durable(give: Any, take: Any, got: list[Any], tmp_path: Path, database: str = "") -> None:
    """The run waits for a person between the two functions, so that the second gets the value from the database."""

    async def pause(context: RunContext) -> str:
        return await context.ask("Go on?")

    def resumed(give, pause):
        return take.function(give)

    resumed.__annotations__["give"] = take.function.__annotations__["give"]
    run_id = f"values-{uuid.uuid4()}"

    def flow(runs: Ledger) -> Workflow[Any]:
        flow = Workflow(give, durable=runs, name="values")
        flow.add(pause)
        flow.add(resumed, after=["give", "pause"])
        return flow

    with closing(Ledger(database or tmp_path / "runs.sqlite")) as runs, pytest.raises(PausedError):
        flow(runs).run("q", run_id=run_id)
    assert got == []
    with closing(Ledger(database or tmp_path / "runs.sqlite")) as runs:  # closing ended the run in this process
        flow(runs).resume(run_id, "yes")


def cached(give: Any, take: Any, got: list[Any], tmp_path: Path) -> None:
    kept = operator(give.function, policy=Policy(cache=Cache()))
    for _ in range(2):
        Workflow(kept >> take).run("q")
    assert len(got) == 2
    assert same(got[0], got[1])


def cached_in_a_file(give: Any, take: Any, got: list[Any], tmp_path: Path) -> None:
    kept = operator(give.function, policy=Policy(cache=Cache(tmp_path / "cache.db")))
    for _ in range(2):
        Workflow(kept >> take).run("q")
    assert same(got[0], got[1])


def mapped(give: Any, take: Any, got: list[Any], tmp_path: Path) -> None:
    """Each item's value, in the list that the next function gets."""

    def all_of(each):
        got.extend(each)
        return "taken"

    all_of.__annotations__["each"] = list[take.function.__annotations__["give"]]
    Workflow(operator(lambda: [1, 2], id="src") >> Map("each", given_item(give), over="src") >> operator(all_of)).run(
        "q"
    )
    assert len(got) == 2


def given_item(give: Any) -> Any:
    def body(item: int):
        return give.function()

    body.__annotations__["return"] = give.function.__annotations__["return"]
    return operator(body)


def nested(give: Any, take: Any, got: list[Any], tmp_path: Path) -> None:
    Workflow(Workflow(Workflow(give, name="in"), name="give") >> take).run("q")


WAYS = [in_memory, durable, cached, cached_in_a_file, mapped, nested]


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and (one == other or one != one)


@pytest.mark.parametrize(
    ("name", "way"),
    sample([pytest.param(name, way, id=f"{name}-{way.__name__}") for name in EXACT for way in WAYS], 5),
)
def test_the_next_function_gets_what_a_function_returned(name: str, way: Any, tmp_path: Path):
    kind, value = EXACT[name]
    got: list[Any] = []
    way(*passing(kind, value, got), got, tmp_path)
    assert all(same(each, value) for each in got)
    assert got
    assert not any(each is value for each in got if isinstance(value, list | dict | set | BaseModel))


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_the_next_function_gets_the_value_from_postgresql(name: str, url: str, tmp_path: Path):
    kind, value = EXACT[name]
    got: list[Any] = []
    durable(*passing(kind, value, got), got, tmp_path, url)
    assert [same(each, value) for each in got] == [True]


@pytest.fixture(scope="module")
def url(postgresql: Any) -> str:
    return postgresql.new()


class Card(BaseModel):
    number: SecretStr


class Wallet(BaseModel):
    cards: list[Card]


class Required(BaseModel):
    b: int = Field(exclude=True)


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int

    @computed_field
    @property
    def twice(self) -> int:
        return self.a * 2


class TwoNames(BaseModel):
    a: int = Field(validation_alias="x", serialization_alias="y")


class Animal(BaseModel):
    name: str


class Dog(Animal):
    barks: bool = True


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "a secret": (Card, Card(number=SecretStr("4711")), "number: secrets are written as asterisks"),
    "a secret inside": (Wallet, Wallet(cards=[Card(number=SecretStr("4711"))]), r"cards\[0\].number: secrets"),
    "a bare secret": (SecretStr, SecretStr("4711"), "secrets are written as asterisks"),
    "an excluded field": (Quiet, Quiet(hidden=5), "hidden: the field is excluded"),
    "a required excluded field": (Required, Required(b=1), "b: the field is excluded"),
    "a computed field that is forbidden": (Closed, Closed(a=1), "twice: the computed field is written"),
    "two aliases": (TwoNames, TwoNames.model_validate({"x": 1}), "a: the field is written as 'y' and read as 'x'"),
    "a subclass": (Animal, Dog(name="Rex"), r"Dog\(.*is read as Animal"),
    "a date among other values": (dict[str, Any], {"when": NOON}, "when: from JSON, .* is read as '2026"),
    "a tuple among other values": (dict[str, Any], {"pair": (1, 2)}, r"pair: from JSON, \(1, 2\)"),
    "a set among other values": (dict, {"s": {1, 2}}, "s: from JSON"),
    "a tuple as a sequence": (Sequence[int], (1, 2), r"\(1, 2\) .tuple. is read as \[1, 2\]"),
    "a date that may be a text": (dt.date | str, dt.date(2026, 1, 1), "is read as '2026-01-01'"),
    "keys that are equal as texts": (dict[Any, str], {1: "a", "1": "b"}, "is read as"),
    "keys that are tuples": (dict[tuple[int, int], int], {(1, 2): 3}, "is annotated to return"),
    "bytes that are not text": (bytes, b"\xff", "has no JSON form"),
    "a list in itself": (list, circle(), "has no JSON form: Circular reference"),
    "lists of 500 levels": (list, nested_lists(500), "has no JSON form: Maximum serialization depth"),
    "a number of 5000 digits": (int, 10**5000, "has no JSON form: Exceeds the limit"),
    "an invalid model": (Odd, Odd.model_construct(number=1), "KeyError: 'odd'"),
    "another object of the same class": (Place, Place(at=Coordinates((1,))), "at: from JSON"),  # type: ignore[arg-type]
    "JSON in JSON": (Json[list[int]], [1], "is annotated to return"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_operator_whose_value_would_arrive_as_another_fails_with_the_place_and_the_remedy(name: str):
    kind, value, told = REFUSED[name]
    got: list[Any] = []
    give, take = passing(kind, value, got)
    with pytest.raises(OperatorError, match=f"'give'.*{told}") as caught:
        Workflow(give >> take).run("q")
    assert (caught.value.operator_id, type(caught.value.__cause__), got) == ("give", InputError, [])
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (Card(number=SecretStr("4711")), "number: "),
        ([Card(number=SecretStr("4711"))], r"\[0\].number: "),
        ({"card": Card(number=SecretStr("4711"))}, "card.number: "),
        ({"key": SecretStr("4711")}, "key: "),
        (Quiet(hidden=5), "hidden: "),
        ({1: "a", "1": "b"}, "two of its keys"),
        (Odd.model_construct(number=1), "it cannot be read back: KeyError: 'odd'"),
        ({"odd": [Odd.model_construct(number=1)]}, r"odd\[0\]: it cannot be read back: KeyError"),
    ],
)
def test_a_function_without_annotations_fails_too_if_its_value_loses_a_part(value: Any, place: str):
    with pytest.raises(OperatorError, match=f"'give' returned .* would not arrive as it is: {place}"):
        Workflow(operator(lambda: value, id="give")).run("q")


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (Answer(output="x"), {"output": "x"}),
        ([Point(1)], [{"output": 1}]),
        ((1, 2), [1, 2]),
        (Decimal("1.10"), "1.10"),
        ({"when": NOON.date()}, {"when": "2026-01-02"}),
        ({1: "a"}, {"1": "a"}),
        (Color.RED, "red"),
    ],
)
def test_without_annotations_the_next_function_gets_the_json_form(value: Any, json: Any):
    got: list[Any] = []
    Workflow(operator(lambda: value, id="give") >> operator(lambda give: got.append(give), id="take")).run("q")
    assert got == [json]


def test_values_that_fit_an_annotation_by_conversion_are_converted():
    def give() -> Answer:
        return {"output": "x"}  # pyright: ignore[reportReturnType]

    def days() -> list[dt.date]:
        return ["2026-01-01"]  # pyright: ignore[reportReturnType]

    assert Workflow(operator(give)).run("q").output == Answer(output="x")
    assert Workflow(operator(days)).run("q").output == [dt.date(2026, 1, 1)]


def test_a_model_whose_only_field_is_called_output_is_answered_in_one_call():
    with ScriptedModel(lambda request: Say('{"output": "x"}')) as endpoint:
        result = Workflow(Operator("Answer.", id="a", output=Answer), model=endpoint.model).run("q")
        assert (result.output, len(endpoint.requests)) == (Answer(output="x"), 1)


def test_a_model_with_ports_and_a_field_called_output_arrives_as_itself():
    got: list[Any] = []

    def take(a: Answer) -> str:
        got.append(a)
        return "taken"

    with ScriptedModel(lambda request: Say('{"output": "x", "port": "yes"}')) as endpoint:
        choose = Operator("Choose.", id="a", output=Answer, ports=["yes", "no"])
        Workflow([choose["yes"] >> operator(take)], model=endpoint.model).run("q")
    assert got == [Answer(output="x")]


def test_a_value_taken_through_a_port_arrives_as_itself():
    @operator(ports=["a", "b"])
    def give() -> Take[dict[str, int]]:
        return Take("a", {"output": 3})

    got: list[Any] = []
    Workflow(give["a"] >> operator(lambda give: got.append(give), id="take")).run("q")
    assert got == [{"output": 3}]


@pytest.mark.parametrize("fallback", [{"output": 3}, {"items": [1]}, Answer(output="x"), [1], 3])
def test_a_fallback_arrives_as_itself(fallback: Any):
    def give() -> Any:
        raise ValueError("no")

    got: list[Any] = []
    take = operator(lambda give: got.append(give), id="take")
    Workflow(operator(give, policy=Policy(fallback=fallback)) >> take).run("q")
    assert got == [fallback.model_dump() if isinstance(fallback, BaseModel) else fallback]


def test_a_fallback_that_would_arrive_as_another_value_is_refused():
    with pytest.raises(InvalidError, match="number: secrets are written as asterisks"):
        Policy(fallback=Card(number=SecretStr("4711")))


@pytest.mark.parametrize("returns", [Place, Any])
def test_an_object_that_only_its_field_can_write_arrives_in_its_model(returns: Any):
    def give():
        return Place(at=Coordinates([1, 2]))

    def take(give: Place) -> list[int]:
        return give.at.numbers

    give.__annotations__["return"] = returns
    assert Workflow(operator(give) >> operator(take)).run("q").output == [1, 2]


class Inner(BaseModel):
    box: int


class Outer(BaseModel):
    box: Inner


@pytest.mark.parametrize(
    ("kind", "given", "gets"),
    [
        (Inner, Inner(box=1), Inner(box=1)),
        (Outer, Outer(box=Inner(box=1)), Outer(box=Inner(box=1))),
        (Inner, Outer(box=Inner(box=1)), Inner(box=1)),
        (int, Inner(box=1), 1),
        (Inner, {"box": {"box": 1}}, Inner(box=1)),
    ],
)
def test_a_model_as_the_job_arrives_though_a_field_has_the_name_of_the_parameter(kind: Any, given: Any, gets: Any):
    def take(box):
        got.append(box)

    got: list[Any] = []
    take.__annotations__["box"] = kind
    Workflow(operator(take)).run(given)
    assert got == [gets]


def test_a_job_whose_model_cannot_be_read_back_is_refused():
    with pytest.raises(InputError, match="Odd would not arrive as it is: it cannot be read back: KeyError: 'odd'"):
        Workflow(operator(lambda x: "k", id="take")).run({"x": Odd.model_construct(number=1)})


def test_a_job_that_would_arrive_as_another_value_is_refused():
    flow = Workflow(operator(lambda number: number, id="a"))
    with pytest.raises(InputError, match="the job: Card would not arrive as it is: number: secrets"):
        flow.run(Card(number=SecretStr("4711")))
    with pytest.raises(InputError, match="secrets are written as asterisks"):
        flow.run({"number": Card(number=SecretStr("4711"))})


def test_outputs_of_several_last_operators_are_their_answers_whatever_their_ids():
    def total(inner: dict[str, Any]) -> str:
        return repr(inner)

    inner = Workflow([operator(lambda: {"output": 1}, id="output"), operator(lambda: "x", id="text")], name="inner")
    assert Workflow(inner >> operator(total)).run("q").text == "{'output': {'output': 1}, 'text': 'x'}"
    assert Workflow(inner >> operator(total)).run("q")["inner"] == {"output": {"output": 1}, "text": "x"}


KEYS = st.sampled_from(["output", "items", "item", "index", "answer", "text", "a", "", "$tuple", "$message"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


@settings(max_examples=amount(12, 60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON)
@pytest.mark.parametrize("way", [in_memory, cached, nested], ids=lambda way: way.__name__)
def test_every_json_value_arrives_as_itself(way: Any, value: Any, tmp_path: Path):
    got: list[Any] = []
    way(*passing(Any, value, got), got, tmp_path)
    assert all(repr(each) == repr(value) for each in got)


@settings(max_examples=amount(4, 12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(JSON, min_size=1, max_size=4))
def test_every_json_value_survives_a_durable_run_and_a_map(values: Any, tmp_path_factory: pytest.TempPathFactory):
    got: list[Any] = []
    folder = tmp_path_factory.mktemp("json")
    durable(*passing(Any, values, got), got, folder)
    flow = Workflow(operator(lambda: values, id="src"))
    flow.map(lambda item: item, over="src", id="each")
    assert repr([*got, flow.run("q").output]) == repr([values, values])


# A value belongs to its reader


def nested_value() -> dict[str, Any]:
    return {"items": [1], "deep": {"list": [{"a": 1}]}}


def spoil(value: Any) -> None:
    """Change everything in a value that can be changed."""
    if isinstance(value, dict):
        for part in [*value.values()]:
            spoil(part)
        value["spoiled"] = True
    elif isinstance(value, list):
        for part in value:
            spoil(part)
        value.append("spoiled")
    elif isinstance(value, WorkflowMessage):
        spoil(value.outputs)
        for part in value.parts:
            spoil(part)


class Spoils(BaseOperator[Any]):
    """Operator of a user that changes what it gets."""

    def __init__(self, operator_id: str):
        self._id = operator_id

    def get_id(self) -> str:
        return self._id

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        for message in call.messages:
            spoil(message)
        spoil(call.job.inputs)
        return WorkflowMessage(scratchpad="done")


class Executes:
    """Object of a user's class that changes what it gets."""

    def get_id(self) -> str:
        return "spoils"

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        for message in workflow_messages or ():
            spoil(message)
        spoil(job.inputs)
        return "done"


class Judge(Evaluator):
    async def run(self, call: OperatorCall) -> WorkflowMessage:
        spoil(call.judged)
        for step in (*call.transcript, *transcript()):
            spoil(step.message)
        return WorkflowMessage()


def appends(src: dict[str, Any]) -> str:
    spoil(src)
    return "done"


def appends_untyped(src) -> str:
    spoil(src)
    return "done"


def appends_to_any(src: Any) -> str:
    spoil(src)
    return "done"


class Holder(BaseModel):
    items: list[Any]
    deep: dict[str, Any]


def appends_to_a_model(src: Holder) -> str:
    spoil(src.items)
    spoil(src.deep)
    return "done"


def appends_to_a_message(src: WorkflowMessage) -> str:
    spoil(src)
    return "done"


def appends_to_others(**others: Any) -> str:
    spoil(others)
    return "done"


def appends_to_the_job(src: Any, job: Job) -> str:
    spoil(job.inputs)
    return "done"


SPOILERS: dict[str, Any] = {
    "typed": lambda: operator(appends, id="spoils"),
    "untyped": lambda: operator(appends_untyped, id="spoils"),
    "any": lambda: operator(appends_to_any, id="spoils"),
    "a model": lambda: operator(appends_to_a_model, id="spoils"),
    "a message": lambda: operator(appends_to_a_message, id="spoils"),
    "others": lambda: operator(appends_to_others, id="spoils"),
    "the job": lambda: operator(appends_to_the_job, id="spoils"),
    "an operator's run": lambda: Spoils("spoils"),
    "execute": Executes,
}


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "durable"])
@pytest.mark.parametrize("name", SPOILERS)
def test_what_an_operator_does_to_its_values_stays_with_it(
    name: str, on_disk: bool, engine: type[Workflow[Any]], tmp_path: Path
):
    spoils = SPOILERS[name]()
    src = operator(lambda job: nested_value(), id="src")
    after = operator(_after, id="after")
    flow = engine(name="own", durable=tmp_path / "runs.sqlite" if on_disk else None)
    flow.add(src)
    flow.add(spoils, after="src")
    flow.add(after, after=["src", "spoils"])
    result = flow.run({"x": nested_value()})
    assert result["src"] == nested_value()
    assert result.output == [nested_value(), {"x": nested_value()}]


def _after(src: Any, spoils: Any, job: Job) -> list[Any]:
    return [src, dict(job.inputs)]


def test_what_an_evaluator_does_to_the_result_stays_with_it():
    def judge(src: Any) -> None:
        spoil(src)

    src = operator(lambda job: nested_value(), id="src")
    for evaluator in (judge, Judge(OperatorConfig(instruction="Judge.", id="judge"))):
        assert Workflow(src, evaluator=evaluator).run("q").output == nested_value()


def test_what_the_body_of_a_map_does_to_its_item_stays_with_it():
    def body(item: Any) -> str:
        spoil(item)
        return "done"

    flow = Workflow(operator(lambda: [nested_value(), nested_value()], id="src"))
    flow.map(body, over="src", id="each")
    assert flow.run("q")["src"] == [nested_value(), nested_value()]


def test_what_a_function_does_later_to_the_value_that_it_returned_changes_nothing():
    held: dict[str, Any] = nested_value()
    message = WorkflowMessage(scratchpad="x", outputs={"a": held})

    class Holds(BaseOperator[Any]):
        def get_id(self) -> str:
            return "holds"

        async def run(self, call: OperatorCall) -> WorkflowMessage:
            return message

    def later(value: Any, told: Any, holds: Any) -> list[Any]:
        spoil(held)
        return [value, told, holds]

    first = [operator(lambda: held, id="value"), operator(lambda: message, id="told"), Holds()]
    flow = Workflow(first)
    flow.add(operator(later), after=["value", "told", "holds"])
    result = flow.run("q")
    assert result.output == [nested_value(), {"a": nested_value()}, {"a": nested_value()}]
    assert result["value"] == nested_value()


@pytest.mark.parametrize("file", [None, "cache.db"])
def test_what_a_caller_does_to_a_result_changes_neither_the_cache_nor_the_result(file: str | None, tmp_path: Path):
    cache = Cache(tmp_path / file) if file else Cache()
    flow = Workflow(operator(lambda job: nested_value(), id="src", policy=Policy(cache=cache)))
    for _ in range(3):
        result = flow.run("q")
        assert result.output == nested_value()
        spoil(result.output)
        assert result.output == nested_value()
        spoil(result.message)


def test_what_a_listener_does_to_an_event_changes_nothing():
    src, take = operator(lambda job: nested_value(), id="src"), operator(lambda src: src, id="take")
    flow = Workflow(src >> take)
    flow.add_listener(lambda event: spoil(event.message) if isinstance(event, events.OperatorFinished) else None)
    assert flow.run("q").output == nested_value()


def test_a_second_attempt_gets_the_value_as_it_was():
    attempts: list[Any] = []

    @operator(retry=2)
    def fails_once(src: dict[str, Any]) -> str:
        attempts.append(own(src))
        spoil(src)
        if len(attempts) == 1:
            raise ConnectionError
        return "done"

    class Fails(BaseOperator[Any]):
        def get_id(self) -> str:
            return "also"

        policy = Policy(retry=2)

        async def run(self, call: OperatorCall) -> str:
            attempts.append(own(call.messages[0].outputs))
            spoil(call.messages[0])
            if len(attempts) == 3:
                raise ConnectionError
            return "done"

    src = operator(lambda job: nested_value(), id="src")
    Workflow(src >> fails_once).run("q")
    Workflow(src >> Fails()).run("q")
    assert attempts == [nested_value()] * 4


def test_an_operator_that_passes_a_message_on_reports_its_usage_once():
    class PassesOn(BaseOperator[Any]):
        def get_id(self) -> str:
            return "on"

        async def run(self, call: OperatorCall) -> WorkflowMessage:
            return call.messages[0]

    with ScriptedModel(lambda request: Say('{"output": "x"}')) as endpoint:
        ask = Operator("Answer.", id="a", output=Answer)
        result = Workflow(ask >> PassesOn(), model=endpoint.model).run("q")
    assert (result.usage.calls, result.message.status) == (1, WorkflowStatus.SUCCESS)
    assert result["on"] == {"output": "x"}


def test_a_value_that_cannot_change_is_not_copied():
    frozen, text = Turn(role="user", text="x"), "long" * 1000
    assert own(text) is text
    assert own((text,))[0] is text
    assert own({"a": [text]})["a"][0] is text
    assert own({"a": frozen}) == {"a": frozen}
    lock = threading.Lock()
    assert own([lock]) == [lock]
