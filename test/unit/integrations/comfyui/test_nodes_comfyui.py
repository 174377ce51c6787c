"""The node comfyui: a workflow on a ComfyUI server, with files up and down, behind the address guard."""

import json
import logging

import pytest

from operad.flows.assemble import assemble
from operad.flows.check import check
from operad.flows.formats.table import FORMATS, read
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.comfyui.fake_server import FakeComfyUI
from operad.operators import Services
from operad.operators.nodes import NODE_TYPES
from operad.operators.web.fetch import Guard
from operad.runtime import Job, OperatorError

PROMPT = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "example.png"}},
    "2": {"class_type": "Scale", "inputs": {"image": ["1", 0], "sizes": {"__value__": [1, 2]}, "note": "a fig"}},
    "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0]}},
}
CANARY = "sk-canary-7788"


def graph_of(server="http://127.0.0.1:8188", workflow=PROMPT, **params):
    """A workflow with a picture and a note as its inputs, and what the server makes as its outputs."""
    start = {"variables": [["picture", "file"], ["note", "string"]]}
    end = {"outputs": [["files", ["files", "2"]], ["text", ["text", "2"]]]}
    nodes = [
        NodeSpec("1", "start", start),
        NodeSpec("2", "comfyui", {"server": server, "workflow": workflow, **params}),
        NodeSpec("3", "end", end),
    ]
    return NodeGraph(nodes, [Edge("1", "2"), Edge("2", "3")])


@pytest.fixture
def draw(tmp_path):
    """Runs the node on a server that is allowed: ``outputs = draw(server, inputs=…)``."""

    def draw(server, *, guard=None, job=None, **params):
        services = Services(folder=tmp_path / "made", guard=guard or Guard(allowed_hosts=(server.host,)))
        workflow = assemble(graph_of(server.url, **params), NODE_TYPES, services=services)
        return workflow.run(Job(goal="Draw.", inputs={"picture": None, "note": None, **(job or {})})).message.outputs

    return draw


def refused(run):
    with pytest.raises(OperatorError) as raised:
        run()
    return f"{raised.value}: {raised.value.__cause__}"


def test_files_go_up_values_take_their_places_and_files_come_down(draw, tmp_path):
    (tmp_path / "fig.png").write_bytes(b"a fig")
    given = {"1.image": ["picture", "1"], "2.note": "{{#1.note#}}, dried", "2.sizes": [3, 4], "2.image": ["1", 0]}
    with FakeComfyUI({"made.png": b"a picture", "made.mp4": b"a film"}, ["four figs"]) as server:
        job = {"picture": str(tmp_path / "fig.png"), "note": "sweet"}
        outputs = draw(server, inputs=given, headers="X-Team: {{#1.note#}}", job=job)
    assert [(each.name, each.path.read_bytes()) for each in outputs["files"]] == [
        ("made.png", b"a picture"),
        ("made.mp4", b"a film"),
    ]
    assert outputs["text"] == "four figs"
    assert server.uploads == {"fig.png": b"a fig"}
    assert server.headers["x-team"] == "sweet"
    [sent] = server.prompts
    assert sent["1"]["inputs"] == {"image": "fig.png"}
    assert sent["2"]["inputs"] == {
        "image": {"__value__": ["1", 0]},
        "sizes": {"__value__": [3, 4]},
        "note": "sweet, dried",
    }


def test_a_variable_without_a_value_leaves_that_of_the_workflow(draw):
    with FakeComfyUI() as server:
        draw(server, inputs={"1.image": ["picture", "1"]})
    assert server.prompts[0]["1"]["inputs"] == {"image": "example.png"}


def test_a_server_of_this_machine_is_refused_unless_it_is_allowed(draw):
    with FakeComfyUI() as server:
        said = refused(lambda: draw(server, guard=Guard()))
    assert "/prompt: may not be fetched" in said
    assert "`allowed_hosts` names exceptions" in said
    assert server.prompts == []


def test_the_token_of_a_variable_is_sent_and_stays_out_of_errors_and_logs(draw, monkeypatch, caplog):
    monkeypatch.setenv("COMFYUI_TOKEN", CANARY)
    caplog.set_level(logging.DEBUG)
    with FakeComfyUI({"a.png": b"1"}, wants_token=CANARY) as server:
        assert len(draw(server, token_env="COMFYUI_TOKEN")["files"]) == 1
        assert server.headers["authorization"] == f"Bearer {CANARY}"
    with FakeComfyUI() as server:
        server.answer = lambda path, query, body, content_type: (418, f"no {CANARY}".encode())
        assert "answers with status 418: no [hidden]" in refused(lambda: draw(server, token_env="COMFYUI_TOKEN"))
    told = [record.name for record in caplog.records if CANARY in record.getMessage()]
    assert [name for name in told if not name.startswith("httpcore")] == []  # which tells all that it sends, at DEBUG


def test_a_token_goes_to_no_server_that_only_the_file_names(draw, monkeypatch):
    monkeypatch.setenv("COMFYUI_TOKEN", CANARY)
    with FakeComfyUI() as server:
        said = refused(lambda: draw(server, guard=Guard(), token_env="COMFYUI_TOKEN"))
        monkeypatch.delenv("COMFYUI_TOKEN")
        unset = refused(lambda: draw(server, token_env="COMFYUI_TOKEN"))
    assert "the token of COMFYUI_TOKEN is sent only to a server that is allowed by name: add 127.0.0.1:" in said
    assert "the environment variable COMFYUI_TOKEN is not set" in unset


def test_other_variables_of_the_environment_are_no_tokens():
    [issue] = check(graph_of(token_env="OPENAI_API_KEY"), NODE_TYPES)
    assert (issue.where, issue.message.split(",")[0]) == (
        "2",
        "token_env: must match the pattern ^(COMFYUI_[A-Z0-9_]+)?$",
    )


def test_files_are_bounded(draw, monkeypatch):
    monkeypatch.setattr("operad.integrations.comfyui.work.MAX_FILES", 1)
    with FakeComfyUI({"a.png": b"1", "b.png": b"2"}) as server:
        assert "made 2 files, more than the maximum of 1" in refused(lambda: draw(server))


@pytest.mark.parametrize(
    ("params", "code", "words"),
    [
        ({"server": "127.0.0.1:8188"}, "param", "did you mean http://127.0.0.1:8188?"),
        ({"workflow": {}}, "no-nodes", "is empty"),
        ({"workflow": {"nodes": [], "links": []}}, "format", "export it for the API"),
        ({"workflow": {"1": {"class": "Load"}}}, "misshapen-node", "workflow.1: must be an object with class_type"),
        ({"workflow": {"1": {"class_type": "A", "inputs": []}}}, "misshapen-node", "inputs: must be an object"),
        ({"workflow": {"1": {"class_type": "A", "inputs": {"x": [1]}}}}, "misshapen-link", "x: must be a link"),
        (
            {"workflow": {**PROMPT, "3": {"class_type": "SaveImage", "inputs": {"images": ["22", 0]}}}},
            "dangling-edge",
            "workflow.3: images: there is no node '22' (did you mean '2'?)",
        ),
        ({"inputs": {"4.image": "x"}}, "unknown-node", "inputs.4.image: there is no node '4'"),
        ({"inputs": {"1.imgae": "x"}}, "unknown-input", "'imgae' is not an input of LoadImage (did you mean 'image'?)"),
    ],
)
def test_the_check_says_what_is_wrong_and_what_to_do(params, code, words):
    [issue] = check(graph_of(**params), NODE_TYPES)
    assert (issue.code, issue.where) == (code, "2")
    assert words in issue.message


def test_it_comes_back_from_a_file_of_operad():
    graph = graph_of(inputs={"1.image": ["picture", "1"]}, token_env="COMFYUI_TOKEN")
    content = FORMATS["operad"].dump(graph)
    _, again = read(content, "flow.yaml")
    assert again.by_id["2"].params == graph.by_id["2"].params
    assert check(again, NODE_TYPES) == []
    assert json.loads(json.dumps(again.by_id["2"].params))
