"""The page at `/` in a real browser: it chats, shows text as text, and asks nobody but its server."""

import re

import pytest
from serving import Code, offered, opened, order, served, words
from studio_page import AXE, SERIOUS

from operad.runtime import MonoModelReasoner
from operad.runtime.testing import Fail, Hang, Say, ScriptedModel

KEY = "a-key-of-many-characters"


async def say(tab, text):
    await tab.fill("#message", text)
    await tab.press("#message", "Enter")


async def shown(tab, *lines, of="#talk > div"):
    """Wait until the conversation is this."""
    from playwright.async_api import expect

    await expect(tab.locator(of)).to_have_text(lines, use_inner_text=True)


async def test_a_conversation_is_remembered_and_text_is_shown_as_text(chromium):
    def script(request):
        return Say(f"<b onclick=alert(1)>{len(request['messages']) // 2}</b>\nline")

    with ScriptedModel(script) as model:
        async with (
            served(offered(words(), reasoner=MonoModelReasoner(model.model))) as here,
            opened(here.url, chromium) as tab,
        ):
            await say(tab, "<img src=x onerror=alert(1)>")
            await shown(tab, "<img src=x onerror=alert(1)>", "<b onclick=alert(1)>1</b>\nline")
            await say(tab, "Again.")
            await shown(
                tab, "<img src=x onerror=alert(1)>", "<b onclick=alert(1)>1</b>\nline", "Again.",
                "<b onclick=alert(1)>2</b>\nline",
            )  # fmt: skip
            assert await tab.locator("#talk b, #talk img").count() == 0
            await tab.click("#anew")
            await say(tab, "Anew.")
            await shown(tab, "Anew.", "<b onclick=alert(1)>1</b>\nline")


@pytest.mark.slow
async def test_an_answer_is_formatted_and_axe_finds_no_serious_fault(chromium):
    with ScriptedModel(
        [Say("# Figs\n\n- one\n- **two** <img src=x onerror=alert(1)> [go](https://example.org)")]
    ) as model:
        async with (
            served(offered(words(), reasoner=MonoModelReasoner(model.model))) as here,
            opened(here.url, chromium, bypass_csp=True) as tab,
        ):
            await say(tab, "List fruits.")
            await tab.wait_for_selector(".assistant li strong")
            await tab.wait_for_selector("#send:enabled")
            assert await tab.locator(".assistant").get_by_role("heading").inner_text() == "Figs"
            assert await tab.locator(".assistant img").count() == 0
            if AXE.exists():
                for scheme in ("light", "dark"):
                    for width in (1280, 390):
                        await tab.emulate_media(color_scheme=scheme)
                        await tab.set_viewport_size({"width": width, "height": 844})
                        assert await tab.evaluate("document.documentElement.scrollWidth") <= width
                        await tab.evaluate(AXE.read_text(encoding="utf-8"))
                        assert await tab.evaluate(SERIOUS) == []


@pytest.mark.slow
async def test_a_key_is_asked_for_where_one_is_needed(chromium):
    async with served(offered(Code(order)), keys=[KEY]) as here, opened(here.url, chromium) as tab:
        await shown(tab, "the key is missing; send it as: Authorization: Bearer KEY")
        await tab.fill("#key", KEY)
        await tab.press("#key", "Tab")
        await tab.wait_for_selector("#expert option", state="attached")
        await tab.evaluate("document.getElementById('talk').replaceChildren()")
        await say(tab, "olives")
        await shown(tab, re.compile(r"^Order olives\? \(yes or no\)"), of=".assistant")
        await say(tab, "yes")
        await shown(tab, re.compile("^Order"), "olives: ordered", of=".assistant")


@pytest.mark.slow
async def test_what_fails_or_is_stopped_is_said_and_the_message_can_be_sent_again(chromium):
    steps = iter([Fail(400, "no"), Hang(), Say("Yes.")])
    with ScriptedModel(lambda request: next(steps)) as model:
        async with (
            served(offered(words(), reasoner=MonoModelReasoner(model.model))) as here,
            opened(here.url, chromium) as tab,
        ):
            await say(tab, "Hello")
            await shown(tab, re.compile("400"), of=".error")
            assert await tab.input_value("#message") == "Hello"
            await tab.press("#message", "Enter")
            await tab.wait_for_selector("#stop:enabled")
            await tab.click("#stop")
            await shown(tab, re.compile("400"), "stopped", of=".error")
            await tab.press("#message", "Enter")
            await shown(tab, "Yes.", of=".assistant")
