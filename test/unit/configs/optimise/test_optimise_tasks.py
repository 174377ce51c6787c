"""Tasks and what verifies their answers: a file read with all its faults, verdicts as a table."""

import json
import textwrap

import pytest

from operad.configs.optimise import tasks
from operad.configs.optimise.trial import Account, Bench
from operad.configs.optimise.verify import lowest
from operad.operators import Operator, OperatorConfig
from operad.runtime.policies.policy import Budget
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import InputError, InvalidError, OperadError
from operad.runtime.values.message import NO_USAGE
from operad.runtime.workflow.workflow import BuiltinWorkflow


def read_tasks(path):
    """Read a file whose code was written here."""
    return tasks.read_tasks(path, trust=True)


def written(folder, text, name="tasks.yaml"):
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def checked(tmp_path, verify, answer):
    """The verdict on an answer, of what needs nobody else."""
    path = written(tmp_path, json.dumps({"id": "a", "job": "x", "verify": verify}), "tasks.jsonl")
    [case] = read_tasks(path).every
    return lowest([check(answer) for check in case.verifier.checks])


@pytest.mark.parametrize(
    ("verify", "answer", "score"),
    [
        ({"equals": "Four  cats"}, " Four cats\n", 1),
        ({"equals": "Four cats"}, "four cats", 0),
        ({"equals": 4}, "4.0", 1),
        ({"equals": True}, "1", 0),
        ({"equals": {"a": [1]}}, '```json\n{"a": [1.0]}\n```', 1),
        ({"equals": [1, 2]}, "[2, 1]", 0),
        ({"equals": 4}, "four", 0),
        ({"contains": "cat"}, "a cat", 1),
        ({"contains": ["cat", "dog"]}, "a cat", 0.5),
        ({"matches": r"^\d{4}-\d\d$"}, "2026-11", 1),
        ({"matches": r"(?i)CAT"}, "a cat", 1),
        ({"matches": r"\d"}, "none", 0),
        ({"schema": {"type": "object", "required": ["a"]}}, '{"a": 1}', 1),
        ({"schema": {"type": "object", "required": ["a"]}}, "{}", 0),
        ({"schema": "{claims: [string]}"}, '{"claims": ["x"]}', 1),
        ({"schema": "{claims: [string]}"}, "no JSON", 0),
        ({"number": 1234.5}, "It is 7, or rather 1,234.5.", 1),
        ({"number": -3}, "so -3", 1),
        ({"number": 100, "tolerance": 2}, "about 98", 1),
        ({"number": 100, "tolerance": 2}, "about 97.9", 0),
        ({"number": 1}, "none", 0),
        ({"number": 1}, "9" * 5_000, 0),
        ({"contains": ["a", "b"], "number": 1}, "a 1", 0.5),
    ],
)
def test_what_an_answer_is_worth(tmp_path, verify, answer, score):
    verdict = checked(tmp_path, verify, answer)
    assert verdict.score == score
    assert verdict.reason
    assert len(verdict.reason) <= 400


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*)*x"])
def test_an_expression_that_others_choke_on_ends(tmp_path, pattern):
    assert checked(tmp_path, {"matches": pattern}, "a" * 100_000 + "!").score in (0, 1)


def test_json_lines_and_lists_of_yaml_say_the_same(tmp_path):
    yaml = read_tasks(written(tmp_path, "# tasks\n- {id: a, job: x, inputs: {n: 1}, verify: {number: 1}}\n"))
    lines = '{"id": "a", "job": "x", "inputs": {"n": 1}, "verify": {"number": 1}}\n\n'
    json_lines = read_tasks(written(tmp_path, lines, "tasks.jsonl"))
    mapping = read_tasks(written(tmp_path, "tasks:\n- {id: a, job: x, inputs: {n: 1}, verify: {number: 1}}\n", "t.yml"))
    assert yaml.print == json_lines.print == mapping.print
    assert yaml.every[0].job.inputs == json_lines.every[0].job.inputs == {"n": 1}


def test_files_are_found_beside_the_tasks_and_what_they_hold_counts(tmp_path):
    (tmp_path / "notes.txt").write_text("old")
    path = written(tmp_path, "- {id: a, job: x, files: [notes.txt], verify: {contains: x}}")
    before = read_tasks(path)
    assert before.every[0].job.files[0].path == tmp_path / "notes.txt"
    (tmp_path / "notes.txt").write_text("new")
    assert read_tasks(path).print != before.print


def test_all_faults_are_told_at_once_with_their_lines(tmp_path):
    path = written(
        tmp_path,
        """\
        - {id: a, job: x, verify: {equals: 3}}
        - {id: a, job: x, verify: {matches: "(?=x)"}}
        - id: b
          job: x
          files: [none.txt]
          verify:
            schema: {type: objec}
            class: nowhere.Judge
        - {id: c, job: x, verify: {schema: just words}}
        """,
    )
    with pytest.raises(InvalidError) as error:
        read_tasks(path)
    places = {(issue.code, issue.where.removeprefix(str(path))) for issue in error.value.issues}
    assert places == {
        ("pattern", ":2 tasks[1].verify.matches"),
        ("duplicate-id", ":2 tasks[1].id"),
        ("file", ":5 tasks[2].files[0]"),
        ("json-schema", ":7 tasks[2].verify.schema"),
        ("class", ":8 tasks[2].verify.class"),
        ("value", ":9 tasks[3].verify.schema"),
    }


def test_faults_of_every_kind_are_told_at_once(tmp_path):
    path = written(
        tmp_path,
        """\
        {"id": "a", "jbo": "x", "verify": {"contain": ["x"]}}
        {"id": "a", "job": "x", "verify": {"matches": "("}}
        {bad
        {"id": "c", "job": "x", "files": ["none.txt"], "verify": {"contains": "x"}}
        {"id": "d", "job": "x", "files": ["none.txt"]}
        {"id": "e", "jbo": "x", "verify": {"matches": "("}}
        """,
        "tasks.jsonl",
    )
    with pytest.raises(InvalidError) as error:
        read_tasks(path)
    places = {(issue.code, issue.where.removeprefix(str(path))) for issue in error.value.issues}
    assert places == {
        ("unknown-key", ":1 tasks[0].jbo"),
        ("unknown-key", ":1 tasks[0].verify.contain"),
        ("duplicate-id", ":2 tasks[1].id"),
        ("pattern", ":2 tasks[1].verify.matches"),
        ("json", ":3 tasks[2]"),
        ("file", ":4 tasks[3].files[0]"),
        ("missing-key", ":5 tasks[4].verify"),
        ("file", ":5 tasks[4].files[0]"),
        ("unknown-key", ":6 tasks[5].jbo"),
        ("pattern", ":6 tasks[5].verify.matches"),
    }


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            "- {id: a, jbo: x, verify: {}}",
            ["did you mean 'job'", "say how an answer is verified"],
        ),
        ("- {id: a, job: x, verify: {contains: x, tolerance: 1}}", ["`tolerance` goes with `number`"]),
        ("- {id: a, job: x, verify: {contains: x, params: {y: 1}}}", ["`params` goes with `class`"]),
        ("- {id: a, job: x, verify: {contain: x}}", ["did you mean 'contains'"]),
        ("- {id: a, job: x, verify: {contains: []}}", ["`contains` is empty; name a text, or remove the key"]),
        ("- {id: 1, job: x, verify: {contains: x}}", ["put it in quotes"]),
        ("hello", ["must be a mapping"]),
        ("[]", ["tasks: must not be empty"]),
        ("tasks: 3", ["must be a list"]),
        ("- [", ["yaml"]),
    ],
)
def test_a_file_that_is_none_of_tasks(tmp_path, text, messages):
    with pytest.raises(InvalidError) as error:
        read_tasks(written(tmp_path, text))
    assert all(message in str(error.value) for message in messages), str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "a"', r":1 tasks\[0\]: is not JSON"),
        ("{}\n[\n", r":2 tasks\[1\]: is not JSON"),
        ('{"id": "a", "id": "b"}', "duplicate key 'id'"),
        ('{"id": NaN}', "NaN is not a JSON number"),
        ("[" * 100_000, "nested too deep"),
        ("3\n", ":1 tasks"),
        ("\n \n", "is empty"),
    ],
)
def test_lines_that_are_no_tasks(tmp_path, text, message):
    with pytest.raises(OperadError, match=message):
        read_tasks(written(tmp_path, text, "tasks.jsonl"))


def test_a_file_that_is_not_there_or_too_large(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_tasks(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="are more than"):
        read_tasks(written(tmp_path, "x" * (4 * 2**20 + 1)))


# Judges

JUDGES = """
from operad.evaluators import Evaluator
from operad.runtime import WorkflowMessage, WorkflowStatus

class Length(Evaluator):
    def __init__(self, config, *, most, **others):
        super().__init__(config, **others)
        self.most = most

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        words = len(workflow_messages[0].scratchpad.split())
        return WorkflowMessage(score=10 * min(1, self.most / words), evaluation=f"{words} words")

class Verdict(Evaluator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        good = "good" in workflow_messages[0].scratchpad
        return WorkflowMessage(status=WorkflowStatus.SUCCESS if good else WorkflowStatus.EXECUTION_ERROR)

class Broken(Evaluator):
    async def execute(self, *call, **named):
        raise ZeroDivisionError("oh")
"""


@pytest.fixture(scope="module")
def judging(tmp_path_factory):
    """A folder with judges; a module has one place in a process."""
    folder = tmp_path_factory.mktemp("judging")
    (folder / "judges_of_tasks.py").write_text(JUDGES)
    return folder


async def tried(judging, verify, answer, judge=None):
    path = written(judging, json.dumps({"id": "a", "job": "x", "verify": verify}), "tasks.jsonl")
    workflow = BuiltinWorkflow()
    workflow.add_operator(Operator(OperatorConfig(id="answer", instruction="Answer.")))
    judge = ScriptedReasoner(judge or [])
    bench = Bench(ScriptedReasoner(lambda task: answer), judge, Account(Budget(), NO_USAGE), 1)
    return (await bench.try_out(workflow, read_tasks(path).every))["a"]


@pytest.mark.parametrize(
    ("verify", "answer", "score"),
    [
        ({"class": "judges_of_tasks.Length", "params": {"most": 2}}, "a b c d", 0.5),
        ({"class": "judges_of_tasks.Length", "params": {"most": 2}}, "a", 1),
        ({"class": "judges_of_tasks.Verdict"}, "good", 1),
        ({"class": "judges_of_tasks.Verdict"}, "bad", 0),
        ({"class": "judges_of_tasks.Length", "params": {"most": 2}, "contains": "x"}, "a", 0),
    ],
)
async def test_a_class_of_ones_own_judges(judging, verify, answer, score):
    assert (await tried(judging, verify, answer)).score == pytest.approx(score)


async def test_a_class_that_fails_is_no_fault_of_the_workflow(judging):
    with pytest.raises(OperadError, match=r"the verifier of task 'a' failed: .*oh"):
        await tried(judging, {"class": "judges_of_tasks.Broken"}, "x")


async def test_a_class_that_wants_other_params_is_told(judging):
    with pytest.raises(InvalidError, match="cannot be made with these"):
        await tried(judging, {"class": "judges_of_tasks.Length"}, "x")
    with pytest.raises(InvalidError, match="is not a subclass of Evaluator"):
        await tried(judging, {"class": "operad.operators.Operator"}, "x")


async def test_a_model_judges_and_one_that_gives_no_verdict_scores_nothing(judging):
    verdict = {"evaluation": "kind", "status": "SUCCESS", "score": 7, "lesson": "", "blame": []}
    result = await tried(judging, {"judge": "Is it kind?"}, "Hello!", lambda task: json.dumps(verdict))
    assert (result.score, result.reason, result.answer) == (0.7, "kind", "Hello!")
    result = await tried(judging, {"judge": "Is it kind?"}, "Hello!", lambda task: "hm")
    assert result.score == 0
    assert result.reason.startswith("no verdict")


async def test_what_fails_a_check_is_not_judged(judging):
    result = await tried(judging, {"judge": "Is it kind?", "contains": "Bye"}, "Hello!", [])
    assert result.reason == 'it lacks "Bye"'


async def test_long_answers_are_kept_in_part(judging):
    result = await tried(judging, {"contains": "x"}, "y" * 100_000)
    assert len(result.answer) <= 2_001
