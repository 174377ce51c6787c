"""Inbox: the open questions of all runs, who may answer them, and answers days later."""

import asyncio
from contextlib import asynccontextmanager

from serving import Code, offered, opened, served
from studio_page import AXE, SERIOUS

from operad.runtime import interrupt
from operad.runtime.durable import Ledger
from operad.server.http.bounds import Bounds
from operad.server.http.keys import Key

ANNA, BEN = "anna" * 8, "benn" * 8
KEYS = [Key.of(ANNA, "anna"), Key.of(BEN, "ben")]


async def sign(job):
    agreed = await interrupt(f"Sign {job.goal}?", "boolean", answer_by=["anna"])
    return "signed" if agreed else "left"


def bearer(key):
    return {"authorization": f"Bearer {key}"}


async def begin(here, goal, key=ANNA, **fields):
    reply = await here.http.post("/runs", json={"expert": "Expert", "goal": goal, **fields}, headers=bearer(key))
    run = reply.json()["id"]
    while not (await here.http.get(f"/runs/{run}", headers=bearer(key))).json()["questions"]:
        await asyncio.sleep(0.01)
    return run


async def inbox(here, key=ANNA, query=""):
    return (await here.http.get(f"/questions{query}", headers=bearer(key))).json()["questions"]


@asynccontextmanager
async def stored(path, **options):
    ledger = Ledger(path, source="expert")
    try:
        async with served(offered(Code(sign)).kept_in(ledger), **options) as here:
            yield here
    finally:
        await asyncio.to_thread(ledger.close)


async def test_only_the_people_that_a_question_names_may_answer_it():
    async with served(offered(Code(sign)), keys=KEYS) as here:
        run = await begin(here, "the lease")
        [asked] = await inbox(here)
        assert (asked["run"], asked["id"], asked["text"], asked["operator"]) == (run, "code", "Sign the lease?", "code")
        assert (asked["answer_by"], asked["may_answer"], asked["form"]["type"]) == (["anna"], True, "boolean")
        assert asked["asked"]
        assert [each["may_answer"] for each in await inbox(here, BEN)] == [False]
        assert await inbox(here, BEN, "?mine=true") == []
        assert len(await inbox(here, BEN, "?expert=Expert")) == 1
        assert await inbox(here, ANNA, "?expert=Other") == []
        path = f"/runs/{run}/answers/code"
        refused = await here.http.post(path, json={"answer": True}, headers=bearer(BEN))
        assert (refused.status_code, "anna" in refused.json()["error"]["message"]) == (403, True)
        assert (await here.http.post(path, json={"answer": True}, headers=bearer(ANNA))).status_code == 200
        here.http.headers.update(bearer(BEN))
        assert (await here.ended(run))["result"] == "signed"
        assert await inbox(here) == []


async def test_an_answer_in_advance_counts_only_if_its_sender_may_answer():
    async with served(offered(Code(sign)), keys=KEYS) as here:
        run = await begin(here, "it", BEN, answers={"code": True})
        assert [each["run"] for each in await inbox(here)] == [run]
        reply = await here.http.post(
            "/runs", json={"expert": "Expert", "goal": "it", "answers": {"code": True}}, headers=bearer(ANNA)
        )
        here.http.headers.update(bearer(ANNA))
        assert (await here.ended(reply.json()["id"]))["result"] == "signed"


async def test_an_answer_in_advance_to_a_run_of_somebody_else_counts_only_if_its_sender_may_answer(tmp_path):
    path = tmp_path / "runs.sqlite"
    async with stored(path, keys=KEYS) as other:
        async with stored(path, keys=KEYS) as here:
            run = await begin(here, "it", ANNA)
        body = {"expert": "Expert", "goal": "it", "id": run, "answers": {"code": True}}
        await other.http.post("/runs", json=body, headers=bearer(BEN))  # takes up the run, which no server drives
        other.http.headers.update(bearer(ANNA))
        assert (await other.until(run, "asks"))["questions"]
        assert (await other.http.post("/runs", json=body)).status_code == 200
        assert (await other.http.get(f"/runs/{run}")).json()["state"] == "asks"
        await other.http.post(f"/runs/{run}/answers/code", json={"answer": False})
        assert (await other.until(run, "finished"))["result"] == "left"


async def test_without_keys_anyone_may_answer():
    async with served(offered(Code(sign))) as here:
        run = await begin(here, "it")
        assert (await inbox(here))[0]["may_answer"] is True
        assert (await here.http.post(f"/runs/{run}/answers/code", json={"answer": False})).status_code == 200


async def test_a_key_with_own_runs_sees_only_their_questions():
    own = Key("ben", digest=KEYS[1].digest, own_runs=True)
    async with served(offered(Code(sign)), keys=[KEYS[0], own]) as here:
        await begin(here, "it")
        assert (len(await inbox(here)), await inbox(here, BEN)) == (1, [])


async def test_a_question_is_answered_after_a_restart(tmp_path):
    path = tmp_path / "runs.sqlite"
    async with stored(path, keys=KEYS) as here:
        run = await begin(here, "it")
        [before] = await inbox(here)
    async with stored(path, keys=KEYS) as here:
        [after] = await inbox(here)
        assert (after["run"], after["asked"]) == (run, before["asked"])
        await here.http.post(f"/runs/{run}/answers/code", json={"answer": True}, headers=bearer(ANNA))
        here.http.headers.update(bearer(ANNA))
        assert (await here.until(run, "finished"))["result"] == "signed"


async def test_a_run_that_no_server_drives_continues_with_its_answer(tmp_path):
    path = tmp_path / "runs.sqlite"
    async with stored(path) as other:
        async with stored(path) as here:
            run = await begin(here, "it")
        assert [each["run"] for each in await inbox(other)] == [run]
        assert (await other.http.post(f"/runs/{run}/answers/code", json={"answer": True})).status_code == 200
        assert (await other.until(run, "finished"))["result"] == "signed"


async def test_the_inbox_and_the_list_have_the_runs_of_other_servers_but_do_not_follow_them(tmp_path):
    path, own = tmp_path / "runs.sqlite", Key("ben", digest=KEYS[1].digest, own_runs=True)
    async with stored(path, keys=[KEYS[0], own]) as here, stored(path, keys=[KEYS[0], own]) as other:
        first, second = await begin(here, "one", ANNA), await begin(here, "two", BEN)
        assert [each["run"] for each in await inbox(other)] == [first, second]
        assert [each["run"] for each in await inbox(other, BEN)] == [second]
        seen = {}
        for key in (ANNA, BEN):
            reply = (await other.http.get("/runs", headers=bearer(key))).json()["runs"]
            seen[key] = [(each["id"], each["state"], each["user"]) for each in reply]
        assert seen == {ANNA: [(second, "asks", "ben"), (first, "asks", "anna")], BEN: [(second, "asks", "ben")]}
        assert len((await other.http.get("/runs?limit=1", headers=bearer(ANNA))).json()["runs"]) == 1
        assert other.serving.runs.listed() == []


async def test_a_run_that_waited_too_long_here_is_shown_as_another_server_left_it(tmp_path):
    path, bounds = tmp_path / "runs.sqlite", Bounds(seconds=2.0)
    async with stored(path, bounds=bounds) as here, stored(path) as other:
        run = await begin(here, "it")
        while here.serving.runs.open:
            await asyncio.sleep(0.02)
        assert (await here.until(run, "asks"))["questions"]
        assert (await other.http.post(f"/runs/{run}/answers/code", json={"answer": True})).status_code == 200
        assert (await here.until(run, "finished"))["result"] == "signed"
        assert await inbox(here) == []


async def test_the_pages_need_no_key_and_load_nothing_from_elsewhere():
    async with served(offered(Code(sign)), keys=KEYS) as here:
        for path in ["/inbox", "/"]:
            reply = await here.http.get(path)
            assert reply.status_code == 200
            assert "default-src 'none'" in reply.headers["content-security-policy"]
            assert (await here.http.get("/questions")).status_code == 401


async def test_a_person_answers_on_the_page_and_what_is_being_written_stays(chromium):
    async def both(job):
        await interrupt(
            "Which day?", {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
        )
        return "done"

    async with (
        served(offered(Code(sign)), offered(Code(both), name="Other"), keys=KEYS) as here,
        opened(here.url, chromium, bypass_csp=True) as tab,
    ):
        run = await begin(here, "<b>the lease</b>")
        other = (await here.http.post("/runs", json={"expert": "Other", "goal": "it"}, headers=bearer(BEN))).json()[
            "id"
        ]
        await tab.goto(f"{here.url}/inbox?run={run}")
        await tab.fill("#key", ANNA)
        await tab.press("#key", "Enter")
        await tab.locator("#questions > li").nth(1).wait_for()
        if AXE.exists():
            await tab.evaluate(AXE.read_text(encoding="utf-8"))
            assert await tab.evaluate(SERIOUS) == []
        assert await tab.locator("#questions b").count() == 0
        await tab.locator("textarea").fill("Mon")
        await tab.get_by_role("button", name="Yes").click()
        await tab.locator("#questions > li").nth(1).wait_for(state="detached")
        assert await tab.locator("textarea").input_value() == "Mon"
        await tab.get_by_role("button", name="Answer").click()
        await tab.get_by_text("No open questions").wait_for()
        here.http.headers.update(bearer(ANNA))
        assert [(await here.ended(each))["state"] for each in (run, other)] == ["finished", "finished"]
