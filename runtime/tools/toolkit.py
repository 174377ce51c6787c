"""Actions, the tools they call, and the graph that recommends both."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from pydantic import BeforeValidator, Field

from operad.runtime.tools.tool import DescribedFunction, LangChainTool, Tool, ToolGroup, ToolSource, as_tools
from operad.runtime.values.errors import ToolError, did_you_mean
from operad.runtime.values.mermaid import Flowchart, Shape
from operad.runtime.values.message import new_id
from operad.runtime.values.value import Record, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from networkx import DiGraph

    Neighbours = Iterable[tuple["Action", float]]
    # constructors accept these; the field is a tuple of tools
    Tools = Sequence[Tool | ToolGroup | DescribedFunction | LangChainTool | Callable[..., Any]]
else:
    Tools = tuple[Tool | ToolGroup, ...]


class Action(Value):
    """Action that an operator may take, with the tools for it.

        look_up = Action(name="look up", description="Look a claim up.", tools=[search])
        check = Operator("Check each claim.", actions=[look_up])

    Attributes:
        name: Name for people and models.
        description: Description for the model.
        tools: Tools, tool groups or functions for the action. In a toolkit, the Call edges to them have the score 1.
        id: Id of the action in a toolkit.
    """

    name: str
    description: str = ""
    tools: Annotated[Tools, BeforeValidator(as_tools)] = ()
    id: str = Field(default_factory=new_id)


class Recommendation(Record):
    """Recommendation of a toolkit.

    Attributes:
        actions: The actions that were asked about, followed by the actions that they lead to, nearest first.
        tools: Tools of these actions; a tool source stands for its tools, which are known once it is open.
    """

    actions: tuple[Action, ...] = ()
    tools: tuple[Tool | ToolSource, ...] = ()


Node = TypeVar("Node", Action, Tool, ToolGroup)

_SHAPES: dict[type, Shape] = {Action: "box", Tool: "round", ToolGroup: "double"}


class Toolkit:
    """A graph of actions, tools and tool groups (Chat2Graph, Toolkit module).

        look_up, judge = Action(name="look up", tools=[search]), Action(name="judge")
        toolkit = Toolkit()
        toolkit.add_chain([look_up, judge])  # looking up is often followed by judging
        check = Operator("Check each claim.", actions=[look_up], toolkit=toolkit)

    Edges have a score from 0 to 1. A *Next* edge leads from an action to an action that may follow it, a *Call* edge
    from an action to a tool or a group, or from a group to its tools. Items are identified by their ids. If an item is
    added again, its newer value and the higher score of each edge are kept, so that chains with common actions may be
    added in any order.

    Only the edges determine which tools an action calls: removing a tool does not change the `tools` of an `Action`.
    Any number of threads may read a toolkit at once, but not while another thread changes it.
    """

    def __init__(self) -> None:
        self._items: dict[str, Action | Tool | ToolGroup] = {}
        self._scores: dict[str, dict[str, float]] = {}  # scores of edges, by the ids of start and end

    @classmethod
    def of(cls, actions: Iterable[Action]) -> Toolkit:
        """Return a toolkit of actions and their own tools, without Next edges."""
        toolkit = cls()
        for action in actions:
            toolkit.add_action(action)
        return toolkit

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions, in the order in which they were added."""
        return self._items_of(Action)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools, in the order in which they were added; tools of sources are known only while these are open."""
        return self._items_of(Tool)

    @property
    def tool_groups(self) -> tuple[ToolGroup, ...]:
        """All tool groups and sources, in the order in which they were added."""
        return self._items_of(ToolGroup)

    def get_action(self, id_or_name: str) -> Action:
        """Return the action with this id, or else the only action with this name.

        Raises:
            ToolError: No action has this id or name, or several have the name.
        """
        return self._get(id_or_name, self.actions, "actions")

    def add_action(self, action: Action, next_actions: Neighbours = (), prev_actions: Neighbours = ()) -> None:
        """Add an action and its own tools.

        Args:
            action: The action.
            next_actions: Actions of the toolkit that may follow this one, with scores.
            prev_actions: Actions of the toolkit that this one may follow, with scores.

        Raises:
            ToolError: A neighbour is not in the toolkit, or a score is not from 0 to 1.
        """
        following = self._checked_neighbours(next_actions)
        preceding = self._checked_neighbours(prev_actions)
        self._add_item(action)
        for tool in cast("Sequence[Tool | ToolGroup]", action.tools):
            self._add_item(tool)
            self._connect(action.id, tool.id, 1.0)
        for neighbour, score in following:
            self._connect(action.id, neighbour.id, score)
        for neighbour, score in preceding:
            self._connect(neighbour.id, action.id, score)

    def add_chain(self, actions: Sequence[Action]) -> None:
        """Add actions, with a Next edge of score 1 from each to the following one."""
        for action in actions:
            self.add_action(action)
        for action, following in pairwise(actions):
            self._connect(action.id, following.id, 1.0)

    def add_tool(self, tool: Tool, connected_actions: Neighbours = ()) -> None:
        """Add a tool.

        Args:
            tool: The tool.
            connected_actions: Actions of the toolkit that call the tool, with scores.

        Raises:
            ToolError: An action is not in the toolkit, or a score is not from 0 to 1.
        """
        self._add_with_callers(tool, connected_actions)

    def add_tool_group(self, group: ToolGroup, connected_actions: Neighbours = ()) -> None:
        """Add a tool group with its tools, or a source.

        Args:
            group: The group.
            connected_actions: Actions of the toolkit that call the group, with scores.

        Raises:
            ToolError: An action is not in the toolkit, or a score is not from 0 to 1.
        """
        self._add_with_callers(group, connected_actions)

    def remove_action(self, action: Action) -> None:
        """Remove an action, and the tools and groups that no other item calls.

        Raises:
            ToolError: The action is not in the toolkit.
        """
        self._remove(action, self.actions)

    def remove_tool(self, tool: Tool) -> None:
        """Remove a tool, also from its groups.

        Raises:
            ToolError: The tool is not in the toolkit.
        """
        self._remove(tool, self.tools)

    def remove_tool_group(self, group: ToolGroup) -> None:
        """Remove a group, and those of its tools that no other item calls.

        Raises:
            ToolError: The group is not in the toolkit.
        """
        self._remove(group, self.tool_groups)

    # The graph, by ids, as in Chat2Graph

    def get_graph(self) -> DiGraph[str]:
        """Return a copy as a networkx graph: each id with its item as ``data``, each edge with its ``score``."""
        from networkx import DiGraph  # not at import: only readers of graphs need it

        graph: DiGraph[str] = DiGraph()
        graph.add_nodes_from((key, {"data": item}) for key, item in self._items.items())
        graph.add_edges_from((start, end, {"score": self._scores[start][end]}) for start, end in self.edges())
        return graph

    def vertices(self) -> list[str]:
        """Return the ids of all actions, tools and groups, in the order in which they were added."""
        return list(self._items)

    def edges(self) -> list[tuple[str, str]]:
        """Return all edges as pairs of ids: start and end."""
        return [(start, end) for start, scores in self._scores.items() for end in scores]

    def has_vertex(self, id: str) -> bool:
        """Return True if an action, a tool or a group has this id."""
        return id in self._items

    def has_edge(self, start: str, end: str) -> bool:
        """Return True if an edge leads from `start` to `end`."""
        return end in self._scores.get(start, {})

    def successors(self, id: str) -> list[str]:
        """Return the ids to which edges lead from this id."""
        return list(self._scores.get(id, {}))

    def predecessors(self, id: str) -> list[str]:
        """Return the ids from which edges lead to this id."""
        return [start for start, scores in self._scores.items() if id in scores]

    def get_score(self, start: str, end: str) -> float:
        """Return the score of an edge.

        Raises:
            ToolError: The edge does not exist.
        """
        if not self.has_edge(start, end):
            raise ToolError(f"no edge leads from {start!r} to {end!r} in the toolkit")
        return self._scores[start][end]

    def set_score(self, start: str, end: str, score: float) -> None:
        """Set the score of an edge, also to a lower one.

        Raises:
            ToolError: The edge does not exist, or the score is not from 0 to 1.
        """
        self.get_score(start, end)
        if not 0 <= score <= 1:
            raise ToolError(f"the score of the edge from {start!r} to {end!r} is {score}: a score is from 0 to 1")
        self._scores[start][end] = score

    def get_tool(self, id_or_name: str) -> Tool:
        """Return the tool with this id, or else the only tool with this name.

        Raises:
            ToolError: No tool has this id or name, or several have the name.
        """
        return self._get(id_or_name, self.tools, "tools")

    def subgraph(self, ids: Iterable[str]) -> Toolkit:
        """Return a toolkit of the items with these ids and the edges between them; unknown ids are ignored."""
        known_ids = dict.fromkeys(key for key in ids if key in self._items)
        result = Toolkit()
        result._items = {key: self._items[key] for key in known_ids}
        result._scores = {
            start: {end: score for end, score in self._scores[start].items() if end in known_ids} for start in known_ids
        }
        return result

    def recommend(self, actions: Iterable[Action], threshold: float = 0.5, hops: int = 0) -> Recommendation:
        """Recommend actions and tools, breadth-first from the given actions.

        Next edges with a score of at least `threshold` lead to further actions, over at most `hops` edges. Call edges
        with a score of at least `threshold` lead from all these actions to their tools.

        Args:
            actions: Actions to begin with. For an action outside the toolkit, its own tools are recommended.
            threshold: Minimum score of an edge.
            hops: Maximum number of Next edges between a given action and a recommended one.

        Returns:
            The given actions, then the others by distance and, at equal distance, in the order in which they were
            added; the tools in the order of the actions that call them. Each item occurs once.
        """
        known = {action.id: action for action in self.actions}
        reached = {action.id: known.get(action.id, action) for action in actions}
        frontier = list(reached)
        for _ in range(min(hops, len(known))):
            near = {target for start in frontier for target in self._targets(start, threshold)} - reached.keys()
            frontier = [action for action in known if action in near]
            reached |= {action: known[action] for action in frontier}
        tools = {tool.id: tool for action in reached.values() for tool in self._tools_called_by(action, threshold)}
        return Recommendation(actions=tuple(reached.values()), tools=tuple(tools.values()))

    def to_mermaid(self) -> str:
        """Return a Mermaid flowchart: actions as boxes, tools rounded, groups with double sides, Call edges dotted."""
        chart = Flowchart("LR")
        for key, item in self._items.items():
            chart.node(key, item.name, next(shape for kind, shape in _SHAPES.items() if isinstance(item, kind)))
        for start, scores in self._scores.items():
            for end, score in scores.items():
                chart.edge(start, end, f"{score:g}", dotted=not isinstance(self._items[end], Action))
        return chart.code()

    def _items_of(self, kind: type[Node]) -> tuple[Node, ...]:
        return tuple(item for item in self._items.values() if isinstance(item, kind))

    def _get(self, id_or_name: str, items: Sequence[Node], plural: str) -> Node:
        """Return the item with this id, or else the only item with this name, or raise ToolError."""
        found = [item for item in items if item.id == id_or_name] or [item for item in items if item.name == id_or_name]
        if not found:
            raise self._unknown_error(id_or_name, items)
        if len(found) > 1:
            raise ToolError(f"{len(found)} {plural} of the toolkit are named {id_or_name!r}: get one by its id")
        return found[0]

    def _targets(self, start: str, threshold: float) -> list[str]:
        return [end for end, score in self._scores.get(start, {}).items() if score >= threshold]

    def _tools_called_by(self, caller: Action | ToolGroup, threshold: float) -> Iterator[Tool | ToolSource]:
        """Yield the tools that an action or a group calls; groups are replaced by their tools."""
        known = caller.id in self._items
        items = [self._items[end] for end in self._targets(caller.id, threshold)] if known else caller.tools
        for item in items:
            if isinstance(item, Tool | ToolSource):
                yield item
            elif isinstance(item, ToolGroup):
                yield from self._tools_called_by(item, threshold)

    def _add_with_callers(self, item: Tool | ToolGroup, actions: Neighbours) -> None:
        callers = self._checked_neighbours(actions)
        self._add_item(item)
        for action, score in callers:
            self._connect(action.id, item.id, score)

    def _checked_neighbours(self, neighbours: Neighbours) -> list[tuple[Action, float]]:
        """Return neighbours as a list, after checking that they are in the toolkit and that scores are from 0 to 1."""
        pairs = list(neighbours)
        for action, score in pairs:
            if action.id not in self._items:
                raise self._unknown_error(action.name, self.actions)
            if not 0 <= score <= 1:
                raise ToolError(f"the score of action {action.name!r} is {score}: a score is from 0 to 1")
        return pairs

    def _add_item(self, item: Action | Tool | ToolGroup) -> None:
        """Add an item, and the tools of a group with edges to them."""
        existing = self._items.get(item.id, item)
        if type(existing) is not type(item):
            raise ToolError(f"{existing.name!r} and {item.name!r} have the same id: {item.id!r}")
        self._items[item.id] = item
        self._scores.setdefault(item.id, {})
        if isinstance(item, ToolGroup):
            for tool in item.tools:
                self._add_item(tool)
                self._connect(item.id, tool.id, 1.0)

    def _connect(self, start: str, end: str, score: float) -> None:
        self._scores[start][end] = max(self._scores[start].get(end, 0.0), score)

    def _remove(self, item: Action | Tool | ToolGroup, same_kind: Sequence[Action | Tool | ToolGroup]) -> None:
        if item.id not in self._items:
            raise self._unknown_error(item.name, same_kind)
        self._remove_id(item.id)

    def _remove_id(self, key: str) -> None:
        """Remove an item with its edges, and the tools and groups that no other item calls."""
        called = [end for end in self._scores.pop(key) if not isinstance(self._items[end], Action)]
        del self._items[key]
        for scores in self._scores.values():
            scores.pop(key, None)
        for end in called:
            if end in self._items and not any(end in scores for scores in self._scores.values()):
                self._remove_id(end)

    def _unknown_error(self, name: str, same_kind: Sequence[Action | Tool | ToolGroup]) -> ToolError:
        return ToolError(f"{name!r} is not in the toolkit{did_you_mean(name, [item.name for item in same_kind])}")
