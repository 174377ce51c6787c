"""`operad run` on workflow files."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from small_flows import echo

from operad.configs.flow import result_text
from operad.configs.services import services_of_environment
from operad.runtime.testing import Say, ScriptedModel
from operad.runtime.values.file import FileDescriptor

START = {"id": "1", "type": "start", "param": {"variables": [["paper", "file"], ["tone", "string"]]}}
FLOW = {
    "nodes_info": [
        START,
        {"id": "2", "type": "document-extractor", "param": {"variable_selector": ["paper", "1"]}},
        {"id": "3", "type": "llm", "param": {"system": "You sum up.", "user": "In a {{#1.tone#}} tone: {{#'2'.text#}}"}},
        {"id": "4", "type": "markdown-exporter", "param": {"target_type": "md", "md_text": "# Summary\n{{#3.text#}}"}},
        {"id": "5", "type": "end", "param": {"outputs": [["summary", ["text", "3"]], ["files", ["files", "4"]]]}},
    ],
    "edges": [["1", 0, "2"], ["2", 0, "3"], ["3", 0, "4"], ["4", 0, "5"]],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with `notes.txt` and `flow.json`, and an environment that names nothing."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "OPERAD_", "SERPAPI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "notes.txt").write_text("The world is round.")
    (tmp_path / "flow.json").write_text(json.dumps(FLOW))
    return tmp_path


@pytest.fixture
def operad(operad, folder):
    """Runs the command: exit status, stdout, stderr."""
    return operad


@pytest.fixture
def run(operad, folder):
    """Runs a workflow file with this content."""

    def run(flow, *arguments):
        (folder / "given.json").write_text(flow if isinstance(flow, str) else json.dumps(flow))
        return operad("run", "given.json", *arguments)

    return run


def test_a_workflow_runs_on_its_inputs_and_prints_its_outputs(operad, folder):
    with ScriptedModel([Say("It is round.")]) as endpoint:
        status, out, err = operad(
            "run", "flow.json", "--file", "notes.txt", "--input", "tone=dry", "--output", "made",
            "--base-url", endpoint.base_url, "--events", "run.jsonl",
        )  # fmt: skip
    made = folder / "made" / "markdown-exporter-4.md"
    assert (status, out) == (0, f"summary: It is round.\nfiles: {made}\n")
    assert made.read_text() == "# Summary\nIt is round."
    assert "files: " not in err
    assert "In a dry tone: The world is round." in json.dumps(endpoint.requests[0])
    events = [json.loads(line) for line in Path("run.jsonl").read_text(encoding="utf-8").splitlines()]
    assert (events[0]["event"], events[-1]["event"]) == ("RunStarted", "RunFinished")


def test_a_file_is_an_input_like_others_and_json_is_the_whole_message(operad, folder):
    with ScriptedModel([Say("It is round.")]) as endpoint:
        status, out, err = operad(
            "run", "flow.json", "--input", "paper=notes.txt", "--input", "tone=", "--base-url", endpoint.base_url,
            "--model", "some-model", "--json",
        )  # fmt: skip
    message = json.loads(out)
    assert (status, message["status"], message["outputs"]["summary"]) == (0, "SUCCESS", "It is round.")
    made = Path(message["outputs"]["files"][0]["path"])
    assert made.read_text().endswith("It is round.")
    assert f"files: {made.parent}\n" in err, "a fresh folder is named"
    assert endpoint.requests[0]["model"] == "some-model"


def test_a_whole_response_is_a_workflow_whatever_the_files_name(operad, folder):
    response = "<node_selection>start, end</node_selection>\n<workflow>\n" + json.dumps(echo(["a", "string"]))
    (folder / "answer.txt").write_text(response + "\n</workflow>")
    assert operad("run", "answer.txt", "--input", "a=x")[:2] == (0, "x\n")


def test_a_configuration_stays_one_in_json_and_where_it_speaks_of_workflows(operad, folder):
    configuration = {
        "operators": [{"name": "greet", "instruction": "Greet within <workflow> tags."}],
        "experts": [{"profile": {"name": "Greeter"}, "workflow": [["greet"]]}],
    }
    (folder / "expert.json").write_text(json.dumps(configuration))
    (folder / "expert.yaml").write_text(
        "operators: [{name: greet, instruction: Greet in <workflow> tags.}]\n"
        "experts: [{profile: {name: Greeter}, workflow: [[greet]]}]\n"
    )
    for name in ("expert.json", "expert.yaml"):
        with ScriptedModel([Say("Hello!")]) as endpoint:
            assert operad("run", name, "--job", "Go.", "--base-url", endpoint.base_url)[:2] == (0, "Hello!\n")


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ('{"name": "x", "version": 2}', ["is JSON, but no workflow", "it has: name, version"]),
        ("[]", ["is JSON, but no workflow", "it is a list"]),
        (
            '{"nodes_info": [\n  {"id": "1",}], "edges": []}',
            ["given.json cannot be read: 1 issue", "given.json:2: is not JSON"],
        ),
        ('{"nodes": [], "edges": []}', ["is JSON, but no workflow", "it has: nodes, edges"]),
        ("<workflow>{</workflow>", ["is not JSON"]),
        ('{"nodes_info": ' + "[" * 50_000, ["is not JSON"]),
    ],
)
def test_json_that_is_no_workflow_exits_2_and_says_why(run, text, messages):
    status, out, err = run(text)
    assert (status, out) == (2, "")
    assert all(message in err for message in messages), err


def test_a_workflow_that_asks_a_model_needs_one_before_anything_runs(operad):
    status, out, err = operad("run", "flow.json", "--input", "tone=x", "--file", "notes.txt")
    assert (status, out) == (2, "")
    assert err.startswith("operad: no model is configured: set OPENAI_API_KEY")
    assert err.count("\n") == 1


def test_all_that_is_wrong_with_a_workflow_is_said_at_once_and_nothing_runs(run):
    wrong = json.loads(json.dumps(FLOW))
    wrong["nodes_info"][2]["param"]["user"] = "{{#2.txt#}}"
    wrong["nodes_info"][3]["param"]["target_type"] = "doc"
    wrong["edges"].append(["4", 0, "7"])
    status, out, err = run(wrong)
    assert (status, out) == (2, "")
    assert "given.json cannot be run: 3 issues" in err
    assert "given.json:1: 4 → 7: there is no node '7' [dangling-edge]\n" in err
    assert "given.json:1: 4: target_type" in err
    assert "has no variable 'txt' (did you mean 'text'?)" in err


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        ([], ["2 inputs are missing: 'paper' (file), 'tone' (string); write --input paper=PATH --input tone=STRING"]),
        (["--file", "notes.txt"], ["1 input is missing: 'tone' (string)"]),
        (["--input", "tne=x"], ["there is no input 'tne' (did you mean 'tone'?)", "'paper' (file), 'tone' (string)"]),
        (["--input", "tone=x", "--input", "tone=y", "--file", "notes.txt"], ["input 'tone' is given twice"]),
        (["--input", "tone=x", "--input", "paper=note.txt"], ["'paper': note.txt: no such file (did you mean 'notes.txt'?)"]),
        (["--input", "tone=x", "--file", "notes.txt", "--file", "notes.txt"], ["no input takes the file notes.txt"]),
        (["--input", "tone=x", "--file", "notes.txt", "--expert", "X"], ["flow.json is a workflow, and has no experts; leave the expert 'X' out"]),
        (["--input", "tone=x", "--file", "notes.txt", "--output", "notes.txt"], ["--output notes.txt: is not a folder"]),
        (["--input", "tone=x", "--file", "notes.txt", "--services", "no.yaml"], ["no.yaml: no such file"]),
        (["--input", "tone"], ["write NAME=VALUE"]),
    ],
)  # fmt: skip
def test_wrong_and_missing_inputs_exit_2_and_say_what_to_write(operad, arguments, messages, monkeypatch):
    monkeypatch.setenv("OPERAD_MODEL", "embedded")
    status, out, err = operad("run", "flow.json", *arguments)
    assert (status, out) == (2, "")
    assert all(message in err for message in messages), err


@pytest.mark.parametrize(
    ("kind", "values", "out"),
    [
        ("string", ["5"], "5"),
        ("string", [""], ""),
        ("number", ["2.5"], "2.5"),
        ("number", [""], ""),
        ("boolean", ["Yes"], "true"),
        ("array[string]", ['["a", "b"]'], '["a", "b"]'),
        ("file", ["notes.txt"], "{folder}/notes.txt"),
        ("array[file]", ["notes.txt", "flow.json"], "{folder}/notes.txt\n{folder}/flow.json"),
    ],
)
def test_inputs_are_read_as_the_type_asks(run, folder, kind, values, out):
    arguments = [argument for value in values for argument in ("--input", f"it={value}")]
    status, said, err = run(echo(["it", kind]), *arguments)
    assert (status, said) == (0, out.format(folder=folder) + "\n"), err


@pytest.mark.parametrize(("kind", "value"), [("number", "two"), ("boolean", "perhaps"), ("array[number]", '["a"]')])
def test_an_input_of_another_type_exits_2(run, kind, value):
    status, out, err = run(echo(["it", kind]), "--input", f"it={value}")
    assert (status, out) == (2, "")
    assert f"expected {kind}, got " in err


def test_files_without_a_name_go_to_the_inputs_of_files_in_order(run, folder):
    flow = echo(["first", "file"], ["text", "string"], ["others", "array[file]"])
    (folder / "b.txt").write_text("b")
    status, out, _ = run(flow, "--file", "b.txt", "--file", "notes.txt", "--file", "flow.json", "--input", "text=x")
    assert status == 0
    assert out == f"first: {folder}/b.txt\n\ntext: x\n\nothers:\n{folder}/notes.txt\n{folder}/flow.json\n"


def test_one_result_is_its_text_and_several_stand_under_their_names(tmp_path):
    (tmp_path / "a").write_text("")
    file = FileDescriptor.of(tmp_path / "a")
    assert result_text({"text": "a\nb"}) == "a\nb"
    assert result_text({"n": 2.0, "list": [1, True], "none": None}) == "n: 2\nlist: [1, true]\nnone: "
    assert result_text({"text": "a\nb", "file": file}) == f"text:\na\nb\n\nfile: {file.path}"
    assert result_text({}) == ""


def test_options_for_workflows_are_refused_for_a_configuration(operad):
    status, _, err = operad("run", "designer", "--output", "made")
    assert status == 2
    assert "--output: designer configures experts; write `services: {folder: made}` in it instead" in err


# Services


SEARCH = {
    "nodes_info": [
        {"id": "1", "type": "start", "param": {"variables": [["topic", "string"]]}},
        {"id": "2", "type": "google-search", "param": {"query": "{{#1.topic#}}"}},
        {"id": "3", "type": "text2image", "param": {"prompt": "{{#1.topic#}}"}},
        {"id": "4", "type": "end", "param": {"outputs": [["found", ["json", "2"]], ["files", ["files", "3"]]]}},
    ],
    "edges": [["1", 0, "2"], ["2", 0, "3"], ["3", 0, "4"]],
}


def test_without_services_the_error_says_what_to_set(run, monkeypatch):
    status, _, err = run(SEARCH, "--input", "topic=x")
    assert status == 2
    assert "no search provider is set; for operad run, set SERPAPI_API_KEY" in err


def test_services_come_from_the_environment():
    assert services_of_environment({}).search is None
    services = services_of_environment(
        {
            "SERPAPI_API_KEY": "key",
            "OPERAD_IMAGE_MODEL": "draws",
            "OPERAD_SPEECH_MODEL": "speaks",
            "OPENAI_API_KEY": "sk-key",
            "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        }
    )
    assert services.search
    assert services.images
    assert services.images.describe() == "draws at http://127.0.0.1:9/v1"
    assert services.speech
    assert services.speech.describe() == "speaks at http://127.0.0.1:9/v1"
    assert "sk-key" not in repr(services)


INNER = {
    "nodes_info": [
        {"id": "1", "type": "start", "param": {"variables": [["a", "string"]]}},
        {"id": "2", "type": "markdown-exporter", "param": {"target_type": "md", "md_text": "{{#1.a#}}"}},
        {"id": "3", "type": "end", "param": {"outputs": [["files", ["files", "2"]]]}},
    ],
    "edges": [["1", 0, "2"], ["2", 0, "3"]],
}
OUTER = {
    "nodes_info": [
        {"id": "1", "type": "start", "param": {"variables": [["topic", "string"]]}},
        {
            "id": "2",
            "type": "sub-workflow",
            "param": {"workflow": "export", "inputs": [["a", ["topic", "1"]]], "outputs": [["files", "array[file]"]]},
        },
        {"id": "3", "type": "end", "param": {"outputs": [["files", ["files", "2"]]]}},
    ],
    "edges": [["1", 0, "2"], ["2", 0, "3"]],
}


@pytest.mark.parametrize(("arguments", "made"), [([], "made"), (["--output", "elsewhere"], "elsewhere")])
def test_a_file_of_services_names_workflows_and_a_folder_for_them_too(run, folder, arguments, made):
    (folder / "inner.json").write_text(json.dumps(INNER))
    (folder / "services.yaml").write_text("folder: made\nworkflows: {export: inner.json}\n")
    status, out, err = run(OUTER, "--input", "topic=round", "--services", "services.yaml", *arguments)
    assert (status, out) == (0, f"{folder}/{made}/markdown-exporter-2.md\n"), err
    assert (folder / made / "markdown-exporter-2.md").read_text() == "round"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("serch: {}", ["services.yaml:1: serch: unknown key (did you mean 'search'?)"]),
        ("search: {type: serpapi}", ["search.api_key_env: the environment variable SERPAPI_API_KEY is not set"]),
        ("images: {size: 1x1}", ["services.yaml:1: images.name: this key is missing"]),
        ("speech: {name: x, format: mp4}", ["services.yaml:1: speech.format"]),
        ("workflows: {a: no.json}", ["services.yaml:1: workflows.a", "no such file"]),
        ("workflows: {a: loops.json}", ["loops.json: 2: no workflow is called 'a'; there are: none; it may run those before it"]),
        ("workflows: {a: wrong.json}", ["wrong.json: 2: no edge leads to it", "wrong.json: there is no node of type 'end'"]),
    ],
)  # fmt: skip
def test_a_services_file_that_cannot_be_used_says_where(operad, folder, text, messages):
    (folder / "loops.json").write_text(
        json.dumps(echo()).replace('"end", "param": {"outputs": []}', '"sub-workflow", "param": {"workflow": "a"}')
    )
    (folder / "wrong.json").write_text(
        '{"nodes_info": [{"id": "1", "type": "start", "param": {"variables": []}}, '
        '{"id": "2", "type": "loop-end"}], "edges": []}'
    )
    (folder / "services.yaml").write_text(text)
    status, out, err = operad(
        "run", "flow.json", "--services", "services.yaml", "--file", "notes.txt", "--input", "tone="
    )
    assert (status, out) == (2, "")
    assert all(message in err for message in messages), err


# At a terminal


def test_at_a_terminal_missing_inputs_are_asked_for_until_they_fit(folder, at_a_terminal):
    flow = echo(["count", "number"], ["paper", "file"], ["tone", "string"], ["more", "array[file]"])
    typed = [b"two\n", b"2\n", b"note.txt\n", b"notes.txt\n", b"\n", b"notes.txt\n", b"flow.json\n", b"\n"]
    (folder / "given.json").write_text(json.dumps(flow))
    status, out, seen = at_a_terminal(["run", "given.json"], *typed)
    assert status == 0, seen
    assert out == f"count: 2\n\npaper: {folder}/notes.txt\n\ntone: \n\nmore:\n{folder}/notes.txt\n{folder}/flow.json\n"
    assert "count (number; an empty line for none)" in seen
    assert 'expected number, got "two"; try again' in seen
    assert "no such file (did you mean 'notes.txt'?); try again" in seen
    assert "more (array[file]; a path a line, then an empty line)" in seen


@pytest.mark.parametrize(
    ("turn", "status", "end"),
    [(signal.SIGINT, 130, "operad: interrupted"), (b"\x04", 2, "operad: 1 input is missing: 'count' (number)")],
)
def test_at_a_prompt_ctrl_c_and_the_end_of_input_end_it(folder, turn, status, end, at_a_terminal):
    (folder / "given.json").write_text(json.dumps(echo(["count", "number"])))
    found, out, seen = at_a_terminal(["run", "given.json"], turn)
    assert (found, out) == (status, "")
    assert end in seen.splitlines()[-1]


def test_the_command_and_its_types_are_light_to_import():
    code = (
        "import sys\nimport operad.cli.main, operad.operators\n"
        "heavy = {'dbgpt', 'openai', 'networkx', 'jsonschema', 'mcp', 'pydantic_monty', 'jinja2', 'httpx', 'pandas', "
        "'markitdown', 'PIL', 'numpy', 'sqlite3', 'xllamacpp'} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_job_that_no_input_takes_is_said_and_the_internal_operator_is_called_result(operad, folder):
    (folder / "echo.json").write_text(json.dumps(echo(["t", "string"])))
    status, out, err = operad("run", "echo.json", "--input", "t=3", "--job", "nonsense", "--json")
    assert (status, json.loads(out)["operator_id"]) == (0, "result")
    assert "--job: echo.json has no input sys.query, so no input takes the job; its inputs: --input t=…" in err
    assert "<outcome>" not in out + err
    assert "--job" not in operad("run", "echo.json", "--input", "t=3")[2]


def test_a_job_is_the_value_of_the_only_input_if_that_is_a_text_and_none_is_given(operad, folder):
    (folder / "echo.json").write_text(json.dumps(echo(["t", "string"])))
    status, out, err = operad("run", "echo.json", "--job", "hello")
    assert (status, out) == (0, "hello\n")
    assert "--job" not in err
    (folder / "two.json").write_text(json.dumps(echo(["t", "string"], ["n", "number"])))
    assert "2 inputs are missing" in operad("run", "two.json", "--job", "hello")[2]
    (folder / "defaults.operad.yaml").write_text(
        "workflow: echo\nnodes:\n  1: {type: start, variables: {n: number, t: string}, defaults: {n: 1}}\n"
        '  2: {type: answer, after: 1, answer: "{{#1.t#}} {{#1.n#}}"}\n'
    )
    assert operad("run", "defaults.operad.yaml", "--job", "hello")[:2] == (0, "hello 1\n")


def test_a_job_that_an_input_takes_needs_no_remark(operad, folder):
    (folder / "echo.operad.yaml").write_text(
        "workflow: echo\nnodes:\n  1: {type: start, variables: {sys.query: string}}\n"
        '  2: {type: answer, after: 1, answer: "{{#1.sys.query#}}"}\n'
    )
    status, out, err = operad("run", "echo.operad.yaml", "--job", "Hi.")
    assert (status, out) == (0, "Hi.\n")
    assert "--job" not in err


LISTS = """
nodes:
  - {id: "1", type: start, params: {variables: {names: "array[string]", size: object, age: number}}}
  - {id: "2", type: end, params: {outputs: {all: 1.names}}}
edges: [{from: "1", to: "2"}]
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], """write --input names='["a","b"]' --input size='{"key":"value"}' --input age=NUMBER, with nothing"""),
        (['names=["Ann"', "size={}", "age=1"], 'expected array[string], got "[\\"Ann\\"", which is not JSON\n'),
        (['names=["Ann", 3]', "size={}", "age=1"], "; its item [1] is of type number\n"),
        (["names=Ann", "size=x", "age=1"], "input 'size': expected object, got \"x\"\n"),
    ],
)
def test_inputs_in_json_are_shown_and_their_faults_are_named(operad, tmp_path, given, message):
    (tmp_path / "lists.yaml").write_text(LISTS)
    options = [option for each in given for option in ("--input", each)]
    status, _, err = operad("run", "lists.yaml", *options)
    assert (status, err.startswith("operad: lists.yaml: ")) == (2, True), err
    assert message in err
