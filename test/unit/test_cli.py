import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from operad.configs import cli
from operad.runtime.testing import BreakOff, Fail, Hang, Say, ScriptedModel

EXPERT = """
app: {desc: Greet the world.}
operators:
  - &greet
    instruction: Greet.
experts:
  - profile: {name: Greeter}
    workflow: [[*greet]]
"""

SCHEMA = EXPERT.replace("instruction: Greet.", 'instruction: Greet.\n    output_schema: "{greeting: string}"')

JUDGED = """
operators:
  - &greet
    instruction: Greet.
  - &judge
    instruction: Is it friendly?
experts:
  - profile: {name: Greeter}
    workflow: [[*greet]]
    max_rounds: 1
    evaluator: *judge
"""

ODD = """
from operad.operators import Operator
from operad.runtime import WorkflowMessage

class Thing:
    def __str__(self):
        return "odd"

class Odd(Operator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return WorkflowMessage(scratchpad="\\ud800", outputs={"odd": Thing(), "bytes": b"\\xff", "half": "\\ud800"})
"""


@pytest.fixture
def operad(tmp_path, monkeypatch, capsys):
    """Runs the command in an empty folder: exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPERAD_MODEL"):
        monkeypatch.delenv(name, raising=False)

    def operad(*arguments):
        monkeypatch.setattr(sys, "argv", ["operad", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return exit_.value.code, captured.out, captured.err

    return operad


@pytest.fixture
def expert(tmp_path):
    file = tmp_path / "expert.yaml"
    file.write_text(EXPERT)
    return file


def test_the_result_goes_to_stdout_and_all_else_to_stderr(operad, expert):
    with ScriptedModel([Say("Hello, world!")]) as endpoint:
        status, out, err = operad("run", expert, "--base-url", endpoint.base_url)
    assert (status, out) == (0, "Hello, world!\n")
    assert "greet: running" in err
    assert "SUCCESS  1 round" in err


def test_json_prints_the_whole_message(operad, expert):
    with ScriptedModel([Say("Hello!")]) as endpoint:
        status, out, _ = operad("run", expert, "--base-url", endpoint.base_url, "--json")
    message = json.loads(out)
    assert (status, message["scratchpad"], message["status"]) == (0, "Hello!", "SUCCESS")
    assert message["usage"]["calls"] == 1


def test_job_files_and_inputs_reach_the_model(operad, expert, tmp_path):
    (tmp_path / "notes.txt").write_text("The world is round.")
    with ScriptedModel([Say("ok")]) as endpoint:
        operad(
            "run", expert, "--base-url", endpoint.base_url,
            "--job", "Greet Ada.", "--file", "notes.txt", "--input", "tone=warm",
        )  # fmt: skip
    prompt = json.dumps(endpoint.requests[0])
    assert all(text in prompt for text in ("Greet Ada.", "The world is round.", "tone", "warm"))


def test_events_are_written_as_json_lines_numbered_without_gaps(operad, expert):
    with ScriptedModel([Say("Hello!")]) as endpoint:
        operad("run", expert, "--base-url", endpoint.base_url, "--events", "run.jsonl")
    events = [json.loads(line) for line in Path("run.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["event"], events[-1]["event"]) == ("RunStarted", "RunFinished")
    assert events[-1]["message"]["scratchpad"] == "Hello!"


def test_what_json_and_encodings_have_no_form_for_is_still_printed_and_written(operad, expert, tmp_path):
    (tmp_path / "odd_operator.py").write_text(ODD)
    expert.write_text(EXPERT.replace("Greet.", "Greet.\n    class: odd_operator.Odd"))
    status, out, err = operad("run", expert, "--json", "--events", "run.jsonl", "--base-url", "http://127.0.0.1:9/v1")
    assert (status, json.loads(out)["outputs"]) == (0, {"odd": "odd", "bytes": "_w==", "half": "\ud800"}), err
    last = json.loads(Path("run.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert last["message"]["outputs"] == {"odd": "odd", "bytes": "_w==", "half": "\ud800"}


def test_a_verdict_other_than_success_exits_1_with_the_result_printed(operad, expert):
    expert.write_text(JUDGED)
    verdict = {"evaluation": "Curt.", "status": "EXECUTION_ERROR", "lesson": "Be kind.", "blame": ["greet"]}
    with ScriptedModel([Say("What?"), Say(json.dumps(verdict))]) as endpoint:
        status, out, err = operad("run", expert, "--base-url", endpoint.base_url)
    assert (status, out) == (1, "What?\n")
    assert "EXECUTION_ERROR" in err
    assert "lesson: Be kind." in err


def test_environment_variables_name_the_endpoint(operad, expert, monkeypatch):
    with ScriptedModel([Say("Hello!")], wants_key="sk-right") as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-right")
        monkeypatch.setenv("OPERAD_MODEL", "some-model")
        status, _, _ = operad("run", expert)
    assert status == 0
    assert endpoint.requests[0]["model"] == "some-model"


def test_a_model_in_the_file_counts_more_than_the_environment(operad, expert, monkeypatch):
    with ScriptedModel([Say("Hello!")]) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        monkeypatch.setenv("OPERAD_MODEL", "other")
        expert.write_text(EXPERT + f"model: {{name: ours, base_url: '{endpoint.base_url}'}}\n")
        assert operad("run", expert)[0] == 0
    assert endpoint.requests[0]["model"] == "ours"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n\tb: 1\n", "expert.yaml:2:1: a tab; YAML indents with spaces only"),
        (EXPERT.replace("instruction", "instrution"), "expert.yaml:5 operators[0].instrution: unknown key (did you mean 'instruction'?)"),
        (EXPERT.replace("[[*greet]]", "[[gret]]"), "experts[0].workflow[0][0]: no operator is called 'gret' (did you mean 'greet'?)"),
        (EXPERT.replace("[[*greet]]", "[[*greet, {name: b, instruction: B.}, *greet]]"), "each of these waits for the one before it"),
        (EXPERT + "tools: [{name: search, module_path: no_such_module}]\n", "no_such_module"),
        ("", "is empty"),
        (EXPERT.split("experts")[0], "configures no experts"),
    ],
)  # fmt: skip
def test_a_faulty_file_exits_2_and_says_where(operad, expert, text, message):
    expert.write_text(text)
    status, out, err = operad("run", expert)
    assert (status, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "missing.yaml"], "missing.yaml: no such file"),
        (["run", "exper.yaml"], "did you mean 'expert.yaml'?"),
        (["run", "expert.yaml", "--file", "missing.txt"], "missing.txt: no such file"),
        (["run", "expert.yaml", "--input", "novalue"], "write NAME=VALUE"),
        (["run", "expert.yaml", "--expert", "Greter"], "did you mean 'Greeter'?"),
        (["run", "expert.yaml", "--events", "no/such/folder/run.jsonl"], "cannot be written"),
        (["run"], "Missing argument"),
        (["rum"], "No such command"),
    ],
)
def test_wrong_arguments_exit_2_and_say_what_to_write(operad, expert, arguments, message):
    status, out, err = operad(*arguments)
    assert (status, out) == (2, "")
    assert message in err


def test_binary_and_oversized_files_exit_2(operad, tmp_path):
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    with (tmp_path / "large.txt").open("wb") as file:
        file.truncate(100 * 2**20)
    for name, message in [("binary", "is binary"), ("large.txt", "104,857,600 bytes are more than")]:
        status, out, err = operad("run", "release_credits", "--file", name)
        assert (status, out) == (2, "")
        assert message in err
        assert "'read'" in err


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (Fail(401, "Incorrect API key provided"), "key"),
        (Fail(404, "no such model"), "no such model"),
        (BreakOff(3), "broke"),
    ],
)
def test_an_endpoint_that_fails_exits_2_and_names_itself(operad, expert, monkeypatch, step, message):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-key")
    with ScriptedModel([step]) as endpoint:
        status, out, err = operad("run", expert, "--base-url", endpoint.base_url)
    assert (status, out) == (2, "")
    assert message in err.lower()
    assert endpoint.base_url in err
    assert "sk-secret-key" not in err


def test_an_endpoint_that_refuses_the_connection_exits_2(operad, expert):
    status, out, err = operad("run", expert, "--base-url", "http://127.0.0.1:9/v1")
    assert (status, out) == (2, "")
    assert "http://127.0.0.1:9/v1" in err


def test_a_model_that_answers_nonsense_three_times_exits_2_with_its_last_words(operad, expert):
    expert.write_text(SCHEMA)
    with ScriptedModel([Say("one"), Say("two"), Say("three")]) as endpoint:
        status, out, err = operad("run", expert, "--base-url", endpoint.base_url)
    assert (status, out) == (2, "")
    assert "three" in err
    assert "operator 'greet'" in err


def test_schema_prints_a_json_schema_that_accepts_our_own_configurations(operad):
    from importlib.resources import files

    import jsonschema
    import yaml

    status, out, _ = operad("schema")
    assert status == 0
    schema = json.loads(out)
    jsonschema.validate(yaml.safe_load(files("operad.configs").joinpath("release_credits.yaml").read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"operator": []}, schema)


def test_ctrl_c_in_mid_run_exits_130_within_a_second(tmp_path):
    (tmp_path / "expert.yaml").write_text(EXPERT)
    asked = threading.Event()

    def hang(_):
        asked.set()
        return Hang()

    with ScriptedModel([hang]) as endpoint:
        process = subprocess.Popen(
            [sys.executable, "-c", "from operad.configs.cli import main; main()", "run", "expert.yaml", "--base-url", endpoint.base_url],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        assert process.stderr is not None
        assert "model: " in process.stderr.readline()
        assert "greet: running" in process.stderr.readline()
        assert asked.wait(timeout=20)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=2)
    assert (process.returncode, out) == (130, "")
    assert err.strip().endswith("operad: interrupted")
    assert "Traceback" not in err


STUBBORN = """
import time
from operad.operators import Operator
class Stubborn(Operator):
    async def execute(self, *_, **__):
        import asyncio
        await asyncio.to_thread(time.sleep, 30)
"""


def test_ctrl_c_ends_the_process_even_while_a_thread_hangs(tmp_path):
    (tmp_path / "expert.yaml").write_text(EXPERT.replace("Greet.", "Greet.\n    class: stubborn.Stubborn"))
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    process = subprocess.Popen(
        [sys.executable, "-c", "from operad.configs.cli import main; main()", "run", "expert.yaml"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert "model: " in process.stderr.readline()
    assert "greet: running" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=5)
    assert (process.returncode, out) == (130, "")
    assert err.strip().endswith("operad: interrupted")


@pytest.mark.parametrize("leaving", ["sys.exit(0)", "sys.exit('so long')", "raise SystemExit(3)"])
def test_an_operator_that_exits_is_an_error_like_any_other(operad, expert, tmp_path, leaving):
    name = f"leaving_{abs(hash(leaving))}"
    (tmp_path / f"{name}.py").write_text(
        f"import sys\nfrom operad.operators import Operator\nclass Leaving(Operator):\n"
        f"    async def execute(self, *_, **__):\n        {leaving}\n"
    )
    expert.write_text(EXPERT.replace("Greet.", f"Greet.\n    class: {name}.Leaving"))
    status, out, err = operad("run", expert)
    assert (status, out) == (2, "")
    assert "operator 'greet'" in err
    assert "SystemExit" in err


def test_a_path_that_is_too_long_is_bad_input(operad, expert):
    for arguments in (["run", "x" * 5000], ["run", expert, "--file", "x" * 5000]):
        status, out, err = operad(*arguments)
        assert (status, out) == (2, "")
        assert "too long" in err


def test_importing_the_runtime_is_light():
    code = textwrap.dedent("""
        import sys
        import operad.runtime
        heavy = {"dbgpt", "openai", "networkx", "jsonschema", "mcp", "xllamacpp"} & set(sys.modules)
        assert not heavy, heavy
    """)
    subprocess.run([sys.executable, "-c", code], check=True)
