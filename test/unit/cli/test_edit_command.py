"""`operad edit`."""

import json
from pathlib import Path

import jsonschema
import pytest
from small_flows import GREET

from operad.flows.formats.table import FORMATS

TYPED = ("operad", "chat2workflow", "dify", "coze")


@pytest.fixture
def operad(operad, tmp_path):
    """Runs the command in a folder with workflows in each format: status, stdout, stderr."""
    for name in TYPED:
        (tmp_path / name).write_bytes(FORMATS[name].dump(GREET))
    return operad


def loaded(path, name):
    return FORMATS[name].load(path.read_bytes(), "greet")


@pytest.mark.parametrize("name", TYPED)
def test_a_file_of_any_format_is_replaced_and_the_diff_is_printed(name, operad, tmp_path):
    said = operad("edit", name, "--op", "rename_variable 1 name person", "--op", 'set 2 system "Be brief."')
    assert said == (
        0,
        '~ node 1 -variables.name: "string"\n'
        '~ node 1 +variables.person: "string"\n'
        '~ node 2 system: "" → "Be brief."\n'
        '~ node 2 user: "Greet {{#1.name#}}." → "Greet {{#1.person#}}."\n',
        "",
    )
    graph = loaded(tmp_path / name, name)
    assert graph.by_id["2"].params == {"system": "Be brief.", "user": "Greet {{#1.person#}}."}
    assert operad("check", name)[0] == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(TYPED)


def test_only_issues_that_are_new_are_told_and_the_file_is_written(operad, tmp_path):
    assert operad("edit", "operad", "--op", "add_output more 2.txt")[::2] == (
        1,
        "operad: 3: outputs[1].value: 'txt' of '2': node '2' (llm) has no variable 'txt' "
        "(did you mean 'text'?); it has: text, files, reasoning_content, usage, finish_reason [undefined-variable]\n",
    )
    assert loaded(tmp_path / "operad", "operad").by_id["3"].params["outputs"][1] == ["more", ["txt", "2"]]
    assert operad("edit", "operad", "--op", "set 2 system x") == (0, '~ node 2 system: "" → "x"\n', "")


def test_what_the_format_cannot_hold_is_a_new_issue(operad):
    status, _, err = operad("edit", "chat2workflow", "--op", "insert_between 2 3 4 tool tool=x")
    assert (status, err) == (
        1,
        "chat2workflow: 4: Chat2Workflow has no type 'tool'; it is written with that name [loss]\n",
    )


def test_a_change_that_the_file_does_not_show_is_a_new_issue(operad, tmp_path):
    case = Path(__file__).parents[1] / "data/dify_cases/environment.yml"
    (tmp_path / "env.yml").write_bytes(case.read_bytes())
    status, _, err = operad("edit", "env.yml", "--op", """set 1 defaults '{"env.A": "two", "env.N": 2}'""")
    assert (status, err.count("[loss]")) == (1, 1)


def test_a_batch_that_is_refused_changes_no_file_and_tells_all(operad, tmp_path):
    before = (tmp_path / "operad").read_bytes()
    status, out, err = operad("edit", "operad", "--op", "set 2 system x", "--op", "connect 2 4", "--op", "set 3 x y")
    assert (status, out, (tmp_path / "operad").read_bytes()) == (2, "", before)
    assert err == (
        "operad: workflow 'greet' was not changed: 2 issues\n"
        "operation 2 (connect): target: there is no node '4'; there are: 1, 2, 3 [undefined-node]\n"
        "operation 3 (set): path: end has no parameter 'x'; it has: outputs [unknown-param]\n"
    )


def test_all_operations_that_cannot_be_read_are_reported_at_once(operad, tmp_path):
    (tmp_path / "ops.json").write_text('[{"op": "remove_node", "node": "2"}, {"op": "remove_node"}]')
    before = (tmp_path / "operad").read_bytes()
    arguments = ("--ops", "ops.json", "--ops", "none.json", "--op", "conect 1 2", "--op", "set 2 system x", "--op", '[{"op": "connect"}]')  # fmt: skip
    status, out, err = operad("edit", "operad", *arguments)
    assert (status, out, (tmp_path / "operad").read_bytes()) == (2, "", before)
    assert err == (
        "operad: operations cannot be read: 5 issues\n"
        "ops.json: operation 2 (remove_node): node: is missing [missing-param]\n"
        "none.json: no such file [input]\n"
        "--op 1: 'conect 1 2': 'conect' is not an operation (did you mean 'connect'?) [input]\n"
        "--op 3: operation 1 (connect): source: is missing [missing-param]\n"
        "--op 3: operation 1 (connect): target: is missing [missing-param]\n"
    )


def test_operations_of_files_come_before_those_of_options(operad, tmp_path):
    operations = {"operations": [{"op": "insert_between", "source": "2", "target": "3", "id": "4", "type": "llm"}]}
    (tmp_path / "ops.json").write_text(json.dumps(operations))
    one = '{"op": "set", "node": "4", "path": "user", "value": "Shorter: {{#2.text#}}"}'
    more = ("--op", one, "--op", 'set 4 system ""')
    status, out, err = operad("edit", "operad", "--ops", "ops.json", *more, "--json", "-o", "new.yaml")
    assert (status, err) == (0, "")
    said = json.loads(out)
    assert [node["id"] for node in said["changes"]["added"]] == ["4"]
    assert said["changes"]["edges_added"] == [["2", 0, "4"], ["4", 0, "3"]]
    assert said["issues"] == []
    assert loaded(tmp_path / "operad", "operad") == GREET
    assert [node.id for node in loaded(tmp_path / "new.yaml", "operad").nodes] == ["1", "2", "4", "3"]


def test_nothing_is_written_by_a_dry_run_and_stdout_is_a_place_to_write_to(operad, tmp_path):
    assert operad("edit", "operad", "--op", "set 2 system x", "--dry-run") == (0, '~ node 2 system: "" → "x"\n', "")
    assert loaded(tmp_path / "operad", "operad") == GREET
    status, out, err = operad("edit", "operad", "--op", "set 2 system x", "-o", "-")
    assert (status, err) == (0, '~ node 2 system: "" → "x"\n')
    assert FORMATS["operad"].load(out.encode(), "greet").by_id["2"].params["system"] == "x"


def test_the_schema_needs_no_file(operad):
    status, out, _ = operad("edit", "--schema")
    assert status == 0
    jsonschema.Draft202012Validator.check_schema(json.loads(out))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "operad edit needs a FILE"),
        (["operad"], "there is nothing to do; give an --op"),
        (["operad", "--op", "conect 1 2"], "'conect' is not an operation (did you mean 'connect'?)"),
        (["operad", "--op", '{"op": 1'], "is not JSON"),
        (["operad", "--op", "set 2 system x", "--format", "difi"], "did you mean 'dify'?"),
        (["operad", "--op", "set 2 system x", "--format", "mermaid"], "Mermaid is written to be looked at"),
        (["operad", "--op", "set 2 system x", "-o", "no/x"], "no/x: there is no folder 'no'"),
        (["gone", "--op", "set 2 system x"], "gone"),
        (["config.yaml", "--op", "set 2 system x"], "configures experts"),
        (["comfy.json", "--op", "set 2 seed 1"], "is of the format comfyui-api, whose nodes are not of operad's types"),
    ],
)
def test_what_cannot_be_edited_is_refused(arguments, said, operad, tmp_path):
    (tmp_path / "config.yaml").write_text("experts: []\n")
    (tmp_path / "comfy.json").write_text('{"2": {"class_type": "KSampler", "inputs": {"seed": 1}}}')
    status, out, err = operad("edit", *arguments)
    assert (status, out) == (2, "")
    assert said in err


def test_the_format_may_be_said(operad):
    assert operad("edit", "operad", "--op", "set 2 system x", "--format", "operad", "--dry-run")[0] == 0


def test_a_file_that_is_not_of_the_named_format_is_named_in_the_error(operad, tmp_path):
    (tmp_path / "e.yaml").write_bytes((tmp_path / "operad").read_bytes())
    status, _, err = operad("edit", "e.yaml", "--format", "dify", "--op", "disconnect 1 2")
    assert (status, err.startswith("operad: e.yaml cannot be read: ")) == (2, True), err
    assert all(line.startswith("e.yaml:") for line in err.splitlines()[1:])
