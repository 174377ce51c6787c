"""A job split into parts: how an answer becomes a graph, and what is wrong with one."""

import pytest
from answer_forms import validate

from operad.runtime import Job, JobGraph, Profile, SubJob
from operad.runtime.agents.job_graph import MAX_SUB_JOBS
from operad.runtime.agents.leader import split_instruction, split_schema
from operad.runtime.values.json_schema import is_strict
from operad.runtime.values.schema import SchemaMismatch

JOB = Job(goal="g", id="J", session_id="s", inputs={"n": 1})
SUB = SubJob(goal="g", id="b", parent_id="J")


def part(name, *needs, expert="X", goal="do it"):
    own = {"id": name, "goal": goal, "context": "c", "completion_criteria": "k", "assigned_expert": expert}
    return {**own, "dependencies": list(needs)}


def graph(*parts, job=JOB):
    return JobGraph.of({"sub_jobs": list(parts)}, job)


def issues(*parts, job=JOB, experts=("X", "Writer")):
    return [(issue.code, issue.where, issue.message) for issue in graph(*parts, job=job).check(job, experts)]


def codes(*parts, **options):
    return [(code, where) for code, where, _ in issues(*parts, **options)]


def test_an_answer_becomes_sub_jobs():
    first, second = graph(part("a"), part("b", "a", "a")).sub_jobs
    assert first == SubJob(
        id="a", goal="do it", context="c", completion_criteria="k", dependencies=(), assigned_expert_name="X",
        parent_id="J", session_id="s", inputs={"n": 1},
    )  # fmt: skip
    assert second.dependencies == ("a",)


def test_the_parts_of_a_part_have_its_id_in_front():
    first, second = graph(part("1"), part("2", "1"), job=SUB).sub_jobs
    assert (first.id, second.id, second.dependencies, second.parent_id) == ("b.1", "b.2", ("b.1",), "J")


def test_tails_are_the_sub_jobs_that_no_other_depends_on_in_order():
    assert graph(part("d", "b", "c"), part("a"), part("b", "a"), part("c", "a"), part("e", "a")).tails == ("d", "e")
    assert graph(part("a")).tails == ("a",)


def test_a_job_alone_is_one_part_that_is_the_whole_job():
    job = Job(goal="g", context="c", id="J", session_id="s", assigned_expert_name="X", inputs={"n": 1})
    [only] = JobGraph.alone(job, "X").sub_jobs
    assert only.model_dump(exclude={"id", "parent_id", "dependencies", "completion_criteria"}) == job.model_dump(
        exclude={"id"}
    )
    assert (only.id, only.parent_id, only.dependencies) == ("job", "J", ())


def test_a_sub_job_alone_keeps_its_criteria_and_waits_for_nobody():
    sub = SubJob(goal="g", id="b", parent_id="J", completion_criteria="k", dependencies=("a",))
    [only] = JobGraph.alone(sub, "X").sub_jobs
    assert (only.completion_criteria, only.dependencies, only.parent_id) == ("k", (), "b")


def test_a_good_split_has_no_issues():
    assert issues(part("a"), part("b", "a", expert="Writer"), part("c", "a"), part("d", "b", "c")) == []
    assert issues(part("1"), part("2", "1"), job=SUB) == []


def test_parts_need_not_depend_on_earlier_results_which_all_of_them_get():
    parts = {"sub_jobs": [part("a", "facts"), part("b", "a", "facts", "typo")]}
    assert [each.dependencies for each in JobGraph.of(parts, SUB, ["facts"]).sub_jobs] == [(), ("b.a", "b.typo")]
    own = {"sub_jobs": [part("facts"), part("b", "facts")]}
    assert [each.dependencies for each in JobGraph.of(own, JOB, ["facts"]).sub_jobs] == [(), ("facts",)]


@pytest.mark.parametrize("name", ["a", "Ä 1", "facts_2", "a-b", "-", "日本", "x" * 64])
def test_ids_are_letters_digits_dashes_underscores_and_spaces_between(name):
    assert issues(part(name)) == []


@pytest.mark.parametrize(
    "name", ["", " ", "a ", " a", "a/b", "a.b", "J.a", "a[1]", "<end>", "a\n", "a\tb", "x" * 65, "x" * 10**5, "\u202ea"]
)
@pytest.mark.parametrize("job", [JOB, SUB])
def test_other_ids_are_refused(name, job):
    [(code, _, message)] = issues(part(name), job=job)
    assert code == "id"
    assert "at most 64 letters, digits, dashes and underscores, with spaces between them" in message


def test_everything_that_is_wrong_is_said_at_once():
    found = codes(part("a", expert="Y"), part("a", goal=" \n"), part("b", "z"), part("c", "d"), part("d", "c"))
    assert found == [
        ("unknown-expert", "a"), ("duplicate-id", "a"), ("no-goal", "a"), ("unknown-dependency", "b"), ("cycle", ""),
    ]  # fmt: skip


def test_near_names_are_suggested():
    [(_, _, expert), (_, _, dependency)] = issues(part("facts"), part("text", "fact", expert="Riter"))
    assert expert == "no expert is called 'Riter' (did you mean 'Writer'?); there are: X, Writer"
    assert dependency == "depends on 'fact', which is not a sub-job (did you mean 'facts'?)"


def test_issues_of_parts_of_a_part_speak_of_it_as_the_answer_does():
    found = issues(part("facts", "text"), part("text", "facts", "fact"), job=SUB)
    assert found == [
        ("unknown-dependency", "text", "depends on 'fact', which is not a sub-job (did you mean 'facts'?)"),
        ("cycle", "", "the sub-jobs wait for each other: facts → text → facts; remove one of these dependencies"),
    ]


def test_what_waits_for_itself_is_a_cycle():
    assert issues(part("a", "a")) == [
        ("cycle", "", "the sub-jobs wait for each other: a → a; remove one of these dependencies")
    ]


def test_no_part_and_too_many_are_all_that_is_said():
    assert codes() == [("empty", "")]
    assert codes(*(part(f"p{number}") for number in range(MAX_SUB_JOBS))) == []
    many = [part("same", "nobody", expert="Nobody")] * (MAX_SUB_JOBS + 1)
    assert issues(*many) == [("too-many", "", "65 sub-jobs are more than 64: split more coarsely")]


def test_the_schema_names_the_experts_and_is_strict():
    schema = split_schema(["X", "Y"])
    assert is_strict(schema)
    answer = {"sub_jobs": [part("a", expert="Z")]}
    with pytest.raises(SchemaMismatch, match="'Z' is not one of"):
        validate(schema, str(answer).replace("'", '"'))
    assert validate(split_schema(), str(answer).replace("'", '"')) == answer


@pytest.mark.parametrize("missing", ["id", "goal", "context", "completion_criteria", "dependencies", "assigned_expert"])
def test_a_part_says_everything(missing):
    one = part("a")
    del one[missing]
    with pytest.raises(SchemaMismatch, match=missing):
        validate(split_schema(), str({"sub_jobs": [one]}).replace("'", '"'))


def test_the_instruction_tells_of_each_expert():
    told = split_instruction([Profile(name="Writer", description="writes"), Profile(name="Mute")])
    assert told.endswith("- Writer: writes\n- Mute: no description")


def test_it_is_a_networkx_graph_of_its_parts():
    jobs = graph(part("a"), part("b", "a"))
    drawn = jobs.get_graph()
    assert list(drawn.edges) == [("a", "b")]
    assert [drawn.nodes[key]["job"] for key in drawn] == list(jobs.sub_jobs)
