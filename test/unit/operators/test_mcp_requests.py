"""What MCP servers ask for while a tool is called: a person's answer, or a model's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_servers import served
from pydantic import BaseModel

from operad import Budget, InvalidError, Operator, PausedError, Workflow, events
from operad.operators.mcp import MOST_PROMPTS, McpTools, StdioServer, StreamableHttpServer
from operad.runtime import BudgetError
from operad.runtime.durable import Ledger
from operad.runtime.testing import CallTools, Say, ScriptedModel
from operad.runtime.values.typed_answers import describe_answer, read_answer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from forked import ForkServer

    from operad import Question

SHOP = '''
import json, os, sys
from typing import Annotated
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.types import ImageContent, SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("shop", log_level="CRITICAL")

class Size(BaseModel):
    size: str

@server.tool()
async def order(item: str, ctx: Context) -> str:
    """Order an item."""
    with open("calls", "a") as calls:
        calls.write(item + "\\n")
    answer = await ctx.elicit("Which size?", Size)
    return f"{item}: {answer.action} {getattr(answer, 'data', None)}"

def ask(item: str) -> Elicit[Size]:
    return Elicit("Which size?", Size)

@server.tool()
def reserve(item: str, size: Annotated[Size, Resolve(ask)]) -> str:
    """Reserve an item."""
    return f"{item}: reserved in {size.size}"

@server.tool()
async def pay(url: str, ctx: Context) -> str:
    return (await ctx.elicit_url("Pay here.", url, "payment-1")).action

@server.tool()
async def leak(ctx: Context) -> str:
    return (await ctx.elicit("Is it " + os.environ["SHOP_TOKEN"] + "?", Size)).action

@server.tool()
async def praise(item: str, ctx: Context, times: int = 1, image: bool = False, stop: list[str] = []) -> str:
    """Praise an item."""
    content = ImageContent(type="image", data="AAAA", mime_type="image/png") if image else TextContent(type="text", text=item)
    for _ in range(times):
        said = await ctx.session.create_message(
            [SamplingMessage(role="user", content=content)], max_tokens=50, system_prompt="Praise it.", temperature=0.5,
            stop_sequences=stop, include_context="allServers")
    return json.dumps([said.model, said.content.text, said.stop_reason])

server.run()
'''


@pytest.fixture
def shop(tmp_path: Path, forked: ForkServer) -> McpTools:
    (tmp_path / "shop.py").write_text(SHOP)
    python, env = f"{forked.commands}/python", {"SHOP_TOKEN": "tok-123456789"}
    server = StdioServer(command=python, args=("-W", "ignore", "shop.py"), env=env, cwd=tmp_path)
    return McpTools(name="Shop", server=server)


def calling(*calls: tuple[str, dict[str, Any]]) -> list[Any]:
    return [CallTools([*calls]), Say("done")]


def results(endpoint: ScriptedModel) -> list[str]:
    """The results of tools in the last request."""
    return [message["content"] for message in endpoint.requests[-1]["messages"] if message["role"] == "tool"]


def clerk(shop: McpTools, endpoint: ScriptedModel, **options: Any) -> Workflow[Any]:
    return Workflow(Operator("Serve.", id="clerk", tools=[shop]), model=endpoint.model, name="shop", **options)


def asked(flow: Workflow[Any]) -> Sequence[Question]:
    with pytest.raises(PausedError) as paused:
        flow.run("Go.", run_id="r")
    return paused.value.questions


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"size": "M"}, "shirt: accept size='M'"),
        ("decline", "shirt: decline None"),
        ("cancel", "shirt: cancel None"),
    ],
)
def test_a_question_of_a_server_is_a_question_of_the_run_and_the_server_is_told_the_answer(
    shop: McpTools, answer: Any, told: str
):
    with ScriptedModel(calling(("order", {"item": "shirt"}))) as endpoint:
        flow = clerk(shop, endpoint)
        [question] = asked(flow)
        assert question.id == "clerk"
        assert question.text == (
            'The MCP server \'Shop\' asks, in the call order({"item": "shirt"}): Which size? '
            "(Answer decline or cancel to give no data.)"
        )
        flow.resume("r", {"clerk": answer})
        assert results(endpoint) == [told]


def test_an_answer_without_the_form_is_refused_and_the_question_stays_open(shop: McpTools):
    with ScriptedModel(calling(("order", {"item": "shirt"}))) as endpoint:
        flow = clerk(shop, endpoint)
        asked(flow)
        for wrong in ("M", {"size": 5}, {}, 5):
            with pytest.raises(InvalidError) as raised:
                flow.resume("r", {"clerk": wrong})
            assert [issue.code for issue in raised.value.issues] == ["wrong-answer"]
        flow.resume("r", {"clerk": {"size": "L"}})
        assert results(endpoint) == ["shirt: accept size='L'"]


def test_the_answer_can_be_typed_at_the_terminal(shop: McpTools):
    with ScriptedModel(calling(("order", {"item": "shirt"}))) as endpoint:
        flow = clerk(shop, endpoint)
        [question] = asked(flow)
        form = question.schema_
        assert read_answer("M", form) == {"size": "M"}
        assert read_answer('{"size": "M"}', form) == {"size": "M"}
        assert read_answer(" decline ", form) == "decline"
        assert read_answer("cancel", form) == "cancel"
        assert describe_answer(form) == ""
        flow.resume("r", {"clerk": "cancel"})


def test_a_server_that_asks_before_its_tool_runs_is_answered_too(shop: McpTools):
    with ScriptedModel(calling(("reserve", {"item": "shirt"}))) as endpoint:
        flow = clerk(shop, endpoint)
        asked(flow)
        flow.resume("r", {"clerk": {"size": "M"}})
        assert results(endpoint) == ["shirt: reserved in M"]


def test_a_durable_run_is_answered_after_a_restart_and_calls_the_tool_again(shop: McpTools, tmp_path: Path):
    with ScriptedModel(calling(("order", {"item": "shirt"}))) as endpoint:
        ledger = Ledger(tmp_path / "runs.db")
        asked(clerk(shop, endpoint, durable=ledger))
        [question] = ledger.open_questions("r")
        assert question.schema_ is not None
        assert question.schema_["properties"]["size"]["type"] == "string"
        ledger.close()  # as the end of the process
        ledger = Ledger(tmp_path / "runs.db")
        result = clerk(shop, endpoint, durable=ledger).resume("r", {question.id: {"size": "M"}})
        ledger.close()
        assert (result.text, results(endpoint)) == ("done", ["shirt: accept size='M'"])
    assert (tmp_path / "calls").read_text() == "shirt\nshirt\n"


@pytest.mark.parametrize(("answer", "told"), [("accept", "accept"), ("decline", "decline")])
def test_a_person_is_shown_the_address_that_a_server_wants_opened(shop: McpTools, answer: str, told: str):
    with ScriptedModel(calling(("pay", {"url": "https://shop.example/pay?id=1"}))) as endpoint:
        flow = clerk(shop, endpoint)
        [question] = asked(flow)
        assert question.text.endswith(
            "Pay here.\nOpen https://shop.example/pay?id=1 if you trust it, then answer accept; or answer decline or cancel."
        )
        assert question.schema_ == {"enum": ["accept", "decline", "cancel"]}
        flow.resume("r", {"clerk": answer})
        assert results(endpoint) == [told]


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "https://a.example/\x1b[2J"])
def test_an_address_that_no_browser_should_open_is_refused(shop: McpTools, url: str):
    with ScriptedModel(calling(("pay", {"url": url}))) as endpoint:
        assert clerk(shop, endpoint).run("Go.").text == "done"
        assert "the address of a question must begin with https:// or http://" in results(endpoint)[0]


def test_a_question_does_not_show_the_secrets_of_the_server(shop: McpTools):
    with ScriptedModel(calling(("leak", {}))) as endpoint:
        flow = clerk(shop, endpoint)
        [question] = asked(flow)
        assert "Is it [hidden]?" in question.text
        flow.resume("r", {"clerk": "decline"})


def test_a_cancelled_run_withdraws_the_question(shop: McpTools):
    async def main() -> None:
        with ScriptedModel([CallTools([("order", {"item": "shirt"})])]) as endpoint:
            run = clerk(shop, endpoint).start("Go.")
            async for event in run:
                if isinstance(event, events.Interrupted):
                    break
            await run.cancel()
            assert list(run.questions) == []

    asyncio.run(main())


class Size(BaseModel):
    size: str


SIZES = {"shirt": "M", "hat": "60"}


def ask(item: str) -> Elicit[Size]:
    return Elicit("Which size?", Size)


def http_shop() -> MCPServer:
    server = MCPServer("shop", log_level="CRITICAL")

    @server.tool()
    async def order(item: str, ctx: Context) -> str:
        answer: Any = await ctx.elicit(f"Size of the {item}?", Size)
        return f"{item}: {answer.data.size}"

    @server.tool()
    async def hang() -> None:
        await asyncio.Event().wait()

    return server


async def answering_sizes(flow: Workflow[Any]) -> None:
    """Run a workflow, and answer each question with the size of the item in the call that it names."""
    run = flow.start("Go.")
    async for event in run:
        if isinstance(event, events.Interrupted):
            [size] = [size for item, size in SIZES.items() if f'({{"item": "{item}"}})' in event.question]
            await run.answer({event.interrupt_id: {"size": size}})


async def test_a_server_by_http_without_sessions_can_ask_too():
    server = MCPServer("shop", log_level="CRITICAL")

    @server.tool()
    def reserve(item: str, size: Annotated[Size, Resolve(ask)]) -> str:
        return f"{item}: {size.size}"

    calls = [("reserve", {"item": item}) for item in ("shirt", "hat")]
    async with served(server.streamable_http_app(stateless_http=True)) as address:
        source = McpTools(name="Shop", server=StreamableHttpServer(url=f"{address}/mcp"))
        with ScriptedModel(calling(*calls)) as endpoint:
            await answering_sizes(clerk(source, endpoint))
            assert results(endpoint) == ["shirt: M", "hat: 60"]


async def test_each_of_several_calls_by_http_gets_its_own_answer():
    calls = [("order", {"item": item}) for item in ("shirt", "hat")]
    async with served(http_shop().streamable_http_app()) as address:
        source = McpTools(name="Shop", server=StreamableHttpServer(url=f"{address}/mcp"))
        with ScriptedModel(calling(*calls)) as endpoint:
            await answering_sizes(clerk(source, endpoint))
            assert results(endpoint) == ["shirt: M", "hat: 60"]


async def test_the_time_limit_of_a_call_stands_still_while_a_person_is_asked():
    def script(request: Any) -> Any:
        asks = "Ask." in str(request["messages"])
        results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        if len(results) == (1 if asks else 2):
            return Say(results[-1])
        return CallTools([("order", {"item": "hat"}) if asks else ("hang", {})])

    async with served(http_shop().streamable_http_app()) as address:
        server = StreamableHttpServer(url=f"{address}/mcp", call_timeout=1.0)
        source = McpTools(name="Shop", server=server)
        operators = [Operator(text, id=text.strip("."), tools=[source]) for text in ("Ask.", "Hang.")]
        with ScriptedModel(script) as endpoint:
            flow = Workflow(model=endpoint.model)
            for operator in operators:
                flow.add_operator(operator)
            run = flow.start("Go.")
            waited = 0
            async for event in run:
                if isinstance(event, events.ToolReturned) and event.tool == "hang":
                    assert "timed out after 1 s" in event.result
                    waited += 1
                    if waited == 2:
                        await run.answer({"Ask": {"size": "60"}})
            assert "hat: 60" in (await run).text


def test_of_several_calls_over_stdin_none_gets_the_answer_of_another(shop: McpTools):
    calls = [("order", {"item": item}) for item in ("shirt", "hat")]
    with ScriptedModel(calling(*calls)) as endpoint:
        assert clerk(shop, endpoint).run("Go.").text == "done"
        for result in results(endpoint):
            assert "2 calls are in progress" in result
            assert "call the tools of this server one at a time" in result


def allowed(shop: McpTools) -> McpTools:
    return shop.model_copy(update={"sampling": True})


def test_a_server_may_ask_the_model_that_calls_its_tool_if_that_is_allowed(shop: McpTools):
    script = [CallTools([("praise", {"item": "the shirt"})]), Say("What a shirt!"), Say("done")]
    with ScriptedModel(script) as endpoint:
        assert clerk(allowed(shop), endpoint).run("Go.").text == "done"
        asked_ = endpoint.requests[1]
        assert asked_["messages"] == [
            {"role": "system", "content": "Praise it."},
            {"role": "user", "content": "the shirt"},
        ]
        assert (asked_["temperature"], asked_["max_tokens"]) == (0.5, 50)
        assert "tools" not in asked_
        assert results(endpoint) == ['["scripted", "What a shirt!", "endTurn"]']


def test_a_server_may_not_ask_a_model_unless_that_is_allowed(shop: McpTools):
    with ScriptedModel(calling(("praise", {"item": "the shirt"}))) as endpoint:
        clerk(shop, endpoint).run("Go.")
        assert len(endpoint.requests) == 2
        assert "ToolError: " in results(endpoint)[0]


def test_prompts_of_a_server_count_towards_the_budget_of_the_run(shop: McpTools):
    script = [CallTools([("praise", {"item": "the shirt"})]), Say("What a shirt!")]
    with ScriptedModel(script) as endpoint, pytest.raises(BudgetError):
        clerk(allowed(shop), endpoint, budget=Budget(calls=2)).run("Go.")
    assert len(endpoint.requests) == 2


def test_a_call_of_a_tool_sends_a_limited_number_of_prompts(shop: McpTools):
    script = [CallTools([("praise", {"item": "x", "times": MOST_PROMPTS + 1})]), *["Nice."] * MOST_PROMPTS, Say("done")]
    with ScriptedModel(script) as endpoint:
        clerk(allowed(shop), endpoint).run("Go.")
        assert f"a call of a tool may send at most {MOST_PROMPTS} prompts" in results(endpoint)[0]


def test_prompts_of_a_server_end_at_its_stop_sequences_and_hold_text_only(shop: McpTools):
    calls = [("praise", {"item": "x", "stop": ["END"]})]
    with ScriptedModel([CallTools(calls), Say("Nice. END of it"), Say("done")]) as endpoint:
        clerk(allowed(shop), endpoint).run("Go.")
        assert results(endpoint) == ['["scripted", "Nice. ", "stopSequence"]']
    with ScriptedModel(calling(("praise", {"item": "x", "image": True}))) as endpoint:
        clerk(allowed(shop), endpoint).run("Go.")
        assert "prompts may hold text only" in results(endpoint)[0]
