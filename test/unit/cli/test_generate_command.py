"""`operad generate`, as it is typed: what it writes and says, what it refuses, and conversations at a terminal."""

import json
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from forked import OPERAD_COMMAND

from operad.flows.formats.table import FORMATS, read
from operad.runtime.testing import Fail, Hang, Say, ScriptedModel

REFUSAL = "I am sorry, but I cannot help with that."
USELESS = {"refusal": REFUSAL, "cut off": '{"reasoning": "hm", "nodes": [{"id": "1", "ty', "prose": "First, a start."}


@pytest.fixture
def operad(operad, monkeypatch):
    """Runs the command in an empty folder: exit status, stdout, stderr."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPERAD_MODEL", "SERPAPI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return operad


EXPERTS = "operators: [&a {instruction: Hi.}]\nexperts: [{profile: {name: A}, workflow: [[*a]]}]\n"


@pytest.fixture
def generate(operad):
    """Runs `operad generate` with a scripted model."""

    def generate(model, *arguments):
        with ScriptedModel(model) as endpoint:
            return operad("generate", *arguments, "--base-url", endpoint.base_url)

    return generate


@pytest.fixture
def paper(conversation):
    """The rounds of the conversation about a paper."""
    return conversation("paper")


@pytest.fixture
def made(generate, stages, paper, tmp_path):
    """Writes the first round's workflow to a file, in the format of its name."""

    def made(name, *options):
        status, _, err = generate(stages(paper[0]), paper[0]["says"], "-o", name, *options)
        assert status == 0, err
        return tmp_path / name

    return made


# What it writes


def test_an_existing_workflow_is_replaced_only_with_continue(operad, generate, stages, paper, made):
    file = made("flow.yaml")
    before = file.read_bytes()
    status, _, err = operad("generate", "x", "-o", "flow.yaml", "--base-url", "http://127.0.0.1:9/v1")
    assert status == 2
    assert "-o flow.yaml: holds a workflow; change it with --continue flow.yaml, or name another file" in err
    assert file.read_bytes() == before


def test_a_new_workflow_is_named_after_its_file(made):
    """A server can offer several files, if their workflows have different names."""
    assert [read(made(name).read_bytes(), name)[1].name for name in ("papers.operad.yaml", "talks.yml")] == [
        "papers",
        "talks",
    ]


def test_a_file_of_experts_is_never_replaced(operad, tmp_path):
    (tmp_path / "expert.yaml").write_text(EXPERTS)
    status, _, err = operad("generate", "x", "-o", "expert.yaml", "--base-url", "http://127.0.0.1:9/v1")
    assert status == 2
    assert "-o expert.yaml: configures experts, and was not changed; name another file" in err
    assert (tmp_path / "expert.yaml").read_text() == EXPERTS


def test_without_a_file_the_workflow_goes_to_stdout_and_runs_from_there(generate, stages, paper):
    status, out, err = generate(stages(paper[0]), paper[0]["says"])
    assert status == 0
    found, graph = read(out.encode(), "made")
    assert (found.name, len(graph.nodes), found.check(graph)) == ("operad", 4, [])
    assert "accepted  1 round" in err


def test_with_a_file_the_changes_go_to_stdout(generate, stages, paper, made):
    made("flow.yaml")
    status, out, _ = generate(stages(paper[1]), paper[1]["says"], "--continue", "flow.yaml", "-o", "more.yaml")
    assert status == 0
    assert out.splitlines()[0].startswith("+ node 5 (llm)")
    assert "~ node 4 +outputs.french" in out


def test_it_is_run_and_drawn_and_explained(generate, stages, paper):
    Path("paper.txt").write_text("Olives ripen in autumn.", encoding="utf-8")
    status, _, err = generate(
        stages(paper[0]), paper[0]["says"], "-o", "flow.yaml", "--run", "paper=paper.txt", "--run", "language=English",
        "--picture", "flow.svg", "--explain",
    )  # fmt: skip
    assert status == 0
    assert err.endswith("Olives: autumn.\n")
    assert Path("flow.svg").read_bytes()[:4] == b"<svg"
    assert "plan, round 1: prompt of about" in err
    assert "(Rules " in err
    assert "; the paper's prompt alone has about 8,000 an attempt" in err
    assert "mended: [" in err


@pytest.mark.parametrize("picture", ["flow.png", "flow.md"])
def test_it_is_drawn_in_the_kind_that_the_name_says(generate, stages, paper, picture):
    assert generate(stages(paper[0]), paper[0]["says"], "-o", "flow.yaml", "--picture", picture)[0] == 0
    assert Path(picture).stat().st_size


@pytest.mark.parametrize(
    ("name", "options"),
    [("flow.yaml", []), ("flow.json", ["--to", "chat2workflow"]), ("flow.dify.yml", []), ("flow.zip", ["--to", "coze"])],
)  # fmt: skip
def test_each_format_is_written_and_continued(generate, stages, paper, made, name, options):
    made(name, *options)
    status, out, err = generate(stages(paper[1]), paper[1]["says"], "--continue", name, "-o", name)
    assert status == 0, err
    found, graph = read(Path(name).read_bytes(), "flow")
    assert found.check(graph) == []
    assert len(graph.nodes) == 5
    assert "~ node" in out


def test_what_a_format_cannot_hold_is_said(generate, stages, conversation):
    rounds = conversation("documents")
    model = stages(rounds[0])
    status, _, err = generate(model, rounds[0]["says"], "-o", "flow.json", "--to", "coze", "--json")
    assert status == 0
    _, graph = read(Path("flow.json").read_bytes(), "flow")
    lost = FORMATS["coze"].losses(graph)
    assert all(each.message in err for each in lost)
    assert zipfile.is_zipfile("flow.json")


def test_json_is_all_that_stdout_holds(generate, stages, paper):
    status, out, _ = generate(stages(paper[0]), paper[0]["says"], "--json", "--explain")
    said = json.loads(out)
    assert (status, said["accepted"], said["status"], said["format"]) == (0, True, "SUCCESS", "operad")
    assert said["tokens"] > 0
    assert len(said["changes"]["added"]) == 4
    assert any("total: prompts of about" in line for line in said["explained"])
    assert len(read(said["workflow"].encode(), "made")[1].nodes) == 4


@pytest.mark.parametrize("target", [[], ["-o", "-"], ["-o", "flow.yaml"]])
def test_json_is_json_where_nothing_is_made(generate, stages, target):
    status, out, err = generate(stages(plan=[REFUSAL]), "Sum up.", "--json", *target)
    said = json.loads(out)
    assert (status, said["accepted"]) == (1, False)
    assert said["findings"]
    assert "nothing was made, and nothing written" in err
    assert not Path("flow.yaml").exists()


def test_json_is_json_where_the_endpoint_fails(generate):
    status, out, err = generate(lambda _: Fail(400, "out of order"), "Sum up.", "--json")
    assert status == 2
    assert "out of order" in json.loads(out)["error"]
    assert "nothing was made" in err


# Continuing


YAML = """
workflow: greet
nodes:
  1: {type: start, variables: [[name, string]]}
  2:
    type: llm
    after: 1
    system: ''
    user: |
      Greet  {{#1.name#}}   with
        an odd layout: "quotes", 'others', ünd {{ braces }}.
  3: {type: end, after: 2, outputs: [[text, [text, '2']]]}
"""
MORE = {
    "plan": [{
        "nodes": [
            {"id": "4", "type": "llm", "after": ["2"], "params": {"system": "", "user": "Shorter: {{#2.text#}}"}},
            {"id": "3", "after": ["4"], "params": {"outputs": [{"name": "text", "value": "4.text"}]}},
        ],
    }],
}  # fmt: skip


def normal(name, data):
    """A file as its format writes it, which is what is compared: reading forgets comments and layout."""
    found, graph = read(data, name)
    return found.dump(graph)


def test_untouched_nodes_of_operads_yaml_stay_byte_for_byte(generate, stages):
    Path("flow.yaml").write_bytes(normal("flow", YAML.encode()))
    before = Path("flow.yaml").read_text(encoding="utf-8")
    assert generate(stages(**MORE), "Make it shorter.", "--continue", "flow.yaml", "-o", "flow.yaml")[0] == 0
    after = Path("flow.yaml").read_text(encoding="utf-8")
    start, end = before.index("1:"), before.index("3:")
    assert before[start:end] in after
    assert "Shorter" in after


def test_issues_that_a_file_had_before_and_keeps_are_said(generate, stages):
    Path("flow.yaml").write_bytes(normal("flow", YAML.replace("#1.name#", "#1.nome#").encode()))
    _, _, err = generate(stages(**MORE), "Make it shorter.", "--continue", "flow.yaml", "-o", "flow.yaml")
    assert "issues that were there before, and remain: 1" in err


def test_a_file_that_keeps_its_instructions_is_continued_with_them(generate, stages, paper, made):
    made("flow.yaml")
    model = stages(paper[1])
    assert generate(model, paper[1]["says"], "--continue", "flow.yaml", "-o", "flow.yaml")[0] == 0
    assert list(read(Path("flow.yaml").read_bytes(), "flow")[1].instructions) == [each["says"] for each in paper[:2]]


# What is not right


def scripted(*answers):
    """Answers from a list."""
    left = list(answers)
    return lambda request: Say(json.dumps(left.pop(0), ensure_ascii=False))


GREETING = {
    "reasoning": "",
    "nodes": [
        {"id": "1", "type": "start", "after": [], "params": {"variables": [{"name": "name", "type": "string"}]}},
        {"id": "2", "type": "llm", "after": ["1"], "params": {"system": "", "user": "Greet {{#1.name#}} in Latin."}},
        {"id": "3", "type": "end", "after": ["2"], "params": {"outputs": [{"name": "greeting", "value": "2.text"}]}},
    ],
}
IN_FRENCH = {
    "reasoning": "",
    "nodes": [{"id": "2", "replace": [{"param": "user", "old": "Latin", "new": "French"}]}],
}


def test_stages_that_ask_nobody_are_not_printed(generate):
    status, _, err = generate(scripted(GREETING), "Greet somebody.", "-o", "flow.yaml")
    assert status == 0
    told = [re.sub(r", [\d.]+ s, [\d,]+ tokens", "", line) for line in err.splitlines() if line.startswith("round")]
    assert told == ["round 1  plan: running", "round 1  plan: done", "round 1  accepted: accepted; 0 findings"]


WEATHER = {
    "reasoning": "",
    "nodes": [
        {"id": "1", "type": "start", "after": [], "params": {"variables": [{"name": "city", "type": "string"}]}},
        {
            "id": "2",
            "type": "request",
            "after": ["1"],
            "params": {
                "url": "https://api.weather.example/v1?q={{#1.city#}}",
                "method": "get",
                "authorization": {"type": "bearer", "key": "sk-live-abc123SECRET"},
            },
        },
        {"id": "3", "type": "end", "after": ["2"], "params": {"outputs": [{"name": "weather", "value": "2.body"}]}},
    ],
}


@pytest.mark.parametrize("name", ["flow.yaml", "flow.dify.yml"])
def test_a_key_in_the_request_is_in_no_prompt_and_no_file_and_a_key_of_the_model_is_a_secret(operad, name):
    request = "Ask https://api.weather.example for a city (variable city) with the key sk-live-abc123SECRET: weather."
    with ScriptedModel(scripted(WEATHER)) as endpoint:
        status, out, err = operad("generate", request, "-o", name, "--base-url", endpoint.base_url)
        assert "abc123SECRET" not in json.dumps(endpoint.requests)
        assert "{{secret.WEATHER_KEY}}" in json.dumps(endpoint.requests)
    assert status == 0, err
    assert "note: a key in the request was not stored; give it by: operad secrets set WEATHER_KEY\n" in err
    assert "abc123SECRET" not in out + err + Path(name).read_text()
    assert operad("check", name)[0] == 0


def test_a_step_that_deletes_waits_for_a_person_until_the_request_says_otherwise(operad, generate):
    deleting = json.loads(
        json.dumps(WEATHER).replace('"get"', '"delete"').replace("sk-live-abc123SECRET", "{{secret.K}}")
    )
    status, _, err = generate(scripted(deleting), "Delete a city.", "-o", "flow.yaml")
    assert status == 0, err
    assert "note: node approve-2 asks a person before node 2 (DELETE https://api.weather.example/v1)" in err
    assert "note: the workflow sends the secret K; give it by: operad secrets set K\n" in err
    assert operad("check", "flow.yaml")[0] == 0
    unasked = {
        "reasoning": "",
        "nodes": [{"id": "2", "after": ["1"]}],
        "drop": ["approve-2"],
        "unapproved": {"2": "you asked for it"},
    }
    status, _, err = generate(scripted(unasked), "Delete without asking.", "--continue", "flow.yaml", "-o", "flow.yaml")
    assert status == 0, err
    assert "node 2 (DELETE https://api.weather.example/v1) runs without approval: you asked for it" in err
    assert [spec.type for spec in read(Path("flow.yaml").read_bytes(), "flow")[1].nodes] == ["start", "request", "end"]


@pytest.mark.parametrize("name", ["flow.yaml", "flow.dify.yml"])
def test_notes_that_a_change_makes_wrong_are_dropped_and_printed(generate, name):
    noted = {**GREETING, "notes": ["The greeting is in Latin.", "Names are not checked."]}
    assert generate(scripted(noted), "Greet somebody.", "-o", name)[0] == 0
    change = {**IN_FRENCH, "notes": ["The greeting is in French."], "outdated": [1, 7]}
    status, _, err = generate(scripted(change), "In French.", "--continue", name, "-o", name)
    assert status == 0, err
    assert "note: The greeting is in French.\ndropped note: The greeting is in Latin.\n" in err
    assert read(Path(name).read_bytes(), name)[1].notes == ("Names are not checked.", "The greeting is in French.")


@pytest.mark.parametrize("said", USELESS.values(), ids=USELESS)
def test_a_model_that_says_nothing_of_use_leaves_the_file_as_it_was(generate, stages, paper, made, said):
    before = made("flow.yaml").read_bytes()
    commented = b"# mine\n" + before
    Path("flow.yaml").write_bytes(commented)
    status, out, err = generate(stages(plan=[said]), paper[1]["says"], "--continue", "flow.yaml", "-o", "flow.yaml")
    assert (status, out) == (1, "")
    assert "left: there is no workflow" in err
    assert "not finished; nothing was made; flow.yaml is as it was" in err
    assert Path("flow.yaml").read_bytes() == commented


IDLE = {"nodes": [{"id": "3", "params": {"system": ""}}]}


def test_the_best_attempt_is_written_and_what_is_left_is_said(generate, stages, paper):
    nodes = [
        each | ({"params": {"system": "", "user": ""}} if each["id"] == "3" else {})
        for each in paper[0]["plan"][0]["nodes"]
    ]
    model = stages(plan=[{"nodes": nodes}], mend=[IDLE])
    status, _, err = generate(model, paper[0]["says"], "-o", "flow.yaml", "--run", "paper=x")
    assert status == 1
    assert "left: [param] 3: user: is empty" in err
    assert "not finished; flow.yaml holds the best attempt; it was not run" in err
    assert len(read(Path("flow.yaml").read_bytes(), "flow")[1].nodes) == 4


def test_an_instruction_that_contradicts_itself_gets_the_best_attempt_with_reasons(generate, stages, paper):
    text = "The user gives a text (variable text). Output only a (variable a). Output only b (variable b). No outputs."
    no = {
        "evaluation": "",
        "status": "EXECUTION_ERROR",
        "lesson": "There must be no outputs, and a, and b.",
        "blame": [],
        "score": 2,
    }
    plan = json.loads(json.dumps(paper[0]["plan"][0]).replace('"paper"', '"text"').replace('"file"', '"string"'))
    plan["nodes"] = [each for each in plan["nodes"] if each["id"] != "2"]
    plan["nodes"][1]["after"] = ["1"]
    plan["nodes"][0]["params"]["variables"] = plan["nodes"][0]["params"]["variables"][:1]
    plan["nodes"][1]["params"] = {"system": "", "user": "{{#1.text#}}"}
    plan["nodes"][2]["params"] = {"outputs": [{"name": "a", "value": "3.text"}]}
    model = stages(plan=[plan], mend=[IDLE], judge=[no])
    status, _, err = generate(model, text, "-o", "flow.yaml")
    assert status == 1
    assert "left: " in err
    assert Path("flow.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["", "-o", "a.yaml"], "the instruction is empty"),
        (["  "], "the instruction is empty"),
        ([], "at a terminal it asks"),
        (["x", "-o", "no/such/folder/a.yaml"], "no/such/folder/a.yaml: there is no folder 'no/such/folder'; make it"),
        (["x", "-o", "folder.yaml"], "cannot be written: Is a directory"),
        (["x", "--picture", "no/such/a.svg"], "there is no folder 'no/such'"),
        (["x", "--picture", "a.gif"], "--picture a.gif: the name of a picture ends with one of .svg, .png, .md"),
        (["x", "--to", "dfy"], "--to dfy: there is no such format (did you mean 'dify'?)"),
        (["x", "-o", "a.xyz"], "give the format with --to"),
        (["x", "--to", "mermaid"], "workflows are generated in formats whose nodes run"),
        (["x", "--json", "--to", "coze"], "use -o FILE"),
        (["x", "--run", "topic"], "--run 'topic': write NAME=VALUE"),
        (["x", "--store", "nowhere"], "nowhere: there is no such folder of workflows"),
        (["x", "--designer", "designr"], "designr"),
        (["x", "--continue", "missing.yaml"], "missing.yaml: no such file"),
        (["x", "--continue", "prose.txt"], "has an unknown format"),
        (["x", "--continue", "empty.yaml"], "is empty"),
        (["x", "--continue", "experts.yaml", "--to", "dify"], "experts.yaml: configures experts"),
        (
            ["x", "--continue", "comfy.json"],
            "need the node classes of a server; give --object-info",
        ),
        (["x", "--continue", "broken.json"], "broken.json:1: is not JSON"),
        (["x", "--plan", "--continue", "comfy.json"], "--plan: is for typed nodes, which workflows of comfyui"),
        (["x", "--plan", "--designer", "experts.yaml"], "this designer has no operator of the class PlanWorkflow"),
    ],
)
def test_what_cannot_be_is_refused_before_the_model_is_asked(generate, stages, arguments, said, monkeypatch):
    Path("folder.yaml").mkdir()
    Path("prose.txt").write_text("Some words.")
    Path("empty.yaml").write_text("")
    Path("experts.yaml").write_text(
        "operators:\n  - &a {instruction: Greet.}\nexperts:\n  - {profile: {name: A}, workflow: [[*a]]}\n"
    )
    Path("comfy.json").write_text('{"1": {"class_type": "KSampler", "inputs": {"seed": 1}}}')
    Path("broken.json").write_text('{"nodes_info": [')
    monkeypatch.setattr(sys, "stdin", Path("prose.txt").open())  # noqa: SIM115 - the process's own
    model = stages()
    status, out, err = generate(model, *arguments)
    sys.stdin.close()
    assert status == 2
    assert "error" in json.loads(out) if "--json" in arguments else not out
    assert said in err
    assert len(err.strip().splitlines()) <= 2
    assert model.asked == []


def test_the_embedded_model_is_not_asked_for_what_it_cannot_do(operad):
    status, out, err = operad("generate", "Sum up.", "-o", "flow.yaml", "--model", "embedded")
    assert (status, out) == (2, "")
    assert "the embedded model is too small to plan workflows" in err


def test_without_a_model_nothing_is_planned(operad):
    status, out, err = operad("generate", "Sum up.", "-o", "flow.yaml")
    assert (status, out) == (2, "")
    assert err.startswith("operad: no model is configured: ")


def test_wrong_inputs_of_a_run_are_refused_with_the_workflow_written(generate, stages, paper):
    status, _, err = generate(stages(paper[0]), paper[0]["says"], "-o", "flow.yaml", "--run", "papr=x")
    assert status == 2
    assert "papr" in err
    assert "write --run paper=PATH --run language=STRING" in err
    assert Path("flow.yaml").exists()


def test_an_endpoint_that_is_down_exits_2_and_nothing_is_lost(operad, made):
    before = made("flow.yaml").read_bytes()
    status, out, err = operad(
        "generate", "Translate it.", "--continue", "flow.yaml", "-o", "flow.yaml", "--base-url", "http://127.0.0.1:9/v1"
    )
    assert (status, out) == (2, "")
    assert "http://127.0.0.1:9/v1" in err
    assert err.endswith("nothing was made; flow.yaml is as it was\n")
    assert Path("flow.yaml").read_bytes() == before


def test_an_endpoint_that_breaks_down_in_the_midst_leaves_the_best_attempt(generate, stages, paper):
    model = stages(paper[0])

    def answer(request):
        said = model(request)
        return Fail(400, "out of order") if model.stages[-1] == "judge" else said

    status, _, err = generate(answer, paper[0]["says"], "-o", "flow.yaml", "--review")
    assert status == 1
    assert "left: the run broke off" in err
    assert "out of order" in err
    assert len(read(Path("flow.yaml").read_bytes(), "flow")[1].nodes) == 4


# Examples


def test_services_of_a_file_are_offered_and_other_formats_are_not_offered_them(generate):
    Path("services.yaml").write_text("tools:\n  - {type: TIME}\n")
    asked = []

    def answer(request):
        asked.append("\n".join(str(each["content"]) for each in request["messages"]))
        return Say(REFUSAL)

    for format_name in ("operad", "chat2workflow"):
        status, _, _ = generate(
            answer, "Say the time (variable time).", "--services", "services.yaml", "--to", format_name
        )
        assert status == 1
    offered = ["Tools for nodes of type tool and agent:" in each for each in asked]
    assert offered[0]
    assert not offered[-1]
    assert "\nhuman-input(" in asked[0]
    assert "human-input" not in asked[-1]


def test_the_likest_workflow_of_a_folder_is_an_example(generate, stages, paper, made):
    Path("store").mkdir()
    made("store/paper.yaml")
    model = stages(paper[0])
    status, _, err = generate(model, "Sum up a paper file (variable paper) in a language (variable language); output the summary (variable summary).", "--store", "store")  # fmt: skip
    assert status == 0, err
    told = dict(model.asked)["plan"]
    assert "An example, made for other words" in told
    assert paper[0]["says"] in told


# Conversations


def nodes_in(path):
    return [spec.id for spec in read(path.read_bytes(), "flow")[1].nodes]


def test_a_conversation_shows_each_step_takes_back_and_ends_by_an_empty_line(tmp_path, stages, paper, at_a_terminal):
    model, file, steps = stages(*paper[:2]), tmp_path / "flow.yaml", []

    def then(text):
        steps.append(sorted(nodes_in(file)) if file.exists() else [])
        return text

    with ScriptedModel(model) as endpoint:
        status, out, seen = at_a_terminal(
            ["generate", "-o", "flow.yaml", "--base-url", endpoint.base_url],
            lambda: then("undo"), lambda: then(paper[0]["says"]), lambda: then(paper[1]["says"]), lambda: then("undo"), lambda: then(""),
        )  # fmt: skip
    assert status == 0, seen
    assert steps == [[], [], ["1", "2", "3", "4"], ["1", "2", "3", "4", "5"], ["1", "2", "3", "4"]]
    assert "there is nothing to undo" in seen
    assert "What is the workflow given" in seen
    assert "What should change?" in seen
    assert "\n+ 1 start\n" in seen
    assert "+ node 5 (llm)" in seen
    assert "undone; 1 step is left" in seen
    assert "written: flow.yaml" in seen
    assert out.count("+ node") == 4


def test_a_closed_terminal_names_the_option_of_the_command_for_inputs(tmp_path, stages, paper, at_a_terminal):
    with ScriptedModel(stages(paper[0])) as endpoint:
        status, _, seen = at_a_terminal(
            ["generate", paper[0]["says"], "-o", "flow.yaml", "--run", "language=English", "--base-url", endpoint.base_url], b"\x04"
        )  # fmt: skip
    assert status == 2
    assert "paper (file; an empty line for none)" in seen
    assert seen.endswith("write --run paper=PATH, with nothing after the = for none\n")


def test_the_outputs_of_a_run_steer_no_terminal(tmp_path, stages, paper, at_a_terminal):
    (tmp_path / "paper.txt").write_text("Olives ripen in autumn.", encoding="utf-8")
    model = stages({**paper[0], "run": {"says": dict.fromkeys(paper[0]["run"]["says"], "Olives\x1b]52;c;cm0=\x07.")}})
    with ScriptedModel(model) as endpoint:
        status, _, seen = at_a_terminal(
            ["generate", paper[0]["says"], "-o", "flow.yaml", "--run", "paper=paper.txt", "--run", "language=English",
             "--base-url", endpoint.base_url]
        )  # fmt: skip
    assert status == 0, seen
    assert seen.endswith("Olives\\u001b]52;c;cm0=\\u0007.\n")


def test_a_conversation_without_a_file_writes_to_stdout_at_its_end(tmp_path, stages, paper, at_a_terminal):
    with ScriptedModel(stages(paper[0])) as endpoint:
        status, out, seen = at_a_terminal(["generate", "--base-url", endpoint.base_url], paper[0]["says"], b"\x04")
    assert status == 0, seen
    assert len(read(out.encode(), "flow")[1].nodes) == 4


def test_when_the_first_step_is_taken_back_the_file_is_as_it_was(tmp_path, stages, at_a_terminal):
    (tmp_path / "flow.yaml").write_text(f"# mine\n{YAML}", encoding="utf-8")
    with ScriptedModel(stages(**MORE)) as endpoint:
        status, _, seen = at_a_terminal(
            ["generate", "--continue", "flow.yaml", "-o", "flow.yaml", "--base-url", endpoint.base_url], "Make it shorter.", "undo", ""
        )  # fmt: skip
    assert status == 2
    assert "operad: nothing was changed" in seen
    assert (tmp_path / "flow.yaml").read_text(encoding="utf-8") == f"# mine\n{YAML}"


@pytest.mark.parametrize(("turn", "status"), [(signal.SIGINT, 130), (b"\x04", 0)])
def test_at_a_prompt_ctrl_c_and_ctrl_d_leave_what_was_made(tmp_path, stages, paper, turn, status, at_a_terminal):
    with ScriptedModel(stages(paper[0])) as endpoint:
        found, _, seen = at_a_terminal(
            ["generate", "-o", "flow.yaml", "--base-url", endpoint.base_url], paper[0]["says"], turn
        )
    assert found == status, seen
    assert len(nodes_in(tmp_path / "flow.yaml")) == 4


def test_ctrl_d_at_the_first_prompt_is_no_crash(tmp_path, at_a_terminal):
    status, out, seen = at_a_terminal(["generate", "--base-url", "http://127.0.0.1:9/v1"], b"\x04")
    assert (status, out) == (2, "")
    assert "operad: no instruction was given, so nothing was made" in seen


def interrupted(forked, folder, model, *arguments, when):
    """Runs the command without a terminal, and sends it Ctrl-C when the model is asked for a stage."""
    processes = []

    def answer(request):
        said = model(request)
        if model.stages[-1] == when and len(model.stages) > 1:
            processes[0].send_signal(signal.SIGINT)
            return Hang()
        return said

    with ScriptedModel(answer) as endpoint:
        command = [*OPERAD_COMMAND, "generate", *arguments]
        processes.append(
            forked.begin(
                [*command, "--base-url", endpoint.base_url],
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        out, err = processes[0].communicate(timeout=60)
    assert "Traceback" not in err
    return processes[0].returncode, out, err


def test_ctrl_c_in_the_midst_of_the_first_step_keeps_what_was_drafted(tmp_path, stages, paper, forked):
    status, _, err = interrupted(
        forked, tmp_path, stages(paper[0]), paper[0]["says"], "-o", "flow.yaml", "--review", when="judge"
    )
    assert status == 130, err
    assert err.strip().endswith("operad: interrupted")
    assert len(nodes_in(tmp_path / "flow.yaml")) == 4


def test_ctrl_c_in_the_midst_of_a_change_leaves_the_file_as_it_was(tmp_path, stages, forked):
    (tmp_path / "flow.yaml").write_text(f"# mine\n{YAML}", encoding="utf-8")
    model = stages(**MORE)
    status, _, err = interrupted(
        forked,
        tmp_path,
        model,
        "Make it shorter.",
        "--continue",
        "flow.yaml",
        "-o",
        "flow.yaml",
        "--review",
        when="judge",
    )
    assert status == 130, err
    assert (tmp_path / "flow.yaml").read_text(encoding="utf-8") == f"# mine\n{YAML}"


def test_an_endpoint_that_fails_in_a_conversation_can_be_asked_again(tmp_path, stages, paper, at_a_terminal):
    model, failed = stages(*paper[:2]), []

    def answer(request):
        if len(model.stages) == 2 and not failed:
            failed.append(request)
            return Fail(400, "out of order")
        return model(request)

    with ScriptedModel(answer) as endpoint:
        status, _, seen = at_a_terminal(
            ["generate", "-o", "flow.yaml", "--base-url", endpoint.base_url], paper[0]["says"], paper[1]["says"], paper[1]["says"], ""
        )  # fmt: skip
    assert status == 0, seen
    assert "out of order" in seen
    assert "ask again, or end" in seen
    assert len(nodes_in(tmp_path / "flow.yaml")) == 5


def test_a_refusal_in_a_conversation_changes_nothing(tmp_path, stages, paper, at_a_terminal):
    model = stages(plan=[*paper[0]["plan"], REFUSAL, REFUSAL, REFUSAL])
    with ScriptedModel(model) as endpoint:
        status, _, seen = at_a_terminal(
            ["generate", "-o", "flow.yaml", "--base-url", endpoint.base_url], paper[0]["says"], paper[1]["says"], ""
        )
    assert status == 0, seen
    assert "left: there is no workflow" in seen
    assert "nothing was changed" in seen
    assert len(nodes_in(tmp_path / "flow.yaml")) == 4


def test_an_answer_that_is_cut_off_is_no_crash(generate, stages):
    status, _, err = generate(stages(plan=[Say('{"reasoning": "it', "length")]), "Sum up.", "-o", "flow.yaml")
    assert status == 1, err
    assert "nothing was made" in err


# Plans first


PAPER = "Sum up a paper (variable paper). Output the summary (variable summary)."
PLAN = {
    "nodes": [
        {"id": "1", "type": "start", "does": "takes the paper", "after": [], "params": {"variables": [{"name": "paper", "type": "string"}]}},
        {"id": "2", "type": "llm", "does": "sums it up", "after": ["1"], "params": {"system": "", "user": "Sum up {{#1.paper#}}"}},
        {"id": "3", "type": "end", "does": "hands it over", "after": ["2"], "params": {"outputs": [{"name": "summary", "value": "2.text"}]}},
    ],
    "notes": ["A paper is text."],
    "questions": [{"question": "In which language?", "default": "that of the paper"}],
}  # fmt: skip


def with_node(plan, node, **more):
    return {**plan, "nodes": [*plan["nodes"][:2], node, {**plan["nodes"][2], "after": [node["id"]]}], **more}


FRENCH = {
    "id": "4", "type": "llm", "does": "translates it into French", "after": ["2"],
    "params": {"system": "", "user": "In French: {{#2.text#}}"},
}  # fmt: skip
"""A node for the language."""


def test_a_plan_is_printed_with_questions_and_costs_and_nothing_is_built(generate, stages, monkeypatch, tmp_path):
    (tmp_path / "prices.yaml").write_text("127.0.0.1:\n  llama-4: {prompt: 2, completion: 10}\n")
    model = stages(plan=[PLAN])
    monkeypatch.setenv("OPERAD_PRICES", str(tmp_path / "prices.yaml"))
    status, out, err = generate(model, PAPER, "--plan", "-o", "flow.yaml", "--model", "llama-4")
    assert status == 0, err
    assert out.splitlines()[:6] == [
        "1 start: takes the paper",
        "2 llm: sums it up; after 1",
        "3 end: hands it over; after 2",
        "inputs: paper (string)",
        "outputs: summary (string)",
        "note: A paper is text.",
    ]
    assert "estimated cost of a run: about 0.005 USD (about 1,000 tokens read, 300 written; calls: 1 of llm; " in out
    assert out.endswith("question: In which language? (by default: that of the paper)\n")
    assert "nothing was built: without --plan it is" in err
    assert model.stages == ["plan"]
    assert not Path("flow.yaml").exists()


def test_a_plan_as_json_without_a_known_price(generate, stages):
    status, out, _ = generate(stages(plan=[PLAN]), PAPER, "--plan", "--json", "--model", "llama-4")
    said = json.loads(out)
    assert status == 0
    assert said["questions"] == [{"question": "In which language?", "default": "that of the paper"}]
    assert (said["inputs"], said["outputs"]) == ({"paper": "string"}, {"summary": "string"})
    assert (said["cost"]["run"], said["cost"]["calls"]) == (None, {"llm": 1})
    assert said["cost"]["estimate"][0].startswith("a run: no price known for llama-4 at http://127.0.0.1:")


def test_a_plan_of_a_change_counts_the_whole_workflow_and_leaves_the_file(generate, stages, tmp_path):
    (tmp_path / "flow.yaml").write_text(YAML)
    change = {
        "reasoning": "", "drop": [],
        "nodes": [
            {"id": "4", "type": "llm", "does": "translates it", "after": ["2"], "params": {"system": "", "user": "{{#2.text#}}"}},
            {"id": "3", "after": ["4"], "params": {"outputs": {"text": "2.text", "french": "4.text"}}},
        ],
    }  # fmt: skip
    status, out, err = generate(
        stages(plan=[change]), "Also in French.", "--plan", "--continue", "flow.yaml", "-o", "flow.yaml"
    )
    assert status == 0, err
    assert out.splitlines()[:4] == [
        "4 llm: translates it; after 2",
        "3 end (changed); after 4",
        "inputs: name (string)",
        "outputs: text (string), french (string)",
    ]
    assert "calls: 2 of llm" in out
    assert (tmp_path / "flow.yaml").read_text() == YAML


def test_a_plan_that_the_model_refuses_is_exit_1_with_its_words(generate, stages):
    status, out, _ = generate(stages(plan=[REFUSAL]), PAPER, "--plan")
    assert status == 1
    assert out.startswith("no plan: ")
    assert REFUSAL in out


def test_an_agreed_plan_is_built_without_planning_again_and_keeps_the_answers(tmp_path, stages, at_a_terminal):
    model = stages(plan=[PLAN])
    with ScriptedModel(model) as endpoint:
        status, out, seen = at_a_terminal(
            ["generate", PAPER, "--plan", "-o", "flow.yaml", "--base-url", endpoint.base_url], "", "y"
        )
    assert status == 0, seen
    assert model.stages == ["plan"]
    assert "In which language? (an empty line for: that of the paper)" in seen
    assert out.startswith("+ node 1 (start)")
    graph = read((tmp_path / "flow.yaml").read_bytes(), "flow")[1]
    assert graph.instructions == (f"{PAPER}\nIn which language? that of the paper",)
    assert graph.notes == ("A paper is text.",)


def test_another_answer_and_a_change_are_planned_again_from_the_plan_so_far(tmp_path, stages, at_a_terminal):
    second, third = with_node(PLAN, FRENCH), with_node(PLAN, {**FRENCH, "does": "translates it well"}, questions=[])
    model = stages(plan=[PLAN, second, third])
    with ScriptedModel(model) as endpoint:
        status, _, seen = at_a_terminal(
            ["generate", PAPER, "--plan", "-o", "flow.yaml", "--base-url", endpoint.base_url], "French", "Translate it well.", ""
        )  # fmt: skip
    assert status == 0, seen
    assert model.stages == ["plan", "plan", "plan"]
    assert "In which language? French" in model.asked[1][1]
    assert '"does":"sums it up"' in model.asked[1][1]
    assert seen.count("an empty line for: that of the paper") == 1
    assert "4 llm: translates it well; after 2" in seen
    graph = read((tmp_path / "flow.yaml").read_bytes(), "flow")[1]
    assert graph.instructions == (f"{PAPER}\nIn which language? French\nTranslate it well.",)
    assert len(graph.nodes) == 4


@pytest.mark.parametrize(
    ("turns", "status"), [(("", "n"), 1), (("", b"\x04"), 1), ((b"\x04",), 1), ((signal.SIGINT,), 130)]
)
def test_a_plan_that_nobody_agrees_to_leaves_the_file_as_it_was(tmp_path, stages, at_a_terminal, turns, status):
    (tmp_path / "flow.yaml").write_text("words\n")
    model = stages(plan=[PLAN])
    with ScriptedModel(model) as endpoint:
        found, out, seen = at_a_terminal(
            ["generate", PAPER, "--plan", "-o", "flow.yaml", "--base-url", endpoint.base_url], *turns
        )
    assert (found, out) == (status, ""), seen
    assert model.stages == ["plan"]
    assert (tmp_path / "flow.yaml").read_text() == "words\n"


def test_each_step_of_a_conversation_is_planned_first(tmp_path, stages, at_a_terminal):
    model = stages(plan=[{**PLAN, "questions": []}])
    with ScriptedModel(model) as endpoint:
        status, _, seen = at_a_terminal(
            ["generate", "--plan", "-o", "flow.yaml", "--base-url", endpoint.base_url], PAPER, "no", PAPER, "", ""
        )
    assert status == 0, seen
    assert model.stages == ["plan", "plan"]
    assert "nothing was made" in seen
    assert len(nodes_in(tmp_path / "flow.yaml")) == 3
