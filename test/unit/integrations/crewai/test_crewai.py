"""Agents and tasks of CrewAI as files of experts."""

# pyright: basic
import re
from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from amounts import sample
from typer.testing import CliRunner

from operad.cli.formats import report
from operad.cli.main import app
from operad.configs.foreign import experts_in
from operad.configs.loader import load, preview
from operad.operators import Operator
from operad.runtime import Job, PausedError, SkippedError
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import InputError, InvalidError

CASES = {
    case["name"]: case
    for case in yaml.safe_load_all((Path(__file__).parents[2] / "data" / "crewai_cases.yaml").read_text("utf-8"))
}
GOOD = {"role": "Cook", "goal": "Cook well", "backstory": "You are calm."}
TASK = {"description": "Write it.", "expected_output": "A recipe of six steps", "agent": "cook"}


def written(folder, agents, tasks):
    """Write the two files, given as texts or values."""
    paths = []
    for name, value in (("agents", agents), ("tasks", tasks)):
        paths.append(folder / f"{name}.yaml")
        paths[-1].write_text(value if isinstance(value, str) else yaml.safe_dump(value), encoding="utf-8")
    return paths


def converted(folder, agents, tasks):
    found = experts_in(written(folder, agents, tasks))
    assert found is not None
    return found


def expert_of(folder, text):
    file = folder / "expert.yaml"
    file.write_text(text, encoding="utf-8")
    return yaml.safe_load(text), file


def answered(workflow, job, reasoner, action):
    """Run a workflow, and answer each question with an action."""
    try:
        result = workflow.run(job, reasoner, run_id="crew")
    except PausedError as error:
        while True:
            answers = {question.id: {"action": action} for question in error.questions}
            try:
                return workflow.resume("crew", answers)
            except PausedError as another:
                error = another
    return result


def refused(folder, agents, tasks):
    with pytest.raises(InvalidError) as caught:
        converted(folder, agents, tasks)
    return {(issue.code, issue.where.rpartition(": ")[2]) for issue in caught.value.issues}


@pytest.mark.parametrize("name", sample(CASES, 2))
def test_a_pair_of_files_converts_checks_without_issues_and_runs(tmp_path, name):
    case = CASES[name]
    found = converted(tmp_path, case["agents"], case["tasks"])
    losses = [issue.where.rpartition(": ")[2] for issue in found.losses if issue.code == "loss"]
    assert losses == case.get("losses", [])
    data, file = expert_of(tmp_path, found.text)
    if "chains" in case:
        assert data["experts"][0]["workflow"] == case["chains"]
    assert preview(file).profiles[0].name == "Crew"
    workflow = load(file).expert().workflow
    workflow.set_evaluator(None)
    tasks, order = yaml.safe_load(case["tasks"]), []

    def said(task):
        if task.output_schema.schema:  # of a check
            return '{"wrong": "", "right": "", "meets": true}'
        order.append(task)
        return f"answer {len(order)}"

    reasoner = ScriptedReasoner(said)
    job = Job(inputs={name: f"the {name}" for name in case.get("inputs", ())})
    result = answered(workflow, job, reasoner, "approve")
    assert result.accepted
    assert len(order) == len(tasks)
    prompts = "\n".join(task.instruction for task in order)
    for wanted in case.get("inputs", ()):
        assert f"the {wanted}" in prompts


def test_there_are_at_least_forty_pairs():
    assert len(CASES) >= 40


def test_role_goal_backstory_and_task_are_the_instruction_and_the_expected_output_its_output(tmp_path):
    data, _ = expert_of(tmp_path, converted(tmp_path, {"cook": GOOD}, {"write": TASK}).text)
    [operator] = data["operators"]
    assert operator == {
        "name": "write",
        "instruction": "You are Cook. You are calm.\nYour goal: Cook well\n\nWrite it.",
        "output": "A recipe of six steps",
    }
    assert data["experts"][0]["evaluator"]["instruction"].splitlines()[1:] == ["- write: A recipe of six steps"]


def test_a_task_gets_the_results_of_its_context_in_that_order(tmp_path):
    tasks = {"a": TASK, "b": {**TASK, "context": []}, "c": {**TASK, "context": ["b", "a"]}}
    _, file = expert_of(tmp_path, converted(tmp_path, {"cook": GOOD}, tasks).text)
    workflow = load(file).expert().workflow
    workflow.set_evaluator(None)
    reasoner = ScriptedReasoner({name: f"result of {name}" for name in "abc"})
    workflow.run("Cook.", reasoner)
    seen = [[message.scratchpad for message in task.workflow_messages] for task in reasoner.tasks]
    assert (sorted(seen), seen[-1]) == ([[], [], ["result of b", "result of a"]], ["result of b", "result of a"])


def test_a_task_with_a_name_like_an_input_has_another_one_which_is_a_note(tmp_path):
    found = converted(tmp_path, {"cook": GOOD}, {"tasks": {**TASK, "description": "Do {task}."}})
    assert [each["name"] for each in expert_of(tmp_path, found.text)[0]["operators"]] == ["step"]
    assert [(each.code, each.where, "'step'" in each.message) for each in found.losses] == [
        ("note", f"{tmp_path / 'tasks.yaml'}:1: tasks", True)
    ]


def test_a_rejected_answer_ends_the_work(tmp_path):
    tasks = {"a": {**TASK, "human_input": True}, "b": TASK}
    _, file = expert_of(tmp_path, converted(tmp_path, {"cook": GOOD}, tasks).text)
    workflow = load(file).expert().workflow
    workflow.set_evaluator(None)
    reasoner = ScriptedReasoner("done")
    with pytest.raises(SkippedError, match="took port 'reject'"):
        answered(workflow, "Cook.", reasoner, "reject")
    assert len(reasoner.tasks) == 1


def test_limits_of_an_agent_are_those_of_its_operators(tmp_path):
    agent = {**GOOD, "max_iter": "7", "max_rpm": 30, "max_execution_time": 90, "guardrail": "No nuts."}
    tasks = {"a": {**TASK, "guardrails": ["Short."]}}
    data, _ = expert_of(tmp_path, converted(tmp_path, {"cook": agent}, tasks).text)
    [operator] = data["operators"]
    assert {key: operator[key] for key in ("max_turns", "timeout", "check")} == {
        "max_turns": 7,
        "timeout": 90,
        "check": "No nuts. Short.",
    }
    assert data["experts"][0]["limits"] == {"requests_per_minute": 30}


@pytest.mark.parametrize(
    ("agents", "tasks", "issues"),
    [
        ({"cook": {"role": "Cook"}}, {"a": TASK}, {("missing-key", "cook.goal"), ("missing-key", "cook.backstory")}),
        ({"cook": GOOD}, {"a": {**TASK, "agent": "cok"}}, {("unknown-agent", "a.agent")}),
        ({"cook": GOOD}, {"a": {**TASK, "context": ["b"]}, "b": {**TASK, "context": ["a"]}}, {("cycle", "a.context")}),
        ({"cook": GOOD}, {"a": {**TASK, "context": ["a"]}}, {("cycle", "a.context")}),
        ({"cook": GOOD}, "a: {<<: [1], description: d, expected_output: e}", {("key", "line 1")}),
        ({"cook": GOOD}, {"a": {**TASK, "context": ["x"]}}, {("unknown-task", "a.context")}),
        ({"cook": GOOD}, {"a": {**TASK, "context": "a"}}, {("value", "a.context")}),
        ({"cook": GOOD}, {"a": TASK, "b": 3}, {("value", "b")}),
        ({"cook": {**GOOD, "role": 3}}, {"a": {**TASK, "description": None}}, {("value", "cook.role"), ("missing-key", "a.description")}),
        ({"cook": {**GOOD, "max_iter": 0}}, {"a": {**TASK, "human_input": "maybe"}}, {("value", "cook.max_iter"), ("value", "a.human_input")}),
    ],
)  # fmt: skip
def test_all_issues_of_both_files_are_told_at_once(tmp_path, agents, tasks, issues):
    assert refused(tmp_path, agents, tasks) == issues


def test_a_key_stays_in_the_files_of_crewai_and_is_a_loss_at_its_place(tmp_path):
    key = "Zq81xKQ77vbN2"
    agents = {"cook": {**GOOD, "goal": f"Ask with Authorization: Bearer {key}", "llm": {"api_key": key}}}
    tasks = {"soup": {**TASK, "description": f"Ask https://shop:{key}@shop.example/"}}
    found = converted(tmp_path, agents, tasks)
    assert key not in found.text + str(found.losses)
    told = {issue.where.rpartition(": ")[2] for issue in found.losses if issue.code == "loss"}
    assert told == {"cook.goal", "soup.description"}


def test_a_near_name_and_the_line_are_told(tmp_path):
    agents, tasks = {"cook": GOOD}, "a:\n  description: Write.\n  expected_output: A text\n  agent: cok\n"
    with pytest.raises(InvalidError) as caught:
        converted(tmp_path, agents, tasks)
    [issue] = caught.value.issues
    assert (issue.where, issue.message) == (
        f"{tmp_path / 'tasks.yaml'}:4: a.agent",
        "no agent is called 'cok' (did you mean 'cook'?)",
    )


@pytest.mark.parametrize("named", ["agents.yaml", "tasks.yaml", "", "both", "swapped", "project", "crew.py"])
def test_both_files_are_found_when_one_or_their_folder_is_named(tmp_path, named):
    folder = tmp_path / "src" / "kitchen" / "config"
    folder.mkdir(parents=True)
    agents, tasks = written(folder, {"cook": GOOD}, {"a": TASK})
    code = folder.parent / "crew.py"
    code.write_text("raise SystemExit('this code is not run')")
    given = {
        "both": [agents, tasks],
        "swapped": [tasks, agents],
        "": [folder],
        "project": [tmp_path],
        "crew.py": [code],
    }.get(named, [folder / named])
    found = experts_in(given)
    assert found is not None
    assert [(issue.code, issue.where) for issue in found.losses] == [("note", str(code))]
    assert "not read" in found.losses[0].message


def test_other_files_and_folders_are_not_of_crewai(tmp_path):
    other = tmp_path / "flow.yaml"
    other.write_text("workflow: greet\nnodes: {1: {type: start}}\n")
    assert experts_in([other]) is None
    assert experts_in([tmp_path]) is None
    assert experts_in([tmp_path / "absent.yaml"]) is None


def test_a_file_without_the_other_one_says_so(tmp_path):
    agents, tasks = written(tmp_path, {"cook": GOOD}, {"a": TASK})
    tasks.unlink()
    with pytest.raises(InvalidError, match=r"there is no tasks\.yaml beside it"):
        experts_in([agents])


SCALARS = ("text", "", "{x", "}}", "{{y}}", "a: b", 0, -1, 3.5, 10**30, True, None, [], [1], ["x"], {}, {"a": 1})
FULL = (
    {"cook": {**GOOD, "llm": "m", "tools": ["t"], "max_iter": 3, "max_rpm": 3, "max_execution_time": 3, "verbose": True,
              "guardrail": "g", "memory": True}, "other": GOOD},
    {"a": {**TASK, "human_input": True, "async_execution": False, "output_file": "f"},
     "b": {**TASK, "context": ["a"], "guardrails": ["g"], "markdown": True, "tools": ["t"], "name": "n"}},
)  # fmt: skip


@pytest.mark.parametrize("value", sample(SCALARS, 4), ids=repr)
def test_any_value_in_any_place_gives_issues_or_a_file_without_issues(tmp_path, value):
    refused_at = []
    for number, file in enumerate(FULL):
        for name, entry in file.items():
            for key in [None, "new", *entry]:
                pair = deepcopy(FULL)
                if key is None:
                    pair[number][name] = value
                else:
                    pair[number][name][key] = value
                try:
                    found = converted(tmp_path, *pair)
                except InvalidError as error:
                    told = [bool(issue.where and issue.message) for issue in error.issues]
                    refused_at.append((name, key, all(told)))
                    continue
                _, path = expert_of(tmp_path, found.text)
                loaded = load(path)
                assert [each for each in loaded.expert().workflow.get_operators() if isinstance(each, Operator)]
    assert all(told for *_, told in refused_at)


PAGE = (Path(__file__).parents[4] / "docs" / "from_crewai.md").read_text(encoding="utf-8")


def test_the_example_of_the_documentation_converts_to_what_it_shows(tmp_path):
    agents, tasks, expert = re.findall(r"^```yaml.*?\n(.*?)^```$", PAGE, re.M | re.S)
    found = converted(tmp_path, agents, tasks)
    assert found.text == expert
    assert [(issue.code, issue.where) for issue in found.losses] == [
        ("note", f"{tmp_path / 'agents.yaml'}:6: researcher.verbose")
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "a: [", "\x00", "a: &x [*x]", "&a [*a]", "!!python/object:os.system {}"]
)
def test_texts_that_are_no_files_of_crewai_are_refused(tmp_path, text):
    paths = written(tmp_path, text, {"a": TASK})
    try:
        found = experts_in(paths)
    except (InvalidError, InputError):
        return
    assert found is None


def test_check_tells_how_to_convert_files_of_crewai(tmp_path):
    for path in written(tmp_path, {"cook": GOOD}, {"write": TASK}):
        [issue] = report(str(path)).issues
        assert issue.code == "format"
        assert f"operad convert {path} -o" in issue.message


def test_check_of_a_file_of_agents_without_tasks_names_the_missing_file(tmp_path):
    agents, tasks = written(tmp_path, {"cook": GOOD}, {"write": TASK})
    tasks.unlink()
    [issue] = report(str(agents)).issues
    assert (issue.code, "tasks.yaml" in issue.message) == ("missing-file", True)


@pytest.mark.parametrize("command", ["run", "edit", "show", "check"])
@pytest.mark.parametrize("named", ["tasks.yaml", "."])
def test_commands_that_take_no_files_of_crewai_name_the_one_that_does(tmp_path, command, named):
    written(tmp_path, {"cook": GOOD}, {"write": TASK})
    options = {"edit": ["--op", "remove_node 1"]}.get(command, [])
    result = CliRunner().invoke(app, [command, str(tmp_path / named), *options])
    assert "operad convert" in result.output + str(result.exception)


def test_a_file_of_experts_is_not_written_into_another_file(tmp_path):
    written(tmp_path, {"cook": GOOD}, {"write": TASK})
    other = tmp_path / "other.yaml"
    other.write_text("kept")
    result = CliRunner().invoke(app, ["convert", str(tmp_path), "--into", str(other)])
    assert isinstance(result.exception, InputError)
    assert other.read_text() == "kept"
