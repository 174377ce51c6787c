"""What a file can do is read from every key, and nothing of it is done before it is trusted."""

import inspect
import pkgutil
import sys
import typing
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

import operad.evaluators
from operad.configs import load
from operad.configs.capabilities import UntrustedError
from operad.configs.keys import CLASS_KEYS, KEYS, NODE_KEYS
from operad.configs.loader import load_text, preview, preview_text
from operad.configs.optimise.tasks import TasksSpec, capabilities_of_tasks, read_tasks
from operad.configs.read_capabilities import (
    NODE_READERS,
    READERS,
    graph_capabilities,
    node_capabilities,
    unclassified,
)
from operad.configs.schema import ConfigSpec, ModelSpec
from operad.configs.services import load_services
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators import NodeOperator
from operad.operators.nodes import NODE_TYPES
from operad.operators.operator import Operator
from operad.operators.variables import Selector
from operad.runtime.values.errors import InputError, InvalidError

OTHER_HOMES = (
    "operad.integrations.chat2workflow.pass_evaluator",
    "operad.integrations.chat2workflow.resolve_evaluator",
    "operad.integrations.comfyui.comfyflow.evaluator",
    "operad.integrations.comfyui.operator",
    "operad.integrations.worfbench.worf_evaluator",
    "operad.integrations.comfyui.generation.designer",
    "operad.flows.generation.designer",
    "operad.operators.remote_agent",
)

DOCS = Path(__file__).parents[3] / "docs" / "security.md"

GREETER = "experts: [{profile: {name: G}, workflow: [[{name: greet, instruction: Greet.}]]}]\n"


@pytest.fixture(autouse=True)
def _without_endpoint(monkeypatch):
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPERAD_MODEL", "GITHUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def lines(tmp_path):
    """Returns what a file can do, as lines; `away` stands for a folder outside of its own."""
    folder, away = tmp_path / "own", tmp_path / "away"
    folder.mkdir()
    away.mkdir()

    def lines(text, name="expert.yaml"):
        (folder / name).write_text(text.replace("AWAY", str(away)))
        found = preview(folder / name).capabilities
        return [line.replace(str(away), "AWAY").replace(str(folder), "OWN") for line in found.lines] if found else []

    lines.folder, lines.away = folder, away  # pyright: ignore
    return lines


# Every key


def parts_of(kind: type[BaseModel], seen: dict[type[BaseModel], None]) -> None:
    """Collects a part of a file, and the parts inside of it."""
    if kind in seen:
        return
    seen[kind] = None
    pending = [field.annotation for field in kind.model_fields.values()]
    while pending:
        annotation = pending.pop()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            parts_of(annotation, seen)
        pending += typing.get_args(annotation)


def parameters_of(kind: typing.Any) -> set[str]:
    """The parameters of a node type, and the fields of tuples and mappings in them."""
    names = set[str]()
    for name, field in kind.model_fields.items():
        names.add(name)
        pending = [field.annotation] if name != "failure" else []
        while pending:
            annotation = pending.pop()
            if isinstance(annotation, type) and hasattr(annotation, "_fields") and annotation is not Selector:
                names |= {f"{name}.{each}" for each in annotation._fields}  # pyright: ignore
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                names |= {f"{name}.{each}" for each in annotation.model_fields}
            pending += typing.get_args(annotation)
    return names


def test_every_key_of_a_file_is_classified_once():
    seen: dict[type[BaseModel], None] = {}
    for root in (ConfigSpec, TasksSpec):
        parts_of(root, seen)
    keys = {kind.__name__: set(kind.model_fields) for kind in seen}
    assert {name: known.opening | known.harmless for name, known in KEYS.items()} == keys
    assert [name for name, known in {**KEYS, **NODE_KEYS}.items() if known.opening & known.harmless] == []


def test_every_parameter_of_a_node_is_classified_once():
    capabilities = {name: node_capabilities(name) for name in NODE_TYPES}
    known = {name: each and each.keys.opening | each.keys.harmless for name, each in capabilities.items()}
    assert known == {name: parameters_of(NODE_TYPES[name].params_type) for name in NODE_TYPES}


def test_every_part_with_a_key_that_opens_something_has_a_reader():
    opening = {name for name, keys in KEYS.items() if keys.opening}
    read = {kind.__name__ for reader in READERS for kind in (reader, *reader.__subclasses__())}
    by_others = {"StreamableHttpServer", "SseServer", "StdioServer", "TaskSpec", "VerifySpec"}  # of tools and tasks
    assert opening - read - by_others == set()
    assert {name for name, keys in NODE_KEYS.items() if keys.opening} == set(NODE_READERS)


def test_a_key_that_nobody_has_classified_needs_trust():
    class New(ModelSpec):
        sends_home: str = ""

    [found] = unclassified(New(name="m", sends_home="x"), "ModelSpec", KEYS)
    assert str(found) == "sets sends_home of ModelSpec, which is not known to be harmless"


def test_every_parameter_of_the_classes_of_operad_is_classified():
    for module in (*pkgutil.iter_modules(operad.evaluators.__path__, "operad.evaluators."), *OTHER_HOMES):
        import_module(module if isinstance(module, str) else module.name)
    pending: list[type] = [Operator]
    names: set[str] = set()
    while pending:
        kind: typing.Any = pending.pop()
        pending += [
            each for each in kind.__subclasses__() if each.__module__.startswith("operad.") and each is not NodeOperator
        ]
        names |= set(inspect.signature(kind.__init__).parameters)
    objects = {
        "self",
        "instruction",
        "id",
        "config",
        "tools",
        "actions",
        "policy",
        "toolkit",
        "knowledge_base",
        "others",
    }
    of_python = {"runner", "services"}  # objects, which YAML cannot write
    assert names - objects - of_python == CLASS_KEYS.opening | CLASS_KEYS.harmless


def test_docs_list_every_key_that_opens_something():
    section = DOCS.read_text().partition("### Capabilities")[2].partition("\n#")[0]
    named = {
        f"{name}.{key}": key.rstrip("_")
        for name, keys in {**KEYS, **NODE_KEYS, "params": CLASS_KEYS}.items()
        for key in keys.opening
    }
    assert [place for place, key in named.items() if f"`{key}`" not in section] == []


# What is read from files


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("model: gpt-5\n", []),
        ("model: {name: gpt-5, api_key_env: OPENAI_API_KEY, base_url: 'https://api.openai.com/v1/'}\n", []),
        ("model: embedded\nknowledgebase: {paths: [.], embeddings: embedded}\n", []),
        ("model: openai:gpt-5.6\n", []),
        ("model: mistral:m\n", ["sends $MISTRAL_API_KEY and your prompts to api.mistral.ai"]),
        ("model: {name: ollama:m}\n", ["sends $OLLAMA_API_KEY and your prompts to localhost:11434"]),
        (
            "model: {name: mistral:m, api_key_env: GITHUB_TOKEN}\n",
            ["sends $GITHUB_TOKEN and your prompts to api.mistral.ai"],
        ),
        (
            "model: {name: mistral:m, base_url: 'https://evil.example/v1'}\n",
            ["sends $MISTRAL_API_KEY and your prompts to evil.example"],
        ),
        (
            "services: {images: {name: xai:m}}\n",
            ["sends $XAI_API_KEY and descriptions of images to api.x.ai"],
        ),
        (
            "knowledgebase: {paths: ['.'], embeddings: {name: mistral:m}}\n",
            ["sends $MISTRAL_API_KEY and the texts of your documents to api.mistral.ai"],
        ),
        ("env: {insights: true}\nknowledgebase: {paths: [.], index: index.sqlite}\n", []),
        ("services: {folder: made, search: {type: tavily}}\n", []),
        ("services: {search: {type: duckduckgo}}\ntools: [{type: WEB_READER}, {type: WIKIPEDIA}, {type: TIME}]\n", []),
        (
            "model: {api_key_env: GITHUB_TOKEN, base_url: 'https://evil.example/v1'}\n",
            ["sends $GITHUB_TOKEN and your prompts to evil.example"],
        ),
        (
            "model: {base_url: 'https://api.openai.com@evil.example/v1'}\n",
            ["sends $OPENAI_API_KEY and your prompts to evil.example"],
        ),
        (
            "model: {base_url: 'https://api.openai.com.evil.example/v1'}\n",
            ["sends $OPENAI_API_KEY and your prompts to api.openai.com.evil.example"],
        ),
        ("model: {api_key_env: GITHUB_TOKEN}\n", ["sends $GITHUB_TOKEN and your prompts to api.openai.com"]),
        (
            "model: {name: m, base_url: 'http://localhost:11434/v1'}\n",
            ["sends $OPENAI_API_KEY and your prompts to localhost:11434"],
        ),
        ("model: AWAY/small.gguf\n", ["reads AWAY/small.gguf (weights of a model)"]),
        (
            "leader: {model: {base_url: 'https://a.example/v1'}}\n",
            ["sends $OPENAI_API_KEY and your prompts to a.example"],
        ),
        (
            "knowledgebase: {paths: ['.'], embeddings: {name: m, base_url: 'https://a.example/v1', api_key_env: X_KEY}}\n",
            ["sends $X_KEY and the texts of your documents to a.example"],
        ),
        (
            "services: {images: {name: m, base_url: 'https://a.example'}, speech: {name: s, api_key_env: X_KEY}}\n",
            [
                "sends $OPENAI_API_KEY and descriptions of images to a.example",
                "sends $X_KEY and texts to read aloud to api.openai.com",
            ],
        ),
        (
            "services: {search: {type: tavily, api_key_env: GITHUB_TOKEN}}\n",
            ["sends $GITHUB_TOKEN and searches to api.tavily.com", "sends requests to addresses of the public web"],
        ),
        (
            "services: {search: {type: tavily, base_url: 'https://a.example'}}\n",
            ["sends $TAVILY_API_KEY and searches to a.example", "sends requests to addresses of the public web"],
        ),
        (
            "services: {search: {type: searxng, base_url: 'http://10.0.0.1'}}\n",
            ["sends searches to 10.0.0.1", "sends requests to addresses of the public web"],
        ),
        (
            "services: {models: {x: {name: m, base_url: 'https://a.example/v1', api_key_env: X_KEY}}}\n",
            ["sends $X_KEY and your prompts to a.example"],
        ),
        (
            "services: {http: {allowed_hosts: [localhost, '169.254.169.254']}}\n",
            ["reaches 169.254.169.254, also at an internal address", "reaches localhost, also at an internal address"],
        ),
        ("services: {code: {packages: [pandas]}}\n", ["runs code of nodes with the Python packages pandas"]),
        ("services: {folder: AWAY/made}\n", ["writes AWAY/made (files of nodes)"]),
        ("services: {folder: ../up}\n", ["writes OWN-PARENT/up (files of nodes)"]),
        ("services: {knowledge: {k: {paths: [AWAY]}}}\n", ["reads AWAY (knowledge)"]),
        ("services: {workflows: {w: AWAY/flow.yaml}}\n", ["reads AWAY/flow.yaml (workflow)"]),
        ("knowledgebase: {paths: ['.', AWAY], index: AWAY/i.sqlite}\n", ["reads AWAY (knowledge)", "writes AWAY/i.sqlite (index of knowledge)"]),
        ("env: {insights: AWAY/i.sqlite}\n", ["writes AWAY/i.sqlite (insights)"]),
        ("durable: {max_runs: 1}\n", ["deletes finished durable runs of G"]),
        (
            "tools: [{name: n, type: MCP, mcp_transport_config: {transport_type: SSE, url: 'http://h:1/sse', headers: {X-Key: {secret: K}}}}]\n",
            ["sends $K to h:1", "connects to the MCP server h:1/sse, with the headers X-Key"],
        ),
        (
            "tools: [{name: n, type: MCP, mcp_transport_config: {transport_type: STDIO, command: npx, env: {T: {secret: K}}}}]\n",
            ["starts the command npx, with T", "sends $K to npx"],
        ),
        (
            "operators: [{name: x, type: request, params: {url: 'https://h/{{secret.A}}', headers: 'X: {{secret.B}}', authorization: {type: bearer, secret: C}}}]\n",
            ["sends $A to h", "sends $B to h", "sends $C to h", "sends requests to h"],
        ),
        (
            "operators: [{name: x, type: request, params: {url: '{{#start.url#}}', headers: 'X: {{secret.B}}'}}]\n",
            ["sends $B to any address", "sends requests to addresses of the public web"],
        ),
        (
            "operators: [{name: x, type: comfyui, params: {server: 'http://h:1', workflow: {}, token_env: COMFYUI_TOKEN}}]\n",
            ["sends $COMFYUI_TOKEN and inputs of node x to h:1", "sends requests to h:1"],
        ),
        (
            "operators: [{name: x, type: operad.integrations.comfyui.node.ComfyUINode, params: {server: 'http://h:1', workflow: {}, token_env: COMFYUI_TOKEN}}]\n",
            ["sends $COMFYUI_TOKEN and inputs of node x to h:1", "sends requests to h:1"],
        ),
        (
            "operators: [{name: x, type: start, params: {variables: {doc: file, other: string}, defaults: {doc: AWAY/a.pdf, other: AWAY/b}}}]\n",
            ["reads AWAY/a.pdf (default of the input doc)"],
        ),
        (
            "operators: [{name: x, instruction: Draw., class: operad.integrations.comfyui.operator.ComfyUI, params: {server: 'http://h:1', workflow: AWAY/w.json}}]\n",
            ["sends inputs and files of your jobs to h:1", "reads AWAY/w.json (workflow of ComfyUI)"],
        ),
        (
            "operators: [{name: x, instruction: Ask., class: operad.operators.remote_agent.RemoteAgent, params: {server: 'https://h.example/a2a/X', secret: AGENT_KEY}}]\n",
            ["sends $AGENT_KEY and inputs and files of your jobs to h.example/a2a/X"],
        ),
        (
            "operators: [{name: x, instruction: Judge., class: operad.integrations.worfbench.worf_evaluator.WorFEvaluator, params: {gold: AWAY/secret}}]\n",
            ["reads AWAY/secret (gold of WorFEvaluator)"],
        ),
        (
            "operators: [{name: x, instruction: Go., cache: {path: AWAY/c.db}, fallback: {model: {name: m, base_url: 'https://a.example/v1'}}}]\n",
            ["sends $OPENAI_API_KEY and your prompts to a.example", "writes AWAY/c.db (cache)"],
        ),
        (
            "operators: [{name: x, instruction: Go., model: {api_key_env: GITHUB_TOKEN}}]\nmodel: {name: m, base_url: 'https://a.example/v1'}\n",
            [
                "sends $GITHUB_TOKEN and your prompts to a.example",
                "sends $OPENAI_API_KEY and your prompts to a.example",
            ],
        ),
        (
            "operators: [{name: x, instruction: Judge., class: operad.integrations.chat2workflow.resolve_evaluator.ResolveEvaluator, "
            'params: {folder: "AWAY/a\\nb", subtask: {dataset: "AWAY/c\\nd", task: t, round: 1}}}]\n',
            ["reads AWAY/c d (subtask of ResolveEvaluator)", "writes AWAY/a b (folder of ResolveEvaluator)"],
        ),
        (
            "model: {name: embedded, base_url: 'https://evil.example/v1', api_key_env: GITHUB_TOKEN}\n",
            ["sends $GITHUB_TOKEN and your prompts to evil.example"],
        ),
        ("model: {name: embedded, api_key_env: X_KEY}\n", ["sends $X_KEY and your prompts to api.openai.com"]),
        (
            "operators: [{name: x, instruction: Go., fallback: {model: {api_key_env: X_KEY}}}]\nmodel: embedded\n",
            ["sends $X_KEY and your prompts to api.openai.com"],
        ),
    ],
)  # fmt: skip
def test_what_a_file_can_do_is_listed(lines, text, found, monkeypatch):
    for name in ("GITHUB_TOKEN", "X_KEY", "TAVILY_API_KEY", "OPENAI_API_KEY", "MISTRAL_API_KEY", "XAI_API_KEY"):
        monkeypatch.setenv(name, "secret")
    (lines.folder / "notes.md").write_text("Notes.")
    expected = [line.replace("OWN-PARENT", str(lines.folder.parent)) for line in found]
    assert lines(GREETER + text) == expected


def test_an_expert_and_its_operators_are_listed_with_the_endpoint_and_key_that_they_take_over(lines, monkeypatch):
    monkeypatch.setenv("A_KEY", "a")
    monkeypatch.setenv("B_KEY", "b")
    experts = """experts:
  - profile: {name: A}
    model: {name: a, base_url: 'https://a.example/v1', api_key_env: A_KEY}
    workflow: [[{name: x, instruction: Go., model: {name: b}}]]
  - profile: {name: B}
    workflow: [[{name: y, instruction: Go., model: {api_key_env: B_KEY}}]]
"""
    assert lines(experts) == [
        "sends $A_KEY and your prompts to a.example",
        "sends $B_KEY and your prompts to api.openai.com",
    ]


def test_the_environment_pairs_its_endpoint_with_its_key_alone(lines, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gateway:1/v1")
    monkeypatch.setenv("GITHUB_TOKEN", "g")
    assert lines(GREETER + "model: {base_url: 'http://gateway:1/v1/'}\n") == []
    assert lines(GREETER + "model: {base_url: 'http://gateway:1/v2'}\n") == [
        "sends $OPENAI_API_KEY and your prompts to gateway:1/v2"
    ]
    assert lines(GREETER + "model: {base_url: 'https://api.openai.com/v1'}\n") == [
        "sends $OPENAI_API_KEY and your prompts to api.openai.com"
    ]
    assert lines(GREETER + "model: {api_key_env: GITHUB_TOKEN}\n") == [
        "sends $GITHUB_TOKEN and your prompts to gateway:1"
    ]


def test_the_vendor_of_the_environments_model_needs_no_trust(lines, monkeypatch):
    monkeypatch.setenv("OPERAD_MODEL", "mistral:mistral-large-latest")
    assert lines(GREETER + "model: mistral:mistral-small-latest\n") == []
    assert lines(GREETER + "model: groq:m\n") == ["sends $GROQ_API_KEY and your prompts to api.groq.com/openai/v1"]


def test_a_name_with_a_vendor_takes_neither_endpoint_nor_key_of_the_model_around_it(lines, tmp_path, monkeypatch):
    monkeypatch.setenv("MISTRAL_API_KEY", "of-mistral")
    monkeypatch.setenv("GITHUB_TOKEN", "of-github")
    text = """
operators: [{name: x, instruction: Go., model: mistral:m}]
experts: [{profile: {name: A}, workflow: [[x]]}]
model: {name: a, base_url: 'https://a.example/v1', api_key_env: GITHUB_TOKEN}
"""
    assert lines(text) == [
        "sends $GITHUB_TOKEN and your prompts to a.example",
        "sends $MISTRAL_API_KEY and your prompts to api.mistral.ai",
    ]
    expert = load_text(text, "x.yaml", tmp_path, trust=True).expert()
    operator: Any = next(iter(expert.workflow.graph().operators.values()))
    assert operator.thinker(expert.reasoner).model.located().key == "of-mistral"


def test_the_key_of_the_environment_is_not_sent_to_another_vendor(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    for text in ("model: mistral:m\n", "model: {name: m, base_url: 'https://api.mistral.ai/v1'}\n"):
        with pytest.raises(InputError, match=r"MISTRAL_API_KEY is not set"):
            load_text(GREETER + text, "x.yaml", tmp_path, trust=True).expert()


def test_a_name_with_a_vendor_on_the_command_line_replaces_endpoint_and_key_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("MISTRAL_API_KEY", "of-mistral")
    monkeypatch.setenv("GITHUB_TOKEN", "of-github")
    text = GREETER + "model: {name: a, base_url: 'https://a.example/v1', api_key_env: GITHUB_TOKEN}\n"
    configuration = load_text(text, "x.yaml", tmp_path, trust=True)
    reasoner: Any = configuration.expert(model_name="mistral:m").reasoner
    located = reasoner.model.located()
    assert (located.name, located.base_url, located.key) == ("m", "https://api.mistral.ai/v1", "of-mistral")


@pytest.mark.parametrize("rest", ["/@", "/v1/x@", "?@", "#@", "/a@b.example/", "?x=ada:y@"])
def test_the_listed_host_is_the_one_that_is_connected_to(tmp_path, rest):
    url = f"http://ada:pass@evil.example{rest}api.openai.com/v1"
    assert httpx.URL(url).host == "evil.example"
    plain = url.replace("ada:pass@", "")
    server = f"{{name: m, type: MCP, mcp_transport_config: {{transport_type: SSE, url: '{plain}', headers: {{X: {{secret: K}}}}}}}}"
    text = f"{GREETER}model: {{base_url: '{url}'}}\nservices: {{search: {{type: searxng, base_url: '{url}'}}}}\ntools: [{server}]\n"
    hosts = []
    with pytest.raises(UntrustedError) as raised:
        load_text(
            text, "x.yaml", tmp_path, trust=lambda found: hosts.extend(each.where for each in found.each) or False
        )
    assert hosts == ["evil.example", "evil.example", "evil.example", "evil.example", "addresses of the public web"]
    assert "openai.com" not in str(raised.value)


@pytest.mark.parametrize("login", ["ada:pa/ss@", "ada:pa?ss@", "ada:p#a/ss@"])
def test_a_password_with_a_slash_is_not_listed(lines, login):
    assert lines(f"{GREETER}model: {{base_url: 'http://{login}models.example/v1'}}\n") == [
        "sends $OPENAI_API_KEY and your prompts to models.example"
    ]


def test_an_empty_variable_is_not_replaced_by_the_key_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("EMPTY_KEY", "")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
    text = GREETER + "model: {name: m, base_url: 'https://a.example/v1', api_key_env: EMPTY_KEY}\n"
    with pytest.raises(Exception, match="EMPTY_KEY is not set"):
        load_text(text, "x.yaml", tmp_path, trust=True).expert()


@pytest.mark.parametrize(
    "link", ["docs -> AWAY", "notes -> AWAY/new", "g.insights.sqlite-wal -> AWAY/x", "deep/docs -> AWAY"]
)
def test_links_that_lead_out_of_the_folder_are_followed(lines, link):
    name, _, target = link.partition(" -> ")
    place = lines.folder / name
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(target.replace("AWAY", str(lines.away)))
    paths = {"docs": "docs", "deep/docs": "deep/docs"}
    text = f"knowledgebase: {{paths: [{paths.get(name, '.')}]}}\nservices: {{folder: notes}}\nenv: {{insights: g.insights.sqlite}}\n"
    (lines.folder / "a.md").write_text("A.")
    assert any("AWAY" in line for line in lines(GREETER + text))


def test_a_link_with_a_space_at_the_end_of_its_name_is_followed(lines):
    (lines.folder / "w.json ").symlink_to(lines.away / "w.json")
    text = "{name: x, instruction: Draw., class: operad.integrations.comfyui.operator.ComfyUI, params: {server: 'http://h:1', workflow: 'w.json '}}"
    assert "reads AWAY/w.json (workflow of ComfyUI)" in lines(f"{GREETER}operators: [{text}]\n")


def test_a_workflow_file_in_the_folder_counts_with_the_file_that_names_it(lines):
    (lines.folder / "flow.yaml").write_text(COMFY)
    assert lines(GREETER + "services: {workflows: {w: flow.yaml}}\n") == [
        "sends $COMFYUI_TOKEN and inputs of node 2 to h:1",
        "sends requests to h:1",
    ]


COMFY = """workflow: w
nodes:
  1: {type: start, variables: {q: string}}
  2: {type: comfyui, server: 'http://h:1', token_env: COMFYUI_TOKEN, workflow: {'1': {class_type: A, inputs: {}}}, after: 1}
  3: {type: end, outputs: {text: 2.text}, after: 2}
"""


def test_a_workflow_file_elsewhere_that_needs_trust_is_refused_even_with_trust(lines):
    (lines.away / "flow.yaml").write_text(COMFY)
    (lines.folder / "expert.yaml").write_text(GREETER + f"services: {{workflows: {{w: {lines.away}/flow.yaml}}}}\n")
    with pytest.raises(InvalidError, match=r"lies outside of this folder, and sends \$COMFYUI_TOKEN"):
        load(lines.folder / "expert.yaml", trust=True)


@pytest.mark.slow
def test_a_file_that_can_do_endlessly_many_things_is_refused(tmp_path):
    operators = "".join(f"- {{name: o{i}, instruction: Go., model: {{api_key_env: K{i}}}}}\n" for i in range(145))
    experts = "".join(
        f"- {{profile: {{name: e{i}}}, model: {{base_url: 'http://h{i}/v1'}}, workflow: [[o{i}]]}}\n"
        for i in range(145)
    )
    with pytest.raises(InputError, match=r"can do more than 20,000 things outside of its folder; divide it"):
        preview_text(f"operators:\n{operators}experts:\n{experts}", "many.yaml", tmp_path)


@pytest.mark.parametrize("module", ["steps", "tools.steps"])
def test_a_module_that_is_a_link_out_of_the_folder_is_not_read(lines, heard, module):
    (lines.away / "steps.py").write_text("def search(): ...\n")
    (lines.folder / "steps.py").symlink_to(lines.away / "steps.py")
    (lines.folder / "tools").symlink_to(lines.away, target_is_directory=True)
    heard.clear()
    with pytest.raises(InvalidError) as caught:
        lines(f"{GREETER}tools: [{module}.search]\n")
    [issue] = caught.value.issues
    assert f"module '{module}' is neither beside this file nor installed; it is a link that leads out" in issue.message
    assert [each for each in heard if str(lines.away) in each or (each.startswith("open") and "steps.py" in each)] == []


def test_all_of_a_request_that_sends_a_secret_counts(tmp_path):
    def found(**params):
        request = {"url": "https://api.example/user", "headers": "X-Key: {{secret.KEY}}", **params}
        return graph_capabilities("f.json", tmp_path, NodeGraph([NodeSpec("r", "request", request)], []))

    others = [
        found(url="https://api.example/user/keys"),
        found(method="post"),
        found(params="to: other"),
        found(method="post", body=["json", [["", '{"to": "other"}']]]),
        found(headers="X-Key: {{secret.KEY}}\nX-To: other"),
    ]
    assert {each.lines for each in [*others, found()]} == {
        ("sends $KEY to api.example", "sends requests to api.example")
    }
    assert len({each.digest for each in [*others, found(), found(method="get")]}) == 6
    assert found(secret_hosts=["\ud800"]).lines[0] == r"sends $KEY to \xd800"


def test_a_workflow_of_typed_nodes_has_its_own_list(tmp_path):
    node = NodeSpec("2", "comfyui", {"server": "http://h:1", "workflow": {}, "token_env": "COMFYUI_TOKEN"})
    found = graph_capabilities("flow.yaml", tmp_path, NodeGraph([node], []))
    assert found.lines == ("sends $COMFYUI_TOKEN and inputs of node 2 to h:1", "sends requests to h:1")
    asks_nothing = NodeSpec("2", "request", {"url": "https://a.example/{{#1.x#}}"})
    assert not graph_capabilities("flow.yaml", tmp_path, NodeGraph([asks_nothing], []))


def test_tasks_list_their_files_and_verifiers(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "secret").write_text("s")
    file = tmp_path / "own" / "tasks.yaml"
    file.write_text("- {id: a, job: x, files: [../secret], verify: {equals: y}}\n")
    assert capabilities_of_tasks(file).lines == (f"reads {tmp_path}/secret (file of a task)",)
    with pytest.raises(UntrustedError):
        read_tasks(file)
    assert [each.name for each in read_tasks(file, trust=True).every[0].job.files] == ["secret"]


# Nothing is done


HOSTILE = f"""{GREETER}
model: {{name: m, base_url: 'http://127.0.0.1:9/v1'}}
knowledgebase: {{paths: [AWAY], index: AWAY/index.sqlite}}
env: {{insights: AWAY/insights.sqlite}}
services:
  folder: AWAY/made
  workflows: {{w: AWAY/flow.yaml}}
  knowledge: {{k: {{paths: [AWAY/more]}}}}
tools: [{{name: n, type: MCP, mcp_transport_config: {{transport_type: SSE, url: 'http://127.0.0.1:9/sse'}}}}]
operators:
  - {{name: a, instruction: Go., cache: {{path: AWAY/cache.sqlite}}}}
  - {{name: b, instruction: Go., class: operad.integrations.worfbench.worf_evaluator.WorFEvaluator, params: {{gold: AWAY/gold}}}}
  - {{name: c, instruction: Go., class: operad.integrations.comfyui.operator.ComfyUI, params: {{server: 'http://h', workflow: AWAY/w.json}}}}
  - {{name: d, type: start, params: {{variables: {{doc: file}}, defaults: {{doc: AWAY/doc.pdf}}}}}}
"""

_heard: list[str] | None = None


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if _heard is not None and event in (
        "open",
        "os.mkdir",
        "os.listdir",
        "os.scandir",
        "sqlite3.connect",
        "socket.connect",
    ):
        _heard.append(f"{event} {arguments}")


@pytest.fixture
def heard(monkeypatch):
    """What Python opens, makes and connects to."""
    global _heard
    _heard = []
    if not getattr(_hear, "added", False):
        sys.addaudithook(_hear)
        _hear.added = True  # pyright: ignore
    yield _heard
    _heard = None


@pytest.mark.parametrize("do", ["preview", "load", "load_services"])
def test_a_file_without_trust_opens_makes_and_connects_nothing_outside_of_its_folder(lines, heard, do):
    for name in ("notes.md", "gold", "w.json", "doc.pdf", "flow.yaml", "more", "insights.sqlite"):
        (lines.away / name).write_text("secret")
    file = lines.folder / "expert.yaml"
    services = HOSTILE.partition("services:\n")[2].partition("tools:")[0].replace("\n  ", "\n").lstrip()
    file.write_text((services if do == "load_services" else HOSTILE).replace("AWAY", str(lines.away)))
    before = sorted(lines.away.iterdir())
    heard.clear()
    if do == "preview":
        assert len(preview(file).capabilities.lines) == 13
    else:
        with pytest.raises(UntrustedError):
            load(file) if do == "load" else load_services(file, None)
    assert [each for each in heard if str(lines.away) in each or each.startswith("socket")] == []
    assert sorted(lines.away.iterdir()) == before
