"""Typed nodes in configuration files, and what they reach outside."""

import json

import jsonschema
import pytest
import yaml

from operad.configs import load as load_file
from operad.configs.schema import NEEDS_NODES, ConfigSpec
from operad.operators import NodeOperator, Selector
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.containers import Loop
from operad.operators.nodes.sources import ToolNode
from operad.operators.nodes.values import Assigner
from operad.runtime import Job, Retry, Timeout, WorkflowMessage
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import InputError, InvalidError, OperatorError
from operad.runtime.values.secret import key_text

OWN = '''
from pydantic import Field
from operad.operators import NodeOperator, NodeParams, Text, VariableType

class WordCountParams(NodeParams):
    text: Text = Field(description="The text to count the words of.")
    least: int = Field(default=1, ge=1, description="The shortest word, in letters.")

class WordCount(NodeOperator[WordCountParams]):
    """Counts the words of a text."""

    type = "word-count"
    params_type = WordCountParams
    gives = "count (number)"

    def outputs(self, type_of):
        return {"count": VariableType.NUMBER}

    async def compute(self, call):
        return {"count": sum(len(word) >= self.params.least for word in call.text(self.params.text).split())}

class Stubborn(WordCount):
    def __init__(self, *args, **kwargs):
        raise ValueError("not today")

def search(query: str) -> str:
    "Search."
    return f"found {query}"
'''

WRITER = """
operators:
  - {name: begin, type: start, params: {variables: [[question, string], [limit, number]]}}
  - {name: draft, instruction: Answer the question.}
  - name: count
    type: own_nodes.WordCount
    params:
      text: "{{#draft.text#}}"
      least: 2
  - {name: long, type: if-else, params: {cases: [[null, [[[count, count], ">", "3"]]]]}}
  - {name: cut, type: llm, params: {system: Shorten., user: "{{#draft.text#}} to {{#begin.limit#}} words"}}
  - {name: result, type: end, params: {outputs: [[answer, [text, cut]], [words, [count, count]]]}}
  - {name: short, type: end, params: {outputs: [[answer, [text, draft]]]}}
experts:
  - profile: {name: Writer}
    workflow:
      - [begin, draft, count, {operator: long, port: "0"}, cut, result]
      - [{operator: long, port: else}, short]
"""


def load(file):
    """Load a file whose code was written here."""
    return load_file(file, trust=True)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a configuration beside a module `own_nodes`."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "SERPAPI_API_KEY", "OPERAD_IMAGE_MODEL", "OPERAD_SPEECH_MODEL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "own_nodes.py").write_text(OWN)

    def write(text):
        file = tmp_path / "expert.yaml"
        file.write_text(text)
        return file

    return write


def alone(node, services=""):
    """An expert of one node after a start with a text `it`, and an end with all that the node says."""
    return f"""
operators:
  - {{name: begin, type: start, params: {{variables: [[it, string]]}}}}
  - {node}
experts:
  - profile: {{name: Alone}}
    workflow: [[begin, node]]
{services}
"""


def issues(file):
    with pytest.raises(InvalidError) as caught:
        load(file)
    return [f"[{i.code}] {i.where.removeprefix(str(file))}: {i.message}" for i in caught.value.issues]


async def run(file, *answers, **inputs):
    return await load(file).expert().workflow.aexecute(Job(goal="goal", inputs=inputs), ScriptedReasoner(list(answers)))


async def test_typed_nodes_and_operators_make_one_workflow(write):
    file = write(WRITER)
    long = await run(file, "One two three four a", "Four words.", question="Why?", limit=2)
    assert long.outputs == {"answer": "Four words.", "words": 4}
    assert (await run(file, "Short.", question="Why?", limit=2)).outputs == {"answer": "Short."}


async def test_a_port_of_a_typed_node_is_a_number_with_or_without_quotes(write):
    file = write(WRITER.replace('port: "0"', "port: 0"))
    assert (await run(file, "One two three four a", "Four words.", question="Why?", limit=2)).outputs["words"] == 4


async def test_the_platform_may_be_either(write):
    file = write(WRITER + "plugin: {workflow_platform: BUILTIN}\n")
    assert (await run(file, "Short.", question="Why?", limit=2)).outputs == {"answer": "Short."}


async def test_what_start_reads_are_the_jobs_inputs(write):
    with pytest.raises(OperatorError, match="input 'question' \\(string\\) is missing"):
        await run(write(WRITER), "Short.", limit="2")


async def test_operators_with_a_schema_have_its_fields_as_variables(write):
    text = WRITER.replace("Answer the question.}", 'Answer., output_schema: "{reply: string, notes: [string]}"}')
    file = write(text.replace("draft.text", "draft.reply").replace("[text, draft]", "[reply, draft]"))
    answer = json.dumps({"reply": "Short.", "notes": []})
    assert (await run(file, answer, question="Why?", limit=2)).outputs == {"answer": "Short."}
    wrong = issues(write(text))
    assert any("operator 'draft' has no variable 'text'; it has: reply, notes" in issue for issue in wrong), wrong


def test_policies_joins_and_anchors_are_as_for_other_operators(write):
    file = write("""
operators:
  - &begin {type: start, params: {variables: [[it, string]]}}
  - &ask
    type: llm
    params: {system: "", user: "{{#begin.it#}}"}
    retry: {attempts: 5}
    timeout: {run: 3}
    fallback: {outputs: {text: nothing}}
    cache: true
    join: any
experts: [{profile: {name: X}, workflow: [[*begin, *ask]]}]
""")
    graph = load(file).expert().workflow.graph()
    policy = graph.policies["ask"]
    assert (policy.retry, policy.timeout) == (Retry(attempts=5), Timeout(run=3))
    assert policy.cache
    assert isinstance(policy.fallback, WorkflowMessage)
    assert policy.fallback.outputs == {"text": "nothing"}
    assert graph.joins == {"ask": "any"}
    assert isinstance(graph.operators["ask"], NodeOperator)


async def test_a_fallback_of_outputs_stands_for_a_nodes_variables(write):
    file = write("""
operators:
  - {name: begin, type: start, params: {variables: [[it, string]]}}
  - {name: read, type: http-request, params: {url: [it, begin]}, fallback: {outputs: {body: nothing}}}
  - {name: result, type: end, params: {outputs: [[page, [body, read]]]}}
experts: [{profile: {name: X}, workflow: [[begin, read, result]]}]
""")
    assert (await run(file, it="http://127.0.0.1:9/")).outputs == {"page": "nothing"}


async def test_what_runs_inside_for_each_item_reads_the_item(write):
    file = write("""
operators:
  - {name: begin, type: start, params: {variables: [[names, "array[string]"]]}}
  - name: each
    map: {over: names}
    workflow: [[{name: greet, type: template-transform, params: {variables: [[name, [item, each]]], template: "Hi {{ name }}"}}]]
  - {name: result, type: end, params: {outputs: [[greetings, [items, each]]]}}
experts: [{profile: {name: X}, workflow: [[begin, each, result]]}]
""")
    message = await run(file, names=["Ada", "Alan"])
    assert message.outputs == {"greetings": ["Hi Ada", "Hi Alan"]}


async def test_a_workflow_inside_reads_what_stands_right_before_it(write):
    text = """
operators:
  - {name: begin, type: start, params: {variables: [[it, string]]}}
  - name: inside
    workflow: [[{name: greet, type: answer, params: {answer: "Hi {{#begin.it#}}"}}]]
experts: [{profile: {name: X}, workflow: [[begin, inside]]}]
"""
    assert (await run(write(text), it="Ada")).scratchpad == "Hi Ada"
    [issue] = issues(write(text.replace("#begin.it", "#begin.its")))
    assert issue == (
        "[undefined-variable] :5 operators[1].workflow[0][0].params.answer: 'its' of 'begin': operator 'begin' has no "
        "variable 'its' (did you mean 'it'?); it has: it"
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("type: llm", "type: lmm", "[unknown-type] :11 operators[4].type: there is no node type 'lmm' (did you mean 'llm'?)"),
        ("own_nodes.WordCount", "own_nodes.WordCont", "[unknown-type] :6 operators[2].type: module 'own_nodes' has no 'WordCont' (did you mean 'WordCount'?)"),
        ("own_nodes.WordCount", "own_nodes.search", "own_nodes.search is not a subclass of NodeOperator"),
        ("own_nodes.WordCount", "operad.operators.Operator", "operad.operators.Operator is not a subclass of NodeOperator"),
        ("own_nodes.WordCount", "own_nodes.Stubborn", "[params] :7 operators[2].params: own_nodes.Stubborn cannot be made: ValueError: not today"),
        ("least: 2", "leest: 2", "[unknown-param] :9 operators[2].params.leest: is not a parameter (did you mean 'least'?); there are: text, least"),
        ("least: 2", "least: 0", "[param] :9 operators[2].params.least: must be at least 1, not 0"),
        ('text: "{{#draft.text#}}"\n', "", "[missing-param] :7 operators[2].params.text: is missing"),
        ("draft.text#}}\"\n", "drft.text#}}\"\n", "[undefined-node] :8 operators[2].params.text: 'text' of 'drft': there is no operator 'drft' (did you mean 'draft'?)"),
        ("draft.text#}}\"\n", "cut.text#}}\"\n", "[not-before] :8 operators[2].params.text: 'text' of 'cut': reads 'cut', which does not run before it"),
        ("draft.text#}}\"\n", "#}}\"\n", "[misshapen-reference] :7 operators[2].params: {{##}} names no variable; write {{#id.variable#}}"),
        ('">", "3"', '"contains", "3"', "[param] :10 operators[3].params.cases[0][1][0]: "),
        ("type: if-else, params: {cases: [[null, [[[count, count], \">\", \"3\"]]]]}}", "type: template-transform, params: {variables: [], template: \"{{ x\"}}", "[template] :10 operators[3].params.template: "),
        ("[text, draft]]]", "[text, draft]], [answer, [text, draft]]]", "[param] :13 operators[6].params.outputs: 'answer' is there 2 times"),
        ("[question, string]", "[question, text]", "[param] :3 operators[0].params.variables[0][1]: "),
        ("{name: draft, instruction", "{name: dr/aft, instruction", "[value] :4 operators[1].name: must not contain '/', which separates ids in the paths"),
        ("{name: draft, instruction", "{name: draft, type: llm, instruction", "[unknown-key] :4 operators[1].instruction: an operator has either a `type`"),
        ("least: 2\n", "least: 2\n    ports: [a]\n", "remove 'ports' or `type`"),
        ("least: 2\n", "least: 2\n    retri: {}\n", "[unknown-key] :10 operators[2].retri: unknown key (did you mean 'retry'?)"),
        ('port: "0"', "port: 0.0", "[value] :17 experts[0].workflow[0][3].port: must be text, not 0.0; put it in quotes"),
        ('port: "0"', 'port: "2"', "the operator has no port '2'; it has: 0, else"),
        ("{name: cut, type: llm, params: {system: Shorten., user: \"{{#draft.text#}} to {{#begin.limit#}} words\"}}", "{name: cut, type: loop}", "[unknown-type] :11 operators[4].type: nodes of type 'loop' need a workflow of typed nodes alone"),
        ("    workflow:\n", "    evaluator: cut\n    workflow:\n", "expected an operator, got typed node 'cut'"),
        ("    workflow:\n", "    evaluator: {type: llm}\n    workflow:\n", "evaluator.type: a typed node can be neither an evaluator nor a fallback"),
        ("Answer the question.}", "Answer., fallback: {operator: cut}}", "expected an operator, got typed node 'cut'"),
        ("- {name: draft, instruction: Answer the question.}", "- {name: draft}", "[missing-key] :4 operators[1].instruction: this key is missing"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_node_is_said_at_its_line_in_the_file(write, old, new, said):
    assert old in WRITER
    found = issues(write(WRITER.replace(old, new)))
    assert any(issue.startswith(said) or said in issue for issue in found), found
    assert len(found) == len(set(found))


def test_faults_of_workflows_and_nodes_that_nobody_uses_are_said_too(write):
    unused = """
  - {name: lost, type: llm, params: {systm: x}}
  - {name: around, workflow: [[{name: odd, type: end, params: {outputs: [[a, [x, far]], [a, [x, far]]]}}]]}
experts:"""
    found = issues(write(WRITER.replace("\nexperts:", unused)))
    assert [issue.partition(" is ")[0] for issue in found] == [
        "[missing-param] :14 operators[7].params.system:",
        "[missing-param] :14 operators[7].params.user:",
        "[unknown-param] :14 operators[7].params.systm:",
        "[param] :15 operators[8].workflow[0][0].params.outputs: 'a'",
    ]


# Services


async def test_nodes_find_the_files_knowledge_base_and_tools(write, tmp_path):
    (tmp_path / "notes.txt").write_text("Penguins live in the south.")
    text = """
tools: [{name: search, module_path: own_nodes}]
knowledgebase: {paths: [notes.txt]}
operators:
  - {name: begin, type: start, params: {variables: [[it, string]]}}
  - {name: know, type: knowledge-retrieval, params: {query: [it, begin], knowledge: knowledgebase}}
  - {name: find, type: tool, params: {tool: search, arguments: {query: [it, begin]}}}
  - {name: result, type: end, params: {outputs: [[known, [result, know]], [found, [text, find]]]}}
experts: [{profile: {name: X}, workflow: [[begin, know, result], [begin, find, result]]}]
"""
    outputs = (await run(write(text), it="penguins")).outputs
    assert outputs["found"] == "found penguins"
    assert "Penguins live" in outputs["known"][0]["content"]


@pytest.mark.slow
async def test_a_node_finds_by_meaning_where_the_file_names_embeddings(write, tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "notes.txt").write_text("Refunds arrive within seven days.")
    text = """
knowledgebase: {paths: [notes.txt], embeddings: embedded}
operators:
  - {name: begin, type: start, params: {variables: [[it, string]]}}
  - {name: know, type: knowledge-retrieval, params: {query: [it, begin], knowledge: knowledgebase}}
  - {name: result, type: end, params: {outputs: [[known, [result, know]]]}}
experts: [{profile: {name: X}, workflow: [[begin, know, result]]}]
"""
    [passage] = (await run(write(text), it="When do I get my money back?")).outputs["known"]
    assert passage == {
        "content": "Refunds arrive within seven days.",
        "source": "notes.txt:1",
        "score": 0.0,
    }  # at the mean: the only one


FLOW = {
    "nodes_info": [
        {"id": "1", "type": "start", "param": {"variables": [["name", "string"]]}},
        {"id": "2", "type": "template-transform", "param": {"variables": [["n", ["name", "1"]]], "template": "Hi {{ n }}"}},
        {"id": "3", "type": "end", "param": {"outputs": [["greeting", ["output", "2"]]]}},
    ],
    "edges": [["1", 0, "2"], ["2", 0, "3"]],
}  # fmt: skip

GREET = "{name: node, type: sub-workflow, params: {workflow: greet, inputs: [[name, [it, begin]]], outputs: [[greeting, string]]}}"


async def test_workflow_files_run_inside_and_files_go_to_the_folder(write, tmp_path):
    (tmp_path / "greet.json").write_text(json.dumps(FLOW))
    message = await run(write(alone(GREET, "services: {workflows: {greet: greet.json}}")), it="Ada")
    assert message.outputs == {"greeting": "Hi Ada"}
    export = '{name: node, type: markdown-exporter, params: {target_type: md, md_text: "{{#begin.it#}}"}}'
    await run(write(alone(export, "services: {folder: made}")), it="Ada")
    assert (tmp_path / "made" / "markdown-exporter-node.md").read_text() == "Ada"


def test_services_are_made_of_the_file_and_the_environment(write, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-mine")
    monkeypatch.setenv("OPERAD_IMAGE_MODEL", "of-the-environment")
    monkeypatch.setenv("OPERAD_SPEECH_MODEL", "of-the-environment")
    services = load(
        write(
            WRITER
            + """
services:
  search: {type: serpapi, api_key_env: MY_KEY}
  images: {name: draws, base_url: "http://127.0.0.1:9/v1", api_key_env: MY_KEY, size: 512x512}
  http: {allowed_hosts: ["localhost:80"], timeout: 3, max_bytes: 1000}
  code: {seconds: 2, memory_bytes: 1000000}
"""
        )
    ).services
    assert services.search
    assert services.images
    assert (services.images.describe(), services.images.size) == ("draws at http://127.0.0.1:9/v1", "512x512")
    assert key_text(services.images.api_key) == "sk-mine"
    assert services.speech
    assert services.speech.name == "of-the-environment"
    assert (services.guard.allowed_hosts, services.guard.timeout, services.guard.max_bytes) == (
        ("localhost:80",),
        3,
        1000,
    )
    assert (services.code.seconds, services.code.memory_bytes) == (2, 1000000)


@pytest.mark.parametrize(
    ("services", "said"),
    [
        ("serch: {}", ":9 services.serch: unknown key (did you mean 'search'?)"),
        ("search: {type: serp}", ":9 services.search.type: "),
        ("search: {}", ":9 services.search.api_key_env: the environment variable SERPAPI_API_KEY is not set"),
        ("images: {name: x}", ":9 services.images.api_key_env: the environment variable OPENAI_API_KEY is not set"),
        ("speech: {name: x, base_url: x, api_key_env: NIL}", "services.speech.api_key_env: the environment variable NIL is not set"),
        ("http: {timeout: 0}", ":9 services.http.timeout: "),
        ("code: {secnds: 0}", ":9 services.code.secnds: unknown key (did you mean 'seconds'?)"),
        ("workflows: {greet: gret.json}", ":9 services.workflows.greet: "),
        ("workflows: {gret: greet.json}", "params.workflow: no workflow is called 'greet' (did you mean 'gret'?); there are: gret"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_services_is_said_at_its_line(write, tmp_path, services, said):
    (tmp_path / "greet.json").write_text(json.dumps(FLOW))
    found = issues(write(alone(GREET, "services:\n  " + services)))
    assert any(said in issue for issue in found), found


async def test_a_folder_that_cannot_be_written_ends_the_node(write, tmp_path):
    (tmp_path / "made").write_text("")
    export = '{name: node, type: markdown-exporter, params: {target_type: md, md_text: "{{#begin.it#}}"}}'
    with pytest.raises(OperatorError) as caught:
        await run(write(alone(export, "services: {folder: made}")), it="Ada")
    assert isinstance(caught.value.__cause__, InputError)


def test_a_pair_of_names_is_a_variable_wherever_a_value_may_stand_too():
    names, three = ["text", "begin"], ["a", "b", "c"]
    given = {"a": names, "b": three, "c": "{{#begin.it#}}", "d": True, "e": 1}
    tool = ToolNode("node", {"tool": "x", "arguments": given})
    assigner = Assigner("node", {"assignments": [[[name, "7"], "set", value] for name, value in given.items()]})
    loop = Loop("node", {"loop_count": 1, "variables": [["x", "string", names], ["y", "boolean", True]]})
    variable = Selector(*names)
    assert tool.params.arguments == given | {"a": variable}
    assert [each.value for each in assigner.params.assignments] == [variable, *list(given.values())[1:]]
    assert assigner.params.assignments[3].value is True
    assert [each.value for each in loop.params.variables] == [variable, True]
    assert all(variable in [each.selector for each in node.references] for node in (tool, assigner, loop))


def test_the_schema_has_typed_nodes_and_services():
    schema = ConfigSpec.model_json_schema()
    services = "{search: {type: serpapi}, images: {name: x}, folder: made, workflows: {a: b.json}}"
    jsonschema.validate(yaml.safe_load(WRITER + f"services: {services}\n"), schema)
    for wrong in (WRITER.replace("type: llm", "type: lmm"), WRITER + "services: {serch: {}}\n"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(yaml.safe_load(wrong), schema)


def test_the_types_with_a_body_need_a_workflow_of_typed_nodes():
    assert (
        {name for name, node_type in NODE_TYPES.items() if node_type.body_starts_with} <= NEEDS_NODES < set(NODE_TYPES)
    )
