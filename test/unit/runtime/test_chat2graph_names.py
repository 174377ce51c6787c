"""Programs and tests written for Chat2Graph, with its names for Operad's classes: each row of docs/from_chat2graph.md."""

# pyright: basic, reportOptionalSubscript=false, reportRedeclaration=false, reportAttributeAccessIssue=false
import asyncio
import importlib
import json
import shutil
import sys
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
import yaml

from operad.configs import load
from operad.runtime.testing import Say, ScriptedModel, ScriptedReasoner
from operad.runtime.tools.tool import ToolSource


@pytest.fixture(autouse=True)
def names():
    importlib.import_module("chat2graph_names")
    wanted = {
        "common.type": ("WorkflowStatus", "MessageSourceType", "ToolGroupType", "ToolType"),
        "common.util": ("parse_jsons",),
        "common.system_env": ("SystemEnv",),
        "model.job": ("Job", "SubJob"),
        "model.job_graph": ("JobGraph",),
        "model.message": ("AgentMessage", "ModelMessage", "TextMessage", "WorkflowMessage"),
        "model.task": ("Task",),
        "reasoner.dual_model_reasoner": ("DualModelReasoner",),
        "reasoner.mono_model_reasoner": ("MonoModelReasoner",),
        "sdk.wrapper.operator_wrapper": ("OperatorWrapper",),
        "sdk.wrapper.toolkit_wrapper": ("ToolkitWrapper",),
        "sdk.wrapper.workflow_wrapper": ("WorkflowWrapper",),
        "service.toolkit_service": ("ToolkitService",),
        "toolkit.action": ("Action",),
        "toolkit.tool": ("Tool",),
        "toolkit.tool_config": ("ToolGroupConfig",),
        "toolkit.tool_group": ("ToolGroup",),
        "toolkit.toolkit": ("Toolkit",),
        "workflow.eval_operator": ("EvalOperator",),
        "workflow.operator": ("Operator",),
        "workflow.operator_config": ("OperatorConfig",),
    }
    found = {
        name: getattr(importlib.import_module(f"app.core.{module}"), name)
        for module, names in wanted.items()
        for name in names
    }
    found["DbgptWorkflow"] = importlib.import_module("app.plugin.dbgpt.dbgpt_workflow").DbgptWorkflow
    yield SimpleNamespace(**found)
    for name in [each for each in sys.modules if each.partition(".")[0] in ("app", "chat2graph_names")]:
        del sys.modules[name]


async def read(path: str) -> str:
    """Read a file."""
    return path


def shouting(c, at="async"):
    """A class of operators that sets `_config` alone, and never calls `super().__init__`."""

    class Shout(c.Operator):
        def __init__(self, id, mark="!"):
            self._config, self.mark = c.OperatorConfig(id=id, instruction="", actions=[]), mark

        if at == "async":

            async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
                return self.answer(job, workflow_messages)

        else:

            def execute(self, reasoner, job, workflow_messages=None, lesson=None):
                return self.answer(job, workflow_messages)

        def answer(self, job, messages):
            texts = "+".join(message.scratchpad for message in messages or []) or job.context
            return c.WorkflowMessage(payload={"scratchpad": f"{texts}{self.mark}"}, job_id=job.id)

    return Shout


def job(c, **fields):
    return c.SubJob(id="j", session_id="s", goal="Greet.", context="hi", **fields)


@pytest.mark.parametrize("at", ["async", "sync"])
def test_operators_that_set_their_config_alone_run_in_a_chain_and_in_a_diamond(names, at):
    shout = shouting(names, at)
    first, left, right, last = shout("first"), shout("left", "l"), shout("right", "r"), shout("last", ".")
    workflow = names.DbgptWorkflow()
    workflow.add_operator(first, next_ops=[left, right])
    workflow.add_operator(last, previous_ops=[left, right])
    result = workflow.execute(job=job(names), reasoner=AsyncMock())
    assert result.scratchpad == "hi!l+hi!r."
    assert result.status is names.WorkflowStatus.SUCCESS
    assert workflow.graph().get_graph().number_of_edges() == 4


def test_such_an_operator_of_operad_itself_is_settled_and_asks_the_reasoner_of_the_run():
    from operad import Operator, OperatorConfig, Workflow

    class Bare(Operator):
        def __init__(self, id):
            self._config = OperatorConfig(id=id, instruction="List the plants.", output_schema="{plants: [string]}")

    result = Workflow(Bare("a")).run("fig", ScriptedReasoner('{"plants": ["fig"]}'))
    assert result.message.value == {"plants": ["fig"]}


def test_execute_works_in_a_running_loop_and_may_be_awaited(names):
    workflow = names.DbgptWorkflow()
    workflow.add_operator(shouting(names)("first"))

    async def both():
        result = workflow.execute(job=job(names), reasoner=AsyncMock())
        return result.scratchpad, (await result).scratchpad

    assert asyncio.run(both()) == ("hi!", "hi!")


def test_the_evaluator_of_chat2graph_reads_its_verdict_from_json_and_asks_again_without_it(names):
    workflow = names.DbgptWorkflow()
    workflow.add_operator(shouting(names)("first"))
    workflow.set_evaluator(names.EvalOperator(names.OperatorConfig(instruction="Judge.", actions=[])))
    reasoner = AsyncMock()
    reasoner.infer.side_effect = ["fine", '```json\n{"status": "SUCCESS", "evaluation": "good", "lesson": ""}\n```']
    result = workflow.execute(job=job(names), reasoner=reasoner)
    assert (result.scratchpad, result.evaluation, reasoner.infer.call_count) == ("hi!", "good", 2)


def test_a_workflow_without_operators_and_an_unknown_id_are_value_errors(names):
    workflow = names.DbgptWorkflow()
    with pytest.raises(ValueError, match="no-operators"):
        workflow.execute(job=job(names), reasoner=AsyncMock())
    with pytest.raises(ValueError, match="'x'"):
        workflow.get_operator("x")
    with pytest.raises(ValueError, match="x"):
        workflow.update_operator(shouting(names)("x"))


def test_ids_are_reassigned_after_creation(names):
    operator, action = shouting(names)("old"), names.Action(id="a", name="read")
    operator._config.id, action.id = "new", "b"
    tool = names.Tool(name="read", description="Read.", function=read)
    tool._id = "t"
    assert (operator.get_id(), action.id, tool.id) == ("new", "b", "t")
    workflow = names.DbgptWorkflow()
    workflow.add_operator(operator)
    assert workflow.get_operator("new") is operator
    assert workflow.execute(job=job(names), reasoner=AsyncMock()).operator_id == "new"


def test_an_operator_gives_its_task_to_any_reasoner_with_the_recommended_tools(names):
    service = names.ToolkitService.instance
    action, tool = names.Action(id="a", name="read", description=""), names.Tool("read", "Read.", read)
    service.add_action(action, [], [])
    service.add_tool(tool, connected_actions=[(action, 0.9)])
    config = names.OperatorConfig(instruction='Answer like {"text": 1} about {topic}.', actions=[action])
    reasoner = AsyncMock()
    reasoner.infer.return_value = "read it"
    message = names.WorkflowMessage(payload={"scratchpad": "before"}, job_id="j")
    found = asyncio.run(names.Operator(config).execute(reasoner, job(names), [message], lesson="shorter"))
    assert found.get_payload()["scratchpad"] == "read it"
    [task] = reasoner.infer.call_args.args
    assert (task.instruction, task.lesson) == ('Answer like {"text": 1} about {topic}.', "shorter")
    assert ([each.id for each in task.tools], [each.id for each in task.actions]) == ([tool.id], ["a"])
    assert [each.scratchpad for each in task.workflow_messages] == ["before"]


def test_the_toolkit_service_recommends_by_scores_and_hops(names):
    service = names.ToolkitService.instance
    actions = [names.Action(id=key, name=key) for key in "abcd"]
    tools = [names.Tool("same name", "Read.", read) for _ in range(3)]
    for index, tool in enumerate(tools):
        tool.id = f"t{index}"
    a, b, c, d = actions
    service.add_action(a, [], [])
    service.add_action(b, [], [(a, 0.8)])
    service.add_action(c, [], [(b, 0.7), (names.Action(id="unknown"), 1.0)])
    service.add_action(d, [], [(a, 0.4)])
    service.add_tool(tools[0], [(a, 0.9)])
    service.add_tool(tools[1], [(b, 0.3)])
    service.add_tool(tools[2], [(names.Action(id="unknown"), 1.0)])
    toolkit = service.get_toolkit()
    assert [toolkit.get_tool(f"t{index}") for index in range(3)] == [tools[0], tools[1], None]
    part = service.recommend_subgraph([a], threshold=0.5, hops=2)
    graph = part.get_graph()
    assert (sorted(graph.nodes()), graph.has_edge("a", "b"), graph.has_edge("a", "d")) == (
        ["a", "b", "c", "t0"],
        True,
        False,
    )
    found, recommended = service.recommend_tools_actions([a], threshold=0.5, hops=1)
    assert (found, [action.id for action in recommended]) == ([tools[0]], ["a", "b"])
    service.remove_action("a")
    assert (toolkit.has_vertex("a"), toolkit.has_vertex("t0"), toolkit.get_action("a")) == (False, False, None)
    with pytest.raises(ValueError, match="'a'"):
        service.get_action("a")


def test_a_toolkit_is_a_graph_of_vertices_by_id(names):
    toolkit, action = names.Toolkit(), names.Action(id="a", name="read")
    tool = names.Tool("read", "Read.", read)
    toolkit.add_vertex(action.id, data=action)
    toolkit.add_vertex(tool.id, data=tool)
    toolkit.add_edge(action.id, tool.id)
    toolkit.set_score(action.id, tool.id, 0.2)
    other = names.Toolkit()
    other.update(toolkit)
    assert (other.vertices_count(), other.out_degree("a"), other.get_score("a", tool.id)) == (2, 1, 0.2)
    other.remove_edge("a", tool.id)
    other.remove_vertex("a")
    assert (other.vertices(), toolkit.vertices_data()[0]) == ([tool.id], ("a", {"data": action}))


def test_a_tool_group_is_named_by_its_configuration(names):
    class Files(names.ToolGroup):
        async def list_tools(self):
            return [names.Tool("read", "Read.", read)]

    group = Files(names.ToolGroupConfig(type=names.ToolGroupType.MCP, name="files"))
    assert group.get_id() == group.id
    assert (group.name, [tool.name for tool in asyncio.run(group.list_tools())]) == ("files", ["read"])
    action = names.Action(id="a", name="read")
    names.ToolkitWrapper().chain(action, group)
    assert names.ToolkitService.instance.get_toolkit().get_tool_group(group.get_id()) is group


def test_the_wrappers_chain_actions_tools_and_operators(names):
    names.ToolkitWrapper().chain(
        (names.Action(id="a", name="a"), names.Action(id="b", name="b")), names.Tool("t", "Read.", read, id="t")
    )
    assert names.ToolkitService.instance.get_toolkit().edges() == [("a", "b"), ("b", "t")]
    with pytest.raises(ValueError, match="instruction"):
        names.OperatorWrapper().output_schema("a text").build()
    made = [
        names.OperatorWrapper().instruction(text).output_schema("one short text").actions([]).build()
        for text in ("List.", "Choose.")
    ]
    workflow = names.WorkflowWrapper().chain(tuple(made)).workflow
    assert list(workflow.graph().get_graph().edges()) == [(made[0].get_id(), made[1].get_id())]


def test_messages_have_their_payload_as_attributes_that_can_be_set(names):
    message = names.WorkflowMessage(payload={"scratchpad": "a", "kind": 1, "text": "t"}, job_id="j")
    message.scratchpad, message.more = "b", [2]
    assert message.get_payload() == {"scratchpad": "b", "kind": 1, "text": "t", "more": [2]}
    assert (message.kind, message.copy().more, message.get_job_id()) == (1, [2], "j")
    with pytest.raises(AttributeError, match="'absent'"):
        _ = message.absent
    text = names.WorkflowMessage.serialize_payload({"status": names.WorkflowStatus.SUCCESS})
    assert names.WorkflowMessage.deserialize_payload(text) == {"status": names.WorkflowStatus.SUCCESS}
    thought = names.ModelMessage(payload="p", job_id="j", step=1, source_type=names.MessageSourceType.ACTOR)
    thought.set_source_type(names.MessageSourceType.THINKER)
    assert (thought.get_payload(), thought.get_step(), thought.get_source_type().value) == ("p", 1, "THINKER")
    agent = names.AgentMessage(job_id="j", workflow_messages=[message])
    assert agent.get_workflow_result_message() is message


def test_jobs_can_be_changed_and_a_job_graph_is_a_graph(names):
    part = job(names, original_job_id="o", expert_id="e")
    part.is_legacy, part.context = True, "later"
    assert isinstance(part, names.Job)
    graph = names.JobGraph()
    for key in "abc":
        graph.add_vertex(key)
    graph.add_edge("a", "b")
    graph.add_edge("b", "c")
    again = names.JobGraph.from_json_str(graph.to_json_str())
    assert (again.edges(), again.predecessors("c"), again.out_degree("c")) == ([("a", "b"), ("b", "c")], ["b"], 0)
    assert again.subgraph(["a", "b"]).vertices() == ["a", "b"]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("MonoModelReasoner", [Say("fig")]),
        ("DualModelReasoner", [Say('{"instruction": "Answer.", "finished": true}'), Say("fig")]),
    ],
)
def test_the_reasoners_answer_a_task_of_chat2graph(names, kind, said):
    config = names.OperatorConfig(instruction="Name a plant.", actions=[])
    with ScriptedModel(said) as model:
        task = names.Task(job=job(names), operator_config=config, tools=[names.Tool("read", "Read.", read)])
        assert asyncio.run(getattr(names, kind)(model.model).infer(task=task)) == "fig"


def test_settings_are_read_from_the_environment(names, monkeypatch):
    monkeypatch.setenv("LLM_NAME", "fig-1")
    assert (names.SystemEnv.LLM_NAME, names.SystemEnv.LIFE_CYCLE, names.SystemEnv.UNSET) == ("fig-1", 3, None)


def answer(form):
    """An answer of a form: text, or the smallest JSON that fits its schema."""
    schema = getattr(form, "schema", None)
    return json.dumps(least(schema)) if schema else "done"


def least(schema):
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object":
        return {name: least(part) for name, part in schema.get("properties", {}).items()}
    return {"array": [], "number": 0, "integer": 0, "boolean": True}.get(schema.get("type"), "fig")


TOOL = '''
from typing import Any
{imports}

class {name}{base}:
    def __init__(self):
        {init}

    async def look(self, text: str) -> str:
        """Look something up.

        Args:
            text (str): What to look up.
        """
        return text
'''
FORMS = {
    "a class of its own": {
        "imports": "",
        "base": "",
        "init": 'self.name, self.description, self.function = "{name}", "Look.", self.look',
    },
    "a subclass of Tool": {
        "imports": "from app.core.toolkit.tool import Tool",
        "base": "(Tool)",
        "init": 'super().__init__(name="{name}", description="Look.", function=self.look)',
    },
}
FILES = (
    "basic_template",
    "chat2graph",
    "data_importation",
    "gaia_agents",
    "graph_modeling",
    "graph_query",
    "question_answering",
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("file", FILES)
def test_the_files_of_chat2graph_run_unchanged_with_tool_modules_beside(shared_data, tmp_path, file, form):
    source = tmp_path / f"{file}.yml"
    shutil.copy(shared_data / "chat2graph" / f"{file}.yml", source)
    data = yaml.safe_load(source.read_text(encoding="utf-8"))
    modules: dict[str, str] = {}
    for tool in data["tools"]:
        if tool.get("type") != "MCP":
            parts = {key: part.format(name=tool["name"]) for key, part in FORMS[form].items()}
            modules.setdefault(tool["module_path"], "")
            modules[tool["module_path"]] += TOOL.format(name=tool["name"], **parts)
    for name, text in modules.items():
        module = type(sys)(name)
        sys.modules[name] = module
        exec(compile(text, name, "exec"), vars(module))  # noqa: S102 - the text above
    loaded = load(source, trust=True)
    assert [profile.name for profile in loaded.profiles] == [each["profile"]["name"] for each in data["experts"]]
    for profile in loaded.profiles:
        workflow = loaded.expert(profile.name).workflow
        recommended = [tool for each in workflow.get_operators() for tool in each._recommend().tools]
        if any(isinstance(tool, ToolSource) for tool in recommended):
            continue  # an MCP server is a program that a run starts
        reasoner = ScriptedReasoner(lambda task: answer(task.output_schema))
        result = workflow.execute(job="Do it.", reasoner=reasoner)
        assert [len(task.workflow_messages) for task in reasoner.tasks] == [0, *[1] * (len(reasoner.tasks) - 1)]
        assert len(reasoner.tasks) == len(workflow.get_operators())
        assert result.scratchpad == answer(reasoner.tasks[-1].output_schema)
