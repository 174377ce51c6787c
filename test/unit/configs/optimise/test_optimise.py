"""The search for a better workflow, on experts whose best is known, with a model that is played."""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest
from amounts import sample

from operad.configs import load
from operad.configs.optimise import aoptimise
from operad.configs.optimise.proposals import SCHEMA
from operad.runtime.reasoning.reasoner import MonoModelReasoner
from operad.runtime.testing import Fail, Hang, Say, ScriptedModel, ScriptedReasoner
from operad.runtime.values.errors import InputError, InvalidError, ModelError, OperadError
from operad.runtime.values.json_schema import is_strict
from operad.runtime.values.message import Job

EXPERT = """\
# as somebody wrote it
plugin: {workflow_platform: BUILTIN}
operators:
  - &read {instruction: Read.}
  - &answer {instruction: Answer.}
experts:
  - profile: {name: Clerk}
    workflow: [[*read, *answer]]
    max_rounds: 1
"""
HINTS = ["units", "dates", "names", "totals"]
BEST = {*HINTS, "checked"}


def tasks_of(count=4):
    wanted = json.dumps([*HINTS, "checked"])
    return "".join(
        f'{{"id": "t{n}", "job": "task {n}", "verify": {{"contains": {wanted}}}}}\n' for n in range(1, count + 1)
    )


def said(task):
    """What an operator of the family says: the hints in its instruction, and whether somebody checked."""
    found = [hint for hint in HINTS if hint in task.instruction]
    before = " ".join(message.scratchpad for message in task.workflow_messages)
    checks = ["checked"] if task.instruction.startswith("Check") or "checked" in before else []
    return " ".join([*found, *checks, "."])


class Proposer:
    """Proposes good and bad changes of the family, by lot: the same for the same question."""

    def __init__(self, seed=0):
        self.seed, self.shown = seed, []

    def __call__(self, task):
        shown = task.job.inputs
        self.shown.append((shown, task.lesson))
        question = f"{self.seed} {json.dumps(shown['workflow'])} {len(shown['tried before'])} {task.lesson}"
        lot = random.Random(question)  # noqa: S311
        operators = {each["name"]: each["instruction"] for each in shown["workflow"]["operators"]}
        text = operators.get("answer", "")
        missing = [hint for hint in HINTS if hint not in text]
        changes = [{"op": "set_instruction", "operator": "answer", "instruction": f"{text} {h}."} for h in missing]
        changes += [{"op": "set_instruction", "operator": "answer", "instruction": "Ramble."}]
        if len(operators) > 1:
            changes += [{"op": "remove_operator", "operator": lot.choice(sorted(set(operators) - {"answer"}))}]
        changes += [
            {"op": "add_operator", "name": f"check{n}", "instruction": "Check.", "after": after, "before": before}
            for n, (after, before) in enumerate([("", "answer"), ("answer", ""), ("nobody", "")])
        ]
        return json.dumps({"reasoning": "as the lot says", "operations": [lot.choice(changes)]})


class Played(ScriptedReasoner):
    """Plays the workflow, and whoever proposes."""

    def __init__(self, proposer, work=said):
        self.proposer = proposer
        super().__init__(lambda task: proposer(task) if task.instruction.startswith("You improve") else work(task))


@pytest.fixture
def desk(tmp_path):
    (tmp_path / "clerk.yaml").write_text(EXPERT)
    (tmp_path / "tasks.jsonl").write_text(tasks_of())
    return tmp_path


async def searched(desk, reasoner=None, **options):
    reasoner = reasoner or Played(Proposer())
    return await aoptimise(desk / "clerk.yaml", desk / "tasks.jsonl", reasoner=reasoner, trust=True, **options)


def lines_of(desk):
    text = (desk / "clerk.optimised" / "tree.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def proposal(*operations, reasoning="so"):
    return json.dumps({"reasoning": reasoning, "operations": list(operations)})


def reword(text, operator="answer"):
    return {"op": "set_instruction", "operator": operator, "instruction": text}


# What it finds


@pytest.mark.parametrize("seed", sample(range(5), 5))
async def test_it_finds_the_best_and_keeps_it_so_that_it_runs(desk, seed):
    found = await searched(desk, Played(Proposer(seed)), rounds=60, seed=seed)
    assert found.best.final == 1.0
    assert found.improved
    assert found.stopped == "nothing is left to be improved"
    folder = desk / "clerk.optimised"
    best = folder / "best.yaml"
    assert best.read_text() == found.best.step.yaml
    message = await load(best).expert().workflow.aexecute(Job(goal="x"), ScriptedReasoner(said))
    assert set(message.scratchpad.split()) >= BEST
    chart = (folder / "tree.mmd").read_text()
    assert "the expert as it is" in chart
    assert f"class n{found.best.number} done" in chart
    assert (folder / "tree.svg").read_bytes().startswith(b"<svg")


async def test_where_nothing_is_better_the_expert_stays_as_it_is_byte_for_byte(desk):
    bad = iter(range(100))
    reasoner = Played(lambda task: proposal(reword(f"Ramble {next(bad)}.")))
    found = await searched(desk, reasoner, rounds=4)
    assert not found.improved
    assert (desk / "clerk.optimised" / "best.yaml").read_text() == EXPERT
    assert [each.number for each in found.state.ranked(4)] == [0, 1, 2, 3, 4]


async def test_a_perfect_expert_is_left_alone(desk):
    (desk / "clerk.yaml").write_text(EXPERT.replace("Answer.", "Check units dates names totals."))
    proposer = Proposer()
    found = await searched(desk, Played(proposer))
    assert (found.stopped, proposer.shown) == ("nothing is left to be improved", [])


async def test_a_proposer_sees_the_workflow_its_failures_and_what_was_tried(desk):
    proposer = Proposer(1)
    await searched(desk, Played(proposer), rounds=12)
    first, later = proposer.shown[0][0], proposer.shown[-1][0]
    assert [each["name"] for each in first["workflow"]["operators"]] == ["read", "answer"]
    assert first["score"] == 0
    assert len(first["failures"]) == 4
    assert "it lacks" in first["failures"][0]["reason"]
    assert first["tried before"] == []
    assert any(shown["tried before"] for shown, _ in proposer.shown)
    tried = [each for shown, _ in proposer.shown for each in shown["tried before"]]
    assert all(each.keys() == {"operations", "score", "effect"} or "could not be used" in each for each in tried)
    assert len(json.dumps(later)) < 60_000


def test_a_strict_endpoint_can_keep_to_the_form_of_proposals():
    assert is_strict(dict(SCHEMA))


async def test_samples_are_drawn_and_the_best_are_tried_on_all(desk):
    (desk / "tasks.jsonl").write_text(tasks_of(9))
    found = await searched(desk, Played(Proposer(2)), rounds=8, sample=3)
    steps = [line for line in lines_of(desk)[1:] if line["line"] == "step" and line["yaml"]]
    assert {len(line["results"]) for line in steps} == {3}
    assert len({tuple(line["results"]) for line in steps}) > 1
    assert len(found.best.results) == 9
    assert sum(len(each.results) == 9 for each in found.state.candidates) == 4
    again = await searched(desk, Played(Proposer(2)), rounds=8, sample=3)
    assert again.state == found.state


# Resuming


async def test_a_search_that_goes_on_makes_the_same_tree(desk):
    whole = await searched(desk, rounds=9, out=desk / "whole")
    for rounds in (1, 4, 9):
        parts = await searched(desk, rounds=rounds, out=desk / "parts")
    assert parts.state == whole.state
    assert (desk / "parts" / "tree.jsonl").read_bytes() == (desk / "whole" / "tree.jsonl").read_bytes()


@pytest.mark.slow
async def test_ranking_in_between_changes_nothing_of_the_tree(desk):
    (desk / "tasks.jsonl").write_text(tasks_of(7))
    whole = await searched(desk, rounds=9, sample=2, out=desk / "whole")
    for rounds in (2, 5, 9):
        parts = await searched(desk, rounds=rounds, sample=2, out=desk / "parts")
    assert parts.state.tree == whole.state.tree
    assert [each.step for each in parts.state.candidates] == [each.step for each in whole.state.candidates]
    assert parts.best.number == whole.best.number


@pytest.mark.parametrize("cut", sample([40, 1, 300], 3))
async def test_a_line_that_was_cut_off_is_done_again(desk, cut):
    whole = await searched(desk, rounds=5, out=desk / "whole")
    kept = desk / "clerk.optimised" / "tree.jsonl"
    await searched(desk, rounds=5)
    kept.write_bytes(kept.read_bytes()[:-cut])
    assert (await searched(desk, rounds=5)).state == whole.state


async def test_a_step_that_is_broken_off_is_done_again(desk):
    whole = await searched(desk, rounds=6, out=desk / "whole")
    calls = 0

    def breaks(task):
        nonlocal calls
        calls += 1
        if calls == 30:
            work.cancel()
        return said(task)

    told = []
    work = asyncio.create_task(searched(desk, Played(Proposer(), breaks), rounds=6, tell=told.append))
    with pytest.raises(asyncio.CancelledError):
        await work
    done = len(lines_of(desk)) - 1
    assert 0 < done < 7
    assert told[-1].startswith(f"{done} steps are done and kept in")
    assert (desk / "clerk.optimised" / "best.yaml").exists()
    assert (await searched(desk, rounds=6)).state == whole.state


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "seed 0, now 1"),
        ({"sample": 2}, "sample None, now 2"),
        ({"tasks": tasks_of(5)}, "tasks '"),
        ({"expert": EXPERT + "# x"}, "file '"),
    ],
)
async def test_other_settings_are_refused_and_nothing_is_lost(desk, change, message):
    await searched(desk, rounds=2)
    before = (desk / "clerk.optimised" / "tree.jsonl").read_bytes()
    (desk / "clerk.yaml").write_text(change.pop("expert", EXPERT))
    (desk / "tasks.jsonl").write_text(change.pop("tasks", tasks_of()))
    with pytest.raises(InputError, match="holds results of another optimisation") as error:
        await searched(desk, rounds=2, **change)
    assert message in str(error.value)
    assert (desk / "clerk.optimised" / "tree.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hello", "this line cannot be read"),
        ('{"line": "step"}', "this line cannot be used"),
        ('{"line": "ranking", "candidate": 77, "results": {}, "usage": {}}', "there is no candidate 77"),
        ('{"line": "step", "parent": 12, "yaml": "x", "usage": {}}', "there is no candidate 12"),
        ('{"line": "step", "parent": null, "yaml": "x", "usage": {}}', "no other, has no parent"),
        ('{"line": "step", "parent": 0, "yaml": "x", "usage": {}}', "it has no results"),
    ],
)
async def test_a_line_that_somebody_wrote_is_told_with_its_number(desk, line, message):
    await searched(desk, rounds=2)
    kept = desk / "clerk.optimised" / "tree.jsonl"
    lines = kept.read_text().splitlines()
    kept.write_text("\n".join([*lines[:3], line, *lines[3:]]) + "\n")
    before = kept.read_bytes()
    with pytest.raises(InputError, match=rf"tree\.jsonl:4: .*{message}"):
        await searched(desk, rounds=2)
    assert kept.read_bytes() == before


# What models do wrong


HOSTILE = {
    "no JSON": ("I would rather not.", "no JSON"),
    "another shape": ('{"operations": "all"}', "reasoning"),
    "no operations": (proposal(), "at least 1 item"),
    "too many operations": (proposal(*[reword(f"x{n}") for n in range(6)]), "at most 5 items"),
    "unknown operation": (proposal({"op": "run_shell", "command": "ls"}), "run_shell"),
    "unknown operator": (proposal(reword("x", "anwser")), "did you mean 'answer'"),
    "a path as a name": (
        proposal({"op": "add_operator", "name": "../../x", "instruction": "x", "after": "read", "before": ""}),
        "is not a valid name",
    ),
    "a name that is YAML": (
        proposal({"op": "add_operator", "name": "x: {a: b", "instruction": "x", "after": "read", "before": ""}),
        "is not a valid name",
    ),
    "a huge instruction": (proposal(reword("x" * 1_000_000)), "at most 4,000|at most 1,048,576"),
    "a cycle": (
        proposal({"op": "add_operator", "name": "n", "instruction": "x", "after": "answer", "before": "read"}),
        "cycle",
    ),
    "deep JSON": ('{"reasoning": "x", "operations": ' + "[" * 100_000, "no JSON|reasoning|nested"),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_proposal_that_cannot_be_used_is_told_and_asked_for_again(desk, name):
    answer, message = HOSTILE[name]
    lessons = []

    def proposer(task):
        lessons.append(task.lesson)
        return answer if len(lessons) < 3 else proposal(reword("units"))

    found = await searched(desk, Played(proposer), rounds=1)
    assert found.best.change == "set_instruction answer"
    assert not lessons[0]
    assert re.search(message, lessons[1]), lessons[1]
    assert lessons[2].count("cannot be used") >= 2
    assert len(lessons[2]) < 10_000


async def test_half_a_letter_in_a_proposal_is_replaced_and_the_proposal_is_scored(desk):
    answer = '{"reasoning": "x", "operations": [' + json.dumps(reword("half \ud800")) + "]}"
    found = await searched(desk, Played(lambda task: answer), rounds=1)
    assert [candidate.change for candidate in found.state.candidates] == [
        "the expert as it is",
        "set_instruction answer",
    ]
    assert "half \ufffd" in found.state.candidates[1].step.yaml


async def test_no_rounds_score_the_expert_as_it_is_and_propose_nothing(desk):
    def proposer(task):
        raise AssertionError(task.instruction)

    found = await searched(desk, Played(proposer), rounds=0)
    assert found.best == found.baseline
    assert (desk / "clerk.optimised" / "best.yaml").exists()


async def test_a_step_without_a_proposal_counts_as_a_round_and_goes_on(desk):
    asked = 0

    def proposer(task):
        nonlocal asked
        asked += 1
        return "nothing" if asked <= 3 else proposal(reword("units"))

    told = []
    found = await searched(desk, Played(proposer), rounds=2, tell=told.append)
    assert asked == 4
    assert found.state.steps == 3
    assert len(found.state.candidates) == 2
    assert "no proposal could be used: " in told[1]


async def test_what_is_there_already_is_not_run_again(desk):
    ran, lessons = [], []

    def work(task):
        ran.append(task.instruction)
        return said(task)

    def proposer(task):
        lessons.append(task.lesson)
        return proposal(reword("units" if len(lessons) != 2 else "Answer."))

    found = await searched(desk, Played(proposer, work), rounds=2)
    assert len(found.state.candidates) == 2
    assert ran.count("units") == 4
    assert "as it was at first again, which scored 0.000" in lessons[2] or "candidate 1 again" in lessons[2]
    assert "candidate 1 again, which scored 0.200" in " ".join(lessons)


async def test_instructions_are_words_whatever_they_say(desk):
    text = "]}\n  - x: *y\n!!python/object/apply:os.system [ls] {{#read.text#}} &a *b # units"
    found = await searched(desk, Played(lambda task: proposal(reword(text))), rounds=1)
    assert found.state.candidates[1].final == 0.2
    answer: Any = load(desk / "clerk.optimised" / "best.yaml").expert().workflow.get_operator("answer")
    assert answer.instruction == text


# Runs that fail


async def test_a_run_that_fails_scores_nothing_and_its_error_is_shown(desk):
    def work(task):
        if "units" in task.instruction and task.job.goal == "task 2":
            raise ValueError("the roof is leaking")
        return said(task)

    found = await searched(desk, Played(lambda task: proposal(reword("units names")), work), rounds=1)
    [_, candidate] = found.state.candidates
    assert [candidate.results[f"t{n}"].score for n in (1, 2, 3)] == pytest.approx([0.4, 0, 0.4])
    assert "the roof is leaking" in candidate.results["t2"].reason


async def test_a_run_that_asks_a_person_scores_nothing(desk):
    (desk / "asking.py").write_text(
        textwrap.dedent(
            """
            from operad.operators import Operator
            from operad.runtime import interrupt

            class Asks(Operator):
                async def execute(self, *call, **named):
                    return str(await interrupt("May I?"))
            """
        )
    )
    (desk / "clerk.yaml").write_text(EXPERT.replace("{instruction: Read.}", "{instruction: Read., class: asking.Asks}"))
    found = await searched(desk, Played(lambda task: proposal(reword("units"))), rounds=1)
    assert "cannot be answered in a search: May I?" in found.baseline.results["t1"].reason


@pytest.mark.parametrize("after", [0, 20])
async def test_an_endpoint_that_is_gone_ends_the_search_and_keeps_all(desk, after):
    whole = await searched(desk, rounds=4, out=desk / "whole")
    calls = 0

    def work(task):
        nonlocal calls
        calls += 1
        if calls > after:
            raise ModelError("the endpoint is gone", transient=True)
        return said(task)

    with pytest.raises(OperadError, match="the endpoint is gone") as error:
        await searched(desk, Played(Proposer(), work), rounds=4)
    assert "steps are done and kept in" in str(error.value)
    assert (desk / "clerk.optimised" / "best.yaml").exists() is bool(after)
    assert (await searched(desk, rounds=4)).state == whole.state


async def test_a_key_that_is_refused_everywhere_ends_it_and_one_refusal_does_not(desk):
    def refused(goals):
        def work(task):
            if task.job.goal in goals:
                raise ModelError("the prompt has too many tokens")
            return said(task)

        return work

    with pytest.raises(OperadError, match="too many tokens"):
        await searched(desk, Played(Proposer(), refused([f"task {n}" for n in range(9)])), out=desk / "all")
    found = await searched(desk, Played(Proposer(), refused(["task 1"])), rounds=1)
    assert "too many tokens" in found.baseline.results["t1"].reason


async def test_a_proposer_that_is_gone_ends_the_search(desk):
    def proposer(task):
        raise ModelError("nobody there")

    with pytest.raises(OperadError, match=r"nobody there\n1 step is done"):
        await searched(desk, Played(proposer))


# Budgets, on a server that counts words


def played(request):
    system = request["messages"][0]["content"]
    if system.startswith("You improve"):
        user = request["messages"][-1]["content"]
        hint = HINTS[len(user) % len(HINTS)]
        return Say(proposal(reword(f"Answer with {hint}, {len(user)}.")))
    return Say(" ".join(hint for hint in HINTS if hint in system) or "nothing")


async def on_a_server(desk, script=played, **options):
    with ScriptedModel(script) as endpoint:
        found = await searched(desk, MonoModelReasoner(endpoint.model), **options)
    return found, endpoint.requests


def whole_yaml(found):
    return [each.step.yaml for each in found.state.candidates]


@pytest.mark.slow
async def test_a_budget_stops_the_search_with_the_best_so_far(desk):
    whole, _ = await on_a_server(desk, rounds=6, out=desk / "whole")
    budget = whole.state.usage.tokens // 2
    found, _ = await on_a_server(desk, rounds=6, budget=budget)
    assert f"of {budget:,} tokens" in found.stopped
    assert 0 < len(found.state.candidates) < len(whole.state.candidates)
    assert found.state.usage.tokens >= budget
    assert whole_yaml(whole)[: len(found.state.candidates)] == whole_yaml(found)
    stopped, requests = await on_a_server(desk, rounds=6, budget=budget)
    assert requests == []
    assert stopped.state.usage == found.state.usage
    more, _ = await on_a_server(desk, rounds=6)
    assert whole_yaml(more) == whole_yaml(whole)
    assert more.state.usage.tokens >= whole.state.usage.tokens


async def test_every_call_is_counted_those_of_proposals_and_judges_included(desk):
    (desk / "tasks.jsonl").write_text(
        '{"id": "a", "job": "x", "verify": {"judge": "Is it kind?"}}\n'
        '{"id": "b", "job": "y", "verify": {"contains": "units"}}\n'
    )

    def script(request):
        if request["messages"][0]["content"].startswith("Judge"):
            assert "Is it kind?" in request["messages"][0]["content"]
            return Say('{"evaluation": "so so", "status": "SUCCESS", "lesson": "", "blame": [], "score": 4}')
        return played(request)

    found, requests = await on_a_server(desk, script, rounds=2)
    assert found.state.usage.calls == len(requests)
    assert found.baseline.results["a"].score == pytest.approx(0.4)
    assert found.baseline.results["a"].reason == "so so"


async def test_a_budget_that_does_not_suffice_for_the_expert_as_it_is_is_bad_input(desk):
    (desk / "tasks.jsonl").write_text(tasks_of(9))
    with pytest.raises(OperadError, match="before the expert as it is was scored; allow more by --budget"):
        await on_a_server(desk, budget=1)


@pytest.mark.parametrize("options", [{"rounds": -1}, {"at_once": -1}, {"sample": 0}, {"budget": 1.5}])
async def test_numbers_that_are_none_are_refused(desk, options):
    with pytest.raises(InvalidError):
        await searched(desk, **options)


# The command


@pytest.fixture
def operad(operad, desk, monkeypatch):
    monkeypatch.chdir(desk)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPERAD_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return operad


def test_the_command_searches_tells_and_sums_up(operad, desk):
    with ScriptedModel(played) as endpoint:
        options = ["--model", "m", "--base-url", endpoint.base_url, "--rounds", 3, "--tasks", "tasks.jsonl"]
        status, out, err = operad("optimise", "clerk.yaml", *options)
        assert status == 0
        assert "candidate 1 is better: 0.200, and the expert as it is 0.000" in out
        assert "3 rounds are done; " in out
        assert "the expert as it is: 0.000, " in err
        assert "step 1, from 0: set_instruction answer: 0.200 (+0.200), " in err
        asked = len(endpoint.requests)
        status, out, err = operad("optimise", "clerk.yaml", *options, "--json")
        assert (status, err, len(endpoint.requests)) == (0, "", asked)
    told = json.loads(out)
    assert told["summary"]["best"] == 1
    assert told["summary"]["usage"]["calls"] == asked
    assert told["items"][0]["number"] == 1


def test_another_model_proposes(operad):
    with ScriptedModel(played) as acting, ScriptedModel(played) as proposing:
        options = ["--base-url", acting.base_url, "--model", "small", "--rounds", 1, "--tasks", "tasks.jsonl"]
        status, out, _ = operad(
            "optimise", "clerk.yaml", *options, "--proposer-model", "big", "--proposer-base-url", proposing.base_url
        )
    assert status == 0
    assert [request["model"] for request in proposing.requests] == ["big"]
    assert {request["model"] for request in acting.requests} == {"small"}
    assert "is better" in out


def test_nothing_better_is_said_plainly(operad):
    def script(request):
        system = request["messages"][0]["content"]
        return Say(proposal(reword("Ramble."))) if system.startswith("You improve") else Say("nothing")

    with ScriptedModel(script) as endpoint:
        status, out, _ = operad(
            "optimise", "clerk.yaml", "--base-url", endpoint.base_url, "--rounds", 1, "--tasks", "tasks.jsonl"
        )
    assert (status, "nothing better than the expert as it is was found: 0.000" in out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["clerk.yaml", "--tasks", "none.jsonl"], "none.jsonl: no such file"),
        (["none.yaml", "--tasks", "tasks.jsonl"], "none.yaml: no such file"),
        (["clerk.yaml", "--tasks", "tasks.jsonl"], "operad: no model is configured: "),
        (["clerk.yaml", "--tasks", "tasks.jsonl", "--model", "embedded"], "the embedded model cannot propose changes"),
        (["clerk.yaml", "--tasks", "tasks.jsonl", "--expert", "Clark"], "did you mean 'Clerk'"),
        (["clerk.yaml", "--tasks", "tasks.jsonl", "--rounds", "-1"], "rounds"),
    ],
)
def test_bad_input_exits_2(operad, arguments, message):
    status, _, err = operad("optimise", *arguments)
    assert (status, message in err) == (2, True), err


def test_an_endpoint_that_fails_exits_2_and_says_what_is_kept(operad):
    def script(request):
        if request["messages"][0]["content"].startswith("You improve"):
            return Fail(401, "no")
        return Say("nothing")

    with ScriptedModel(script) as endpoint:
        status, _, err = operad("optimise", "clerk.yaml", "--base-url", endpoint.base_url, "--tasks", "tasks.jsonl")
    assert status == 2
    assert "1 step is done and kept in clerk.optimised; the same command continues from there" in err


def broken_off(forked, desk, number, hangs_at):
    """The command's exit status and stderr after a signal while the proposer is asked for the nth time."""
    asked, times = threading.Event(), 0

    def script(request):
        nonlocal times
        if request["messages"][0]["content"].startswith("You improve"):
            times += 1
            if times == hangs_at:
                asked.set()
                return Hang()
        return played(request)

    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "OPERAD_"))}
    with ScriptedModel(script) as endpoint:
        options = ["--base-url", endpoint.base_url, "--model", "scripted", "--tasks", "tasks.jsonl"]
        started = forked.begin(
            [sys.executable, "-c", "from operad.cli.main import main; main()", "optimise", "clerk.yaml", *options],
            cwd=desk, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert asked.wait(120)
        started.send_signal(number)
        _, err = started.communicate(timeout=120)
    return started.returncode, err


def test_ctrl_c_keeps_everything_and_exits_130(desk, forked):
    status, err = broken_off(forked, desk, signal.SIGINT, 1)
    assert status == 130, err
    assert "Traceback" not in err
    assert "1 step is done and kept in clerk.optimised" in err
    assert len(lines_of(desk)) == 2
    assert (desk / "clerk.optimised" / "best.yaml").read_text() == EXPERT


@pytest.mark.slow
async def test_a_process_that_is_killed_loses_the_step_it_was_at_and_no_more(desk, forked):
    status, _ = broken_off(forked, desk, signal.SIGKILL, 3)
    assert status == -signal.SIGKILL
    done = lines_of(desk)[1:]
    assert done
    whole, _ = await on_a_server(desk, rounds=4, out=desk / "whole")
    parts, _ = await on_a_server(desk, rounds=4)
    assert whole_yaml(parts) == whole_yaml(whole)
    assert lines_of(desk)[1 : 1 + len(done)] == done


async def test_an_expert_whose_evaluator_is_a_function_is_made_better(desk):
    beside = f"checks_{desk.name}"  # a module of a process has its name for good
    (desk / f"{beside}.py").write_text("def right(result: str) -> bool:\n    return True\n")
    evaluator = f"    evaluator: {{function: {beside}.right}}\n"
    (desk / "clerk.yaml").write_text(EXPERT + evaluator)
    told = []
    await searched(desk, rounds=1, tell=told.append)
    assert any(f"{beside}.right" in line and "copy it there to run it" in line for line in told)


@pytest.mark.parametrize("needs", ["class: BESIDE.Reads", "cache: {path: kept.db}", ""])
async def test_a_best_that_needs_what_lies_beside_the_expert_says_so(desk, needs):
    beside = f"beside_{desk.name}"  # a module of a process has its name for good
    needs = needs.replace("BESIDE", beside)
    (desk / f"{beside}.py").write_text("from operad.operators import Operator as Reads")
    (desk / "clerk.yaml").write_text(EXPERT.replace("{instruction: Read.}", f"{{instruction: Read., {needs}}}"))
    told = []
    await searched(desk, rounds=1, tell=told.append)
    assert any("copy it there to run it" in line for line in told) is bool(needs)
