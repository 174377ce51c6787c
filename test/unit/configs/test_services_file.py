"""Files of services: tools, knowledge, searches and workflows as tools, for workflows of typed nodes."""

import json

import pytest

from operad.configs import load
from operad.configs.capabilities import UntrustedError
from operad.configs.services import load_services
from operad.flows.assemble import assemble
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators import Operator
from operad.operators.builtin_tools import web_reader, wikipedia
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.operators.web.fetch import Guard
from operad.operators.web.search import DuckDuckGo, SearxNG, Tavily
from operad.runtime import Job
from operad.runtime.testing import Say, ScriptedModel, ScriptedReasoner
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import FetchError, InvalidError


def written(folder, text, **files):
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content, encoding="utf-8")
    path = folder / "services.yaml"
    path.write_text(text, encoding="utf-8")
    return path


async def run(services, tool, **arguments):
    """The outputs of a tool node that is called with these arguments."""
    nodes = [
        NodeSpec("1", "start", {"variables": [["q", "string"]]}),
        NodeSpec("2", "tool", {"tool": tool, "arguments": arguments}),
        NodeSpec("3", "end", {"outputs": [["text", ["text", "2"]], ["json", ["json", "2"]]]}),
    ]
    graph = NodeGraph(nodes, [Edge("1", "2"), Edge("2", "3")])
    workflow = assemble(graph, NODE_TYPES, services=services)
    return (await workflow.aexecute(Job(goal="", inputs={"q": "figs"}), reasoner=None)).outputs


async def test_a_function_beside_the_file_is_a_tool_once_it_is_trusted(tmp_path):
    code = "def weigh(fruit: str) -> dict:\n    'Weigh it.'\n    return {'fruit': fruit, 'grams': 50}\n"
    path = written(tmp_path, "tools:\n- fruits.weigh\n", fruits__py=code)
    with pytest.raises(UntrustedError, match=r"fruits\.py"):
        load_services(path, None)
    services = load_services(path, None, trust=True)
    assert (await run(services, "weigh", fruit="{{#1.q#}}"))["json"] == {"fruit": "figs", "grams": 50}


async def test_ready_tools_reach_the_hosts_that_a_trusted_file_allows(tmp_path, web):
    page = await web.serve(web.reply(b"plain words", content_type="text/plain"))
    host = page.removeprefix("http://")
    text = f"http: {{allowed_hosts: ['{host}']}}\ntools:\n- {{type: TIME}}\n- {{type: WEB_READER, name: read}}\n"
    services = load_services(written(tmp_path, text), None, trust=True)
    assert (await run(services, "current_time"))["text"].endswith("+00:00")
    assert (await run(services, "read", url=f"{page}/"))["text"] == "plain words"


async def test_the_web_is_searched_by_the_configured_provider(tmp_path, web):
    found = {"results": [{"title": "Fig", "url": "https://a.org", "content": "A fruit."}]}
    address = await web.serve(web.reply(json.dumps(found).encode()))
    text = f"search: {{type: searxng, base_url: '{address}'}}\ntools:\n- {{type: WEB_SEARCH}}\n"
    services = load_services(written(tmp_path, text), None, trust=True)
    assert (await run(services, "web_search", query="figs"))["json"]["results"][0]["url"] == "https://a.org"


def test_keys_of_searches_come_from_the_environment_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-secret")
    services = load_services(written(tmp_path, "search: {type: tavily}"), None)
    assert isinstance(services.search, Tavily)
    assert "tvly-secret" not in repr(services)
    assert isinstance(load_services(written(tmp_path, "search: {type: duckduckgo}"), None).search, DuckDuckGo)
    monkeypatch.delenv("TAVILY_API_KEY")
    for said, wanted in (("{type: tavily}", "TAVILY_API_KEY"), ("{type: searxng}", "`base_url`")):
        with pytest.raises(InvalidError) as caught:
            load_services(written(tmp_path, f"search: {said}"), None)
        assert wanted in str(caught.value)
    text = "search: {type: searxng, base_url: 'http://localhost:1'}"
    made = load_services(written(tmp_path, text), None, trust=True).search
    assert made == SearxNG(base_url="http://localhost:1")


async def test_wikipedia_answers_with_the_best_articles(web):
    pages = [
        {"index": 2, "title": "B", "extract": "b"},
        {"index": 1, "title": "Fig", "fullurl": "https://w", "extract": "f"},
    ]
    address = await web.serve(web.reply(json.dumps({"query": {"pages": pages}}).encode()))
    host = address.removeprefix("http://")
    tool = wikipedia(Services(guard=Guard(allowed_hosts=(host,))), address + "/{language}")
    assert await tool.call({"query": "fig tree", "language": "de"}) == "# Fig\nhttps://w\n\nf\n\n# B\n\n\nb"
    assert web.requests[0].path.startswith("/de?action=query")
    assert "gsrsearch=fig%20tree" in web.requests[0].path


@pytest.mark.parametrize(
    ("status", "body", "said", "transient"),
    [
        (429, b"{}", "Wikipedia refuses the search (429): {}; wait, or ask less often", True),
        (503, b"", "Wikipedia refuses the search (503): no reason is given", True),
        (403, b'{"error": {"info": "no"}}', 'Wikipedia refuses the search (403): {"error": {"info": "no"}}', False),
        (200, b'{"error": {"code": "x", "info": "Off."}}', "Wikipedia refuses the search (200): Off.", False),
        (200, b"<p>", "the answer of Wikipedia could not be read (status 200)", False),
    ],
)
async def test_an_error_of_wikipedia_is_not_the_absence_of_articles(web, status, body, said, transient):
    address = await web.serve(web.reply(body, status=status))
    host = address.removeprefix("http://")
    tool = wikipedia(Services(guard=Guard(allowed_hosts=(host,))), address + "/{language}")
    with pytest.raises(FetchError) as caught:
        await tool.call({"query": "fig"})
    assert (str(caught.value), caught.value.transient) == (said, transient)


@pytest.mark.parametrize(("status", "transient"), [(503, True), (429, True), (404, False)])
async def test_an_error_of_a_page_is_tried_again_if_it_may_pass(web, status, transient):
    address = await web.serve(web.reply(b"", status=status))
    tool = web_reader(Services(guard=Guard(allowed_hosts=(address.removeprefix("http://"),))))
    with pytest.raises(FetchError, match=f"the page answers with status {status}") as caught:
        await tool.call({"url": address})
    assert caught.value.transient is transient


async def test_knowledge_of_the_file_is_found_by_its_name(tmp_path):
    (tmp_path / "handbook").mkdir()
    text = "knowledge:\n  terms: {paths: [handbook]}\n"
    path = written(tmp_path, text)
    (tmp_path / "handbook/refunds.md").write_text("# Terms\n\nRefunds arrive within seven days.\n")
    nodes = [
        NodeSpec("1", "start", {"variables": [["q", "string"]]}),
        NodeSpec("2", "knowledge-retrieval", {"query": ["q", "1"], "knowledge": "terms"}),
        NodeSpec("3", "end", {"outputs": [["content", ["result.0.content", "2"]]]}),
    ]
    workflow = assemble(
        NodeGraph(nodes, [Edge("1", "2"), Edge("2", "3")]), NODE_TYPES, services=load_services(path, None)
    )
    said = await workflow.aexecute(Job(goal="", inputs={"q": "refunds"}), reasoner=None)
    assert "seven days" in said.outputs["content"]
    with pytest.raises(InvalidError, match=r"services\.yaml:2 knowledge\.terms\.paths\[0\]"):
        load_services(written(tmp_path, "knowledge:\n  terms: {paths: [nowhere]}\n"), None)


async def test_a_workflow_is_a_tool_whose_answer_is_a_variable():
    nodes = [
        NodeSpec("1", "start", {"variables": [["word", "string"]]}),
        NodeSpec("2", "end", {"outputs": [["answer", ["word", "1"]]]}),
    ]
    inner = assemble(NodeGraph(nodes, [Edge("1", "2")]), NODE_TYPES)
    said = await run(Services(workflows={"echo": inner}), "echo", word=["q", "1"])
    assert said["json"] == {"answer": "figs"}
    assert said["text"] == "figs"


def test_a_model_whose_key_is_not_set_is_an_issue_with_its_place(tmp_path):
    text = 'models:\n  small: {name: tiny, base_url: "http://localhost:8000/v1", api_key_env: NO_KEY}\n'
    with pytest.raises(InvalidError, match=r"services\.yaml:2 models\.small.*NO_KEY is not set"):
        load_services(written(tmp_path, text), None)


async def test_a_configuration_has_the_services_of_such_a_file_and_nested_workflows_use_them(tmp_path, monkeypatch):
    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook/refunds.md").write_text("Refunds arrive within seven days.\n")
    (tmp_path / "look.yaml").write_text(
        """
workflow: look
nodes:
  1: {type: start, variables: [[q, string]]}
  2: {type: knowledge-retrieval, after: 1, query: [q, '1'], knowledge: terms}
  3: {type: tool, after: 2, tool: clock}
  4: {type: llm, after: 3, model_name: small, system: '', user: "{{#2.result.0.content#}}"}
  5: {type: end, after: 4, outputs: [[said, [text, '4']]]}
"""
    )
    text = """
services:
  tools: [{type: TIME, name: clock}]
  models: {small: {name: small-model, base_url: 'BASE', api_key_env: SOME_API_KEY}}
  knowledge: {terms: {paths: [handbook]}}
  workflows: {look: look.yaml}
operators:
  - {name: begin, type: start, params: {variables: [[q, string]]}}
  - {name: look, type: sub-workflow, params: {workflow: look, inputs: [[q, [q, begin]]], outputs: [[said, string]]}}
  - {name: done, type: end, params: {outputs: [[said, [said, look]]]}}
experts: [{profile: {name: X}, workflow: [[begin, look, done]]}]
"""
    monkeypatch.setenv("SOME_API_KEY", "any")
    with ScriptedModel([Say("Within seven days.")]) as model:
        path = tmp_path / "expert.yaml"
        path.write_text(text.replace("BASE", model.base_url))
        expert = load(path, trust=True).expert()
        said = await expert.workflow.aexecute(Job(goal="", inputs={"q": "refunds"}), ScriptedReasoner([]))
        assert said.outputs == {"said": "Within seven days."}
        assert model.requests[0]["model"] == "small-model"
        assert "seven days" in model.requests[0]["messages"][-1]["content"]


def test_ready_tools_are_tools_of_experts_by_their_own_names(tmp_path):
    path = tmp_path / "expert.yaml"
    path.write_text(
        """
tools: [{type: WEB_SEARCH}, {type: TIME, name: clock, approve: true}]
experts: [{profile: {name: X}, workflow: [[{name: a, instruction: Look., tools: [web_search, clock, {type: WIKIPEDIA}]}]]}]
"""
    )
    [operator] = load(path).expert().workflow.get_operators()
    assert isinstance(operator, Operator)
    assert [tool.name for tool in operator.config.tools if isinstance(tool, Tool)] == [
        "web_search",
        "clock",
        "wikipedia",
    ]
    path.write_text("tools: [{type: WEB_READER, nam: x}]\n")
    with pytest.raises(InvalidError, match="unknown key"):
        load(path)
