"""Cases and data sets of evaluations."""

import json

import pytest

from operad import InputError, InvalidError, Job
from operad.evaluation import Case, Dataset
from operad.runtime.values.arguments import ArgumentError


def written(folder, text, name="cases.yaml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_case_has_a_job_from_a_text_from_inputs_or_as_it_is():
    job = Job("Sum up.", context="For a school.")
    assert Case("a", job="Sum up.").job.goal == "Sum up."
    assert Case("a", inputs={"n": (1, 2)}).job.inputs == {"n": [1, 2]}
    assert (Case("a", inputs="Sum up.").job.goal, Case("a", inputs="Sum up.").job.inputs) == ("Sum up.", {})
    assert Case("a", job="Sum up.", context="For a school.").job.context == "For a school."
    assert Case("a", job=job).job == job


def test_a_case_without_a_job_is_an_error_that_names_it():
    with pytest.raises(ArgumentError, match=r"Case\(…\): job: is missing"):
        Case("a", expected=3)


def test_answers_of_operators_are_texts_values_or_records_by_id():
    case = Case("a", job="x", steps={"f": "text", "g": {"message": [1, 2], "before": ["f"]}, "h": {"total": 3}})
    assert [(step.operator_id, step.before, step.message.value) for step in case.steps] == [
        ("f", (), "text"),
        ("g", ("f",), [1, 2]),
        ("h", (), {"total": 3}),
    ]


def test_a_case_is_read_back_from_what_it_writes(tmp_path):
    case = Case(
        "a", job="x", inputs={"n": 1}, expected={"sum": 3}, tags=["t"], steps={"f": {"message": [1]}}, accepted=False
    )
    path = written(tmp_path, json.dumps(case.as_dict()) + "\n", "cases.jsonl")
    [read] = Dataset.load(path)
    assert read.as_dict() == case.as_dict()
    assert read.steps == case.steps


@pytest.mark.parametrize("name", ["cases.yaml", "cases.jsonl"])
def test_yaml_and_json_lines_hold_the_same_cases(tmp_path, name):
    yaml = "cases:\n- {name: a, job: x, expected: no, tags: [t]}\n- {name: b, inputs: {n: 1}}\n"
    lines = '{"name": "a", "job": "x", "expected": "no", "tags": ["t"]}\n\n{"name": "b", "inputs": {"n": 1}}\n'
    dataset = Dataset.load(written(tmp_path, lines if name.endswith("jsonl") else yaml, name))
    assert [(case.name, case.job.goal, case.job.inputs, case.expected, case.tags) for case in dataset] == [
        ("a", "x", {}, "no", ("t",)),
        ("b", "", {"n": 1}, None, ()),
    ]


def test_all_issues_of_a_file_are_reported_with_their_lines(tmp_path):
    path = written(
        tmp_path,
        '{"name": "a", "job": "x"}\n{"name": "b", "jobb": "x"}\nnot json\n{"name": "a", "job": "y"}\n[]\n',
        "cases.jsonl",
    )
    with pytest.raises(InvalidError) as caught:
        Dataset.load(path)
    assert [(issue.code, issue.where.partition(":")[2].partition(" ")[0]) for issue in caught.value.issues] == [
        ("json", "3"),
        ("value", "2"),
        ("unknown-key", "2"),
        ("duplicate-name", "4"),
        ("value", "5"),
    ]


def test_only_the_first_twenty_issues_are_listed(tmp_path):
    path = written(tmp_path, "\n".join(["3"] * 30), "cases.jsonl")
    with pytest.raises(InvalidError, match="the first 20 of 30") as caught:
        Dataset.load(path)
    assert len(caught.value.issues) == 20


def test_files_of_cases_are_in_the_folder_of_the_file(tmp_path):
    written(tmp_path, "hello", "letter.txt")
    [case] = Dataset.load(written(tmp_path, "- {name: a, job: x, files: [letter.txt]}"))
    assert [file.name for file in case.job.files] == ["letter.txt"]
    for outside in ("files: [../secret.txt]", "job: {goal: x, files: [/etc/passwd]}"):
        with pytest.raises(InvalidError, match="outside of the folder"):
            Dataset.load(written(tmp_path, f"- {{name: a, {outside}}}"))


def test_two_cases_of_a_list_need_two_names():
    with pytest.raises(ArgumentError, match="several cases have the name 'a'"):
        Dataset.of([Case("a", job="x"), {"name": "a", "job": "y"}])


@pytest.mark.parametrize(("cases", "fault"), [([], "there are no cases"), (3, "expected a list of cases")])
def test_what_is_no_list_of_cases_is_an_error(cases, fault):
    with pytest.raises(InputError, match=fault):
        Dataset.of(cases)


def test_an_unknown_key_of_a_case_has_its_line_and_a_near_name(tmp_path):
    (tmp_path / "cases.yaml").write_text("- {name: a, job: Hi, expeced: Hi}\n", encoding="utf-8")
    with pytest.raises(InvalidError) as caught:
        Dataset.load(tmp_path / "cases.yaml")
    [issue] = caught.value.issues
    assert (issue.code, issue.where) == ("unknown-key", f"{tmp_path / 'cases.yaml'}:1 cases[0].expeced")
    assert "'expected'" in issue.message
