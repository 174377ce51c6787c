"""Webhooks: a request starts a run with its values, and gets the response that the workflow declares."""

import asyncio
import base64
import hashlib
import hmac
import time
from dataclasses import replace

import pytest
from serving import Code, offered, order, served

from operad.configs.runnable import Source
from operad.operators.nodes.flow import Trigger, WebhookInput
from operad.runtime import InputError
from operad.server.api.experts import offers_of
from operad.server.api.triggers import Starter

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


async def test_a_request_that_does_not_fit_starts_no_run(offers):
    async with served(*offers) as here:
        for method, path, request_, status in [
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
        ]:
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
        run = await here.ended(reply.headers["location"].removeprefix("../runs/"))
        assert (reply.status_code, reply.json()) == (200, {"status": "success", "id": run["id"]})
        assert run["outputs"] == {"text": expected}


SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef").decode()
BODY = b'{"order": {"id": 7, "items": ["tea"]}}'
KEY = "k" * 40


@pytest.fixture
def signed(monkeypatch):
    """Return an expert whose webhook has a secret."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)

    def make(work=None, wait=0.0):
        async def note(job):
            return f"{job.goal} {job.inputs} {job.started_by}"

        inputs = [WebhookInput("id", "body", "order.id"), WebhookInput("first", "body", "order.items.0")]
        trigger = Trigger("webhook", "post", inputs=inputs, status=202, secret="HOOK_SECRET", wait=wait)
        return replace(offered(Code(work or note)), webhook=Starter(trigger, "Ship it"))

    return make


def standard(body=BODY, delivery="d1", sent=None, key=b"0123456789abcdef"):
    sent = str(int(time.time()) if sent is None else sent)
    mac = hmac.new(key, f"{delivery}.{sent}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,AAAA v1,{base64.b64encode(mac).decode()}"
    return {"webhook-id": delivery, "webhook-timestamp": sent, "webhook-signature": signature}


def github(body=BODY, delivery="g1", secret=SECRET):
    mac = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"x-github-delivery": delivery, "x-hub-signature-256": f"sha256={mac}"}


@pytest.mark.parametrize("headers", [standard, github, lambda: {"authorization": f"Bearer {SECRET}"}])
async def test_a_signed_request_needs_no_key_and_gets_the_id_of_its_run(signed, headers):
    async with served(signed(), keys=[KEY]) as here:
        reply = await here.http.post("/webhooks/Expert", content=BODY, headers=headers())
        assert (reply.status_code, list(reply.json())) == (202, ["id"])
        here.http.headers["authorization"] = f"Bearer {KEY}"
        run = await here.ended(reply.json()["id"])
        assert run["result"] == "Ship it {'id': 7, 'first': 'tea'} webhook"


async def test_a_request_without_the_right_signature_starts_no_run(signed):
    async with served(signed(), keys=[KEY]) as here:
        for headers in [
            {},
            {"authorization": f"Bearer {KEY}"},
            {"authorization": "Bearer"},
            {"authorization": "Bearer \u00e9".encode("latin-1")},
            standard(body=b"{}"),
            standard(key=b"another"),
            standard(sent=int(time.time()) - 400),
            standard(sent=int(time.time()) + 40_000),  # collected long before it runs
            {**standard(), "webhook-timestamp": "soon"},
            {**standard(), "webhook-id": "d2"},
            {"webhook-signature": "v1,"},
            github(secret="another secret"),
            {"x-hub-signature-256": "sha256="},
        ]:
            reply = await here.http.post("/webhooks/Expert", content=BODY, headers=headers)
            assert (reply.status_code, SECRET in reply.text) == (401, False)
            assert (await here.http.get("/runs", headers={"authorization": f"Bearer {KEY}"})).json()["runs"] == []


@pytest.mark.parametrize("headers", [standard, github])
async def test_a_delivery_that_is_sent_again_starts_no_second_run(signed, headers):
    async with served(signed()) as here:
        first, *again = [
            await here.http.post("/webhooks/Expert", content=BODY, headers=headers(delivery=delivery))
            for delivery in ("a", "a", "b")
        ]
        assert [each.status_code for each in (first, *again)] == [202, 200, 202]
        assert first.json() == again[0].json() != again[1].json()
        assert len((await here.http.get("/runs")).json()["runs"]) == 2


async def test_an_image_of_a_page_elsewhere_starts_no_run():
    async def note(job):
        return "done"

    offer = replace(offered(Code(note)), webhook=Starter(Trigger("webhook", "get", status=200), "Ship it"))
    async with served(offer) as here:
        for headers, status in [
            ({"sec-fetch-site": "cross-site"}, 403),
            ({"sec-fetch-site": "same-site"}, 403),
            ({"sec-fetch-site": "same-origin"}, 200),
            ({"sec-fetch-site": "none"}, 200),
            ({}, 200),
        ]:
            before = len(here.serving.runs.listed())
            reply = await here.http.get("/webhooks/Expert", headers=headers)
            assert (reply.status_code, len(here.serving.runs.listed()) - before) == (status, int(status == 200))


async def test_a_webhook_that_waits_responds_with_the_result(signed):
    headers = {"authorization": f"Bearer {SECRET}"}
    async with served(signed(wait=30)) as here:
        reply = await here.http.post("/webhooks/Expert", content=BODY, headers=headers)
        assert (reply.status_code, reply.json()["state"]) == (200, "finished")
        assert reply.json()["result"].startswith("Ship it")
    async with served(signed(order, wait=30)) as here:
        reply = await here.http.post("/webhooks/Expert", content=BODY, headers=headers)
        assert (reply.status_code, reply.json()["state"]) == (202, "asks")
    async with served(signed(lambda job: asyncio.sleep(60), wait=0.1)) as here:
        reply = await here.http.post("/webhooks/Expert", content=BODY, headers=headers)
        assert (reply.status_code, list(reply.json())) == (202, ["id", "state"])


async def test_an_input_of_an_expert_that_is_not_in_the_request_is_named(signed):
    async with served(signed()) as here:
        headers = {"authorization": f"Bearer {SECRET}"}
        reply = await here.http.post("/webhooks/Expert", content=b'{"order": {"id": 7}}', headers=headers)
        assert reply.status_code == 400
        assert "body.order.items.0" in reply.json()["error"]["message"]


@pytest.mark.parametrize(("value", "said"), [("", "operad secrets set HOOK_SECRET"), ("short", "could be guessed")])
def test_a_webhook_without_a_usable_secret_is_not_served(tmp_path, monkeypatch, value, said):
    monkeypatch.setenv("HOOK_SECRET", value)
    monkeypatch.setenv("OPERAD_SECRETS", str(tmp_path / "secrets.yaml"))
    file = tmp_path / "hook.operad.yaml"
    file.write_text(FLOW.replace("kind: webhook", "kind: webhook\n      secret: HOOK_SECRET"))
    with pytest.raises(InputError, match=said):
        offers_of(Source(file=str(file)))


def test_a_webhook_whose_inputs_no_operator_reads_is_not_served(tmp_path):
    file = tmp_path / "hook.yaml"
    file.write_text("""
operators:
  - &greet {instruction: "Greet {name}."}
experts:
  - profile: {name: Greeter}
    workflow: [[*greet]]
    webhook: {inputs: {nam: body.name}}
""")
    with pytest.raises(InputError, match=r"(?s)the webhook of 'Greeter'.*'nam'"):
        offers_of(Source(file=str(file), model="m", base_url="http://127.0.0.1:9/v1"))
