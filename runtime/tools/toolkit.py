"""Actions, the tools they call, and the graph that recommends both."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from pydantic import BeforeValidator, Field

from operad.runtime.tools.tool import DescribedFunction, Tool, ToolGroup, ToolSource, as_tools
from operad.runtime.values.errors import ToolError, did_you_mean
from operad.runtime.values.message import Value, new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Neighbours = Iterable[tuple["Action", float]]
    Tools = Sequence[
        Tool | ToolGroup | DescribedFunction | Callable[..., Any]
    ]  # what is given; what is kept is a tuple of tools
else:
    Tools = tuple[Tool | ToolGroup, ...]


class Action(Value):
    """Something an operator may do, and the tools for it.

        look_up = Action(name="look up", description="Look a claim up.", tools=[search])
        check = Operator("Check each claim.", actions=[look_up])

    Attributes:
        name: Name for people and models.
        description: Description for the model.
        tools: Its tools: tools, groups of tools, or functions. In a toolkit, it calls each with the score 1.
        id: Its identity in a toolkit.
    """

    name: str
    description: str = ""
    tools: Annotated[Tools, BeforeValidator(as_tools)] = ()
    id: str = Field(default_factory=new_id)


class Recommendation(Value):
    """Recommendation of a toolkit.

    Attributes:
        actions: The actions asked about, then those they lead to, the nearest first.
        tools: Their tools; a source stands where its tools will be once it is open.
    """

    actions: tuple[Action, ...] = ()
    tools: tuple[Tool | ToolSource, ...] = ()


Node = TypeVar("Node", Action, Tool, ToolGroup)

_SHAPES: dict[type, tuple[str, str]] = {Action: ("[", "]"), Tool: ("([", "])"), ToolGroup: ("[[", "]]")}


class Toolkit:
    """A graph of actions, tools and tool groups (Chat2Graph, Toolkit module).

        look_up, judge = Action(name="look up", tools=[search]), Action(name="judge")
        toolkit = Toolkit()
        toolkit.add_chain([look_up, judge])  # looking up is often followed by judging
        check = Operator("Check each claim.", actions=[look_up], toolkit=toolkit)

    Edges bear a score from 0 to 1: *Next* leads from an action to one that may follow it, *Call*
    from an action to a tool or a group, and from a group to its tools. Things are told apart by
    their ids. Adding one again keeps its newer value and, of each edge, the higher score, so that
    chains with actions in common may be added in any order.

    The graph alone says who calls what: removing a tool leaves the `tools` of an action's value
    as they were. Any number of threads may ask at once; one that edits must be alone.
    """

    def __init__(self) -> None:
        self._items: dict[str, Action | Tool | ToolGroup] = {}
        self._scores: dict[str, dict[str, float]] = {}  # of the edges, by the ids of their start and their end

    @classmethod
    def of(cls, actions: Iterable[Action]) -> Toolkit:
        """A toolkit of actions and their own tools, without Next edges."""
        toolkit = cls()
        for action in actions:
            toolkit.add_action(action)
        return toolkit

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions, in order of adding."""
        return self._all(Action)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools, in order of adding; those of a source are known only while it is open."""
        return self._all(Tool)

    @property
    def tool_groups(self) -> tuple[ToolGroup, ...]:
        """All tool groups and sources, in order of adding."""
        return self._all(ToolGroup)

    def get_action(self, id_or_name: str) -> Action:
        """The action with this id, or else the only one with this name.

        Raises:
            ToolError: There is none, or several have the name.
        """
        by_id = [action for action in self.actions if action.id == id_or_name]
        named = by_id or [action for action in self.actions if action.name == id_or_name]
        if not named:
            raise self._unknown(id_or_name, self.actions)
        if len(named) > 1:
            raise ToolError(f"{len(named)} actions of the toolkit are named {id_or_name!r}: get one by its id")
        return named[0]

    def add_action(self, action: Action, next_actions: Neighbours = (), prev_actions: Neighbours = ()) -> None:
        """Add an action and its own tools.

        Args:
            action: The action.
            next_actions: Actions of the toolkit that may follow it, with scores.
            prev_actions: Actions of the toolkit that it may follow, with scores.

        Raises:
            ToolError: A neighbour is not in the toolkit, or a score is not from 0 to 1.
        """
        following = self._checked(next_actions)
        preceding = self._checked(prev_actions)
        self._put(action)
        for tool in cast("Sequence[Tool | ToolGroup]", action.tools):
            self._put(tool)
            self._connect(action.id, tool.id, 1.0)
        for neighbour, score in following:
            self._connect(action.id, neighbour.id, score)
        for neighbour, score in preceding:
            self._connect(neighbour.id, action.id, score)

    def add_chain(self, actions: Sequence[Action]) -> None:
        """Add actions, each of which leads to the one after it with the score 1."""
        for action in actions:
            self.add_action(action)
        for action, following in pairwise(actions):
            self._connect(action.id, following.id, 1.0)

    def add_tool(self, tool: Tool, connected_actions: Neighbours = ()) -> None:
        """Add a tool.

        Args:
            tool: The tool.
            connected_actions: Actions of the toolkit that call it, with scores.

        Raises:
            ToolError: An action is not in the toolkit, or a score is not from 0 to 1.
        """
        self._add_called(tool, connected_actions)

    def add_tool_group(self, group: ToolGroup, connected_actions: Neighbours = ()) -> None:
        """Add a tool group with its tools, or a source.

        Args:
            group: The group.
            connected_actions: Actions of the toolkit that call it, with scores.

        Raises:
            ToolError: An action is not in the toolkit, or a score is not from 0 to 1.
        """
        self._add_called(group, connected_actions)

    def remove_action(self, action: Action) -> None:
        """Remove an action, and the tools and groups that nothing else calls.

        Raises:
            ToolError: It is not in the toolkit.
        """
        self._remove(action, self.actions)

    def remove_tool(self, tool: Tool) -> None:
        """Remove a tool, also from the groups that it is in.

        Raises:
            ToolError: It is not in the toolkit.
        """
        self._remove(tool, self.tools)

    def remove_tool_group(self, group: ToolGroup) -> None:
        """Remove a group, and those of its tools that nothing else calls.

        Raises:
            ToolError: It is not in the toolkit.
        """
        self._remove(group, self.tool_groups)

    # The graph, by ids, as in Chat2Graph

    def vertices(self) -> list[str]:
        """The ids of all actions, tools and groups, in order of adding."""
        return list(self._items)

    def edges(self) -> list[tuple[str, str]]:
        """The edges, by the ids of their start and end."""
        return [(start, end) for start, scores in self._scores.items() for end in scores]

    def has_vertex(self, id: str) -> bool:
        """Return whether an action, a tool or a group has this id."""
        return id in self._items

    def has_edge(self, start: str, end: str) -> bool:
        """Return whether an edge leads from one id to the other."""
        return end in self._scores.get(start, {})

    def successors(self, id: str) -> list[str]:
        """The ids that edges lead to from this one."""
        return list(self._scores.get(id, {}))

    def predecessors(self, id: str) -> list[str]:
        """The ids from which edges lead to this one."""
        return [start for start, scores in self._scores.items() if id in scores]

    def get_score(self, start: str, end: str) -> float:
        """The score of an edge.

        Raises:
            ToolError: There is no such edge.
        """
        if not self.has_edge(start, end):
            raise ToolError(f"no edge leads from {start!r} to {end!r} in the toolkit")
        return self._scores[start][end]

    def set_score(self, start: str, end: str, score: float) -> None:
        """Set the score of an edge, which may be lower than before.

        Raises:
            ToolError: There is no such edge, or the score is not from 0 to 1.
        """
        self.get_score(start, end)
        if not 0 <= score <= 1:
            raise ToolError(f"the score of the edge from {start!r} to {end!r} is {score}: a score is from 0 to 1")
        self._scores[start][end] = score

    def get_tool(self, id_or_name: str) -> Tool:
        """The tool with this id, or else the only one with this name.

        Raises:
            ToolError: There is none, or several have the name.
        """
        by_id = [tool for tool in self.tools if tool.id == id_or_name]
        named = by_id or [tool for tool in self.tools if tool.name == id_or_name]
        if not named:
            raise self._unknown(id_or_name, self.tools)
        if len(named) > 1:
            raise ToolError(f"{len(named)} tools of the toolkit are named {id_or_name!r}: get one by its id")
        return named[0]

    def subgraph(self, ids: Iterable[str]) -> Toolkit:
        """Return a toolkit of these ids with the edges between them; ids that are not in this one are left out."""
        kept = dict.fromkeys(key for key in ids if key in self._items)
        part = Toolkit()
        part._items = {key: self._items[key] for key in kept}
        part._scores = {
            start: {end: score for end, score in self._scores[start].items() if end in kept} for start in kept
        }
        return part

    def recommend(self, actions: Iterable[Action], threshold: float = 0.5, hops: int = 0) -> Recommendation:
        """Recommend actions and tools, breadth-first from the given actions.

        Next edges whose score is at least `threshold` lead to further actions, at most `hops` far.
        Call edges whose score is at least `threshold` lead from all of these to their tools.

        Args:
            actions: Where to begin. One that is not in the toolkit is taken as it is, with its own tools.
            threshold: The least score that counts.
            hops: How many Next edges to follow.

        Returns:
            The given actions first, then the others by distance, then in order of adding; the tools
            in the order of the actions that call them. Nothing twice.
        """
        known = {action.id: action for action in self.actions}
        reached = {action.id: known.get(action.id, action) for action in actions}
        frontier = list(reached)
        for _ in range(min(hops, len(known))):
            near = {target for start in frontier for target in self._targets(start, threshold)} - reached.keys()
            frontier = [action for action in known if action in near]
            reached |= {action: known[action] for action in frontier}
        tools = {tool.id: tool for action in reached.values() for tool in self._called(action, threshold)}
        return Recommendation(actions=tuple(reached.values()), tools=tuple(tools.values()))

    def to_mermaid(self) -> str:
        """A drawing: actions as boxes, tools rounded, groups with double sides; Call edges are dotted."""
        names = {key: f"n{number}" for number, key in enumerate(self._items)}
        lines = ["flowchart LR"]
        for key, item in self._items.items():
            left, right = next(shape for kind, shape in _SHAPES.items() if isinstance(item, kind))
            lines.append(f'    {names[key]}{left}"{_escaped(item.name)}"{right}')
        for start, scores in self._scores.items():
            for end, score in scores.items():
                arrow = "-->" if isinstance(self._items[end], Action) else "-.->"
                lines.append(f"    {names[start]} {arrow}|{score:g}| {names[end]}")
        return "\n".join(lines) + "\n"

    def _all(self, kind: type[Node]) -> tuple[Node, ...]:
        return tuple(item for item in self._items.values() if isinstance(item, kind))

    def _targets(self, start: str, threshold: float) -> list[str]:
        return [end for end, score in self._scores.get(start, {}).items() if score >= threshold]

    def _called(self, caller: Action | ToolGroup, threshold: float) -> Iterator[Tool | ToolSource]:
        """Yield the tools that an action or a group calls; groups are replaced by their tools."""
        known = caller.id in self._items
        items = [self._items[end] for end in self._targets(caller.id, threshold)] if known else caller.tools
        for item in items:
            if isinstance(item, Tool | ToolSource):
                yield item
            elif isinstance(item, ToolGroup):
                yield from self._called(item, threshold)

    def _add_called(self, item: Tool | ToolGroup, actions: Neighbours) -> None:
        callers = self._checked(actions)
        self._put(item)
        for action, score in callers:
            self._connect(action.id, item.id, score)

    def _checked(self, neighbours: Neighbours) -> list[tuple[Action, float]]:
        pairs = list(neighbours)
        for action, score in pairs:
            if action.id not in self._items:
                raise self._unknown(action.name, self.actions)
            if not 0 <= score <= 1:
                raise ToolError(f"the score of action {action.name!r} is {score}: a score is from 0 to 1")
        return pairs

    def _put(self, item: Action | Tool | ToolGroup) -> None:
        before = self._items.get(item.id, item)
        if type(before) is not type(item):
            raise ToolError(f"{before.name!r} and {item.name!r} have the same id: {item.id!r}")
        self._items[item.id] = item
        self._scores.setdefault(item.id, {})
        if isinstance(item, ToolGroup):
            for tool in item.tools:
                self._put(tool)
                self._connect(item.id, tool.id, 1.0)

    def _connect(self, start: str, end: str, score: float) -> None:
        self._scores[start][end] = max(self._scores[start].get(end, 0.0), score)

    def _remove(self, item: Action | Tool | ToolGroup, like: Sequence[Action | Tool | ToolGroup]) -> None:
        if item.id not in self._items:
            raise self._unknown(item.name, like)
        self._drop(item.id)

    def _drop(self, key: str) -> None:
        called = [end for end in self._scores.pop(key) if not isinstance(self._items[end], Action)]
        del self._items[key]
        for scores in self._scores.values():
            scores.pop(key, None)
        for end in called:
            if end in self._items and not any(end in scores for scores in self._scores.values()):
                self._drop(end)

    def _unknown(self, name: str, like: Sequence[Action | Tool | ToolGroup]) -> ToolError:
        return ToolError(f"{name!r} is not in the toolkit{did_you_mean(name, [item.name for item in like])}")


def _escaped(text: str) -> str:
    """Text for a quoted label of mermaid, whose escapes are a number sign, a code and a semicolon."""
    for character, escape in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("\n", "<br/>")):
        text = text.replace(character, escape)
    return text
