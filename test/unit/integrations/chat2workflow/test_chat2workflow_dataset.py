"""The files of Chat2Workflow: its dataset, and runs in all their forms; what is wrong with them, all at once."""

import json

import pytest

from operad.integrations.chat2workflow.dataset import subtask_of
from operad.integrations.chat2workflow.scores import CaseFile, Dataset, Response, Subtask, read_dataset, read_run
from operad.runtime.values.errors import InputError, InvalidError

QUERIES = [{"id": 1, "category": "AIGC", "task": "Greeting", "query1": "Greet (variable name).", "query2": "Twice."}]
KEY = {
    "input_var": ["name", "files"],
    "output_var": ["text"],
    "related_nodes": ["llm"],
    "test1": {"name": "Ada", "files": [{"mime_type": "image/png", "value": "a.png"}], "ground_truth": "Hello, Ada"},
    "test2": {"name": 3, "files": []},
}
KEYS = {"Greeting_1": KEY, "Greeting_2": {**KEY, "output_var": [["text"], ["text", "pdf"]]}}
RECORD = {"task": "Greeting", "round": 1, "node_selection": "Start", "design_principle": "", "workflow": "{}"}


@pytest.fixture
def folder(tmp_path):
    def write(queries=QUERIES, keys=KEYS, files=None):
        (tmp_path / "query.json").write_text(json.dumps(queries))
        (tmp_path / "check_pass_stage.json").write_text(json.dumps(keys))
        (tmp_path / "check_resolve_stage.json").write_text(json.dumps(files or {"Greeting_2": {"pdf": ".pdf"}}))
        return tmp_path

    return write


@pytest.fixture
def dataset(folder):
    return read_dataset(folder())


def issues_of(read, *arguments):
    with pytest.raises(InvalidError) as caught:
        read(*arguments)
    return [str(issue) for issue in caught.value.issues]


def test_a_subtask_has_the_instructions_so_far_and_its_key(dataset):
    second = dataset.subtask("Greeting", 2)
    assert second.instructions == ("Greet (variable name).", "Twice.")
    assert second.outputs == (("text",), ("text", "pdf"))
    assert second.output_names == ("text", "pdf")
    assert second.files == {"pdf": ".pdf"}
    first = dataset.subtask("Greeting", 1)
    assert first.outputs == (("text",),)
    assert first.cases[0].inputs == {"name": "Ada", "files": (CaseFile("a.png", "image/png"),)}
    assert [case.reference for case in first.cases] == ["Hello, Ada", None]
    with pytest.raises(InputError, match="did you mean 'Greeting'"):
        dataset.subtask("Greting", 1)
    with pytest.raises(InputError, match="rounds 1 to 2, and no 3"):
        dataset.subtask("Greeting", 3)


def test_all_faults_of_a_dataset_are_told_at_once(folder):
    keys = {
        "Greeting_1": {**KEY, "input_var": "name", "test1": {"name": None}},
        "Greting_2": {**KEY, "output_var": []},
        "Other_1": [],
    }
    found = "\n".join(issues_of(read_dataset, folder([*QUERIES, 3], keys, {"Greeting_1": {"pdf": "pdf"}})))
    for said in (
        "query.json[1]: must be an object",
        "has no key 'Greeting_2' (did you mean 'Greting_2'?)",
        "Greeting_1: input_var: must be a list of texts",
        "Greeting_1.test1.name: must be a text, a number, or files",
        "Greeting_1: 'pdf' is not an output",
        "pdf: must be an extension such as .pdf",
        "'Greting_2' has no instruction",
        "Other_1: must be an object",
    ):
        assert said in found


@pytest.mark.parametrize("value", [True, False, [1, True]])
def test_a_boolean_is_no_number_of_a_test_case(folder, value):
    keys = {**KEYS, "Greeting_1": {**KEY, "test2": {"name": value, "files": []}}}
    said = "must be a text, a number, or files with mime_type and value"
    assert issues_of(read_dataset, folder(keys=keys)) == [
        f"[format] check_pass_stage.json: Greeting_1.test2.name: {said}"
    ]


def test_a_boolean_is_no_number_of_a_round(folder):
    said = {"dataset": str(folder()), "task": "Greeting", "round": 1}
    assert subtask_of(said).key == "Greeting_1"
    with pytest.raises(InputError, match="names no round of a task"):
        subtask_of({**said, "round": True})


@pytest.mark.parametrize("queries", [[], {}, [{"task": "A", "category": "B"}], [{**QUERIES[0], "query4": "x"}]])
def test_queries_that_are_none_are_refused(folder, queries):
    assert issues_of(read_dataset, folder(queries))


def test_a_folder_without_the_files_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"query\.json: cannot be read: No such file"):
        read_dataset(tmp_path)


def test_a_run_is_records_lines_or_a_folder(dataset, tmp_path):
    response = (
        "```\n<node_selection>Start</node_selection>\n<design_principle></design_principle><workflow>{}</workflow>\n```"
    )
    (tmp_path / "list.json").write_text(json.dumps([RECORD]))
    (tmp_path / "lines.jsonl").write_text(json.dumps({"task": "Greeting", "round": 1, "response": response}) + "\n\n")
    (tmp_path / "some model").mkdir()
    (tmp_path / "some model" / "Greeting_1.txt").write_text(response)
    for name in ("list.json", "lines.jsonl", "some model"):
        run = read_run(tmp_path / name, dataset)
        assert [record.response for record in run.records] == [Response("Start", "", "{}")]
    assert (run.model, run.label) == ("some model", f"{tmp_path.name}/some model")


def test_what_was_recorded_is_read(dataset, tmp_path):
    recorded = {"valid": True, "reason": "fine", "test1": False, "llm_output_test1": "said", "test2": None}
    failed = {"task": "Greeting", "round": 2, "valid": False, "fail_step": "step_1_1"}
    nothing = dict.fromkeys(("node_selection", "design_principle", "workflow"))
    (tmp_path / "run.json").write_text(json.dumps([{**RECORD, **recorded}, {**failed, **nothing}]))
    first, second = read_run(tmp_path / "run.json", dataset).records
    assert (first.valid, first.fail_step, first.reason) == (True, None, "fine")
    assert (first.cases["test1"].passed, first.cases["test1"].output, first.cases["test2"].passed) == (
        False,
        "said",
        None,
    )
    assert (second.fail_step, second.response) == ("1_1", Response(None, None, None))


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "[empty]"),
        ({"a": 1}, "task: must be a text"),
        (3, "must be a list of records"),
        (["x"], "[0]: must be an object"),
        ([{**RECORD, "workflow": {"nodes_info": []}}], "workflow: must be a text or null"),
        ([{"task": "Greeting", "round": 1, "workflow": "{}"}], "has no node_selection"),
        ([{**RECORD, "round": True}], "round: must be a whole number"),
        ([{**RECORD, "round": 7}], "the rounds 1 to 2, and no 7"),
        ([{**RECORD, "task": "Greetings"}], "no task 'Greetings' (did you mean 'Greeting'?)"),
        ([RECORD, RECORD], "[1]: Greeting 1 was there before"),
        ([{**RECORD, "fail_step": "step_9"}], "fail_step: must be step_1_1 to step_1_4"),
        ([{**RECORD, "response": 3}], "response: must be a text"),
    ],
)
def test_what_is_no_run_is_refused(dataset, tmp_path, records, said):
    (tmp_path / "run.json").write_text(json.dumps(records))
    found = "\n".join(issues_of(read_run, tmp_path / "run.json", dataset))
    assert said in found


def test_files_that_are_no_json_and_folders_without_responses_are_refused(dataset, tmp_path):
    (tmp_path / "run.json").write_bytes(b"\xff\xfe[")
    assert "is not UTF-8" in issues_of(read_run, tmp_path / "run.json", dataset)[0]
    (tmp_path / "run.json").write_text("[{")
    assert "is not JSON" in issues_of(read_run, tmp_path / "run.json", dataset)[0]
    (tmp_path / "run.jsonl").write_text('{"task": 1}\n{"task\n{"round": 1}')
    found = issues_of(read_run, tmp_path / "run.jsonl", dataset)
    assert [any(f"run.jsonl:{number}: " in said for said in found) for number in (1, 2, 3)] == [True, True, True]
    (tmp_path / "notes.txt").write_text("x")
    assert "must be called Task_round.txt" in issues_of(read_run, tmp_path, dataset)[0]
    (tmp_path / "empty").mkdir()
    assert "[empty]" in issues_of(read_run, tmp_path / "empty", dataset)[0]
    with pytest.raises(InputError, match="No such file"):
        read_run(tmp_path / "no.json", dataset)


def test_the_benchmarks_own_files_can_be_read(shared_data):
    folder = shared_data / "chat2workflow"
    data = read_dataset(folder / "dataset")
    assert isinstance(data, Dataset)
    assert (len(data.subtasks), sum(len(each.cases) for each in data.subtasks.values())) == (79, 237)
    assert isinstance(data.subtask("Mermaid", 2), Subtask)
    assert data.subtask("Mermaid", 2).outputs == (
        ("mermaid_code", "mermaid_pic"),
        ("mermaid_code", "mermaid_pic", "summary"),
    )
    assert {len(read_run(path, data).records) for path in folder.glob("[am]*/*.json")} == {79}
