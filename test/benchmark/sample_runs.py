"""Sample runs for screenshots: real workflows with scripted answers and durations.

`brief()` has most features: rounds with lessons, a map, a nested workflow, a retry, a question, a skipped branch, a cached
answer. `failing()` ends with an error, `hostile()` contains attacks on the page, and `large(n)` has n operators.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from operad.operators import Operator, OperatorConfig
from operad.runtime import (
    Action,
    BuiltinWorkflow,
    Job,
    Map,
    ModelError,
    OperadError,
    Policy,
    Port,
    Retry,
    Tool,
    Usage,
    WorkflowMessage,
    WorkflowStatus,
    events,
    interrupt,
)
from operad.runtime.testing import run_on_fake_clock

TWO_ROUNDS = (
    "The market for heat pumps grew.",
    "The market for heat pumps grew by 12% in 2024 [1], to 2.6 million [2].",
)
ANSWER = """The brief, with sources.

## Figures

| country | sold in 2024 | change |
|---|---:|---:|
| Germany | 193,000 | **−46%** |
| France | 356,000 | −24% |

1. Sales *recovered* in the second half.
2. A unit costs `9,800 €`; see [the report](https://www.ehpa.org/market-data) and ![a chart](https://example.org/chart.png).
"""
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "[click](javascript:alert(3)) <a href='javascript:alert(4)'>here</a>",
    "\u202egnp.exe\u202c \u2066isolated\u2069 שלום, عالم",
    "<!-- --><svg onload=alert(5)>\u2028\u2029",
    "@everyone ![x](https://example.org/x.png) https://example.org/ | ` ``` ~~~",
)


class Model:
    """Scripted reasoner that answers by the instruction after some time, and emits the events of a real model.

    Args:
        answers: The answers by instruction, in order; the last one is repeated.
        seconds: The minimum duration of a call.
        price: The price of a token.
    """

    def __init__(self, answers: dict[str, list[str]], seconds: float = 1.0, price: float = 0.000004) -> None:
        self._answers = {name: list(said) for name, said in answers.items()}
        self._seconds, self._price, self._calls = seconds, price, 0

    async def infer(self, task: Any) -> str:
        said = self._answers.get(task.instruction, ["Done."])
        text = said.pop(0) if len(said) > 1 else said[0]
        messages = [
            {"role": "system", "content": task.instruction},
            *({"role": "user", "content": each.scratchpad} for each in task.workflow_messages if each.scratchpad),
            {"role": "user", "content": f"{task.job.goal}\n\n{task.lesson}".strip()},
        ]
        for tool in task.tools:
            call = await self._call(messages, [tool.name], tool=tool.name)
            arguments = {"query": "heat pumps sold in Europe, 2024"}
            events.emit(events.ToolCalled(call_id=call, tool=tool.name, arguments=arguments))
            await asyncio.sleep(self._seconds * 0.4)
            result = "2.6 million heat pumps were sold in 2024, 12% more than the year before (EHPA)."
            events.emit(
                events.ToolReturned(call_id=call, tool=tool.name, result=result, failed=False, seconds=self._seconds)
            )
            messages = [*messages, {"role": "tool", "content": result}]
        await self._call(messages, [tool.name for tool in task.tools], text)
        return text

    async def _call(self, messages: list[dict[str, str]], tools: list[str], text: str = "", tool: str = "") -> str:
        self._calls += 1
        call = f"call-{self._calls}"
        events.emit(events.ModelAsked(call_id=call, model="small-1", messages=tuple(messages), tools=tuple(tools)))
        seconds = self._seconds * (0.7 + len(text) / 250)
        for word in text.split(" ")[:20]:
            events.emit(events.TokenStreamed(text=f"{word} "))
            await asyncio.sleep(seconds / 20)
        await asyncio.sleep(seconds * max(0, 20 - len(text.split(" "))) / 20)
        read, written = sum(len(each["content"]) // 4 for each in messages), 12 + len(text) // 4
        usage = Usage(
            calls=1,
            prompt_tokens=read,
            completion_tokens=written,
            seconds=seconds,
            cost=(read + 4 * written) * self._price,
        )
        called = ({"name": tool, "arguments": '{"query": "heat pumps sold in Europe, 2024"}'},) if tool else ()
        events.emit(events.ModelAnswered(model="small-1", usage=usage, call_id=call, text=text, tool_calls=called))
        return call


class Code:
    """Operator that calls `work(job, messages, lesson)` after some seconds."""

    def __init__(self, name: str, work: Callable[..., Any] = lambda *_: "done", seconds: float = 0.5, ports=()) -> None:
        self._name, self._work, self._seconds = name, work, seconds
        if ports:
            self.ports = ports

    def get_id(self):
        return self._name

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        await asyncio.sleep(self._seconds)
        said = self._work(job, workflow_messages or [], lesson)
        return await said if asyncio.iscoroutine(said) else said


class Judge(Code):
    """Evaluator that returns scripted verdicts in order."""

    def __init__(self, name: str, *verdicts: WorkflowMessage, seconds: float = 0.8) -> None:
        left = list(verdicts)
        super().__init__(name, lambda *_: left.pop(0) if len(left) > 1 else left[0], seconds)


def ask(name: str, instruction: str, **more: Any) -> Operator:
    """Return an operator that asks the model."""
    return Operator(OperatorConfig(id=name, instruction=instruction, **more))


def search(query: str) -> str:
    """Look something up on the web."""
    return query


def recorded(run: Callable[[list[events.Event]], Coroutine[Any, Any, Any]]) -> list[events.Event]:
    """Return the events of a run on a fake clock."""
    heard: list[events.Event] = []

    async def to_end() -> None:
        with suppress(OperadError):
            await run(heard)

    run_on_fake_clock(to_end())
    return heard


def brief() -> list[events.Event]:
    """Return a run of twelve operators with most features."""
    return recorded(_brief)


async def _brief(heard: list[events.Event]) -> None:
    look_up = Action(name="look up", description="Search the web.", tools=(Tool.of(search),))
    asked_prices = 0

    def prices(*_: object) -> str:
        nonlocal asked_prices
        asked_prices += 1
        if asked_prices < 3:
            unavailable = f"price service: 503 Service Unavailable (try {asked_prices})"
            raise ModelError(unavailable, transient=True, retry_after=1.2 * asked_prices)  # the same wait each time
        return "A unit costs 9,800 € on average."

    async def approve(*_: object) -> str:
        question = "Publish figures of a competitor?"
        form = {"type": "object", "properties": {"approve": {"type": "boolean"}, "why": {"type": "string"}}}
        asking = asyncio.ensure_future(interrupt(question, form))
        await asyncio.sleep(4.0)
        await workflow.answer("brief-2024", {"approve": {"approve": True, "why": "They are public."}})
        answer = await asking
        return f"approved: {answer['why']}"

    plan = Code(
        "plan",
        lambda *_: WorkflowMessage(
            scratchpad="Three countries: Germany, France, Poland.",
            outputs={"countries": ["Germany", "France", "Poland", "日本 (for comparison)"]},
            ports=("market",),
        ),
        1.2,
        ports=("market", "complaint"),
    )
    web = ask("search the web", "Search the web for figures of the market.", actions=[look_up])
    each = BuiltinWorkflow(name="country")
    read, extract = ask("read", "Read what is known of the country."), ask("extract", "Extract the figures.")
    each.add_operator(read)
    each.add_operator(extract, previous_ops=[read])
    countries = Map("countries", each, over="countries", concurrency=2)
    legal = BuiltinWorkflow(name="legal review", max_rounds=2)
    sources, claims = ask("sources", "List the sources."), ask("claims", "Check each claim against the sources.")
    legal.add_operator(sources)
    legal.add_operator(claims, previous_ops=[sources])
    legal.set_evaluator(
        Judge(
            "counsel",
            WorkflowMessage(
                status=WorkflowStatus.EXECUTION_ERROR,
                evaluation="A claim has no source.",
                lesson="Give every claim its source.",
                blame=("claims",),
            ),
            WorkflowMessage(evaluation="Every claim has its source."),
        )
    )
    price = Code("prices", prices, 0.7)
    complaint = Code("complaint desk")
    permit = Code("approve", approve, 0.2)
    outline = ask("outline", "Outline the brief in five points.")
    write = ask(
        "write", "Write the brief from the outline and the figures. Every sentence needs a figure and its source."
    )
    translate = ask("translate", "Translate the brief into Japanese and Arabic.")
    chart = Code("chart", lambda *_: "chart.svg: two bars", 0.9)
    answer = ask("answer", "Put brief, translations and chart together.")

    workflow = BuiltinWorkflow(name="market brief", max_rounds=3, listeners=[heard.append])
    workflow.add_operator(plan)
    workflow.add_operator(web, previous_ops=[Port(plan, "market")])
    workflow.add_operator(countries, previous_ops=[Port(plan, "market")])
    workflow.add_operator(
        price, previous_ops=[Port(plan, "market")], policy=Policy(retry=Retry(attempts=3, first_delay=0.001))
    )
    workflow.add_operator(complaint, previous_ops=[Port(plan, "complaint")])
    workflow.add_operator(legal, previous_ops=[web])
    workflow.add_operator(outline, previous_ops=[web, countries])
    workflow.add_operator(permit, previous_ops=[price])
    workflow.add_operator(write, previous_ops=[outline, permit, legal])
    workflow.add_operator(translate, previous_ops=[write])
    workflow.add_operator(chart, previous_ops=[countries, price])
    workflow.add_operator(answer, previous_ops=[write, translate, chart])
    workflow.set_evaluator(
        Judge(
            "editor",
            WorkflowMessage(
                status=WorkflowStatus.EXECUTION_ERROR,
                evaluation="The first sentence says that the market grew, and neither by how much nor who says so.",
                lesson="Give each sentence its figure, and the figure its source in brackets.",
                blame=("write",),
                score=4,
            ),
            WorkflowMessage(evaluation="Each sentence has a figure and a source.", score=9),
        )
    )
    model = Model(
        {
            "Search the web for figures of the market.": [
                "2.6 million were sold in 2024, 12% more than in 2023 (EHPA)."
            ],
            "Read what is known of the country.": ["Sales fell in the first half and recovered in the second."],
            "Extract the figures.": ['{"sold": 356000, "change": "-46%"}'],
            "List the sources.": ["[1] EHPA market report 2025. [2] Eurostat nrg_bal."],
            "Check each claim against the sources.": ["Claim 1 stands.", "Claim 1 stands [1]. Claim 2 stands [2]."],
            "Outline the brief in five points.": ["1. Size\n2. Growth\n3. Prices\n4. Countries\n5. Outlook"],
            "Write the brief from the outline and the figures. Every sentence needs a figure and its source.": [
                f"{TWO_ROUNDS[0]}\nPrices stayed where they were.\nPoland is the market to watch.",
                f"{TWO_ROUNDS[1]}\nA unit costs 9,800 € on average [2].\nPoland is the market to watch.",
            ],
            "Translate the brief into Japanese and Arabic.": [
                "ヒートポンプの市場は成長した。\nنما سوق المضخات الحرارية.",
                "ヒートポンプの市場は2024年に12%成長し、260万台になった。\nنما سوق المضخات الحرارية بنسبة 12%.",
            ],
            "Put brief, translations and chart together.": ["The brief, in three languages.", ANSWER],
        }
    )
    goal = "Write a one-page brief on the European market for heat pumps in 2024, with sources, in three languages."
    async for _ in workflow.stream(Job(goal=goal), model, run_id="brief-2024"):
        pass


def failing() -> list[events.Event]:
    """Return a run that ends with an error with chained causes, and in which another operator is cancelled."""

    def fail(*_: object) -> str:
        try:
            json.loads("{")
        except ValueError as error:
            raise OperadError("ledger.json: line 3 is not an entry:\n  it is cut off; send the file again") from error
        return ""

    async def run(heard: list[events.Event]) -> None:
        workflow = BuiltinWorkflow(name="accounts", listeners=[heard.append])
        load, slow = Code("load ledger", seconds=0.5), Code("fetch rates", seconds=60)
        check, report = Code("check entries", fail, 1.0), Code("report")
        workflow.add_operator(load)
        workflow.add_operator(slow)
        workflow.add_operator(check, previous_ops=[load])
        workflow.add_operator(report, previous_ops=[check, slow])
        await workflow.aexecute(Job(goal="Close the books of March."), Model({}), run_id="books")

    return recorded(run)


def hostile() -> list[events.Event]:
    """Return a run whose names, instructions, answers, lessons and errors are attacks on the page."""

    async def run(heard: list[events.Event]) -> None:
        workflow = BuiltinWorkflow(name=HOSTILE[1], max_rounds=2, listeners=[heard.append])
        before: list[Any] = []
        names = [text.replace("/", "\u2215") for text in HOSTILE]  # ids must not contain a slash
        for name, text in zip(names, HOSTILE, strict=True):
            operator = ask(name, text)
            workflow.add_operator(operator, previous_ops=before)
            before = [operator]
        workflow.set_evaluator(
            Judge(
                HOSTILE[0] + " judge",
                WorkflowMessage(
                    status=WorkflowStatus.EXECUTION_ERROR, evaluation=HOSTILE[1], lesson=HOSTILE[0], blame=(names[2],)
                ),
                WorkflowMessage(evaluation=HOSTILE[0]),
            )
        )
        long = "unbroken" * 4000 + HOSTILE[1]
        await workflow.aexecute(Job(goal="\n".join(HOSTILE)), Model({HOSTILE[2]: [long, *HOSTILE]}), run_id=HOSTILE[0])

    return recorded(run)


def large(operators: int, layers: int = 12) -> list[events.Event]:
    """Return a run of layers of operators, each after one to three of the layer before."""
    chance = random.Random(7)  # noqa: S311 - the same graph each time

    async def run(heard: list[events.Event]) -> None:
        workflow = BuiltinWorkflow(name=f"{operators} operators", listeners=[heard.append])
        before: list[Code] = []
        width = -(-operators // layers)
        for start in range(0, operators, width):
            layer = [
                Code(f"step {number}", seconds=chance.uniform(0.05, 2))
                for number in range(start, min(start + width, operators))
            ]
            for at, operator in enumerate(layer):
                near = before[max(0, at - 2) : at + 3]
                workflow.add_operator(operator, previous_ops=chance.sample(near, min(len(near), chance.randint(1, 3))))
            before = layer
        await workflow.aexecute(Job(goal="Do it all."), Model({}), run_id="large")

    return recorded(run)


def many_spans(spans: int) -> list[events.Event]:
    """Return a run with a map that has about a number of spans."""

    async def run(heard: list[events.Event]) -> None:
        body = BuiltinWorkflow(name="item")
        look, judge = Code("look", seconds=0.3), Code("judge", seconds=0.1)
        body.add_operator(look)
        body.add_operator(judge, previous_ops=[look])
        workflow = BuiltinWorkflow(name="many items", listeners=[heard.append])
        workflow.add_operator(Map("each", body, over="items", concurrency=50))
        items: list[Any] = list(range(spans // 4))
        await workflow.aexecute(Job(goal="All of them.", inputs={"items": items}), Model({}), run_id="many")

    return recorded(run)
