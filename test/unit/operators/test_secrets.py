"""Named secrets: they reach the server that a file names, and nothing that is stored, shown or logged."""

import base64
import html
import io
import json
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from dify_echo import echo_server

from operad import Workflow
from operad.cli import main as cli
from operad.flows.assemble import assemble
from operad.flows.check import check
from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.secrets import secret_uses
from operad.integrations.dify import format as dify
from operad.operators.mcp import McpTools, SseServer, StdioServer, StreamableHttpServer
from operad.operators.nodes import NODE_TYPES
from operad.operators.secrets import MAX_BYTES, Keyring, SecretsFile
from operad.operators.services import Services
from operad.operators.web.fetch import Fetched, Guard, fetch
from operad.runtime import Job
from operad.runtime.values.errors import FetchError, InputError, OperadError
from operad.runtime.values.secret import Secret, SecretUse, holds_key, literal_key

KEY = "canary-9f8e7d6c5b4a"
OTHER = "canary-0a1b2c3d4e5f"


@pytest.fixture
def place(tmp_path, monkeypatch, caplog, capsys):
    """An empty folder with a file of secrets; returns all that is written and logged in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPERAD_SECRETS", str(tmp_path / "secrets" / "secrets.yaml"))
    for name in ("OPENAI_BASE_URL", "OPERAD_MODEL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    caplog.set_level(logging.DEBUG)

    def written():
        printed = capsys.readouterr()
        files = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "secrets"]
        logged = [
            f"{each.getMessage()} {each.exc_text}" for each in caplog.records if not each.name.startswith("httpcore")
        ]
        text = "\n".join([printed.out, printed.err, *logged, *(p.read_bytes().decode(errors="replace") for p in files)])
        assert len(text) > 50
        return text

    return written


@pytest.fixture
def run(place, monkeypatch):
    """Runs the command: its exit status."""

    def run(*arguments, stdin=""):
        monkeypatch.setattr(sys, "argv", ["operad", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return exit_.value.code or 0

    return run


def store(**values):
    for name, value in values.items():
        SecretsFile(Path(os.environ["OPERAD_SECRETS"])).set(name, value)


def request(**params):
    nodes = [
        NodeSpec("1", "start", {"variables": [["text", "string"]]}),
        NodeSpec("send", "request", {"url": "https://shop.example/", **params}),
        NodeSpec("3", "end", {"outputs": [["body", ["body", "send"]], ["headers", ["headers", "send"]]]}),
    ]
    return NodeGraph(nodes, [Edge("1", "send"), Edge("send", "3")])


async def ran(graph, text="", secrets=None, answer=None):
    """The requests of a run, and its message."""
    asked = []

    async def send(url, sent, guard):
        asked.append((url, sent))
        return Fetched(200, url, {"content-type": "text/plain"}, answer or b"ok")

    services = Services(send=send, secrets=(secrets or {}).get)
    workflow = assemble(graph, NODE_TYPES, services=services)
    message = await workflow.aexecute(Job(goal="", inputs={"text": text}), None)
    return asked, message


FLOW = """
workflow: shop
nodes:
  begin: {type: start, variables: {note: string}}
  send:
    type: request
    after: begin
    params:
      method: post
      url: "BASE/orders?key={{secret.OTHER_KEY}}"
      headers: "X-Key: {{secret.SHOP_KEY}}"
      body: {type: json, parts: [{name: '', value: '{"note": "{{#begin.note#}}", "pin": "{{secret.SHOP_KEY}}"}'}]}
      authorization: {type: bearer, secret: SHOP_KEY}
  done: {type: end, after: send, outputs: {body: send.body}}
"""


def test_a_secret_reaches_the_server_and_is_in_no_database_event_log_or_result(place, run, tmp_path):
    store(SHOP_KEY=KEY, OTHER_KEY=OTHER)
    with echo_server() as base:
        (tmp_path / "flow.operad.yaml").write_text(FLOW.replace("BASE", base))
        (tmp_path / "services.yaml").write_text(json.dumps({"http": {"allowed_hosts": [base.removeprefix("http://")]}}))
        status = run(
            "run", "flow.operad.yaml", "--trust", "--services", "services.yaml", "--input", "note=hi", "--events", "events.jsonl",
            "--durable", "--db", "runs.sqlite", "--json",
        )  # fmt: skip
    text = place()
    assert status == 0
    assert (tmp_path / "runs.sqlite").stat().st_size
    assert '\\"authorization\\": \\"Bearer [hidden]\\"' in text
    assert '\\"pin\\": \\"[hidden]\\"' in text
    assert '[\\"key\\", \\"[hidden]\\"]' in text
    assert "{{secret.SHOP_KEY}}" in text
    assert KEY not in text
    assert OTHER not in text


LITERAL = {
    "authorization": {"authorization": ["bearer", KEY]},
    "authorization of a name and a password": {"authorization": ["basic", f"ada:{KEY}"]},
    "beside a variable": {"authorization": ["bearer", "{{#1.text#}}" + KEY]},
    "header": {"headers": f"Accept: */*\nX-Api-Key: {KEY}"},
    "authorization header": {"headers": f"authorization: Bearer {KEY}"},
    "header of any name": {"headers": f"X-Mine: Bearer {KEY}"},
    "cookie": {"headers": f"Cookie: session={KEY}"},
    "query": {"params": f"access_token: {KEY}"},
    "query of the address": {"url": f"https://shop.example/?page=1&api_key={KEY}#x"},
    "login of the address": {"url": f"https://ada:{KEY}@shop.example/"},
    "form": {"body": ["x-www-form-urlencoded", [["client_secret", KEY]]]},
    "JSON": {"body": ["json", [["", '{"auth": {"apiKey": "' + KEY + '"}, "n": {{#1.text#}}}']]]},
}


@pytest.mark.parametrize("params", LITERAL.values(), ids=LITERAL)
def test_a_key_that_is_written_in_a_request_is_refused_with_the_way_to_name_a_secret(params):
    [issue] = check(request(**params), NODE_TYPES)
    assert (issue.code, issue.where) == ("literal-key", "send")
    assert "operad secrets set SEND_" in issue.message
    assert KEY not in str(issue)
    node = NODE_TYPES["request"]("send", {"url": "https://shop.example/", **params})
    with pytest.raises(OperadError) as raised:
        Workflow(node).run("x")
    assert "a key is written" in str(raised.value)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("authorization", [KEY, [KEY], [KEY, "x"], ["bearer", [KEY]], {"key": KEY, "typ": "bearer"}])
def test_a_key_in_a_misshapen_authorization_is_not_shown(authorization):
    issues = check(request(authorization=authorization), NODE_TYPES)
    assert [issue.where for issue in issues] == ["send"] * len(issues) != []
    assert KEY not in str(issues)


@pytest.mark.parametrize(
    "params",
    [
        {"authorization": ["bearer", "{{#1.text#}}"]},
        {"authorization": ["basic", "somebody_with_a_name:{{secret.SHOP}}"]},
        {"authorization": ["bearer", "", "Authorization", "SHOP"]},
        {"headers": "Authorization: Bearer {{secret.SHOP}}\nIdempotency-Key: 2026-11-27-0001\nX-Plan: basic tier"},
        {"params": "page_token: abc\nsort_key: name\nq: api_key"},
        {"url": "https://shop.example/?token={{secret.SHOP}}&page=1"},
        {"body": ["json", [["", '{"max_tokens": 100, "key": "colour", "password": "{{secret.SHOP}}"}']]]},
    ],
)
def test_secrets_variables_and_fields_of_other_names_are_no_written_keys(params):
    assert check(request(**params), NODE_TYPES) == []


def test_a_default_of_an_input_that_is_sent_as_a_key_is_refused():
    graph = request(authorization=["bearer", "{{#1.text#}}"])
    start = NodeSpec("1", "start", {"variables": [["text", "string"]], "defaults": {"text": KEY}})
    [issue] = check(NodeGraph([start, *graph.nodes[1:]], graph.edges), NODE_TYPES)
    assert (issue.code, issue.where) == ("literal-key", "1")
    assert KEY not in str(issue)


async def test_secrets_are_filled_in_as_their_place_asks_for():
    graph = request(
        method="post", url="https://shop.example/{{secret.A}}", headers="X-Key: {{ secret.A }}", params="token: {{secret.B}}",
        authorization=["basic", "ada:{{secret.A}}"], body=["json", [["", '{"a": "{{secret.B}}", "n": {{secret.N}}}']]],
    )  # fmt: skip
    [(url, sent)], _ = await ran(graph, secrets={"A": "k1", "B": 'say "x" & y', "N": "7"})
    assert url == "https://shop.example/k1"
    assert sent.headers["X-Key"] == "k1"
    assert sent.headers["Authorization"] == "Basic YWRhOmsx"
    assert sent.params == (("token", 'say "x" & y'),)
    assert json.loads(sent.body) == {"a": 'say "x" & y', "n": 7}
    assert "k1" not in repr(sent)


async def test_the_value_of_a_variable_names_no_secret():
    graph = request(headers="X-Key: {{#1.text#}}", url="https://shop.example/{{secret.A}}")
    [(_, sent)], _ = await ran(graph, text="{{secret.A}}", secrets={"A": KEY})
    assert sent.headers["X-Key"] == "{{secret.A}}"


@pytest.mark.parametrize("name", [r"{{\u0073ecret.A}}", r"\u007b{secret.A}}", r"{{\nsecret.A\t}}"])
async def test_what_looks_like_a_reference_after_decoding_json_is_text(name):
    graph = request(method="post", body=["json", [["", f'{{"a": "{name} \\u00e9 \\"{{{{#1.text#}}}}\\""}}']]])
    assert secret_uses(graph) == []
    [(_, sent)], _ = await ran(graph, text='"x"', secrets={"A": KEY})
    assert json.loads(sent.body) == {"a": json.loads(f'"{name}"') + ' é ""x""'}


async def test_a_secret_that_a_server_repeats_is_hidden():
    graph = request(authorization=["basic", "ada:{{secret.A}}"])
    _, message = await ran(graph, secrets={"A": KEY}, answer=f"you said {KEY}".encode())
    assert message.outputs["body"] == "you said [hidden]"


@pytest.mark.parametrize("before", ["", "a", "ab", "ada:", "ada 1:"])
@pytest.mark.parametrize("key", [KEY, "key/ÿÿ?>~>"])
async def test_a_secret_in_what_a_server_repeats_in_base64_or_html_is_hidden(before, key):
    graph = request(authorization=["basic", "{{secret.A}}"])
    sent = f"{before}{key}.\n".encode()
    answers = [base64.b64encode(sent), base64.urlsafe_b64encode(sent), html.escape(f"<{key}>").encode()]
    _, message = await ran(graph, secrets={"A": key}, answer=b" ".join(answers))
    repeated = message.outputs["body"].split(" ")
    assert repeated[2] == "&lt;[hidden]&gt;"
    for text in repeated[:2]:
        start, _, end = text.partition("[hidden]")
        assert end
        assert base64.b64decode(start + "A" * (-len(start) % 4))[: len(before)] == before.encode()
        assert len(start + end) * 6 <= (len(sent) - len(key.encode())) * 8 + 26  # padding, and bits shared with others


async def test_missing_secrets_are_an_error_before_the_run_that_names_all_of_them():
    graph = request(headers="X-Key: {{secret.FIRST}}\nX-Other: {{secret.SECOND}}\nX-Token: {{secret.THIRD}}")
    asked = []
    with pytest.raises(InputError) as raised:
        asked, _ = await ran(graph, secrets={"SECOND": KEY})
    assert "the secrets FIRST, THIRD; set each by operad secrets set NAME" in str(raised.value)
    assert asked == []


async def test_an_error_with_the_value_of_a_secret_is_raised_without_it():
    graph = request(method="post", body=["json", [["", "not JSON {{secret.A}}"]]], headers="X-Key: {{secret.A}}")
    with pytest.raises(OperadError) as raised:
        await ran(graph, secrets={"A": KEY})
    assert "[hidden]" in str(raised.value)
    assert KEY not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Shop.example/{{#1.text#}}", "shop.example"),
        ("https://shop.example:8443?x=1", "shop.example:8443"),
        ("https://shop.example", "shop.example"),
        ("https://shop.example{{#1.text#}}/", ""),
        ("https://{{#1.text#}}/", ""),
        ("https://ada@{{#1.text#}}", ""),
        ("{{#1.text#}}", ""),
    ],
)
def test_the_host_that_gets_a_secret_is_known_where_no_variable_decides_on_it(url, host):
    graph = request(url=url, authorization=["bearer", "", "Authorization", "SHOP"])
    assert secret_uses(graph) == [SecretUse(Secret("SHOP"), host)]


async def test_a_secret_is_sent_to_the_named_hosts_only():
    graph = request(
        url="https://{{#1.text#}}/", headers="X-Key: {{secret.A}}", secret_hosts=["shop.example", "b.example:8443"]
    )
    assert [use.host for use in secret_uses(graph)] == ["shop.example", "b.example:8443"]
    for allowed in ("shop.example", "SHOP.example", "b.example:8443"):
        assert len((await ran(graph, text=allowed, secrets={"A": KEY}))[0]) == 1
    for host in ("evil.example", "b.example", "shop.example.evil.example", "shop.example@evil.example"):
        with pytest.raises(OperadError, match=r"its secrets are sent to shop\.example, b\.example:8443 only"):
            await ran(graph, text=host, secrets={"A": KEY})


async def test_no_secret_follows_a_redirect_to_another_origin(web):
    there = await web.serve(lambda asked: web.reply(b"there"))
    here = await web.serve(lambda asked: web.reply(b"", int(asked.path[1:]), location=f"{there}/x"))
    guard = Guard(allowed_hosts=(here.partition("://")[2], there.partition("://")[2]))
    headers = {"X-Key": KEY, "User-Agent": f"me/{KEY}"}
    fetched = await fetch(f"{here}/302", method="POST", headers=headers, body=KEY, guard=guard, secrets=(KEY,))
    assert fetched.body == b"there"
    assert KEY not in str(web.requests[-1])
    count = len(web.requests)
    with pytest.raises(FetchError, match="a body with secrets is not sent there"):
        await fetch(f"{here}/307", method="POST", headers=headers, body="x", guard=guard, secrets=(KEY,))
    assert len(web.requests) == count + 1


DIFY = {
    "version": "0.4.0", "kind": "app", "app": {"name": "shop", "mode": "workflow"},
    "workflow": {
        "environment_variables": [{"name": "SHOP_KEY", "value": OTHER, "value_type": "secret"}],
        "graph": {
            "nodes": [
                {"id": "1", "data": {"type": "start", "title": "S", "variables": []}},
                {"id": "2", "data": {
                    "type": "http-request", "title": "H", "method": "get", "url": f"BASE/x?token={KEY}", "params": "",
                    "headers": "X-Key: {{#env.SHOP_KEY#}}", "body": {"type": "none", "data": []},
                    "authorization": {"type": "api-key", "config": {"type": "bearer", "api_key": KEY}}}},
                {"id": "3", "data": {"type": "end", "title": "E", "outputs": [{"variable": "b", "value_selector": ["2", "body"]}]}},
            ],
            "edges": [
                {"id": "e", "source": "1", "sourceHandle": "source", "target": "2", "targetHandle": "target"},
                {"id": "f", "source": "2", "sourceHandle": "source", "target": "3", "targetHandle": "target"},
            ],
        },
    },
}  # fmt: skip


def test_keys_of_a_dify_file_are_sent_and_stay_in_the_file(place, run, tmp_path):
    with echo_server() as base:
        file = tmp_path / "secrets" / "shop.dify.yml"
        file.parent.mkdir()
        file.write_text(yaml.safe_dump(DIFY).replace("BASE", base))
        (tmp_path / "services.yaml").write_text(json.dumps({"http": {"allowed_hosts": [base.removeprefix("http://")]}}))
        status = run(
            "run", file, "--trust", "--services", "services.yaml", "--events", "events.jsonl", "--durable", "--db", "runs.sqlite",
            "--json",
        )  # fmt: skip
    text = place()
    assert status == 0
    assert '\\"authorization\\": \\"Bearer [hidden]\\"' in text
    assert '\\"x-key\\": \\"[hidden]\\"' in text
    assert KEY not in text
    assert OTHER not in text


def test_keys_of_a_dify_file_are_written_in_dify_files_only():
    data = yaml.safe_dump(DIFY).encode()
    graph = dify.load(data)
    assert [use.secret.name for use in secret_uses(graph)] == ["NODE_2_TOKEN", "SHOP_KEY", "NODE_2_AUTHORIZATION"]
    assert graph.by_id["1"].params["variables"] == []
    assert yaml.safe_load(dify.dump(graph)) == DIFY
    for name, format_ in FORMATS.items():
        if name not in ("dify", "worfbench"):
            assert KEY.encode() not in format_.dump(graph), name
            assert OTHER.encode() not in format_.dump(graph), name
    operad = FORMATS["operad"]
    assert "the key NODE_2_TOKEN; give its value by operad secrets set NODE_2_TOKEN" in str(operad.losses(graph))
    back = yaml.safe_load(dify.dump(operad.load(operad.dump(graph))))
    added = {each["name"]: (each["value_type"], each["value"]) for each in back["workflow"]["environment_variables"]}
    empty = ("secret", "")
    assert added == {"SHOP_KEY": empty, "NODE_2_TOKEN": empty, "NODE_2_AUTHORIZATION": empty}
    [node] = [each["data"] for each in back["workflow"]["graph"]["nodes"] if each["id"] == "2"]
    assert node["authorization"]["config"]["api_key"] == "{{#env.NODE_2_AUTHORIZATION#}}"


def test_a_secret_of_dify_that_another_node_reads_has_no_default_that_runs_would_store():
    file = json.loads(json.dumps(DIFY))
    ends = file["workflow"]["graph"]["nodes"][2]["data"]["outputs"]
    ends.append({"variable": "k", "value_selector": ["env", "SHOP_KEY"]})
    graph = dify.load(yaml.safe_dump(file).encode())
    assert graph.by_id["1"].params == {"variables": [["env.SHOP_KEY", "string"]]}
    assert yaml.safe_load(dify.dump(graph)) == file


# The store


def test_secrets_are_set_listed_and_deleted_without_their_values(place, run, monkeypatch, capsys):
    path = os.environ["OPERAD_SECRETS"]
    assert run("secrets", "set", "SHOP_KEY", stdin=f"{KEY}\n") == 0
    assert run("secrets", "set", "OTHER", "--json", stdin=OTHER) == 0
    assert os.stat(path).st_mode & 0o777 == 0o600
    capsys.readouterr()
    monkeypatch.setenv("OTHER", "another")
    assert run("secrets", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed == {
        "store": path, "secrets": [{"name": "OTHER", "overridden": True}, {"name": "SHOP_KEY", "overridden": False}]
    }  # fmt: skip
    assert run("secrets", "delete", "SHOP_KE") == 2
    assert "did you mean 'SHOP_KEY'?" in capsys.readouterr().err
    assert run("secrets", "delete", "SHOP_KEY") == 0
    assert run("secrets") == 0
    assert "SHOP_KEY\n" not in capsys.readouterr().out.partition("deleted")[0]
    assert SecretsFile(Path(path)).names() == ["OTHER"]


@pytest.mark.parametrize(
    ("name", "value"), [("a-b", KEY), (KEY, KEY), ("A", ""), ("A", f"{KEY}\nX: y"), ("A", KEY * 5000)]
)
def test_a_secret_that_cannot_be_used_is_not_stored_or_shown(place, run, capsys, name, value):
    assert run("secrets", "set", name, stdin=value) == 2
    assert KEY not in capsys.readouterr().err
    assert not os.path.exists(os.environ["OPERAD_SECRETS"])


@pytest.mark.parametrize(
    "content", [f"A: [{KEY}]\n", f"- {KEY}\n", f"{KEY}\n", f"A: '{KEY}\n", f"A-B: {KEY}\n", "A: 1\n"]
)
def test_a_file_of_secrets_that_is_broken_or_that_others_can_read_is_refused_without_its_values(tmp_path, content):
    file = SecretsFile(tmp_path / "secrets.yaml")
    file.path.write_text(content)
    with pytest.raises(InputError, match="others can read or write it"):
        file.get("A")
    file.path.chmod(0o600)
    with pytest.raises(InputError, match="is not a file of secrets") as raised:
        file.get("A")
    assert KEY not in str(raised.value)


def test_a_file_of_secrets_has_a_limit(tmp_path):
    file = SecretsFile(tmp_path / "secrets.yaml")
    file.set("A", KEY)
    with file.path.open("a", encoding="utf-8") as large:
        large.write("#" * MAX_BYTES)
    with pytest.raises(InputError, match="is not a file of secrets"):
        file.get("A")


def test_an_error_of_a_keyring_does_not_show_the_secret():
    keyring = pytest.importorskip("keyring")
    from keyring.backend import KeyringBackend

    before = keyring.get_keyring()  # it would choose the class below, if that existed

    class Locked(KeyringBackend):
        priority: Any = 1

        def get_password(self, service, username):
            raise PermissionError("locked")

        def set_password(self, service, username, password):
            raise PermissionError(f"cannot store {password!r}")

    keyring.set_keyring(Locked())
    try:
        with pytest.raises(InputError, match="refuses \\(PermissionError\\); unlock it") as raised:
            Keyring().set("SHOP_KEY", KEY)
        assert KEY not in "".join(traceback.format_exception(raised.value))
        with pytest.raises(InputError, match="refuses"):
            Keyring().get("SHOP_KEY")
    finally:
        keyring.set_keyring(before)


def test_secrets_are_kept_in_the_keyring_of_the_system(place, run, monkeypatch, capsys):
    keyring = pytest.importorskip("keyring")
    from keyring.backend import KeyringBackend

    kept = {}

    class Memory(KeyringBackend):
        priority: Any = 1

        def get_password(self, service, username):
            return kept.get((service, username))

        def set_password(self, service, username, password):
            kept[service, username] = password

        def delete_password(self, service, username):
            del kept[service, username]

    before = keyring.get_keyring()
    keyring.set_keyring(Memory())
    monkeypatch.delenv("OPERAD_SECRETS")
    try:
        assert run("secrets", "set", "SHOP_KEY", stdin=KEY) == 0
        assert kept["operad", "SHOP_KEY"] == KEY
        assert run("secrets") == 0
        assert "SHOP_KEY" in capsys.readouterr().out
        assert run("secrets", "delete", "SHOP_KEY") == 0
        assert list(kept) == [("operad", "*")]
    finally:
        keyring.set_keyring(before)


# Names


@pytest.mark.parametrize(
    "name",
    ["Authorization", "X-Api-Key", "apikey", "access_token", "PRIVATE-TOKEN", "key", "Cookie", "signature", "sig", "X-Goog-Api-Key",
     "Ocp-Apim-Subscription-Key", "client_secret", "password", "x-amz-security-token"],
)  # fmt: skip
def test_names_of_keys(name):
    assert holds_key(name)


@pytest.mark.parametrize(
    "name", ["Accept", "author", "page_token", "sort_key", "Idempotency-Key", "max_tokens", "monkeys", "q"]
)
def test_names_of_other_values(name):
    assert not holds_key(name)


def test_the_key_in_a_value():
    assert literal_key(f"Bearer {KEY}") == KEY
    assert literal_key("Bearer {{secret.A}}") == ""
    assert literal_key("{{#1.a#}}" + KEY) == KEY
    assert literal_key("user_of_the_service:{{secret.A}}") == ""


# MCP servers

EXPERT = {
    "operators": [{"instruction": "x", "name": "o"}],
    "experts": [{"profile": {"name": "E"}, "workflow": [["o"]]}],
}


@pytest.mark.parametrize(
    "server",
    [
        {"transport_type": "SSE", "url": "http://h/sse", "headers": {"X-Api-Key": KEY}},
        {"transport_type": "STREAMABLE_HTTP", "url": f"http://h/mcp?api_key={KEY}"},
        {"transport_type": "STREAMABLE_HTTP", "url": f"http://ada:{KEY}@h/mcp"},
        {"transport_type": "STDIO", "command": "x", "env": {"A_TOKEN": KEY}},
        {"transport_type": "STDIO", "command": "x", "args": ["--api-key", KEY]},
        {"transport_type": "STDIO", "command": "x", "args": [f"--token={KEY}"]},
    ],
)
def test_a_key_that_is_written_for_a_server_is_refused_with_the_way_to_name_a_secret(
    place, run, capsys, server, tmp_path
):
    tool = {"name": "Shop", "type": "MCP", "mcp_transport_config": server}
    (tmp_path / "secrets").mkdir()
    file = tmp_path / "secrets" / "expert.yaml"
    file.write_text(json.dumps({**EXPERT, "tools": [tool]}))
    assert run("check", file) == 2
    out = capsys.readouterr().out
    assert "[literal-key]" in out
    assert "operad secrets set SHOP_" in out
    assert KEY not in out


def test_a_server_names_secrets_in_headers_environment_and_arguments():
    find = {"SHOP": KEY}.get
    http = SseServer(
        url="http://shop.example/sse",
        headers=cast("Any", {"X-Api-Key": {"secret": "SHOP"}, "A": "Bearer {{secret.SHOP}}"}),
    )
    assert http.secret_uses == [SecretUse(Secret("SHOP"), "shop.example")]
    live = http.with_values(find)
    assert live.headers == {"X-Api-Key": KEY, "A": f"Bearer {KEY}"}
    assert KEY in live.secrets
    process = StdioServer(
        command="serve", args=("--token", "{{secret.SHOP}}"), env=cast("Any", {"A": {"secret": "SHOP"}})
    )
    assert process.secret_uses == [SecretUse(Secret("SHOP"), "serve")]
    assert process.with_values(find).args == ("--token", KEY)
    assert process.with_values(find).env == {"A": KEY}
    assert process.keys() == http.keys() == []
    with pytest.raises(InputError, match="must not name a secret, because HTTP libraries log addresses"):
        StreamableHttpServer(url="http://h/mcp?key={{secret.SHOP}}")


async def test_a_named_secret_reaches_a_server_and_no_error(web, monkeypatch):
    monkeypatch.setenv("SHOP", KEY)
    address = await web.serve(lambda asked: web.reply(json.dumps(asked.headers).encode(), 401))
    tools = McpTools(
        name="Shop", server=StreamableHttpServer(url=address, headers=cast("Any", {"X-Api-Key": {"secret": "SHOP"}}))
    )
    with pytest.raises(OperadError) as raised:
        async with tools.open():
            pass
    assert web.requests[0].headers["x-api-key"] == KEY
    assert KEY not in str(raised.value)
    monkeypatch.delenv("SHOP")
    with pytest.raises(InputError, match="no value is set for the secret SHOP"):
        async with tools.open():
            pass


def test_a_key_in_the_arguments_of_a_server_is_in_no_fingerprint():
    tools = McpTools(name="Shop", server=StdioServer(command="x", args=("--api-key", KEY), env={"A_TOKEN": KEY}))
    assert KEY not in json.dumps(tools.fingerprint())
