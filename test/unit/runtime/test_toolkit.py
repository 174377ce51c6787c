from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operad import Operator, Workflow
from operad.runtime.graph.call import OperatorCall
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.tools.connections import Connections
from operad.runtime.tools.tool import Tool, ToolGroup, ToolSource
from operad.runtime.tools.toolkit import Action, Recommendation, Toolkit
from operad.runtime.values.errors import ToolError
from operad.runtime.values.message import Job, WorkflowMessage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable


def tool(name: str) -> Tool:
    return Tool(name=name, function=lambda: name, id=name)


def action(name: str, *tools: Tool | ToolGroup) -> Action:
    return Action(name=name, tools=tools, id=name)


def names(items: Iterable[Any]) -> str:
    return " ".join(item.name for item in items)


def shown(recommendation: Recommendation) -> str:
    return f"{names(recommendation.actions)} | {names(recommendation.tools)}"


A, B, C, D = (action(name) for name in "abcd")
X, Y, Z = (tool(name) for name in "xyz")


def diamond() -> Toolkit:
    """a leads to b (0.9) and c (0.4), both to d (0.8, 1); each calls a tool."""
    toolkit = Toolkit.of([A, B, C, D])
    toolkit.add_action(A, next_actions=[(B, 0.9), (C, 0.4)])
    toolkit.add_action(D, prev_actions=[(B, 0.8), (C, 1.0)])
    toolkit.add_tool(X, [(A, 0.5), (D, 0.3)])
    toolkit.add_tool(Y, [(B, 0.7)])
    toolkit.add_tool_group(ToolGroup(name="g", tools=(Z, X), id="g"), [(D, 0.6)])
    return toolkit


@pytest.mark.parametrize(
    ("start", "threshold", "hops", "expected"),
    [
        ([A], 0.5, 0, "a | x"),
        ([A], 0.51, 0, "a | "),
        ([A], 0.5, 1, "a b | x y"),
        ([A], 0.5, 2, "a b d | x y z"),
        ([A], 0.5, 9, "a b d | x y z"),
        ([A], 0.4, 1, "a b c | x y"),
        ([A], 0.85, 9, "a b | "),
        ([A], 0.0, 9, "a b c d | x y z"),
        ([D, A], 0.5, 1, "d a b | z x y"),
        ([A, A], 0.5, 0, "a | x"),
        ([C], 1.0, 1, "c d | "),
        ([], 0.0, 9, " | "),
    ],
)
def test_recommendations_go_breadth_first_over_edges_at_or_above_the_threshold(
    start: list[Action], threshold: float, hops: int, expected: str
):
    assert shown(diamond().recommend(start, threshold, hops)) == expected


def test_actions_equally_far_come_in_order_of_adding_and_not_of_their_edges():
    toolkit = Toolkit.of([A, B, C, D])
    toolkit.add_action(A, next_actions=[(D, 1.0), (C, 1.0), (B, 1.0)])
    assert names(toolkit.recommend([A], hops=1).actions) == "a b c d"


def test_a_cycle_of_actions_ends():
    toolkit = Toolkit()
    toolkit.add_chain([A, B, C, A])
    assert names(toolkit.recommend([B], hops=100).actions) == "b c a"


def test_an_action_outside_the_toolkit_is_taken_with_its_own_tools():
    stranger = action("stranger", Y, ToolGroup(name="h", tools=(Z,)))
    assert shown(diamond().recommend([stranger, A], hops=1)) == "stranger a b | y z x"


def test_an_actions_own_tools_are_connected_with_score_1():
    toolkit = Toolkit.of([action("e", X, ToolGroup(name="g", tools=(Y, Z)))])
    assert shown(toolkit.recommend(toolkit.actions, threshold=1.0)) == "e | x y z"


def test_chains_that_share_actions_make_one_graph():
    toolkit = Toolkit()
    toolkit.add_chain([A, B, D])
    toolkit.add_chain([A, C, D])
    assert names(toolkit.actions) == "a b d c"
    assert names(toolkit.recommend([A], hops=2).actions) == "a b c d"


def test_adding_an_edge_again_keeps_the_higher_score():
    toolkit = Toolkit.of([A, B])
    for score in (0.6, 0.9, 0.2):
        toolkit.add_action(A, next_actions=[(B, score)])
        toolkit.add_tool(X, [(A, score)])
    assert shown(toolkit.recommend([A], threshold=0.9, hops=1)) == "a b | x"
    assert shown(toolkit.recommend([A], threshold=0.91, hops=1)) == "a | "
    assert (names(toolkit.actions), names(toolkit.tools)) == ("a b", "x")


def test_adding_an_action_again_keeps_its_newer_value_and_all_edges():
    toolkit = diamond()
    newer = Action(name="a2", description="better", id="a")
    toolkit.add_action(newer)
    assert toolkit.recommend([A]).actions == (newer,)
    assert shown(toolkit.recommend([newer], hops=1)) == "a2 b | x y"


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_a_score_outside_0_to_1_is_an_error_and_changes_nothing(score: float):
    toolkit = Toolkit.of([A])
    with pytest.raises(ToolError, match=r"the score of action 'a' is .*: a score is from 0 to 1"):
        toolkit.add_tool(X, [(A, score)])
    with pytest.raises(ToolError, match="a score is from 0 to 1"):
        toolkit.add_action(B, prev_actions=[(A, score)])
    assert (names(toolkit.actions), toolkit.tools) == ("a", ())


def test_an_unknown_neighbour_is_an_error_that_names_a_near_one():
    toolkit = Toolkit.of([action("search_web")])
    with pytest.raises(ToolError, match=r"'serach_web' is not in the toolkit \(did you mean 'search_web'\?\)"):
        toolkit.add_tool(X, [(action("serach_web"), 1.0)])
    with pytest.raises(ToolError, match="'b' is not in the toolkit"):
        toolkit.remove_action(B)
    with pytest.raises(ToolError, match="'x' is not in the toolkit"):
        toolkit.remove_tool(X)
    with pytest.raises(ToolError, match="'g' is not in the toolkit"):
        toolkit.remove_tool_group(ToolGroup(name="g"))


def test_two_kinds_of_things_with_one_id_are_an_error():
    toolkit = Toolkit.of([A])
    with pytest.raises(ToolError, match="'a' and 'other' have the same id: 'a'"):
        toolkit.add_tool(Tool(name="other", function=print, id="a"))


def test_an_action_is_got_by_id_or_by_a_name_of_its_own():
    toolkit = Toolkit.of([A, Action(name="twin", id="1"), Action(name="twin", id="2"), Action(name="1", id="3")])
    assert toolkit.get_action("a") is A
    assert toolkit.get_action("1").name == "twin"
    with pytest.raises(ToolError, match="2 actions of the toolkit are named 'twin': get one by its id"):
        toolkit.get_action("twin")
    with pytest.raises(ToolError, match=r"'twim' is not in the toolkit \(did you mean 'twin'\?\)"):
        toolkit.get_action("twim")


def everything(toolkit: Toolkit) -> str:
    return f"{names(toolkit.actions)} | {names(toolkit.tools)} | {names(toolkit.tool_groups)}"


def test_a_tool_goes_with_its_last_action():
    toolkit = diamond()
    toolkit.remove_action(B)
    assert everything(toolkit) == "a c d | x z | g"


def test_a_group_goes_with_its_last_action_and_takes_its_tools_along():
    toolkit = diamond()
    toolkit.remove_action(D)
    assert everything(toolkit) == "a b c | x y | "


def test_a_tool_in_a_group_that_stays_stays():
    toolkit = diamond()
    toolkit.remove_action(A)
    assert everything(toolkit) == "b c d | x y z | g"
    assert shown(toolkit.recommend([D])) == "d | z x"


def test_a_removed_group_leaves_the_tools_that_an_action_calls():
    toolkit = diamond()
    toolkit.remove_tool_group(toolkit.tool_groups[0])
    assert everything(toolkit) == "a b c d | x y | "


def test_a_removed_tool_leaves_its_group_too():
    toolkit = diamond()
    toolkit.remove_tool(Z)
    assert everything(toolkit) == "a b c d | x y | g"
    assert shown(toolkit.recommend([D])) == "d | x"


def test_removing_an_action_leaves_the_actions_after_it():
    toolkit = Toolkit()
    toolkit.add_chain([A, B, C])
    toolkit.remove_action(B)
    assert shown(toolkit.recommend([A], hops=5)) == "a | "
    assert names(toolkit.actions) == "a c"


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([0.2, 0.5, 0.8])), max_size=20))
def test_more_hops_and_lower_thresholds_never_recommend_less(edges: list[tuple[int, int, float]]):
    actions = [action(f"a{number}", tool(f"t{number}")) for number in range(6)]
    toolkit = Toolkit.of(actions)
    for start, end, score in edges:
        toolkit.add_action(actions[start], next_actions=[(actions[end], score)])
    for hops in range(4):
        for threshold in (0.2, 0.5, 0.8):
            found = toolkit.recommend(actions[:1], threshold, hops).actions
            assert set(names(found).split()) <= set(
                names(toolkit.recommend(actions[:1], 0.2, hops + 1).actions).split()
            )
            assert names(toolkit.recommend(actions[:1], threshold, hops).tools) == names(found).replace("a", "t")


def test_threads_may_ask_at_once():
    toolkit = Toolkit()
    toolkit.add_chain([action(f"a{number}", tool(f"t{number}")) for number in range(50)])
    start = toolkit.actions[:1]
    expected = toolkit.recommend(start, hops=49)
    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(lambda _: toolkit.recommend(start, hops=49), range(40)))
    assert len(expected.tools) == 50


def test_the_drawing_shows_kinds_scores_and_escaped_names():
    toolkit = Toolkit()
    toolkit.add_chain([action('say "hi" #1'), action("a<b>\nc")])
    toolkit.add_tool(X, [(toolkit.actions[0], 0.25)])
    toolkit.add_tool_group(ToolGroup(name="g", tools=(Y,)), [(toolkit.actions[1], 0.5)])

    assert toolkit.to_mermaid() == (
        "flowchart LR\n"
        '  n0["say #34;hi#34; #35;1"]\n'
        '  n1["a#60;b#62; c"]\n'
        '  n2(["x"])\n'
        '  n3[["g"]]\n'
        '  n4(["y"])\n'
        '  n0 -->|"1"| n1\n'
        '  n0 -.->|"0.25"| n2\n'
        '  n1 -.->|"0.5"| n3\n'
        '  n3 -.->|"1"| n4\n'
    )


def test_importing_the_toolkit_imports_neither_networkx_nor_jsonschema_nor_mcp():
    code = (
        "import operad.runtime.tools.toolkit, operad.runtime.tools.connections, operad.operators.mcp, sys; "
        "print([m for m in ('networkx', 'jsonschema', 'mcp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


class Shop(ToolSource):
    """A source that writes down what happens to it."""

    diary: Any  # a list, which pydantic would copy
    offers: tuple[Tool, ...] = ()
    failures: int = 0

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[ToolGroup, None]:
        self.diary.append("open")
        await asyncio.sleep(0)
        if self.diary.count("open") <= self.failures:
            raise ToolError("closed on Sundays")
        yield ToolGroup(name=self.name, tools=self.offers, id=self.id)
        self.diary.append("close")


async def test_a_source_stands_where_its_tools_will_be():
    shop = Shop(name="shop", diary=[], offers=(Y, Z))
    recommended = Toolkit.of([action("buy", X, shop, tool("w"))]).recommend([action("buy")])

    assert recommended.tools[:2] == (X, shop)
    async with Connections() as connections:
        assert names(await connections.tools(recommended.tools)) == "x y z w"


async def test_a_source_opens_once_when_first_needed_and_closes_at_the_end():
    diary: list[str] = []
    shop = Shop(name="shop", diary=diary, offers=(X,))
    async with Connections() as connections:
        assert diary == []
        found = await asyncio.gather(*(connections.tools([shop]) for _ in range(5)))
        assert found == [(X,)] * 5
        assert diary == ["open"]
    assert diary == ["open", "close"]


async def test_sources_stay_open_until_the_last_one_that_entered_leaves():
    diary: list[str] = []
    shop = Shop(name="shop", diary=diary, offers=(X,))
    async with Connections() as connections:
        async with connections:
            assert await connections.tools([shop]) == (X,)
        assert diary == ["open"]
    assert diary == ["open", "close"]


class Twice(Operator):
    """An operator that does its work twice, through the door of Chat2Graph."""

    async def execute(self, *args: Any, **kwargs: Any) -> WorkflowMessage:
        await super().execute(*args, **kwargs)
        return await super().execute(*args, **kwargs)


async def test_a_run_opens_a_source_once_and_closes_it_at_its_end_and_a_call_outside_of_runs_at_the_calls():
    diary: list[str] = []
    shop = Shop(name="shop", diary=diary, offers=(X,))
    buys = Action(name="buy", tools=(shop,))
    one, two = (kind("Buy.", id=kind.__name__, actions=[buys]) for kind in (Operator, Twice))

    await Workflow(one >> two).arun("milk", ScriptedReasoner(["a", "b", "c"]))
    assert diary == ["open", "close"]

    diary.clear()
    await one.execute(ScriptedReasoner(["a"]), Job("milk"))
    await one.run(OperatorCall(ScriptedReasoner(["a"]), Job("milk")))
    assert diary == ["open", "close"] * 2


async def test_a_source_that_failed_to_open_is_tried_again():
    diary: list[str] = []
    shop = Shop(name="shop", diary=diary, offers=(X,), failures=1)
    async with Connections() as connections:
        with pytest.raises(ToolError, match="closed on Sundays"):
            await connections.tools([shop])
        assert await connections.tools([shop]) == (X,)
    assert diary == ["open", "open", "close"]


async def test_a_cancelled_asker_does_not_close_the_source_for_the_others():
    diary: list[str] = []
    shop = Shop(name="shop", diary=diary, offers=(X,))
    async with Connections() as connections:
        first, second = (asyncio.create_task(connections.tools([shop])) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == (X,)
        assert first.cancelled()
    assert diary == ["open", "close"]


async def test_leaving_while_a_source_opens_stops_the_opening():
    class Never(ToolSource):
        @asynccontextmanager
        async def open(self) -> AsyncGenerator[ToolGroup, None]:
            await asyncio.Event().wait()
            yield self

    async with Connections() as connections:
        asker = asyncio.create_task(connections.tools([Never(name="never")]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await asker


async def test_nothing_opens_after_the_end():
    async with Connections() as connections:
        pass
    with pytest.raises(ToolError, match="tools 'shop' cannot be opened: the run they belong to has ended"):
        await connections.tools([Shop(name="shop", diary=[])])


async def test_a_source_that_does_not_close_cleanly_is_logged_and_not_raised(caplog: pytest.LogCaptureFixture):
    class Messy(ToolSource):
        @asynccontextmanager
        async def open(self) -> AsyncGenerator[ToolGroup, None]:
            yield self
            raise OSError("stuck door")

    async with Connections() as connections:
        await connections.tools([Messy(name="messy")])
    assert [record.message for record in caplog.records] == ["tools 'messy' were not closed cleanly"]


async def test_different_tools_of_one_name_are_an_error_and_the_same_tool_twice_is_not():
    async with Connections() as connections:
        again = Tool(name="x", function=X.function)
        assert await connections.tools([X, again]) == (X,)
        with pytest.raises(ToolError, match="two tools are named 'x', and a model could not tell them apart"):
            await connections.tools([X, Tool(name="x", function=print)])


def test_it_is_a_networkx_graph_with_items_and_scores():
    search, look = tool("search"), action("look")
    toolkit = Toolkit()
    toolkit.add_action(look)
    toolkit.add_tool(search, [(look, 0.5)])
    graph = toolkit.get_graph()
    assert {key: data["data"] for key, data in graph.nodes(data=True)} == {"look": look, "search": search}
    assert list(graph.edges(data="score")) == [("look", "search", 0.5)]
    graph.remove_node("search")
    assert toolkit.has_vertex("search")


def test_the_graph_of_a_workflow_is_a_networkx_graph():
    flow = Workflow(Operator("Ask.", id="ask") >> Operator("Answer.", id="answer"))
    graph = flow.graph().get_graph()
    assert list(graph.edges(data="ports")) == [("ask", "answer", frozenset())]
    assert graph.nodes["ask"]["operator"].get_id() == "ask"
