"""Requests of nodes: the body, the key, and the values in them."""

import json

import pytest

from operad.flows.assemble import assemble
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.operators.web.fetch import Fetched
from operad.runtime import Job
from operad.runtime.values.errors import OperadError


@pytest.fixture
def sent():
    """Runs a request, and returns what was sent."""

    async def sent(params, text, **more):
        asked = []

        async def send(url, request, guard):
            asked.append(request)
            return Fetched(200, url, {"content-type": "text/plain"}, b"ok")

        nodes = [
            NodeSpec("1", "start", {"variables": [[name, "string"] for name in ("text", *more)]}),
            NodeSpec("2", "request", {"url": "https://example.org/", "method": "post", **params}),
            NodeSpec("3", "end", {"outputs": [["body", ["body", "2"]]]}),
        ]
        workflow = assemble(
            NodeGraph(nodes, [Edge("1", "2"), Edge("2", "3")]), NODE_TYPES, services=Services(send=send)
        )
        await workflow.aexecute(Job(goal="", inputs={"text": text, **more}), None)
        return asked[0]

    return sent


@pytest.mark.parametrize("text", ['He said "yes"', "C:\\new", "two\nlines", '", "admin": "true'])
async def test_a_value_stays_within_its_string_of_a_json_body(sent, text):
    request = await sent({"body": ["json", [["", '{"text": "{{#1.text#}}", "n": [1, "x {{#1.text#}}"]}']]]}, text)
    assert json.loads(request.body) == {"text": text, "n": [1, f"x {text}"]}


@pytest.mark.parametrize(
    ("bare", "value"),
    [
        ("3", 3),
        ("True", True),
        ("[{'a': None}]", [{"a": None}]),
        ("two words", "two words"),
        ('{"k": "v",}', {"k": "v"}),
    ],
)
async def test_a_value_outside_of_the_strings_of_a_json_body_does_not_break_those_inside(sent, bare, value):
    body = '{"text": "say \\"{{#1.other#}}\\"", "value": {{#1.text#}}}'
    request = await sent({"body": ["json", [["", body]]]}, bare, other='a "quote"\nand a line')
    assert json.loads(request.body) == {"text": 'say "a "quote"\nand a line"', "value": value}


@pytest.mark.parametrize(
    ("body", "bare", "sent_body"),
    [
        ('{"ids": [{{#1.text#}}]}', "1, 2", {"ids": [1, 2]}),
        ('{"ids": [{{#1.text#}}]}', "", {"ids": []}),
        ("[{{#1.text#}}]", '"x", "y"', ["x", "y"]),
        ("[{{#1.text#}}]", '{"a": true}, {"b": 2}', [{"a": True}, {"b": 2}]),
        ("{ {{#1.text#}}: 1}", "key", {"key": 1}),
    ],
)
async def test_a_value_outside_of_the_strings_of_a_json_body_is_inserted_as_text(sent, body, bare, sent_body):
    request = await sent({"body": ["json", [["", body]]]}, bare)
    assert json.loads(request.body) == sent_body


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': True,}", {"a": True}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": [1, 2', {"a": [1, 2]}),
        ('{a: "b"}', {"a": "b"}),
    ],
)
async def test_a_body_of_broken_json_is_repaired(sent, text, value):
    request = await sent({"body": ["json", [["", "{{#1.text#}}"]]]}, text)
    assert json.loads(request.body) == value


@pytest.mark.parametrize("text", ["no JSON", "", '{"n": NaN}', "[-Infinity]"])
async def test_a_body_of_words_is_not_json(sent, text):
    with pytest.raises(OperadError, match="its body is not JSON"):
        await sent({"body": ["json", [["", "{{#1.text#}}"]]]}, text)


async def test_a_value_of_json_may_be_a_part_of_a_json_body(sent):
    request = await sent({"body": ["json", [["", '{"tags": {{#1.text#}}}']]]}, '["a", "b"]')
    assert json.loads(request.body) == {"tags": ["a", "b"]}


async def test_a_key_is_sent_as_its_scheme_says(sent):
    request = await sent({"authorization": ["bearer", "{{#1.text#}}"]}, "secret")
    assert request.headers == {"Authorization": "Bearer secret"}
