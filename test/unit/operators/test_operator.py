"""An operator: the task that it builds, and the message that it makes of the answer."""

import asyncio
import json
import threading

import pytest
from pydantic import BaseModel

from operad.operators import Operator, OperatorConfig
from operad.runtime import (
    Action,
    BuiltinWorkflow,
    Documents,
    Example,
    FileDescriptor,
    InputError,
    Insight,
    InvalidError,
    Job,
    Knowledge,
    MonoModelReasoner,
    OperatorError,
    Passage,
    Task,
    Tool,
    Toolkit,
    Turn,
    WorkflowMessage,
    events,
)
from operad.runtime.testing import Say, ScriptedModel, ScriptedReasoner
from operad.runtime.tools.tool import ToolGroup


def search(query: str) -> str:
    """Search."""
    return query


def read(title: str) -> str:
    """Read."""
    return title


def plot(values: list[float]) -> str:
    """Plot."""
    return str(values)


SEARCH, READ, PLOT = Tool.of(search), Tool.of(read), Tool.of(plot)
FIND = Action(name="find", tools=(SEARCH,), id="find")
STUDY = Action(name="study", tools=(READ,), id="study")
REPORT = Action(name="report", id="report")
JOB = Job(goal="goal", context="context", id="job", session_id="session")


async def ask(operator, answer="answer", **arguments):
    """The one task that the operator hands to the reasoner, and its message."""
    with ScriptedReasoner([answer]) as reasoner:
        message = await operator.execute(reasoner, arguments.pop("job", JOB), **arguments)
    [task] = reasoner.tasks
    return task, message


def without_check(task):
    return task.model_copy(update={"check": None})


async def test_a_bare_operator_asks_for_its_instruction_and_the_job_and_nothing_else():
    task, message = await ask(Operator(OperatorConfig(instruction="Do it.", id="op")))
    assert without_check(task) == Task(job=JOB, instruction="Do it.")
    assert message == WorkflowMessage(scratchpad="answer", job_id="job", operator_id="op")


async def test_all_that_an_operator_has_and_is_given_is_in_its_task(tmp_path):
    (tmp_path / "notes.txt").write_text("notes")
    file = FileDescriptor.of(tmp_path / "notes.txt")
    job = Job(goal="goal", files=(file,), inputs={"tone": "warm"})

    class Base:
        def retrieve(self, query):
            return Knowledge(passages=(Passage(text=f"on {query}", source="book"),))

    class Seasoned(Operator):
        def get_env_insights(self):
            return [Insight(text="It rains.", source="run 1")]

    config = OperatorConfig(
        instruction="Do it.",
        actions=[FIND],
        examples=[Example(input="in", output="out")],
        output_schema="{claims: [string]}",
    )
    before, earlier = WorkflowMessage(scratchpad="before"), WorkflowMessage(scratchpad="earlier")
    task, _ = await ask(
        Seasoned(config, knowledge_base=Base()),
        '{"claims": []}',
        job=job,
        workflow_messages=[before, before],
        previous_expert_outputs=[earlier],
        lesson="Do better.",
    )
    assert without_check(task) == Task(
        job=job,
        instruction="Do it.",
        examples=(Example(input="in", output="out"),),
        output_schema="{claims: [string]}",
        actions=(FIND,),
        tools=(SEARCH,),
        workflow_messages=(before, before),
        previous_expert_outputs=(earlier,),
        knowledge=Knowledge(passages=(Passage(text="on goal", source="book"),)),
        insights=(Insight(text="It rains.", source="run 1"),),
        lesson="Do better.",
        files=(file,),
    )


def toolkit():
    made = Toolkit()
    made.add_chain([FIND, STUDY])
    made.add_action(REPORT, prev_actions=[(STUDY, 0.7)])
    made.add_tool_group(ToolGroup(name="figures", tools=(PLOT,)), [(REPORT, 0.6)])
    return made


@pytest.mark.parametrize(
    ("threshold", "hops", "actions", "tools"),
    [
        (0.5, 0, ["find"], ["search"]),
        (0.5, 1, ["find", "study"], ["search", "read"]),
        (0.5, 2, ["find", "study", "report"], ["search", "read", "plot"]),
        (0.6, 2, ["find", "study", "report"], ["search", "read", "plot"]),
        (0.65, 2, ["find", "study", "report"], ["search", "read"]),
        (0.71, 9, ["find", "study"], ["search", "read"]),
        (1, 9, ["find", "study"], ["search", "read"]),
        (0, 9, ["find", "study", "report"], ["search", "read", "plot"]),
    ],
)
async def test_the_toolkit_recommends_by_threshold_and_hops(threshold, hops, actions, tools):
    config = OperatorConfig(instruction="Do it.", actions=[FIND], threshold=threshold, hops=hops)
    task, _ = await ask(Operator(config, toolkit=toolkit()))
    assert ([a.name for a in task.actions], [t.name for t in task.tools]) == (actions, tools)


async def test_half_is_the_threshold_and_no_hop_the_reach_unless_said_otherwise():
    config = OperatorConfig(instruction="Do it.")
    assert (config.threshold, config.hops) == (0.5, 0)


async def test_an_operator_without_actions_gets_no_tools_from_its_toolkit():
    task, _ = await ask(Operator(OperatorConfig(instruction="Do it.", hops=9), toolkit=toolkit()))
    assert (task.actions, task.tools) == ((), ())


async def test_without_a_toolkit_the_actions_bring_their_own_tools():
    task, _ = await ask(Operator(OperatorConfig(instruction="Do it.", actions=[STUDY, FIND], hops=9)))
    assert (task.actions, task.tools) == ((STUDY, FIND), (READ, SEARCH))


@pytest.mark.parametrize("instruction", ["", " \n\t"])
def test_an_empty_instruction_is_an_error_that_says_what_to_do(instruction):
    with pytest.raises(InputError, match="the instruction is empty: say what the operator is to do"):
        OperatorConfig(instruction=instruction)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"threshold": -0.01}, "threshold: must be at least 0, got -0.01 (float)"),
        ({"threshold": 1.01}, "threshold: must be at most 1, got 1.01 (float)"),
        ({"hops": -1}, "hops: must be at least 0, got -1 (int)"),
        ({"hops": 0.5}, "hops: must be a whole number, got 0.5 (float)"),
        ({"id": ""}, "id: must not be empty, got '' (str)"),
        ({"hops": -1, "id": ""}, "hops: must be at least 0, got -1 (int); id: must not be empty, got '' (str)"),
    ],
)
def test_values_out_of_bounds_are_errors(wrong, told):
    with pytest.raises(InputError) as caught:
        OperatorConfig(instruction="Do it.", **wrong)
    assert str(caught.value) == f"OperatorConfig(…): {told}"


def test_an_unknown_name_is_an_error_with_the_nearest():
    with pytest.raises(InputError, match=r"OperatorConfig\(…\) has no argument 'hop' \(did you mean 'hops'\?\)"):
        OperatorConfig(instruction="Do it.", hop=1)  # pyright: ignore[reportCallIssue]


def test_operators_without_an_id_get_one_each_in_a_workflow():
    configs = [OperatorConfig(instruction="Do it.") for _ in range(3)]
    workflow = BuiltinWorkflow()
    for config in configs:
        workflow.add_operator(Operator(config))
    assert [operator.get_id() for operator in workflow.get_operators()] == ["do_it", "do_it_2", "do_it_3"]
    assert Operator(OperatorConfig(instruction="Do it.", id="mine")).get_id() == "mine"


@pytest.mark.parametrize(
    ("schema", "answer", "outputs"),
    [
        ("{claims: [string], n: 1}", '{"claims": ["a"], "n": 1}', {"claims": ["a"], "n": 1}),
        ("[string]", '["a", "b"]', {"output": ["a", "b"]}),
        ('{"type": "number"}', "0.5", {"output": 0.5}),
        ('{"type": "string"}', '"a"', {"output": "a"}),
        ('{"type": "null"}', "null", {"output": None}),
        ("In one sentence.", "It is blue.", {}),
        ("In one sentence.", "", {}),
        ("", '{"claims": ["a"]}', {}),
    ],
)
async def test_an_answer_by_schema_becomes_the_outputs(schema, answer, outputs):
    _, message = await ask(Operator(OperatorConfig(instruction="Do it.", output_schema=schema)), answer)
    assert (message.scratchpad, message.outputs) == (answer, outputs)


class Books:
    """A knowledge base that keeps the queries."""

    def __init__(self):
        self.queries = []

    def retrieve(self, query):
        self.queries.append(query)
        return Knowledge(passages=(Passage(text=query.upper(), score=0.5),))


@pytest.mark.parametrize(("context", "query"), [("of Crete", "figs\nof Crete"), ("", "figs")])
async def test_knowledge_is_looked_up_by_goal_and_context(context, query):
    books = Books()
    operator = Operator(OperatorConfig(instruction="Do it."), knowledge_base=books)
    found = operator.get_knowledge(Job(goal="figs", context=context))
    assert books.queries == [query]
    assert found == Knowledge(passages=(Passage(text=query.upper(), score=0.5),))


async def test_in_a_conversation_a_message_is_looked_up_alone_and_with_the_message_before_it(tmp_path):
    for name, text in {
        "parcels": "Parcels take two days.",
        "letters": "Letters take one.",
        "refunds": "Refunds.",
    }.items():
        (tmp_path / f"{name}.md").write_text(f"{text}\n")
    library = Documents(tmp_path, passages=2)
    turns = [Turn(role="user", text="How long do parcels take?"), Turn(role="assistant", text="Refunds.")]
    job = Job(goal="And letters?", turns=tuple(turns))

    def sources(job, **options):
        found = Operator("Answer.", knowledge_base=library, **options).get_knowledge(job)
        return [passage.source.rpartition("/")[2] for passage in found.passages]

    assert sources(job) == ["letters.md:1", "parcels.md:1"]
    assert sources(job, memory=False) == sources(Job(goal="And letters?")) == ["letters.md:1"]
    assert sources(job.model_copy(update={"goal": "Even on Sundays?"}))[0] == "parcels.md:1"
    library.close()


async def test_the_model_sees_passages_under_their_sources(tmp_path):
    (tmp_path / "guide.md").write_text("# Trees\n\n## Figs\n\nRipe in autumn.\n")
    operator = Operator(OperatorConfig(instruction="Answer."), knowledge_base=Documents(tmp_path / "guide.md"))
    with ScriptedModel([Say("In autumn.")]) as endpoint:
        await operator.execute(MonoModelReasoner(endpoint.model), Job(goal="When are figs ripe?"))
        said = endpoint.requests[0]["messages"][-1]["content"]
    assert "## Knowledge\n```\n[guide.md:5 Trees > Figs]\nRipe in autumn.\n```" in said


class Review(BaseModel):
    score: float
    remarks: list[str] = []


@pytest.mark.parametrize(
    ("output", "wrong", "right"),
    [
        ("{claims: [string]}", "I cannot list any.", '{"claims": ["a"]}'),
        ("{claims: [string]}", '{"claims": "a"}', '{"claims": ["a"]}'),
        ({"type": "array", "items": {"type": "integer"}}, '["a"]', '{"answer": [1]}'),
        (Review, '{"score": 3, "remark": ["late"]}', '{"score": 3, "remarks": ["late"]}'),
        (Review, '{"score": NaN}', '{"score": 3}'),
        (bool, "yes", '{"answer": true}'),
    ],
)
async def test_an_answer_that_does_not_fit_the_schema_of_its_operator_is_asked_for_again(output, wrong, right):
    with ScriptedModel([Say(wrong), Say(right)]) as endpoint:
        model = endpoint.model.model_copy(update={"structured": False})
        message = await Operator("Review.", output=output).execute(MonoModelReasoner(model), JOB)
        assert len(endpoint.requests) == 2
    fields = json.loads(right)
    assert message.outputs == ({"output": fields["answer"]} if "answer" in fields else fields)


async def test_others_go_on_while_knowledge_is_looked_up():
    asked, may_answer = threading.Event(), threading.Event()

    class Slow:
        def retrieve(self, query):
            asked.set()
            assert may_answer.wait(60), "the event loop stood still"
            return Knowledge(passages=(Passage(text="found"),))

    async def other():
        while not asked.is_set():
            await asyncio.sleep(0.001)
        may_answer.set()

    operator = Operator(OperatorConfig(instruction="Do it."), knowledge_base=Slow())
    (task, _), _ = await asyncio.gather(ask(operator), other())
    assert task.knowledge.passages[0].text == "found"


def test_without_a_knowledge_base_nothing_is_known_and_nothing_was_learned():
    operator = Operator(OperatorConfig(instruction="Do it."))
    assert operator.get_knowledge(JOB) == Knowledge()
    assert operator.get_env_insights() is None


async def test_the_callers_lists_stay_as_they_were_and_the_task_keeps_what_it_got():
    actions, messages, outputs = [FIND], [WorkflowMessage(scratchpad="one")], [WorkflowMessage(scratchpad="two")]
    config = OperatorConfig(instruction="Do it.", actions=actions)
    task, _ = await ask(
        Operator(config, toolkit=toolkit()), workflow_messages=messages, previous_expert_outputs=outputs, lesson="l"
    )
    assert (actions, [m.scratchpad for m in messages], [m.scratchpad for m in outputs]) == ([FIND], ["one"], ["two"])
    messages.append(WorkflowMessage())
    outputs.clear()
    actions.clear()
    assert (len(task.workflow_messages), len(task.previous_expert_outputs)) == (1, 1)
    assert list(config.actions) == [FIND]


async def test_a_reasoners_error_goes_to_the_caller_as_it_is():
    error = ConnectionError("gone")
    with pytest.raises(ConnectionError) as caught:
        await Operator(OperatorConfig(instruction="Do it.")).execute(ScriptedReasoner([error]), JOB)
    assert caught.value is error


async def test_in_a_workflow_a_reasoners_error_names_the_operator_and_is_the_cause():
    error = ConnectionError("gone")
    workflow = BuiltinWorkflow(name="w")
    workflow.add_operator(Operator(OperatorConfig(instruction="Do it.", id="op")))
    with pytest.raises(OperatorError) as caught:
        await workflow.aexecute(JOB, ScriptedReasoner([error]))
    assert str(caught.value) == "operator 'op' of workflow 'w' failed on attempt 1: ConnectionError: gone"
    assert caught.value.__cause__ is error


class Shout(Operator):
    """Overrides `execute`, asks nobody and returns plain text."""

    async def execute(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None
    ):
        return " ".join(message.scratchpad for message in workflow_messages or ()).upper()


async def test_an_operator_may_override_execute_and_return_text():
    workflow = BuiltinWorkflow()
    ask_ = Operator(OperatorConfig(instruction="Do it.", id="ask"))
    shout = Shout(OperatorConfig(instruction="Shout.", id="shout"))
    workflow.add_operator(ask_)
    workflow.add_operator(shout, previous_ops=[ask_])
    with ScriptedReasoner(["hello"]) as reasoner:
        message = await workflow.aexecute(JOB, reasoner)
    assert message == WorkflowMessage(scratchpad="HELLO", job_id="job", operator_id="shout")


async def test_one_operator_may_be_asked_for_many_jobs_at_once():
    operator = Operator(OperatorConfig(instruction="Do it.", actions=[FIND], hops=1), toolkit=toolkit())
    arrived = asyncio.Event()

    async def answer(task):
        if len(reasoner.tasks) == 3:
            arrived.set()
        await asyncio.wait_for(arrived.wait(), 10)
        return task.job.goal

    reasoner = ScriptedReasoner(answer)
    messages = await asyncio.gather(*(operator.execute(reasoner, Job(goal=goal)) for goal in "abc"))
    assert [message.scratchpad for message in messages] == ["a", "b", "c"]
    assert [task.tools for task in reasoner.tasks] == [(SEARCH, READ)] * 3


async def test_what_was_looked_up_is_an_event():
    class Book:
        def retrieve(self, query):
            return Knowledge(passages=(Passage(text="t", source="book:1", score=2.0),))

    heard = []
    workflow = BuiltinWorkflow(listeners=[heard.append])
    workflow.add_operator(Operator(OperatorConfig(instruction="i"), knowledge_base=Book()))
    await workflow.aexecute(Job(goal="g"), ScriptedReasoner("said"))
    [event] = [event for event in heard if isinstance(event, events.KnowledgeRetrieved)]
    assert (event.sources, event.scores) == (("book:1",), (2.0,))


def test_what_has_no_retrieve_is_no_knowledge_base():
    with pytest.raises(InvalidError, match=r"\[knowledge-base\] op: has no method retrieve\(query\): 'docs'"):
        Operator(OperatorConfig(instruction="i", id="op"), knowledge_base="docs")  # type: ignore[arg-type]


async def test_what_a_knowledge_base_gives_is_looked_at():
    class Odd:
        def retrieve(self, query):
            return "text"

    operator = Operator(OperatorConfig(instruction="i", id="op"), knowledge_base=Odd())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="operator 'op': its knowledge base gave str, not Knowledge"):
        await operator.execute(ScriptedReasoner("said"), Job(goal="g"))
