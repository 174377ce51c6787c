# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportIndexIssue=false, reportGeneralTypeIssues=false
"""Wrong uses of the public face: one line each, at the call, that says what was expected."""

import pytest
from pydantic import BaseModel

from operad import (
    Action,
    Evaluator,
    Expert,
    InvalidError,
    Job,
    Leader,
    Map,
    MonoModelReasoner,
    OperadError,
    Operator,
    OperatorConfig,
    Policy,
    Take,
    Workflow,
    WorkflowMessage,
    operator,
    tool,
)
from operad.operators.mcp import StdioServer
from operad.runtime import BuiltinWorkflow, Profile, RunningLoopError
from operad.runtime.testing import ScriptedReasoner


class Claims(BaseModel):
    claims: list[str]


class NoModel:
    pass


@tool
def search(claim: str) -> str:
    """Look a claim up."""
    return ""


@operator
def facts(job: Job) -> str:
    return job.goal


def pieces(text):
    yield text


def several(*values):
    return values


class Upper(Operator):
    def run(self, call):
        return WorkflowMessage(scratchpad=call.job.goal.upper())


class Lower(Operator):
    def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return job.goal.lower()


class Plain:
    def answer(self, question):
        return question

    def get_id(self):
        return "plain"

    def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return job.goal


def spoken(said: Claims) -> str:
    return ", ".join(said.claims)


ask = Operator("Say it.", id="ask")
flow = BuiltinWorkflow(facts, name="flow")

WRONG = {
    "@tool(approv=True)": (
        lambda: tool(approv=True),
        "@tool(…) has no option 'approv' (did you mean 'approve'?); it has: name, description, timeout, approve",
    ),
    "@tool(approve='yes')": (
        lambda: tool(approve="yes")(spoken),  # pyright: ignore[reportArgumentType]
        "Tool(…): approve: must be true or false, got 'yes' (str) or must be a list, got 'yes' (str) or must be a function, got 'yes' (str)",
    ),
    "Expert('a name', flow)": (
        lambda: Expert("Clerk", flow),
        "Expert(…): profile: expected Profile(…), got 'Clerk' (str)",
    ),
    "Expert(profile, facts)": (
        lambda: Expert(Profile(name="Clerk"), facts),
        "Expert(…): workflow: expected Workflow(…), got <operator 'facts'> (FunctionOperator)",
    ),
    "Expert(profile, flow, 3)": (
        lambda: Expert(Profile(name="Clerk"), flow, 3),
        "model: expected a model's name, a Model or a reasoner; got 3 (int)",
    ),
    "Leader(profile, expert)": (
        lambda: Leader(Profile(name="Boss"), Expert(Profile(name="Clerk"), Workflow(facts))),
        "Leader(…): experts: expected a list of Expert(…), got <Expert 'Clerk'> (Expert)",
    ),
    "Leader(profile, [flow])": (
        lambda: Leader(Profile(name="Boss"), [flow]),
        "Leader(…): expert: expected Expert(…), got <BuiltinWorkflow 'flow': 1 operator, engine builtin> (BuiltinWorkflow)",
    ),
    "durable='sqlite:runs.db'": (
        lambda: Workflow(facts, durable="sqlite:runs.db"),
        "sqlite:runs.db: a URL needs two slashes after the colon; write sqlite:///runs.db for a file here",
    ),
    "durable='sqlite://runs.db'": (
        lambda: Workflow(facts, durable="sqlite://runs.db"),
        "sqlite://runs.db: the URL of a file needs three slashes; write sqlite:///runs.db",
    ),
    "durable=':memory:'": (
        lambda: Workflow(facts, durable=":memory:"),
        "SQLite in memory is not durable; name a file: sqlite:///runs.db",
    ),
    "Operator('Say.', id='a/b')": (
        lambda: Operator("Say.", id="a/b"),
        "Operator(…): id: must not contain '/', which separates ids in the paths of events and questions; write '-' or '_'",
    ),
    "operator(f, id='a/b')": (
        lambda: operator(lambda: "x", id="a/b"),
        "operator(…): id: must not contain '/', which separates ids in the paths of events and questions; write '-' or '_'",
    ),
    "an id with half a character": (
        lambda: operator(id="a\ud800")(print),
        "operator(…): id: must not contain half a character (a lone surrogate), which no file and no database holds",
    ),
    "Operator('Say.').run('a text')": (
        lambda: ask.run("Is this so?"),
        "Operator.run(…) got 'Is this so?' (str): an operator runs in a workflow: Workflow(Operator(…)).run(…)",
    ),
    "Operator('Say.').run('a text', model='gpt-5')": (
        lambda: ask.run("Is this so?", model="gpt-5"),
        "Operator.run(…) got 'Is this so?' (str): an operator runs in a workflow: Workflow(Operator(…)).run(…)",
    ),
    "Operator(42)": (
        lambda: Operator(42),
        "Operator(…) expects an instruction as text, a function that returns it, or an OperatorConfig; got 42 (int)",
    ),
    "an empty instruction": (
        lambda: Operator(" "),
        "Operator(…): instruction: the instruction is empty: say what the operator is to do",
    ),
    "a class in place of an instruction": (
        lambda: Operator(Claims),
        "Operator(…) expects an instruction as text, a function that returns it, or an OperatorConfig; got <class '",
    ),
    "a function without names as an instruction": (
        lambda: Operator(several),
        "operator 'several': parameter '*values' is variadic positional; parameters are bound by name; wrap it in a",
    ),
    "a generator as an instruction": (
        lambda: Operator(pieces),
        "instruction: the function 'pieces' is a generator; return the text instead",
    ),
    "an instruction that is no text": (
        lambda: BuiltinWorkflow(Operator(lambda: 42, id="a")).run("x", ScriptedReasoner([])),
        "operator 'a' of workflow 'workflow' failed on attempt 1: operator 'a': its instruction is a function, which "
        "returned 42 (int); return a text that says what the operator is to do",
    ),
    "output=42": (
        lambda: Operator("Say.", output=42),
        "output: expected a pydantic model, a dataclass, a TypedDict, a type such as list[str], Literal['a', 'b'] or Invoice | Refusal, a JSON Schema as a dict, or text such as '{claims: [string]}'; got 42 (int)",
    ),
    "output=[A, B]": (
        lambda: Operator("Say.", output=[int, bool]),
        "output: expected a pydantic model, a dataclass, a TypedDict, a type such as list[str], Literal['a', 'b'] or Invoice | Refusal, a JSON Schema as a dict, or text such as '{claims: [string]}'; got [<class 'int'>, <class 'bool'>] (list)",
    ),
    "Map(over=[…])": (
        lambda: Map("each", several, over=[1, 2]),
        "Map(…): over: expected the name of a list, such as 'facts.claims', facts.output.claims, or a function, such as lambda job: [1, 2]; got [1, 2] (list)",
    ),
    "output=Model()": (
        lambda: Operator("Say.", output=Claims(claims=[])),
        "output: expected a pydantic model, a dataclass, a TypedDict, a type such as list[str], Literal['a', 'b'] or Invoice | Refusal, a JSON Schema as a dict, or text such as '{claims: [string]}'; got Claims(claims=[]) (Claims)",
    ),
    "a class that is no model": (
        lambda: Operator("Say.", output=NoModel),
        "pydantic cannot read the type NoModel: Unable to generate pydantic-core schema for",
    ),
    "a broken JSON Schema": (
        lambda: Operator("Say.", output={"type": "object", "properties": 3, "required": []}),
        "output: 3 is not of type 'object'",
    ),
    "tools=search": (
        lambda: Operator("Say.", tools=search),
        "tools: expected a list of functions and tools, got Tool(name='search'",
    ),
    "tools=['search']": (
        lambda: Operator("Say.", tools=["search"]),
        "expected a function or a tool, got 'search' (str)",
    ),
    "tools=[operator]": (
        lambda: Operator("Say.", tools=[facts]),
        "'facts' is an operator; give the function, or write @tool",
    ),
    "@tool on an operator": (lambda: tool(facts), "'facts' is an operator; give the function, or write @tool"),
    "@tool(…) on an operator": (
        lambda: tool(approve=True)(facts),
        "'facts' is an operator; give the function, or write @tool",
    ),
    "tools=[Operator(…)]": (
        lambda: Operator("Say.", tools=[ask]),
        "'ask' is an operator; a tool can run a workflow: async def ask(task: str) -> str: return (await flow.arun(task)).text",
    ),
    "tools=[workflow]": (
        lambda: Operator("Say.", tools=[flow]),
        "'flow' is a workflow; a tool can run a workflow: async def ask(task: str) -> str: return (await flow.arun(task)).text",
    ),
    "ports='refund'": (
        lambda: Operator("Say.", ports="refund"),
        "Operator(…): ports: expected a list of names, got 'refund' (str)",
    ),
    "ports twice": (
        lambda: Operator("Say.", ports=["a", "a"]),
        "Operator(…): ports: ports must have distinct, non-empty names",
    ),
    "model=42": (
        lambda: Operator("Say.", model=42),
        "model: expected a model's name, a Model or a reasoner; got 42 (int)",
    ),
    "policy='retry'": (
        lambda: Operator("Say.", id="a", policy="retry"),
        "operator 'a': policy: expected a Policy, got 'retry' (str)",
    ),
    "retry=0": (
        lambda: Operator("Say.", id="a", retry=0),
        "operator 'a': retry: attempts: 0 must be more than 0",
    ),
    "retry='three'": (
        lambda: Operator("Say.", id="a", retry="three"),
        "operator 'a': retry: expected a Retry or a number of attempts, got 'three'",
    ),
    "retry twice": (
        lambda: Operator("Say.", id="a", retry=3, policy=Policy(retry=2)),
        "operator 'a': retry: the policy has one, too; give it in one of the two",
    ),
    "a config and more": (
        lambda: Operator(OperatorConfig(instruction="Say."), id="a", tools=[search]),
        "Operator(config): id, tools belong in the OperatorConfig; or give the instruction as text: Operator('…', id=…)",
    ),
    "Evaluator(42)": (
        lambda: Evaluator(42),
        "Evaluator(…) expects an instruction as text, a function that returns it, or an OperatorConfig; got 42 (int)",
    ),
    "Evaluator(output=…, ports=…)": (
        lambda: Evaluator("Be good.", output=Claims, ports=["a"]),
        "Evaluator(…) has no argument 'output', 'ports'; it has: instruction, id, tools, actions, examples, model,",
    ),
    "MonoModelReasoner(42)": (
        lambda: MonoModelReasoner(42),
        "expected a model or its name, such as 'gpt-5.6'; got 42 (int)",
    ),
    "Action(tools=['x'])": (lambda: Action(name="a", tools=["x"]), "expected a function or a tool, got 'x' (str)"),
    "Job('a', 'b')": (
        lambda: Job("a", "b"),
        "Job(…) takes at most one positional argument, 'goal': write Job(goal=…)",
    ),
    "Job('a', goal='b')": (lambda: Job("a", goal="b"), "Job(…) got 'goal' twice: by position and by name"),
    "Job(files='a.txt')": (
        lambda: Job("a", files="a.txt"),
        "Job(…): files: expected a list, got 'a.txt': write files=['a.txt']",
    ),
    "Job(files=['no.txt'])": (lambda: Job("a", files=["/no/no.txt"]), "/no/no.txt: no such file"),
    "StdioServer(args='s.py -v')": (
        lambda: StdioServer(command="python", args="s.py -v"),
        'args: expected a list, got a text: write args=["server.py", "--port", "8000"]',
    ),
    "@tool on text": (lambda: tool("search"), "expected a function or a tool, got 'search' (str)"),
    "@operator on text": (lambda: operator("facts"), "operator(…) expects a function, got 'facts' (str)"),
    "@operator on a class": (
        lambda: operator(Claims),
        "operator(…) expects a function, got <class 'test.unit.test_wrong_uses.Claims'> (ModelMetaclass)",
    ),
    "@operator on a tool": (
        lambda: operator(search),
        "expected an operator, a workflow or a function, got the tool 'search'; tools are given to an operator: tools=[…]",
    ),
    "@operator on a method": (
        lambda: operator(Plain.answer),
        "operator 'answer': parameter 'self' has no value; use the method of an object, undecorated: clerk.answer",
    ),
    "@tool on a method": (
        lambda: tool(Plain.answer),
        "tool 'answer': 'self' has no value; give the method of an object, undecorated: tools=[clerk.answer]",
    ),
    "*values": (
        lambda: operator(several),
        "operator 'several': parameter '*values' is variadic positional; parameters are bound by name; wrap it in a function "
        "of your own, whose `**answers` are all answers by id",
    ),
    "ports of a function as text": (
        lambda: operator(ports="a")(several),
        "operator(…): ports are a list of names, such as ['refund', 'question']; got 'a' (str)",
    ),
    "a >> 'b'": (
        lambda: facts >> "b",
        "expected an operator, a workflow or a function, got the text 'b'; an operator that was added before is named in workflow.add(…, after=['b'])",
    ),
    "a >> 42": (
        lambda: facts >> 42,
        "expected an operator, a workflow or a function, or a list of these; got 42 (int)",
    ),
    "a >> Operator": (
        lambda: facts >> Operator,
        "expected an operator, a workflow or a function, got the class Operator; give an instance: Operator(…)",
    ),
    "a >> search": (
        lambda: facts >> search,
        "expected an operator, a workflow or a function, got the tool 'search'; tools are given to an operator: tools=[…]",
    ),
    "a >> []": (lambda: facts >> [], "expected operators in the list, and it is empty"),
    "a[0]": (lambda: facts[0], "a port is named by text, such as operator['refund']; got 0 (int)"),
    "list(a)": (lambda: list(facts), "a port is named by text, such as operator['refund']; got 0 (int)"),
    "a['x']['y']": (
        lambda: ask["x"]["y"],
        "a port has no ports of its own: write operator['y'], not operator['x']['y']",
    ),
    "(a >> b)['x']": (
        lambda: (facts >> ask)["x"],
        "a port belongs to one operator: write a >> b['x'], not (a >> b)['x']",
    ),
    "a port that leads nowhere": (
        lambda: Workflow(facts >> ask["x"]),
        "the port 'x' has no successor: write operator['x'] >> successor",
    ),
    "Workflow('a')": (
        lambda: Workflow("a"),
        "expected an operator, a workflow or a function, got the text 'a'; an operator that was added before is named in workflow.add(…, after=['a'])",
    ),
    "evaluator='text'": (
        lambda: Workflow(facts, evaluator="Be good."),
        "evaluator: expected an Evaluator, such as Evaluator('…'), or a function; got 'Be good.' (str)",
    ),
    "Workflow(a, b)": (
        lambda: Workflow(facts, several_words),
        "workflow 'workflow': the second argument is max_rounds, a number; got the function several_words: for several "
        "operators, write Workflow(a >> b) or Workflow([a, b]), and for an evaluator, evaluator=…",
    ),
    "Workflow(a, Evaluator(…))": (
        lambda: Workflow(facts, Evaluator("Good?", id="good")),
        "workflow 'workflow': the second argument is max_rounds, a number; got <Evaluator 'good'> (Evaluator): for several",
    ),
    "engine='x'": (
        lambda: Workflow(facts, engine="x"),
        "workflow 'workflow': engine: expected 'dbgpt' or 'builtin', got 'x'",
    ),
    "BuiltinWorkflow(engine='dbgpt')": (
        lambda: BuiltinWorkflow(facts, engine="dbgpt"),
        "workflow 'workflow': engine: expected 'builtin', got 'dbgpt'",
    ),
    "durable=42": (
        lambda: Workflow(facts, durable=42),
        "durable: expected a URL such as 'sqlite:///runs.db', a path or a Ledger; got 42 (int)",
    ),
    "Workflow(model=42)": (
        lambda: Workflow(facts, model=42),
        "model: expected a model's name, a Model or a reasoner; got 42 (int)",
    ),
    "add(after=42)": (
        lambda: flow.add(ask, after=42),
        "after: expected an operator, a function, an id, or a list of these; got 42 (int)",
    ),
    "add(after=object)": (
        lambda: flow.add(ask, after=NoModel()),
        "after: expected an operator, a function, an id, or a list of these; got an instance of NoModel",
    ),
    "add(after=a class)": (
        lambda: flow.add(ask, after=NoModel),
        "expected an operator, a workflow or a function, got the class NoModel; give an instance: NoModel(…)",
    ),
    "previous_ops='a'": (
        lambda: flow.add_operator(ask, previous_ops="facts"),
        "previous_ops: expected a list such as ['facts'], got the text 'facts'",
    ),
    "previous_ops=[42]": (
        lambda: flow.add_operator(ask, previous_ops=[42]),
        "expected an operator, a workflow or a function, or a list of these; got 42 (int)",
    ),
    "run(42)": (lambda: flow.run(42), "expected a text, a dict of inputs, a pydantic model or a Job; got 42 (int)"),
    "run({1: 2})": (
        lambda: flow.run({1: 2}),
        "inputs.1.[key]: the inputs of a job are JSON values by name: Input should be a valid string",
    ),
    "run(job, 42)": (
        lambda: flow.run("x", 42),
        "model: expected a model's name, a Model or a reasoner; got 42 (int)",
    ),
    "run(…, run_id=4)": (lambda: flow.run("x", run_id=4), "workflow 'flow': run_id: expected a text, got 4 (int)"),
    "Workflow(policy=3)": (
        lambda: Workflow(facts, policy=3),
        "workflow 'workflow': policy: expected Policy(…), got 3 (int)",
    ),
    "Workflow(budget=3)": (
        lambda: Workflow(facts, budget=3),
        "workflow 'workflow': budget: expected Budget(…), got 3 (int)",
    ),
    "Workflow(listeners=print)": (
        lambda: Workflow(facts, listeners=print),
        "workflow 'workflow': listeners: expected a list of functions: listeners=[<built-in function print>",
    ),
    "Workflow(name=3)": (lambda: Workflow(facts, name=3), "Workflow(…): name: expected a text, got 3 (int)"),
    "Workflow(evaluator=Operator(…))": (
        lambda: Workflow(facts, evaluator=Operator("Say.")),
        "evaluator: expected an Evaluator, such as Evaluator('…'), or a function; got <Operator 'say'>",
    ),
    "Policy(retries=5)": (
        lambda: Policy(retries=5),
        "Policy(…) has no argument 'retries' (did you mean 'retry'?); it has: retry, timeout, fallback, cache",
    ),
    "run(text) for a model": (
        lambda: BuiltinWorkflow(spoken).run("figs"),
        "operator 'spoken' of workflow 'workflow' failed on attempt 1: input 'said' of the job is not a valid Claims: ",
    ),
    "output=BaseModel": (
        lambda: Operator("Say.", output=BaseModel),
        "output: expected a subclass of BaseModel, whose fields are the answer's; got BaseModel itself",
    ),
    "a function that returns bytes": (
        lambda: BuiltinWorkflow(operator(id="bad")(lambda job: b"\xff")).run("x"),
        "operator 'bad' of workflow 'workflow' failed on attempt 1: 'bad' returned b'\\xff' (bytes), which has no JSON form",
    ),
    "def run": (
        lambda: BuiltinWorkflow(Upper("Shout.", id="a")).run("x"),
        "operator 'a' of workflow 'workflow' failed on attempt 1: Upper.run must be async: write `async def run(self, …)`",
    ),
    "def execute": (
        lambda: BuiltinWorkflow(Lower("Whisper.", id="a")).run("x"),
        "operator 'a' of workflow 'workflow' failed on attempt 1: Lower.execute must be async: write `async def execute(",
    ),
    "def execute of another class": (
        lambda: BuiltinWorkflow(Plain()).run("x"),
        "operator 'plain' of workflow 'workflow' failed on attempt 1: Plain.execute must be async: write `async def",
    ),
    "result[42]": (lambda: flow.run("x")[42], "result[…] expects an operator or its id, got 42"),
}


@pytest.mark.parametrize("use", WRONG)
def test_a_wrong_use_is_one_line_that_says_what_was_expected(use):
    call, said = WRONG[use]
    with pytest.raises(OperadError) as caught:
        call()
    text = str(caught.value)
    assert text.startswith(said)
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (lambda: flow.run("x"), "flow.arun(…)"),
        (lambda: flow.execute(Job("x")), "flow.aexecute(…)"),
        (lambda: flow.resume("r", {}), "flow.aresume(…)"),
        (lambda: flow.chat("c").send("x"), "chat.asend(…)"),
    ],
)
async def test_a_call_that_would_block_a_loop_names_the_call_to_await(call, instead):
    with pytest.raises(RunningLoopError) as caught:
        call()
    assert str(caught.value).endswith(f"use `await {instead}`")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: Policy(timeout="1m"),
            "Policy.timeout: expected a number of seconds, a timedelta or Timeout(…), got '1m'",
        ),
        (
            lambda: Workflow(facts, listeners=[lambda: None]),
            "cannot be called with an event: too many positional arguments",
        ),
    ],
)
def test_a_wrong_value_is_an_issue(call, said):
    with pytest.raises(InvalidError) as caught:
        call()
    assert str(caught.value).endswith(said)


def test_a_text_for_a_model_names_the_right_job():
    with pytest.raises(OperadError, match=r"; write run\(Claims\(…\)\) or run\(\{'claims': …\}\)$"):
        BuiltinWorkflow(spoken).run("figs")


def test_two_operators_with_one_id_are_one_issue_and_no_cycle_besides():
    twice = BuiltinWorkflow(facts >> Operator("Say.", id="say") >> Operator("Say it.", id="say"))
    with pytest.raises(InvalidError) as caught:
        twice.run("x")
    assert [(issue.code, issue.where) for issue in caught.value.issues] == [("duplicate-id", "say")]


def test_a_right_use_of_the_same_is_none():
    assert MonoModelReasoner("gpt-5")
    assert Action(name="a", tools=[search, several_words]).tools[1].name == "several_words"
    config = OperatorConfig(instruction="Say.", output_schema=Claims, tools=[search])
    assert '"claims"' in config.output_schema
    assert Job("x", id="i", session_id="s") == Job(goal="x", id="i", session_id="s")
    assert Workflow(2).max_rounds == 2  # the first signature of a workflow
    assert BuiltinWorkflow(facts, policy=None, budget=None, limits=None).run("x").text == "x"
    assert Take("a").value is None
    expert = Expert(Profile(name="Clerk"), flow, "gpt-5")  # the name of a model, and none: as for a workflow
    assert isinstance(expert.reasoner, MonoModelReasoner)
    assert repr(Leader(Profile(name="Boss"), [expert])) == "<Leader 'Boss'>"


def several_words(text: str) -> int:
    return len(text.split())
