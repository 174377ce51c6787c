"""Files in workflows of Dify: of inputs, tools and code, in answers, prompts, templates and as parts."""

from pathlib import Path

import pytest
import yaml

from operad.flows.assemble import assemble
from operad.flows.formats.remarks import remarks_of
from operad.integrations.dify.format import load
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.runtime import Job
from operad.runtime.testing import CallTools, Say, ScriptedModel
from operad.runtime.values.blob import Blob

PICTURE, LETTER = {"variable": "pic", "type": "file"}, {"variable": "docs", "type": "file-list"}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "a b.txt").write_text("A letter.")
    return tmp_path / "cat.png", tmp_path / "a b.txt"


def app(*datas, mode="advanced-chat"):
    """A file of nodes in a row; the ids count from 1."""
    nodes = [{"id": str(at), "type": "custom", "data": data} for at, data in enumerate(datas, 1)]
    edges = [{"source": str(at), "target": str(at + 1)} for at in range(1, len(datas))]
    whole = {"app": {"mode": mode, "name": "t"}, "kind": "app", "workflow": {"graph": {"nodes": nodes, "edges": edges}}}
    return yaml.safe_dump(whole).encode()


def start(*variables):
    return {"type": "start", "title": "S", "variables": [{"label": "", "required": True, **each} for each in variables]}


def answer(text):
    return {"type": "answer", "title": "A", "answer": text, "variables": []}


def end(**outputs):
    listed = [{"variable": name, "value_selector": path.split(".")} for name, path in outputs.items()]
    return {"type": "end", "title": "E", "outputs": listed}


def outputs_of(text, model=None, services=None, **inputs):
    workflow = assemble(load(text), NODE_TYPES, services=services or Services())
    return workflow.run(Job("Hello", inputs=inputs), model).message.outputs


def test_an_image_in_an_answer_is_shown_and_other_files_are_links(files):
    picture, letter = files
    text = app(start(PICTURE, LETTER), answer("{{#1.pic#}} and\n{{#1.docs#}}"))
    said = outputs_of(text, pic=str(picture), docs=[str(letter), str(picture)])["answer"]
    shown = f"![cat.png]({picture.as_uri()})"
    assert said == f"{shown} and\n[a b.txt]({letter.as_uri()})\n{shown}"
    assert " " not in letter.as_uri()


def test_the_parts_of_a_file_have_difys_names_and_none_is_empty(files):
    picture, _ = files
    names = ["type", "name", "size", "extension", "mime_type", "transfer_method", "url", "remote_url", "related_id"]
    parts = outputs_of(
        app(start(PICTURE), end(**{name: f"1.pic.{name}" for name in names}), mode="workflow"), pic=str(picture)
    )
    identity = parts.pop("related_id")
    assert len(identity) == 36
    assert parts == {
        "type": "image", "name": "cat.png", "size": 8, "extension": ".png", "mime_type": "image/png",
        "transfer_method": "local_file", "url": picture.as_uri(), "remote_url": picture.as_uri(),
    }  # fmt: skip


def draw(prompt: str) -> list[str | Blob]:
    "Draw."
    return [f"drawn: {prompt}", Blob(data=b"png", media_type="image/png", name="sun.png")]


TOOL = {
    "type": "tool", "title": "T", "provider_id": "p", "provider_name": "p", "provider_type": "builtin", "tool_name": "draw",
    "tool_configurations": {}, "tool_parameters": {"prompt": {"type": "mixed", "value": "{{#sys.query#}}"}},
}  # fmt: skip


def test_files_of_a_tool_are_a_variable_and_no_part_of_its_text(tmp_path):
    services = Services(tools=[draw], folder=tmp_path)
    said = outputs_of(app(start(), TOOL, answer("{{#2.text#}} {{#2.files#}}")), services=services)["answer"]
    assert said == f"drawn: Hello ![sun.png]({(tmp_path / 'sun.png').as_uri()})"
    assert (tmp_path / "sun.png").read_bytes() == b"png"


def test_files_of_the_tools_of_an_agent_are_a_variable(tmp_path):
    agent = {
        "type": "agent", "title": "G", "agent_strategy_name": "function_calling",
        "agent_parameters": {
            "instruction": {"type": "constant", "value": "Draw."}, "query": {"type": "constant", "value": "A sun."},
            "tools": {"type": "constant", "value": [{"tool_name": "draw", "enabled": True}]},
            "maximum_iterations": {"type": "constant", "value": "3"},
        },
    }  # fmt: skip
    services = Services(tools=[draw], folder=tmp_path)
    with ScriptedModel([CallTools([("draw", {"prompt": "sun"})]), Say("Done.")]) as model:
        said = outputs_of(app(start(), agent, answer("{{#2.text#}} {{#2.files#}}")), model.model, services)["answer"]
    assert said == f"Done. ![sun.png]({(tmp_path / 'sun.png').as_uri()})"


def test_a_file_in_a_prompt_is_shown_to_the_model_and_empty_in_the_text_which_a_note_says(files):
    picture, _ = files
    llm = {
        "type": "llm", "title": "L", "model": {"name": "m", "provider": "p", "mode": "chat", "completion_params": {}},
        "prompt_template": [{"role": "system", "text": "See [{{#1.pic#}}]"}, {"role": "user", "text": "Go."}],
        "context": {"enabled": False, "variable_selector": []}, "vision": {"enabled": False},
    }  # fmt: skip
    text = app(start(PICTURE), llm, answer("{{#2.text#}}"))
    with ScriptedModel([Say("Seen.")]) as model:
        assert outputs_of(text, model.model, pic=str(picture))["answer"] == "Seen."
        assert "See []" in str(model.requests[0])
        assert "image" in str(model.requests[0])
    notes = [str(each.issue) for each in remarks_of(load(text)) if "is a file" in each.says]
    assert notes == [str(note) for note in notes if note.startswith("[note] 2: 1.pic")]
    assert len(notes) == 1


def test_code_gives_back_the_files_that_it_was_given(files):
    picture, letter = files
    code = {
        "type": "code", "title": "C", "code_language": "python3",
        "code": "def main(docs):\n    return {'one': [d for d in docs if d['type'] == 'image'], 'url': docs[0]['url']}\n",
        "variables": [{"variable": "docs", "value_selector": ["1", "docs"]}],
        "outputs": {"one": {"type": "array[file]", "children": None}, "url": {"type": "string", "children": None}},
    }  # fmt: skip
    text = app(start(LETTER), code, answer("{{#2.one#}} {{#2.url#}}"))
    said = outputs_of(text, docs=[str(letter), str(picture)])["answer"]
    assert said == f"![cat.png]({picture.as_uri()}) {letter.as_uri()}"


def test_a_template_reads_the_parts_of_files(files):
    picture, _ = files
    template = {
        "type": "template-transform", "title": "T", "template": "{{ p.filename }} {{ p.url }} {{ p.transfer_method }}",
        "variables": [{"variable": "p", "value_selector": ["1", "pic"]}],
    }  # fmt: skip
    said = outputs_of(app(start(PICTURE), template, end(r="2.output"), mode="workflow"), pic=str(picture))["r"]
    assert said == f"cat.png {picture.as_uri()} local_file"


@pytest.mark.parametrize("name", ["tool_files", "answer_file", "file_url2", "cv", "retry_str"])
def test_the_files_that_failed_have_no_issues(name):
    path = Path(__file__).parents[5] / "shared" / "cases" / "files" / f"{name}.yml"
    if not path.exists():
        pytest.skip("the file is not on this machine")
    from operad.integrations.dify.format import DIFY

    graph = load(path.read_bytes())
    assert DIFY.check(graph.runnable) == []
    assert load(DIFY.dump(graph)) == graph


@pytest.mark.parametrize(
    "data",
    [
        {"type": "tool", "tool_name": "look_up", "plugin_id": "acme/words", "tool_parameters": {}},
        {"type": "agent", "agent_strategy_name": "react", "agent_parameters": {
            "query": {"type": "constant", "value": "Hi"}, "model": {"type": "constant", "value": {}},
            "tools": {"type": "constant", "value": [{"tool_name": "look_up", "provider_name": "acme/words"}]},
        }},
    ],
    ids=["node", "agent"],
)  # fmt: skip
def test_a_tool_that_the_services_have_to_provide_is_named_with_its_plugin(data):
    [note] = [
        each
        for each in remarks_of(load(app(start(LETTER), {"title": "T", **data}, answer("x"))))
        if "tool" in each.field
    ]
    assert (note.node, note.field, note.lossy, "'acme/words'" in note.says) == ("2", "tool 'look_up'", False, True)
