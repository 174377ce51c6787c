"""Classes written for Chat2Graph, run as they are; and what differs by design."""

from typing import Any

import pytest
from answer_forms import validate

from operad import Action, OperadError, Operator, OperatorConfig, Tool, Toolkit, Workflow, operator
from operad.runtime import DbgptWorkflow, OperatorError, ToolError
from operad.runtime.testing import CallTools, Say, ScriptedModel, ScriptedReasoner
from operad.runtime.tools.tool import tool_in


class Described:
    """A tool as Chat2Graph makes them."""

    def __init__(self, name="search", description="Look a claim up.", answer="found"):
        self.name, self.description, self._answer = name, description, answer

    @property
    def id(self):
        return f"{self.name}_id"

    @property
    def function(self):
        return self._search

    async def _search(self, claim: str) -> str:
        """
        Args:
            claim (str): The claim.
        """
        return f"{self._answer}: {claim}"


def test_an_object_with_name_description_and_function_is_a_tool():
    with ScriptedModel([CallTools([("search", {"claim": "x"})]), Say("done")]) as model:
        assert Workflow(Operator("Check.", tools=[Described()]), model=model.model).run("x").text == "done"
    tool, _ = model.requests[0]["tools"]
    assert tool["function"]["description"] == "Look a claim up."
    assert model.requests[1]["messages"][-1]["content"].endswith("found: x")


def test_such_an_object_is_a_tool_of_actions_and_of_files():
    [tool] = Action(name="look up", tools=[Described()]).tools
    assert isinstance(tool, Tool)
    assert tool.name == "search"
    import sys

    found = tool_in(sys.modules[__name__], "here", "Described", "Another.")
    assert (type(found), found.name, found.description) == (Tool, "search", "Another.")


def test_the_same_name_with_another_function_is_an_error_and_the_same_tool_twice_is_one():
    def checked(*tools):
        with ScriptedModel([Say("done")]) as model:
            Workflow(Operator("Check.", tools=list(tools)), model=model.model).run("x")
        return [tool["function"]["name"] for tool in model.requests[0]["tools"]]

    one = Described()
    assert checked(one, one) == ["search", "read_more"]
    with pytest.raises(OperadError, match="two tools are named 'search', and a model could not tell them apart"):
        checked(one, Described())


class Judge(Operator):
    """As in Chat2Graph: the configuration is `_config`."""

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None) -> Any:
        return f"{self._config.instruction} {self.get_id()}"


class Strict(Judge):
    def __init__(self, config):
        super().__init__(config)
        self._config = config.model_copy(update={"instruction": "Be strict."})


def test_a_subclass_reads_and_sets_its_config_by_the_name_of_chat2graph():
    assert Workflow(Judge(OperatorConfig(instruction="Judge.", id="j"))).run("x").text == "Judge. j"
    strict = Strict(OperatorConfig(instruction="Judge.", id="j"))
    assert (strict.instruction, strict.config.instruction) == ("Be strict.", "Be strict.")


def test_the_graph_of_a_toolkit_is_seen_and_changed_by_ids():
    search = Tool(name="size", function=len, id="t")
    one, two, three = (Action(name=name, id=name, tools=[search] if name == "a" else []) for name in "abc")
    toolkit = Toolkit()
    toolkit.add_chain([one, two, three])
    assert toolkit.vertices() == ["a", "t", "b", "c"]
    assert toolkit.edges() == [("a", "t"), ("a", "b"), ("b", "c")]
    assert (toolkit.has_vertex("t"), toolkit.has_vertex("x")) == (True, False)
    assert (toolkit.has_edge("a", "b"), toolkit.has_edge("b", "a")) == (True, False)
    assert (toolkit.successors("a"), toolkit.predecessors("c")) == (["t", "b"], ["b"])
    toolkit.set_score("a", "b", 0.3)
    assert toolkit.get_score("a", "b") == 0.3
    assert [action.name for action in toolkit.recommend([one], threshold=0.5, hops=2).actions] == ["a"]
    assert toolkit.get_tool("size") is toolkit.get_tool("t") is search
    part = toolkit.subgraph(["a", "b", "x"])
    assert (part.vertices(), part.edges(), part.get_score("a", "b")) == (["a", "b"], [("a", "b")], 0.3)
    part.set_score("a", "b", 1)
    assert toolkit.get_score("a", "b") == 0.3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda toolkit: toolkit.get_score("a", "z"), "no edge leads from 'a' to 'z' in the toolkit"),
        (lambda toolkit: toolkit.set_score("a", "t", 2), "is 2: a score is from 0 to 1"),
        (lambda toolkit: toolkit.get_tool("siz"), "'siz' is not in the toolkit (did you mean 'size'?)"),
    ],
)
def test_a_wrong_use_of_the_graph_is_told(wrong, message):
    toolkit = Toolkit.of([Action(name="a", id="a", tools=[Tool(name="size", function=len, id="t")])])
    with pytest.raises(ToolError) as caught:
        wrong(toolkit)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        '<decision>\n{"a": "x"}\n</decision>',
        'First I think.\n<decomposition>\n```json\n{"a": "x"}\n```\n</decomposition>',
        '```json\n{"a": "x"}\n```',
    ],
)
def test_json_is_read_from_inside_the_markers_of_chat2graph(text):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert validate(schema, text) == {"a": "x"}


class RefusedError(Exception):
    """An error of a user, with more to it."""

    def __init__(self, status, reason):
        super().__init__(f"{status}: {reason}")
        self.status = status


class SealedError(Exception):
    """An error that no other class can be made of."""

    def __init_subclass__(cls, **_):
        raise TypeError("sealed")


RAISED = [
    ValueError("bad"),
    KeyError("name"),
    OSError(2, "no such file"),
    TimeoutError(),
    UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
    RefusedError(403, "no"),
]


def failing(error, engine=DbgptWorkflow):
    @operator
    def fail() -> str:
        raise error

    inner = engine(fail, name="inner")
    return [engine(fail), engine(inner)]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_what_a_run_raises_is_of_the_type_that_the_operator_raised(engine, error):
    for workflow in failing(error, engine):
        with pytest.raises(type(error)) as caught:
            workflow.run("x", ScriptedReasoner([]))
        assert isinstance(caught.value, OperatorError)
        assert "failed on attempt 1: " in str(caught.value)
        assert type(caught.value).__name__ == "OperatorError"


def test_attributes_of_the_original_error_are_there(engine):
    with pytest.raises(RefusedError) as caught:
        failing(RefusedError(403, "no"), engine)[1].run("x")
    assert caught.value.status == 403
    assert not hasattr(caught.value, "other")


@pytest.mark.parametrize("error", [SealedError("x"), OperadError("x")])
def test_an_error_that_cannot_be_joined_is_an_operator_error(engine, error):
    with pytest.raises(OperatorError) as caught:
        failing(error, engine)[0].run("x")
    assert type(caught.value) is OperatorError
    assert caught.value.__cause__ is error
