"""ComfyUI files of our own: a server gets the prompt of ComfyUI's page, or the check says why not and what to do."""

import json
from pathlib import Path

import pytest

from operad.integrations.comfyui.formats import dump, dump_api, formats, load, read_definitions

DATA = Path(__file__).parents[2] / "data" / "comfyui_cases"
OUTCOMES = json.loads((DATA / "outcomes.json").read_text(encoding="utf-8"))
CLASSES = read_definitions((DATA / "object_info.json").read_text(encoding="utf-8"))
PAGE, SERVER, CODE, PICTURE = formats(CLASSES)
RUNS = [name for name, outcome in OUTCOMES.items() if "prompt" in outcome]
DIFFERS = [name for name, outcome in OUTCOMES.items() if "differs" in outcome]
REFUSED = [name for name, outcome in OUTCOMES.items() if "refused" in outcome]


def given(name):
    return (DATA / f"{name}.json").read_bytes()


def without_titles(prompt, kept):
    """A prompt without the titles that only its saved pictures show, unless they are looked for."""
    return {
        key: node if kept else {name: node[name] for name in ("class_type", "inputs")} for key, node in prompt.items()
    }


@pytest.mark.parametrize("name", RUNS)
def test_a_server_gets_what_the_page_would_send(name):
    graph = load(given(name))
    assert SERVER.check(graph) == []
    assert without_titles(json.loads(dump_api(graph, CLASSES)), name.startswith("api")) == OUTCOMES[name]["prompt"]
    from_code = json.loads(dump_api(load(CODE.dump(graph)), CLASSES))
    assert without_titles(from_code, False) == without_titles(OUTCOMES[name]["prompt"], False)


@pytest.mark.parametrize("name", DIFFERS)
def test_what_the_page_would_send_otherwise_is_named_with_its_node_and_what_to_do(name):
    outcome = OUTCOMES[name]
    [said] = [each for each in SERVER.losses(load(given(name))) if each.where == outcome["where"]]
    assert said.message == outcome["differs"]
    assert ": write the " in said.message


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_node_and_the_fault(name):
    outcome = OUTCOMES[name]
    [said] = SERVER.check(load(given(name)))
    assert (said.code, said.where) == (outcome["code"], outcome["where"])
    assert said.message == outcome["refused"]


@pytest.mark.parametrize(
    ("name", "what_to_do"),
    [
        ("api-unknown-class", "did you mean 'KSampler'?"),
        ("values-without-names", "install the custom node that has it on the server, or replace the node"),
        ("group-node", "ungroup it there (Convert to nodes) or convert it to a subgraph, and save again"),
        ("subgraph-in-itself", "take it out of itself in ComfyUI"),
    ],
)
def test_a_refusal_of_what_a_node_is_says_what_to_do(name, what_to_do):
    [said] = SERVER.check(load(given(name)))
    assert what_to_do in said.message


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_file_is_written_back_as_it_was(name):
    graph = load(given(name))
    written = dump(graph, CLASSES) if PAGE.is_it(given(name)) else dump_api(graph)
    assert json.loads(written) == json.loads(given(name))
