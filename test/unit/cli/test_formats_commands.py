"""`operad check`, `convert` and `show`; and which format a file has."""

import json
from itertools import pairwise

import pytest
from typer.testing import CliRunner

from operad.cli.formats import report
from operad.cli.main import app
from operad.configs.issues import issue_line
from operad.flows.formats.table import FORMATS, find_format, read
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.values.errors import InvalidError

GRAPH = NodeGraph(
    [
        NodeSpec("1", "start", {"variables": [["name", "string"]]}),
        NodeSpec("2", "end", {"outputs": [["text", ["name", "1"]]]}),
    ],
    [Edge("1", "2")],
    "greet",
)
TYPED = ("operad", "chat2workflow", "dify", "coze")


@pytest.mark.parametrize("name", TYPED)
def test_a_format_is_found_by_its_content_and_runs(name, operad, tmp_path):
    data = FORMATS[name].dump(GRAPH)
    assert find_format(data) is FORMATS[name]
    (tmp_path / "flow").write_bytes(data)
    assert operad("check", "flow") == (0, "1 file: no issues\n", "")
    assert operad("run", "flow", "--input", "name=Ann", "--base-url", "http://127.0.0.1:9")[:2] == (0, "Ann\n")


def test_a_file_without_experts_is_an_issue_of_check_as_it_is_an_error_of_run(operad, tmp_path):
    (tmp_path / "none.yaml").write_text("operators: [{name: a, instruction: Say.}]")
    issue = "none.yaml: configures no experts; add one under `experts` [no-experts]\n1 file: 1 issue\n"
    assert operad("check", "none.yaml") == (2, issue, "")
    assert operad("run", "none.yaml", "--job", "x") == (
        2, "", "operad: none.yaml: configures no experts; add one under `experts`\n",
    )  # fmt: skip


def test_a_python_file_is_run_with_python(operad, tmp_path):
    (tmp_path / "flow.py").write_text("print(1)\n")
    said = "operad: flow.py: is a Python file; name the workflow in it: flow:NAME, with the name of its workflow; or run the file with: python flow.py\n"
    assert operad("run", "flow.py", "--job", "x") == (2, "", said)


def test_all_issues_of_all_files_are_told_with_their_lines(operad, tmp_path):
    (tmp_path / "a.yaml").write_text(
        "nodes:\n  1: {type: start, variables: []}\n  2: {type: endd, after: 1}\n  3: {type: end, after: 1, outputs: [[x, [y, '1']]]}\n"
    )
    (tmp_path / "b.json").write_text('{"nodes_info": [\n  {"id": "1",}], "edges": []}')
    (tmp_path / "c.yaml").write_text("experts: []\noperatorz: []\n")
    status, out, _ = operad("check", "a.yaml", "b.json", "c.yaml")
    assert status == 2
    lines = out.splitlines()
    assert lines[0] == "a.yaml:3: 2: 'endd' is not a node type (did you mean 'end'?) [unknown-type]"
    assert lines[1].startswith("a.yaml:4: 3: outputs[0].value: ")
    assert lines[2].startswith("b.json:2: is not JSON: ")
    assert any(line.startswith("c.yaml:2: operatorz: unknown key") for line in lines)
    status, out, _ = operad("check", "a.yaml", "gone.json", "--json")
    told = json.loads(out)
    assert (status, [each["read"] for each in told]) == (2, [True, False])
    assert told[0]["issues"][0]["line"] == 3


def test_losses_are_listed_and_nothing_is_written_without_leave(operad, tmp_path):
    (tmp_path / "flow.json").write_bytes(FORMATS["chat2workflow"].dump(GRAPH))
    (tmp_path / "out.worfbench.txt").write_text("old")
    status, out, err = operad("convert", "flow.json", "-o", "out.worfbench.txt")
    assert (status, out, (tmp_path / "out.worfbench.txt").read_text()) == (1, "", "old")
    assert "[loss]\n" in err
    assert operad("convert", "flow.json", "-o", "out.worfbench.txt", "--lossy")[0] == 0
    assert (tmp_path / "out.worfbench.txt").read_text().startswith("Node:")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["flow.json", "out.worfbench.txt"]


LOSSY = """\
app: {mode: workflow, name: greet}
kind: app
workflow:
  graph:
    nodes:
    - id: '1'
      data: {type: start, title: Start, variables: [{variable: name, type: paragraph, required: true}]}
    - id: '2'
      data:
        type: template-transform
        title: Greet
        template: "Hello, {{ name }}"
        variables: [{variable: name, value_selector: ['1', name]}]
        cached: true
    - id: '3'
      data: {type: end, title: End, outputs: [{variable: text, value_selector: ['2', output]}]}
    edges:
    - {source: '1', target: '2'}
    - {source: '2', target: '3'}
  features: {suggested_questions_after_answer: {enabled: true}}
"""

LOSS = "cached of 'Greet': is an unknown field and is not read; remove it if the workflow does not need it"
NOTE = "workflow.features.suggested_questions_after_answer: has no effect on a result and is dropped"


def test_what_an_imported_file_loses_is_told_and_runs_only_with_leave(operad, tmp_path):
    (tmp_path / "flow.yml").write_text(LOSSY)
    told = f"flow.yml:8: Greet (2): {LOSS} [lossy]\nflow.yml: {NOTE} [note]\n1 file: 1 issue, 1 note\n"
    assert operad("check", "flow.yml") == (2, told, "")
    assert operad("check", "flow.yml", "--lossy") == (0, told, "")
    (checked,) = json.loads(operad("check", "flow.yml", "--json")[1])
    assert checked["issues"] == [{"code": "lossy", "message": LOSS, "where": "2", "line": 8}]
    assert checked["notes"] == [{"code": "note", "message": NOTE, "where": "", "line": 0}]
    run = ("run", "flow.yml", "--input", "name=Ann", "--base-url", "http://127.0.0.1:9")
    refused = (
        "operad: flow.yml: results may differ from those on its own platform: 'Greet' (2): cached. operad check "
        "lists the differences; --lossy (in Python, lossy=True) runs it anyway\n"
    )
    assert operad(*run) == (2, "", refused)
    status, out, err = operad(*run, "--lossy")
    assert (status, out) == (0, "Hello, Ann\n")
    assert f"flow.yml: 2: {LOSS} [lossy]" in err.replace("\n", " ").replace("  ", " ")
    assert [(each["field"], each["lossy"]) for each in json.loads(operad(*run, "--lossy", "--json")[1])["remarks"]] == [
        ("workflow.features.suggested_questions_after_answer", False),
        ("cached", True),
    ]


def test_a_loss_is_told_when_a_file_is_converted_and_stays_with_the_workflow(operad, tmp_path):
    (tmp_path / "flow.yml").write_text(LOSSY)
    told = f"flow.yml:8: Greet (2): {LOSS} [lossy]\nflow.yml: {NOTE} [note]\n"
    assert operad("convert", "flow.yml", "-o", "flow.operad.yaml") == (0, "", told)
    status, out, err = operad("run", "flow.operad.yaml", "--input", "name=Ann", "--base-url", "http://127.0.0.1:9")
    assert (status, out) == (2, "")
    assert err.startswith("operad: flow.operad.yaml: results may differ from those on its own platform: 'Greet' (2)")
    assert operad("convert", "flow.yml", "-o", "again.dify.yml") == (0, "", "")


@pytest.mark.parametrize("flow", [FORMATS["chat2workflow"].dump(GRAPH), LOSSY.encode()])
def test_a_drawing_has_no_losses_and_no_remarks_on_runs(operad, tmp_path, flow):
    (tmp_path / "flow").write_bytes(flow)
    assert operad("convert", "flow", "-o", "out.mmd") == (0, "", "")
    assert (tmp_path / "out.mmd").read_text().startswith("flowchart TD")


def test_what_changes_no_result_is_said_and_the_file_is_written(operad, tmp_path):
    (tmp_path / "flow.yml").write_text(LOSSY.replace("        cached: true\n", ""))
    status, out, err = operad("convert", "flow.yml", "-o", "flow.coze.zip")
    assert (status, out) == (0, "")
    assert "flow.yml: settings that only dify has: app, workflow [note]\n" in err
    assert all(line.endswith(" [note]") for line in err.splitlines())
    assert (tmp_path / "flow.coze.zip").exists()


def test_what_an_imported_file_loses_is_a_loss_of_a_format_that_does_not_keep_it(operad, tmp_path):
    (tmp_path / "flow.yml").write_text(LOSSY)
    status, out, err = operad("convert", "flow.yml", "-o", "flow.coze.zip")
    assert (status, out) == (1, "")
    assert f"flow.yml:8: Greet (2): {LOSS} [lossy]\n" in err
    assert err.endswith("operad: 1 loss, nothing written; --lossy writes coze all the same\n")
    assert operad("convert", "flow.yml", "-o", "flow.coze.zip", "--lossy")[0] == 0
    assert operad("convert", "flow.yml", "-o", "flow.operad.yaml")[0] == 0
    assert operad("convert", "flow.operad.yaml", "-o", "flow.dify.yml")[0] == 0


def test_a_page_of_comfyui_is_converted_for_the_server_without_its_layout(operad, tmp_path):
    node = {"id": 1, "type": "Loader", "pos": [0, 0], "widgets_values_named": {"file": "a.png"}}
    node["widgets_values"] = ["a.png"]
    note = {"id": 2, "type": "Note", "widgets_values": ["Mind the gap."]}
    (tmp_path / "page.json").write_text(json.dumps({"nodes": [node, note], "links": []}))
    status, out, err = operad("convert", "page.json", "--to", "comfyui-api")
    assert (status, json.loads(out)["1"]["inputs"]) == (0, {"file": "a.png"})
    assert err.splitlines() == [
        "page.json: places, sizes, colours, groups and what else the page says besides what is run [note]",
        "page.json: 2: the node (Note), which no server runs [note]",
    ]
    (tmp_path / "page.json").write_text(
        json.dumps({"nodes": [{**node, "widgets_values": ["a{b|c}.png"]}], "links": []})
    )
    status, out, err = operad("convert", "page.json", "--to", "comfyui-api")
    assert (status, out) == (1, "")
    assert "{b|c} is sent as it is" in err


def test_convert_says_the_format_of_an_output_whose_name_does_not(operad, tmp_path):
    (tmp_path / "flow.operad.yaml").write_bytes(FORMATS["operad"].dump(GRAPH))
    told = (
        "operad: back.yml has the format of flow.operad.yaml, operad; --to, such as --to dify, writes another format\n"
    )
    assert operad("convert", "flow.operad.yaml", "-o", "back.yml") == (0, "", told)
    assert operad("convert", "flow.operad.yaml", "-o", "back.operad.yaml") == (0, "", "")
    assert operad("convert", "flow.operad.yaml", "-o", "other.yml", "--to", "operad") == (0, "", "")


def test_a_lossy_workflow_of_a_service_runs_only_with_leave(operad, tmp_path):
    (tmp_path / "flow.yml").write_text(LOSSY)
    (tmp_path / "outer.json").write_bytes(FORMATS["chat2workflow"].dump(GRAPH))
    run = (
        "run",
        "outer.json",
        "--input",
        "name=Ann",
        "--base-url",
        "http://127.0.0.1:9",
        "--services",
        "services.yaml",
    )
    (tmp_path / "services.yaml").write_text("workflows: {greet: flow.yml}\n")
    status, _, err = operad(*run)
    assert status == 2
    assert "services.yaml:1: workflows.greet: flow.yml: loses 'Greet' (2): cached; operad check flow.yml" in err
    (tmp_path / "services.yaml").write_text("workflows: {greet: flow.yml}\nlossy: true\n")
    assert operad(*run)[:2] == (0, "Ann\n")


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("worker", "--db", "runs.sqlite")])
def test_a_lossy_workflow_is_not_served_without_leave(operad, tmp_path, command):
    (tmp_path / "flow.yml").write_text(LOSSY)
    status, _, err = operad(command[0], "flow.yml", *command[1:], "--base-url", "http://127.0.0.1:9")
    assert status == 2
    assert "flow.yml: results may differ from those on its own platform: 'Greet' (2): cached" in err


def test_a_workflow_goes_through_all_formats_and_comes_back(operad, tmp_path):
    (tmp_path / "a.json").write_bytes(FORMATS["chat2workflow"].dump(GRAPH))
    names = ["a.json", "b.dify.yml", "c.zip", "d.operad.yaml", "e.chat2workflow.json"]
    for source, target in pairwise(names):
        assert operad("convert", source, "--output", target) == (0, "", "")
    assert (tmp_path / names[-1]).read_bytes() == (tmp_path / "a.json").read_bytes()
    status, out, _ = operad("convert", "c.zip", "--to", "chat2workflow")
    assert (status, out.encode()) == (0, (tmp_path / "a.json").read_bytes())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "x.yaml"], "several formats have this ending: .dify.yml (dify), .operad.yaml (operad)"),
        ([], "give the format with --to"),
        (["-o", "x", "--to", "difi"], "did you mean 'dify'?"),
        (["-o", "no/x.dify.yml"], "there is no folder 'no'; make it"),
    ],
)
def test_a_target_that_says_no_format_is_refused(arguments, said, operad, tmp_path):
    (tmp_path / "a.json").write_bytes(FORMATS["chat2workflow"].dump(GRAPH))
    status, out, err = operad("convert", "a.json", *arguments)
    assert (status, out) == (2, "")
    assert said in err


def test_a_graph_is_shown(operad, tmp_path):
    (tmp_path / "a.json").write_bytes(FORMATS["chat2workflow"].dump(GRAPH))
    assert operad("show", "a.json")[1].startswith("flowchart TD\n")
    assert operad("show", "a.json", "-o", "a.md")[0] == 0
    assert "```mermaid" in (tmp_path / "a.md").read_text()
    assert operad("show", "a.json", "-o", "a.gif")[0] == 2


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"[]", b'{"a": 1}', b"{", b"\xff\xfe", b"flowchart TD\n", b"PK\x03\x04"]
)
def test_a_file_of_no_format_is_refused_with_a_place(data):
    with pytest.raises(InvalidError) as caught:
        read(data, "given")
    assert all(issue.code and issue.where for issue in caught.value.issues)


TEAM = """
app: {name: A team}
operators:
  - &draft
    instruction: Write.
  - &check
    instruction: Is it right?
  - &inner
    name: each
    map: {over: drafts}
    workflow: [[{name: mend, instruction: Mend.}]]
leader: {profile: {name: Head}}
experts:
  - profile: {name: Writer, desc: Writes.}
    workflow: [[*draft, *inner]]
    evaluator: *check
  - profile: {name: Editor}
    workflow: [[*draft]]
"""


def test_experts_are_drawn_with_their_workflows_evaluators_and_leader(operad, tmp_path):
    (tmp_path / "team.yaml").write_text(TEAM)
    status, out, err = operad("show", "team.yaml")
    assert (status, err) == (0, "")
    assert out == (
        "flowchart TD\n"
        '  n0{{"Head"}}\n'
        '  subgraph n1 ["Writer"]\n'
        '    n2["draft"]\n'
        '    subgraph n3 ["each"]\n'
        '      n4["mend"]\n'
        "    end\n"
        "    n2 --> n3\n"
        '    n5(["check"])\n'
        "    n3 -.-> n5\n"
        "  end\n"
        "  n0 --> n1\n"
        '  subgraph n6 ["Editor"]\n'
        '    n7["draft"]\n'
        "  end\n"
        "  n0 --> n6\n"
    )


def test_experts_are_drawn_as_pictures(operad, tmp_path):
    (tmp_path / "team.yaml").write_text(TEAM)
    assert operad("show", "team.yaml", "-o", "team.svg") == (0, "", "")
    assert all(name in (tmp_path / "team.svg").read_text() for name in ("Head", "Writer", "mend", "check"))
    assert operad("show", "team.yaml", "--output", "team.md") == (0, "", "")
    page = (tmp_path / "team.md").read_text()
    assert page.startswith("# A team\n\n```mermaid\nflowchart TD\n")
    assert page.endswith("| expert | does |\n| --- | --- |\n| Head |  |\n| Writer | Writes. |\n| Editor |  |\n")


def test_what_comes_with_operad_is_shown_and_checked_by_its_name(operad):
    status, out, _ = operad("show", "designer")
    assert status == 0
    assert out.startswith('flowchart TD\n  subgraph n0 ["Designer"]\n    n1["plan"]\n')
    assert operad("check", "designer") == (0, "1 file: no issues\n", "")
    assert "did you mean 'designer'?" in operad("show", "desiner")[2]
    assert "did you mean 'designer'?" in operad("check", "desiner")[1]


FAULTY = {
    "a.yaml": (
        "nodes:\n  1: {type: start, variables: []}\n  2: {type: endd, after: 1}\n"
        "  3: {type: end, after: 1, outputs: [[x, [y, '1']]]}\n"
    ),
    "b.json": '{"nodes_info": [\n  {"id": "1",}], "edges": []}',
    "c.yaml": "experts: []\noperatorz: []\n",
    "d.yaml": "experts:\n  - profile: {name: A}\n    workflow: [[nobody]]\n",
}


@pytest.mark.parametrize("file", FAULTY)
def test_check_and_run_and_serve_print_the_same_issues_and_exit_2(file, operad, tmp_path):
    (tmp_path / file).write_text(FAULTY[file])
    status, out, _ = operad("check", file)
    *issues, _ = out.splitlines()
    assert status == 2
    assert all(line.startswith(f"{file}:") and line.endswith("]") for line in issues), issues
    for command in (["run", file, "--job", "x"], ["serve", file], ["show", file], ["worker", file]):
        if command[0] == "show" and file == "a.yaml":
            continue  # a graph with faults is drawn: that is how they are found
        status, out, err = operad(*command)
        assert (status, out) == (2, ""), err
        assert err.splitlines()[1:] == issues, command
    if file == "b.json":
        status, out, err = operad("convert", file, "--to", "dify")
        assert (status, out, err.splitlines()[1:]) == (2, "", issues)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("operators: ü".encode("latin-1"), "e.yaml:1: is not UTF-8 text (byte 0xfc at offset 11); convert it, for example with: iconv -f LATIN1 -t UTF-8 [input]"),
        ("operators: x".encode("utf-16"), "e.yaml: byte 0: is not UTF-8: invalid start byte; convert it, for example with: iconv -f UTF-16 -t UTF-8 [format]"),
        (b"\xff\0\1", "e.yaml: byte 0: is not UTF-8: invalid start byte; it is binary, and a text file is needed [format]"),
        (b"a" * (2**24 + 1), "e.yaml: larger than the maximum of 16,777,216 bytes [unreadable]"),
    ],
    ids=["Latin-1", "UTF-16", "binary", "large"],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_named_once(tmp_path, monkeypatch, data, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.yaml").write_bytes(data)
    [issue] = report("e.yaml").issues
    assert issue_line(issue, "e.yaml") == said


AGENTS = "cook: {role: Cook, goal: Cook well, backstory: You are calm., verbose: true}\n"
TASKS = "write: {description: Write it., expected_output: A short recipe, agent: cook, output_file: a.md}\n"


def test_convert_makes_a_file_of_experts_of_the_agents_and_tasks_of_a_folder(operad, tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "agents.yaml").write_text(AGENTS)
    (folder / "tasks.yaml").write_text(TASKS)
    status, out, err = operad("convert", "config", "-o", "crew.yaml")
    assert (status, out, (tmp_path / "crew.yaml").exists()) == (1, "", False)
    assert [line.rpartition(" ")[2] for line in err.splitlines()] == ["[note]", "[loss]", "same"]
    assert err.splitlines()[1].startswith("config/tasks.yaml:1: write.output_file: ")
    status, _, _ = operad("convert", "config/agents.yaml", "config/tasks.yaml", "--lossy", "-o", "crew.yaml")
    assert status == 0
    assert operad("check", "crew.yaml")[:2] == (0, "1 file: no issues\n")


def test_convert_refuses_other_formats_and_other_files_together(operad, tmp_path):
    (tmp_path / "agents.yaml").write_text(AGENTS)
    (tmp_path / "tasks.yaml").write_text(TASKS)
    status, _, err = operad("convert", "tasks.yaml", "--to", "dify")
    assert (status, "leave --to out" in err) == (2, True)
    (tmp_path / "empty").mkdir()
    for arguments in (("empty",), ("tasks.yaml", "agents.yaml", "tasks.yaml"), ("a.json", "b.json")):
        status, _, err = operad("convert", *arguments)
        assert (status, "no integration converts" in err) == (2, True)


TITLED = """workflow: greet
nodes:
  1: {type: start, variables: {name: string}}
  3: {type: code, title: letter, after: 1, variables: {n: 1.name}, outputs: {x: string}, code: "def main(n):\\n    raise ValueError('no')"}
  4: {type: end, after: 3, outputs: {text: 3.x}}
"""


def test_a_name_in_braces_that_goes_as_text_and_an_empty_text_are_notes(operad, tmp_path):
    (tmp_path / "bare.yaml").write_text(
        "workflow: Bare\nnodes:\n  1: {type: start, variables: {mail: string}}\n"
        "  2: {type: llm, after: 1, system: 'Keep {{other}}, answer {{mail}}', user: ''}\n"
        "  3: {type: end, after: 2, outputs: {text: 2.text}}\n"
    )
    code, out, _ = operad("check", str(tmp_path / "bare.yaml"), "--json")
    notes = json.loads(out)[0]["notes"]
    assert code == 0
    assert [(each["line"], each["where"], each["message"].partition(":")[0]) for each in notes] == [
        *((4, "2", "user"), (4, "2", "system"))
    ]


def test_titles_stand_before_ids_in_issues_and_in_the_error_of_a_run(tmp_path):
    path, faulty = tmp_path / "f.yaml", tmp_path / "g.yaml"
    path.write_text(TITLED)
    faulty.write_text(TITLED.replace("1.name", "9.name"))
    told = CliRunner().invoke(app, ["check", str(faulty)])
    assert f"{faulty}:4: letter (3): " in told.output
    listed = CliRunner().invoke(app, ["check", str(faulty), "--json"])
    assert json.loads(listed.output)[0]["issues"][0]["where"] == "3"
    refused = CliRunner().invoke(app, ["run", str(faulty), "--input", "name=Ada"])
    assert f"{faulty}:4: letter (3): " in refused.output + str(refused.exception)
    failed = CliRunner().invoke(app, ["run", str(path), "--input", "name=Ada"])
    assert "operator letter (3) of workflow 'greet' failed" in failed.output + str(failed.exception)


def test_a_plan_of_tasks_tells_which_titles_it_has_no_place_for(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text(TITLED)
    told = CliRunner().invoke(app, ["convert", str(path), "--to", "worfbench", "--lossy"])
    assert "letter (3): the title 'letter' [note]" in told.output
