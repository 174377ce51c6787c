"""Functions as operators."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from pydantic import BaseModel, Field, computed_field, model_validator
from typing_extensions import TypedDict

from operad import (
    FaultError,
    Job,
    Operator,
    Policy,
    Reasoner,
    Retry,
    RunContext,
    Take,
    WorkflowMessage,
    events,
    operator,
)
from operad.runtime import BuiltinWorkflow, InputError, InvalidError, Map, OperatorError, PortError, Workflow
from operad.runtime.graph.graph import WorkflowGraph
from operad.runtime.graph.operator import as_operator
from operad.runtime.testing import ScriptedModel, ScriptedReasoner


class Claims(BaseModel):
    claims: list[str]


@operator
def facts(job: Job) -> Claims:
    return Claims(claims=job.goal.split())


async def run(graph: Any, job: Any = "a b", **options: Any) -> Any:
    return await BuiltinWorkflow(graph, **options).arun(job)


async def test_a_parameter_is_the_answer_of_the_operator_of_that_name_in_the_annotated_type():
    @operator
    def size(job: Job) -> int:
        return len(job.goal)

    @operator
    def both(size: int, facts: Claims) -> str:
        return f"{facts.claims} {size + 1}"

    assert (await run([facts, size] >> both)).output == "['a', 'b'] 4"


async def test_further_answers_and_inputs_go_to_a_parameter_with_two_stars_by_their_ids():
    def size(job: Job) -> int:
        return len(job.goal)

    def report(facts: Claims, **others: int) -> str:
        return f"{facts.claims} {others}"

    def every(**answers: int) -> dict[str, int]:
        return answers

    def given(x: int, **others: str) -> str:
        return f"{x} {others}"

    sizes = [operator(size, id=name) for name in ("one", "two-b")]
    assert (await run([facts, *sizes] >> operator(report))).output == "['a', 'b'] {'one': 3, 'two-b': 3}"
    assert (await run(sizes >> operator(every))).output == {"one": 3, "two-b": 3}
    assert (await run(given, {"x": 1, "y": "b"})).output == "1 {'y': 'b'}"
    with pytest.raises(OperatorError, match="the answer of 'words' is not a valid int for parameter 'answers'"):
        await run(operator(lambda job: "three", id="words") >> operator(every))
    with pytest.raises(OperatorError, match="the item of the map needs a parameter with a name, such as `item`"):
        await run(Map("each", every, over=lambda job: [1]))


async def test_answers_for_a_parameter_with_two_stars_are_checked_before_the_run():
    def every(**answers: int) -> str:
        return str(answers)

    def report(job: Job, **others: str) -> str:
        return f"{job.goal} {others}"

    def jobs(**jobs: Job) -> str:
        return str(jobs)

    clash = r"parameter 'job' has the name of an answer or input for '\*\*others'; rename the parameter"
    misfit = "parameter 'answers' is annotated as int, and the answers of operator 'facts' are Claims"
    with pytest.raises(InvalidError, match=misfit):
        await run(facts >> operator(every))
    with pytest.raises(InvalidError, match=r"the item of the map needs a parameter with a name, such as `item`"):
        await run(facts >> Map("each", every, over="facts.claims"))
    with pytest.raises(InvalidError, match=clash):
        await run(operator(lambda text: text, id="job") >> operator(report))
    with pytest.raises(OperatorError, match=clash):
        await run(report, {"job": "x"})
    with pytest.raises(
        InvalidError, match=r"parameter '\*\*jobs' takes answers; take the job with a parameter of its own"
    ):
        await run(facts >> operator(jobs))


async def test_a_parameter_with_two_stars_in_a_map_gets_the_answers_of_the_other_operators_before_the_map():
    def size(job: Job) -> int:
        return len(job.goal)

    def each(item: str, one: int, **others: int) -> str:
        return f"{item} {one} {others}"

    def alone(item: str, **others: int) -> str:
        return f"{item} {others}"

    sizes = [operator(size, id=name) for name in ("one", "two-b")]
    assert (await run(sizes >> Map("each", each, over=lambda job: ["a"]))).output == ["a 3 {'two-b': 3}"]
    assert (await run(sizes >> Map("each", alone, over=lambda job: ["a"]))).output == ["a {'one': 3, 'two-b': 3}"]


async def test_of_two_ids_with_one_name_the_exact_one_is_bound():
    def both(x_y: str, **others: str) -> str:
        return f"{x_y} {others}"

    dash, line = operator(lambda job: "dash", id="x-y"), operator(lambda job: "line", id="x_y")
    assert (await run([dash, line] >> operator(both))).output == "line {'x-y': 'dash'}"


async def test_a_single_parameter_takes_the_answer_of_the_only_operator_before_it():
    @operator
    def count(whatever: Claims) -> int:
        return len(whatever.claims)

    assert (await run(facts >> count)).output == 2


async def test_ids_with_other_signs_are_written_as_python_names():
    first = operator(id="the-facts")(lambda text: text)

    @operator
    def second(the_facts: str) -> str:
        return the_facts.upper()

    assert (await run(first >> second)).output == "A B"


async def test_annotations_ask_for_the_job_the_reasoner_and_the_run():
    given: dict[str, Any] = {}

    @operator
    async def look(facts: Claims, job: Job, reasoner: Reasoner, context: RunContext) -> None:
        given.update(job=job, reasoner=reasoner, context=context)

    reasoner = ScriptedReasoner([])
    result = await BuiltinWorkflow(facts >> look).arun("x", reasoner, run_id="r1")
    assert result.output is None
    assert given["job"].goal == "x"
    assert given["reasoner"] is reasoner
    assert given["context"] == RunContext("r1", "look", 1, 1, "", "r1:look")


async def test_the_context_has_the_attempt_and_the_lesson():
    seen = []

    @operator(policy=Policy(retry=Retry(attempts=2, first_delay=0.001, on=(ValueError,))))
    def shaky(context: RunContext) -> str:
        seen.append((context.round, context.attempt, context.lesson))
        if context.attempt == 1:
            raise ValueError("once")
        if context.round == 1:
            raise FaultError("too short", lesson="Write more.")
        return "done"

    result = await run(shaky, max_rounds=2)
    assert (result.output, result.rounds) == ("done", 2)
    assert seen == [(1, 1, ""), (1, 2, ""), (2, 1, "Write more."), (2, 2, "Write more.")]


def test_a_function_is_tried_again_by_the_option_retry():
    attempts = []

    def shaky(context: RunContext) -> str:
        attempts.append(context.attempt)
        raise ConnectionError("down")

    for made in (operator(retry=2)(shaky), operator(shaky, retry=2)):
        with pytest.raises(OperatorError, match="down"):
            Workflow(made).run("x")
    assert attempts == [1, 2, 1, 2]
    with pytest.raises(InputError, match="operator 'shaky': retry: the policy has one, too"):
        operator(shaky, retry=2, policy=Policy(retry=3))
    with pytest.raises(InputError, match="operator 'shaky': retry: "):
        operator(shaky, retry=0)


def test_the_fields_of_a_model_are_the_inputs_of_a_job():
    class Order(BaseModel):
        item: str
        number: int = 1

    @operator
    def whole(order: Order) -> str:
        return f"{order.number} {order.item}"

    @operator
    def apart(item: str, number: int) -> str:
        return f"{number} {item}"

    assert Workflow(whole).run(Order(item="figs", number=3)).text == "3 figs"
    assert Workflow(whole).run({"item": "figs"}).text == "1 figs"
    assert Workflow(whole).run({"order": Order(item="figs")}).text == "1 figs"
    assert Workflow(apart).run(Order(item="figs", number=3)).text == "3 figs"
    with pytest.raises(InputError, match=r"'ordr' \(did you mean 'order'\?\)"):
        Workflow(whole).run({"ordr": {"item": "figs"}})
    with pytest.raises(InputError, match="expected a text, a dict of inputs, a pydantic model or a Job; got 3"):
        Workflow(whole).run(3)  # type: ignore[arg-type]


async def test_a_name_that_is_no_operator_before_it_is_an_issue_with_near_names_before_anything_runs():
    ran = []

    @operator
    def first(job: Job) -> str:
        ran.append("first")
        return ""

    @operator
    def second(job: Job) -> str:
        return ""

    @operator
    def third(frist: str, second: str) -> str:
        return ""

    with pytest.raises(InvalidError) as caught:
        await run([first, second] >> third)
    assert [str(issue) for issue in caught.value.issues] == [
        "[parameter] third: parameter 'frist' is not an operator before it (did you mean 'first'?); before it: first, second. "
        "Other parameters are annotated with Job, Reasoner or RunContext"
    ]
    assert ran == []


async def test_an_operator_behind_the_first_of_a_maps_body_is_told_who_gets_the_item():
    def first(item: int) -> int:
        return item

    def second(first: int, item: int) -> int:
        return first + item

    with pytest.raises(InvalidError, match="The first operators of a map's body get the item: return it there"):
        await run(Map("each", operator(first) >> second, over=lambda job: [1]))


async def test_a_parameter_named_after_an_operator_without_an_edge_asks_for_the_edge():
    @operator
    def a(job: Job) -> int:
        return 1

    @operator(id="b-1")
    def b(a: int) -> str:
        return ""

    @operator
    def fin(a: int, b_1: str, last: str) -> str:
        return ""

    @operator
    def last(fin: str) -> str:
        return ""

    with pytest.raises(InvalidError) as caught:
        await run(a >> b >> fin >> last)
    assert [str(issue) for issue in caught.value.issues] == [
        "[parameter] fin: parameter 'a': operator 'a' has no edge to 'fin'; add the edge: [… >> fin, a >> fin]; "
        "in YAML, the chain [a, fin]",
        "[parameter] fin: parameter 'last' is not an operator before it; before it: b_1. "
        "Other parameters are annotated with Job, Reasoner or RunContext",
    ]


def test_the_edges_of_a_faulty_graph_are_not_read_once_per_faulty_operator():
    class Counted(dict[str, Any]):
        """The predecessors of operators, counting how often all of them are read."""

        reads = 0

        def items(self):
            Counted.reads += 1
            return super().items()

    def fault(missing: str, other: str) -> str:
        return missing + other

    def reads(number: int) -> int:
        ids = [f"op_{each}" for each in range(number)]
        before = Counted({ids[0]: {}} | {each: {parent: frozenset[str]()} for parent, each in pairwise(ids)})
        graph = WorkflowGraph({each: as_operator(operator(fault, id=each)) for each in ids}, before)
        Counted.reads = 0
        assert len(graph.check()) == 2 * (number - 1)
        return Counted.reads

    assert reads(3) == reads(30)


async def test_a_default_stands_in_for_an_operator_that_is_not_there_and_none_for_one_that_was_skipped():
    @operator(ports=["yes", "no"])
    def triage(job: Job) -> Take[str]:
        return Take(job.goal, f"took {job.goal}")

    @operator
    def yes(triage: str) -> str:
        return f"yes: {triage}"

    @operator
    def no(triage: str) -> str:
        return "no"

    @operator
    def end(yes: str | None, no: str | None, tone: str = "calm") -> str:
        return f"{yes} {no} {tone}"

    assert (await run([triage["yes"] >> yes, triage["no"] >> no] >> end, "yes")).output == "yes: took yes None calm"

    @operator
    def strict(yes: str, no: str) -> str:
        return ""

    with pytest.raises(OperatorError, match="parameter 'no' has no value: that operator did not run"):
        await run([triage["yes"] >> yes, triage["no"] >> no] >> strict, "yes")


async def test_an_operator_without_others_before_it_gets_the_goal_or_the_inputs_by_name():
    @operator
    def shout(text: str) -> str:
        return text.upper()

    @operator
    def add(a: int, b: int = 2) -> int:
        return a + b

    assert (await run(shout, "hello")).output == "HELLO"
    assert (await run(shout, {"text": "hi"})).output == "HI"
    assert (await run(add, {"a": 1})).output == 3
    assert (await run(add, {"a": "1", "b": 5})).output == 6
    with pytest.raises(OperatorError, match=r"parameter 'a' of 'add' is not an input of the job; its inputs: b"):
        await run(add, {"b": 1})
    with pytest.raises(
        OperatorError, match=r"input 'a' of the job is not a valid int: Input should be a valid integer"
    ):
        await run(add, {"a": "one"})


async def test_a_parameter_job_without_annotation_gets_the_job_unless_an_input_or_operator_has_this_name():
    goal = operator(lambda job: job.goal, id="goal")
    assert (await run(goal, "hello")).output == "hello"
    assert (await run(goal, {"langauge": "fr"})).output == ""
    assert (await run(operator(lambda job, name: f"{name} {list(job.inputs)}"), {"name": "a"})).text == "a ['name']"
    assert (await run(operator(lambda job: job.upper()), {"job": "read"})).output == "READ"
    assert (await run(goal >> operator(lambda job: job.upper(), id="shout"), "hello")).output == "HELLO"
    with pytest.raises(OperatorError, match="'str' object has no attribute 'goal'"):
        await run(operator(_annotated), "hello")


def _annotated(job: str) -> str:
    return job.goal  # type: ignore[attr-defined]


def _greet(name: str = "Ada", language: str = "en") -> str:
    return f"{name} {language}"


def _last(greet: str) -> str:
    return greet


def _reads_all(job: Job) -> str:
    return str(job.inputs)


def _takes_rest(**inputs: str) -> str:
    return str(inputs)


_GREET = operator(_greet, id="greet")


@pytest.mark.parametrize(
    "graph",
    [
        _GREET,
        _GREET >> operator(_last),
        BuiltinWorkflow(_GREET >> operator(_last), name="inner"),
        [_GREET, Map("each", operator(_last, id="last"), over="names")],
    ],
)
async def test_an_input_that_no_operator_reads_is_an_error_before_the_run(graph):
    with pytest.raises(InputError) as failed:
        await run(graph, {"langauge": "fr", "names": ["a"], "x": 1})
    known = "language, name, names" if isinstance(graph, list) else "language, name"
    unread = "'x'" if isinstance(graph, list) else "'names' (did you mean 'name'?), 'x'"
    assert str(failed.value).startswith(
        "workflow 'workflow': no operator reads these inputs of the job: 'langauge' (did you mean 'language'?), "
        f"{unread}; inputs that are read: {known}. A function reads"
    )


class _Order(BaseModel):
    item: str
    note: str = ""


class _Aliased(_Order):
    note: str = Field("", alias="remark")


class _Open(_Order, extra="allow"):
    pass


class _Old(_Order):
    @model_validator(mode="before")
    @classmethod
    def _rename(cls, given: dict[str, str]) -> dict[str, str]:
        return {"note" if key == "noet" else key: value for key, value in given.items()}


@dataclass
class _Sale:
    item: str
    note: str = ""


class _Note(TypedDict, total=False):
    item: str
    note: str


@pytest.mark.parametrize("kind", [_Order, _Aliased, _Sale, _Note])
async def test_a_misspelt_field_of_a_parameter_that_takes_all_inputs_is_an_error_before_the_run(kind):
    def check(order):
        return "checked"

    check.__annotations__["order"] = kind
    with pytest.raises(
        InputError, match=r"no operator reads these inputs of the job: 'noet' \(did you mean 'note'\?\)"
    ):
        await run(operator(check), {"item": "figs", "noet": "ripe"})
    field = "remark" if kind is _Aliased else "note"
    assert (await run(operator(check), {"item": "figs", field: "ripe"})).text == "checked"


@pytest.mark.parametrize("kind", [_Open, _Old])
async def test_a_model_that_may_take_other_fields_reads_all_inputs(kind):
    def check(order):
        return "checked"

    check.__annotations__["order"] = kind
    assert (await run(operator(check), {"item": "figs", "noet": "ripe"})).text == "checked"


async def test_a_model_that_is_the_job_may_have_fields_that_no_operator_reads():
    class Priced(_Order):
        price: float = 1

        @computed_field
        @property
        def total(self) -> float:
            return self.price

    def name(item: str) -> str:
        return item

    def check(order: _Order) -> str:
        return order.item

    for function in (name, check):
        assert (await run(operator(function), Priced(item="figs"))).text == "figs"


async def test_a_map_without_a_list_says_so_also_if_the_job_has_a_list():
    with pytest.raises(OperatorError, match="there is none; say over="):
        await run(Map("each", operator(_last, id="last")), {"names": ["a"]})


@pytest.mark.parametrize(
    "graph",
    [
        [_GREET, operator(_reads_all)],
        [_GREET, operator(_takes_rest)],
        _GREET >> operator(_last) >> operator(_reads_all),
        [_GREET, BuiltinWorkflow(operator(_reads_all), name="inner")],
        [_GREET, Map("each", operator(_last, id="last"), over=lambda job: job.inputs.values())],
        [_GREET, Map("each", operator(_reads_all), over=lambda job: ["a"])],
        [_GREET, Operator("Greet.", model=ScriptedReasoner(["hello"]))],
    ],
)
async def test_inputs_are_read_by_a_job_by_the_rest_of_the_parameters_and_by_prompts(graph):
    assert (await run(graph, {"langauge": "fr"})).status.value == "SUCCESS"


async def test_the_name_of_an_annotated_type_is_that_of_the_type():
    def longer(facts: Annotated[int, Field(ge=5)]) -> int:
        return facts

    with pytest.raises(
        OperatorError, match="the answer of 'three' is not a valid int for parameter 'facts': Input sho"
    ):
        await run(operator(lambda: 3, id="three") >> operator(longer))


async def test_an_answer_that_does_not_fit_the_parameter_blames_the_operator_that_gave_it():
    answers = iter([{"claims": "none"}, {"claims": ["a"]}])
    lessons = []

    @operator
    def extract(context: RunContext) -> dict[str, Any]:
        lessons.append(context.lesson)
        return next(answers)

    @operator
    def count(extract: Claims) -> int:
        return len(extract.claims)

    result = await run(extract >> count, max_rounds=2)
    assert result.output == 1
    assert lessons == ["", "Answer in the form of Claims: claims: Input should be a valid list"]


@dataclass
class Point:
    x: int


RETURNED = {
    "text": ("plain", "plain", {}),
    "a model": (Claims(claims=["a"]), '{"claims": ["a"]}', {"claims": ["a"]}),
    "a dataclass": (Point(1), '{"x": 1}', {"x": 1}),
    "a dict": ({"n": 1}, '{"n": 1}', {"n": 1}),
    "a list": ([1, 2], "[1, 2]", {"output": [1, 2]}),
    "a number": (3, "3", {"output": 3}),
    "numbers of numpy": (
        {"n": np.int64(3), "all": [np.bool_(True), np.float32(0.5)]},
        '{"n": 3, "all": [true, 0.5]}',
        {"n": 3, "all": [True, 0.5]},
    ),
    "nothing": (None, "", {"output": None}),
    "a message": (WorkflowMessage(scratchpad="s", outputs={"a": 1}), "s", {"a": 1}),
}


@pytest.mark.parametrize("kind", RETURNED)
async def test_what_a_function_returns_becomes_a_message(kind):
    value, text, outputs = RETURNED[kind]
    message = (await run(operator(id="a")(lambda: value))).message
    assert (message.scratchpad, message.outputs) == (text, outputs)


async def test_a_value_without_a_json_form_is_an_error_that_says_what_to_return():
    told = "'a' returned an instance of object, which has no JSON form: .* type object .*; return text, a pydantic"
    with pytest.raises(OperatorError, match=told):
        await run(operator(id="a")(lambda: object()))


async def test_a_function_with_ports_takes_one():
    @operator(ports=["a", "b"])
    def undecided(job: Job) -> str:
        return "a"

    after = operator(id="after")(lambda undecided: undecided)
    with pytest.raises(OperatorError) as caught:
        await run(undecided["a"] >> after)
    assert isinstance(caught.value.__cause__, PortError)
    assert "'undecided' chose none of its ports; return Take('a', …): a, b" in str(caught.value)
    with pytest.raises(InvalidError, match=r"operator 'undecided' has no port 'c'"):
        await run(undecided["c"] >> after)


async def test_generators_stream_their_text():
    @operator
    def words(job: Job) -> Iterator[str]:
        yield from ["a ", "b"]

    @operator
    async def later(words: str) -> AsyncIterator[str]:
        for word in words.split():
            yield word

    streamed = [
        (event.operator_id, event.text)
        async for event in BuiltinWorkflow(words >> later).stream("x", only=events.TokenStreamed)
        if isinstance(event, events.TokenStreamed)
    ]
    assert streamed == [("words", "a "), ("words", "b"), ("later", "a"), ("later", "b")]
    assert (await run(words >> later)).output == "ab"
    with pytest.raises(OperatorError, match=r"'numbers' yields 1 \(int\); a generator yields text"):
        await run(operator(numbers))


def numbers():
    yield 1


async def test_methods_partials_and_callable_objects_are_functions_too():
    class Greeter:
        def greet(self, job: Job) -> str:
            return f"hello {job.goal}"

        def __call__(self, text: str) -> str:
            return text + "!"

    result = await run(operator(Greeter().greet) >> operator(Greeter()), "Tom")
    assert result.output == "hello Tom!"
    assert list(result.messages) == ["greet", "Greeter"]
    assert (await run(operator(functools.partial(numbered, n=2)), "a")).output == "a 2"


def numbered(text: str, n: int) -> str:
    return f"{text} {n}"


async def test_a_function_may_change_what_it_is_given():
    def sort(facts: Any) -> list[str]:
        facts["claims"].reverse()
        return facts["claims"]

    result = await run(facts >> sort)
    assert (result.output, result[facts].claims) == (["b", "a"], ["a", "b"])


async def test_a_method_is_one_operator_however_often_it_is_named():
    class Words:
        def count(self, job: Job) -> int:
            return len(job.goal)

    words, flow = Words(), BuiltinWorkflow()
    flow.add(words.count)
    flow.add(operator(id="more")(lambda n: n + 1), after=[words.count])
    result = await flow.arun("abc")
    assert (result.output, result[words.count]) == (4, 3)


async def test_two_functions_of_one_name_get_ids_of_their_own():
    result = await run([operator(lambda job: "a"), operator(lambda job: "b")])
    assert result.output == {"lambda": "a", "lambda_2": "b"}


def test_the_function_can_be_called_itself():
    assert facts(Job(goal="a b")).claims == ["a", "b"]
    assert vars(facts)["__name__"] == "facts"


async def test_annotations_that_are_text_are_read_also_of_local_classes():
    class Local(BaseModel):
        n: int

    @operator
    def make(job: Job) -> "Local":
        return Local(n=len(job.goal))

    @operator
    def read(make: "Local") -> "int":
        return make.n

    assert (await run(make >> read, "abc")).output == 3


async def test_an_annotation_that_cannot_be_resolved_is_an_issue():
    @operator
    def read(make: "Nowhere") -> int:  # type: ignore[name-defined]  # noqa: F821
        return 1

    with pytest.raises(
        InvalidError, match=r"an annotation of 'read' cannot be resolved: name 'Nowhere' is not defined"
    ):
        await run(facts >> read)


async def test_a_function_works_in_nested_workflows_and_is_cancelled_with_its_run():
    inner = BuiltinWorkflow(operator(id="up")(lambda facts: facts["claims"]), name="inner")
    assert (await run(facts >> inner)).output == ["a", "b"]

    ended = asyncio.Event()

    @operator
    async def wait(job: Job) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    handle = BuiltinWorkflow(wait).start("x")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await handle.cancel()
    assert handle.done
    assert ended.is_set()


async def test_literals_and_operators_that_ask_a_model():
    @operator
    def route(kind: Literal["a", "b"]) -> str:
        return f"<{kind}>"

    kind = Operator("Which?", id="kind", output=Literal["a", "b"])
    assert (await BuiltinWorkflow(kind >> route).arun("x", ScriptedReasoner(['"a"']))).output == "<a>"


# Functions in a map


class Claim(BaseModel):
    text: str


def test_a_function_in_a_map_gets_the_item_in_its_type():
    def length(claim: Claim) -> int:
        return len(claim.text)

    said = Workflow([Map("each", length, over="list")]).run({"list": [{"text": "abc"}]})
    assert said.message.outputs["items"] == [3]


def test_a_function_in_a_map_gets_the_item_and_its_index_and_what_follows_the_typed_list():
    def number(item: str, index: int) -> Claim:
        return Claim(text=f"{index}: {item}")

    def join(each: list[Claim]) -> str:
        return ", ".join(claim.text for claim in each)

    each = Map("each", number, over="words")
    result = Workflow(each >> join).run({"words": ["a", "b"]})
    assert result.output == "0: a, 1: b"
    assert result[each] == [Claim(text="0: a"), Claim(text="1: b")]


def test_a_parameter_with_a_default_and_a_near_miss_for_a_name_is_told(caplog):
    def facts() -> str:
        return "said"

    def note() -> str:
        return "noted"

    def show(note: str, fact: str = "nothing") -> str:
        return f"{note}: {fact}"

    assert Workflow([facts, note] >> operator(show)).run("x").output == "noted: nothing"
    [record] = caplog.records
    assert record.getMessage() == (
        "'show': parameter 'fact' keeps its default: no operator before it has this id (did you mean 'facts'?)"
    )


@pytest.mark.parametrize("is_nested", [False, True])
def test_near_misses_are_told_once_and_those_of_an_operator_with_issues_after_these(caplog, is_nested):
    def facts() -> str:
        return "said"

    def guess(facts: str, fact: str = "nothing") -> str:
        return facts + fact

    def show(facts: str, other: str, fact: str = "nothing") -> str:
        return facts + other + fact

    first = operator(facts)
    flow = Workflow([first >> operator(guess), first >> operator(show)], name="inner")
    issues = (Workflow(flow, name="outer") if is_nested else flow).graph().check()
    assert [issue.where.rpartition("/")[2] for issue in issues] == ["show"]
    assert [record.getMessage() for record in caplog.records] == [
        "'guess': parameter 'fact' keeps its default: no operator before it has this id (did you mean 'facts'?)"
    ]


def test_a_sync_function_runs_in_a_thread_and_inline_on_the_event_loop(engine):
    import threading

    @operator
    def apart(job: Job) -> int:
        return threading.get_ident()

    @operator(inline=True)
    def inline(apart: int) -> int:
        return threading.get_ident()

    @operator
    async def awaited(inline: int) -> int:
        return threading.get_ident()

    result = engine(apart >> inline >> awaited).run("x")
    assert result[inline] == result[awaited] != result[apart]


@pytest.mark.parametrize("inline", [True, False])
def test_an_inline_function_may_return_what_others_do(engine, inline):
    def words(job: Job):
        yield "a"
        yield "b"

    def later(words: str):
        async def value():
            return f"{words}!"

        return value()

    flow = engine(operator(inline=inline)(words) >> operator(inline=inline)(later))
    assert flow.run("x").text == "ab!"


def test_two_parameters_after_one_operator_are_not_both_its_answer(engine):
    def start(job: Job) -> str:
        return job.goal

    async def both(start: str, other: str = "own") -> str:
        return start + other

    flow = engine(operator(start) >> both)
    assert [flow.run("x").text for _ in range(2)] == ["xown", "xown"]


class Person(BaseModel):
    name: str


def test_a_number_for_which_a_model_is_given_is_refused_before_a_model_is_asked():
    def check(extract: int) -> str:
        return str(extract)

    def optional(extract: int | None) -> str:
        return str(extract)

    extract = Operator("Extract the person.", id="extract", output=Person)
    with ScriptedModel([]) as scripted, pytest.raises(InvalidError) as caught:
        Workflow(extract >> check).run("x", scripted.model)
    assert [issue.message for issue in caught.value.issues] == [
        "parameter 'extract' is annotated as int, and the answers of operator 'extract' are Person; annotate it as Person"
    ]
    assert scripted.requests == []
    assert Workflow(extract >> optional).built()


def test_sync_functions_do_not_wait_for_each_others_threads():
    meet = threading.Barrier(20)

    def wait(number: int) -> int:
        meet.wait(timeout=30)
        return number

    assert Workflow(Map(each=wait, over="numbers", concurrency=20)).run({"numbers": [*range(20)]}).output == [
        *range(20)
    ]


def test_inputs_without_a_value_leave_an_optional_parameter_out():
    def known(names: list[str] | None) -> str:
        return str(names)

    assert [Workflow(known).run(inputs).text for inputs in ({}, {"names": ["Ada"]})] == ["None", "['Ada']"]


async def test_sync_functions_that_run_workflows_leave_them_threads(monkeypatch):
    most = 20
    monkeypatch.setattr("operad.runtime.values.function_threads.MOST_THREADS", most)
    inner = Workflow(lambda number: number, name="inner")
    meet = threading.Barrier(most)

    def outer(number: int) -> str:
        meet.wait(timeout=30)
        return inner.run(str(number)).text

    flow = Workflow(Map(each=outer, over="numbers", concurrency=most))
    result = await asyncio.wait_for(flow.arun({"numbers": [*range(most)]}), 60)
    assert result.output == [str(number) for number in range(most)]


async def test_a_coroutine_that_an_operator_returns_lacks_an_await():
    async def fetch():
        return "rain"

    async def weather(job):
        return fetch()

    with pytest.raises(OperatorError, match=r"'weather' returned the coroutine fetch: an `await` is missing$"):
        await BuiltinWorkflow(weather).arun("x")
