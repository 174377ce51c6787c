"""Webhooks: a request starts a run with its values, and gets the response that the workflow declares."""

import pytest
from serving import served

from operad.configs.runnable import Source
from operad.server.api.experts import offers_of

FLOW = """
workflow: hook
nodes:
  1:
    type: start
    variables: {kind: string, page: number, order: object, _webhook_raw: object}
    defaults: {page: null, _webhook_raw: null}
    trigger:
      kind: webhook
      method: post
      content_type: application/json
      inputs:
        - {name: kind, part: header, field: X-Kind}
        - {name: page, part: query, field: page}
        - {name: order, part: body, field: order}
      status: 202
      response: '{"got": true}'
  2:
    type: template-transform
    after: 1
    variables: {kind: 1.kind, page: 1.page, order: 1.order, raw: 1._webhook_raw}
    template: "{{ kind }} {{ page }} {{ order.id }} {{ raw.headers.authorization }}"
  3: {type: end, after: 2, outputs: {text: 2.output}}
"""


@pytest.fixture
def offers(tmp_path):
    file = tmp_path / "hook.operad.yaml"
    file.write_text(FLOW)
    return offers_of(Source(file=str(file)))


async def test_a_request_starts_a_run_and_gets_the_declared_response(offers):
    async with served(*offers, keys=["k" * 40], headers={"Authorization": "Bearer " + "k" * 40}) as here:
        reply = await here.http.post("/webhooks/hook?page=3", json={"order": {"id": 7}}, headers={"x-kind": "sale"})
        assert (reply.status_code, reply.json()) == (202, {"got": True})
        run = await here.ended(reply.headers["location"].removeprefix("../runs/"))
        assert run["outputs"] == {"text": "sale 3 7 "}
        refused = await here.http.post("/webhooks/hook", json={}, headers={"Authorization": "Bearer no"})
        assert refused.status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "request_", "status"),
    [
        ("GET", "/webhooks/hook", {}, 405),
        ("POST", "/webhooks/other", {"json": {}}, 404),
        ("POST", "/webhooks/hook", {"json": {}}, 400),
        ("POST", "/webhooks/hook", {"json": {"order": {}}}, 400),
        ("POST", "/webhooks/hook", {"json": [1], "headers": {"x-kind": "a"}}, 400),
        ("POST", "/webhooks/hook", {"json": {"order": 5}, "headers": {"x-kind": "a"}}, 400),
        ("POST", "/webhooks/hook?page=many", {"json": {"order": {}}, "headers": {"x-kind": "a"}}, 400),
        ("POST", "/webhooks/hook", {"content": b"{", "headers": {"content-type": "application/json"}}, 400),
        ("POST", "/webhooks/hook", {"content": b"\xff", "headers": {"content-type": "application/json"}}, 400),
        ("POST", "/webhooks/hook", {"content": b"a", "headers": {"content-type": "text/plain"}}, 415),
    ],
)
async def test_a_request_that_does_not_fit_starts_no_run(offers, method, path, request_, status):
    async with served(*offers) as here:
        reply = await here.http.request(method, path, **request_)
        assert reply.status_code == status
        assert reply.json()["error"]["message"]
        assert (await here.http.get("/runs")).json()["runs"] == []


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/x-www-form-urlencoded", b"order=%7B%22id%22%3A+7%7D", "sale None 7 "),
        ("text/plain; charset=utf-8", b'{"id": 8}', "sale None 8 "),
    ],
)
async def test_a_body_is_read_by_its_type(tmp_path, content_type, body, expected):
    file = tmp_path / "hook.operad.yaml"
    file.write_text(
        FLOW.replace("application/json", content_type.partition(";")[0]).replace(
            "status: 202\n      response: '{\"got\": true}'", "status: 200"
        )
    )
    async with served(*offers_of(Source(file=str(file)))) as here:
        headers = {"x-kind": "sale", "content-type": content_type}
        reply = await here.http.post("/webhooks/hook", content=body, headers=headers)
        assert (reply.status_code, reply.json()) == (200, {"status": "success"})
        run = await here.ended(reply.headers["location"].removeprefix("../runs/"))
        assert run["outputs"] == {"text": expected}
