"""The application with a login, in Chromium: one user asks, the process ends, and another user approves."""

import os
import re
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from operad.testing import CallTools, Say, ScriptedModel

HERE = Path(__file__).parent
PASSWORDS = {"ada": "lovelace", "bob": "builder"}

pytestmark = pytest.mark.slow
for needed in ("fastapi", "sqlalchemy"):
    pytest.importorskip(needed)


def clerk(request):
    if request["messages"][-1]["role"] == "tool":
        return Say("Your order A2 is refunded.")
    return CallTools([("refund", {"order": "A2"})])


@contextmanager
def application(forked, folder, base_url, port):
    """Serve the example until the end of the block, which kills the process."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "OPERAD_"))}
    model = {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "any", "OPERAD_MODEL": "any"}
    program = "from uvicorn.main import main; main()"
    command = [sys.executable, "-c", program, "fastapi_login:app", "--app-dir", str(HERE), "--port", str(port)]
    with forked.begin(command, cwd=folder, env=own | model, stderr=subprocess.PIPE, text=True) as process:
        said = ""
        while "Uvicorn running" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def signed_in(browser, url, user):
    """Return a tab of a user who has signed in, on the chat page."""
    tab = browser.new_context().new_page()
    tab.goto(f"{url}/ai/")
    assert tab.url == f"{url}/login"
    tab.fill("[name=user]", user)
    tab.fill("[name=password]", PASSWORDS[user])
    tab.click("button")
    tab.wait_for_url(f"{url}/ai/")
    return tab


def test_a_second_user_approves_after_a_restart(browser, forked, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ScriptedModel(clerk) as model:
        with application(forked, tmp_path, model.base_url, port) as url:
            ada = signed_in(browser, url, "ada")
            ada.wait_for_selector("option[value=shop]", state="attached")
            ada.fill("#message", "Refund my order A2.")
            ada.click("#send")
            ada.wait_for_selector(".assistant:has-text('asks under')")
            [run_id] = re.findall(r"\(run (\S+) asks", ada.inner_text("#talk"))
        with application(forked, tmp_path, model.base_url, port) as url:
            bob = signed_in(browser, url, "bob")
            bob.goto(f"{url}/ai/view")
            bob.click(f"a[href*='{run_id}']")
            bob.wait_for_selector(".card")
            bob.click("button.main:has-text('Allow')")
            bob.wait_for_selector("text=Your order A2 is refunded.", state="attached", timeout=20_000)
            run = bob.request.get(f"{url}/ai/runs/{run_id}").json()
            events = bob.request.get(f"{url}/ai/runs/{run_id}/events").text()
    assert (run["state"], run["result"], run["user"]) == ("finished", "Your order A2 is refunded.", "ada")
    assert '"by":"bob"' in events.replace(" ", "")
    assert len(model.requests) in (2, 3)  # the first answer of the model is asked for again after the restart


def test_no_page_opens_without_a_login(browser, forked, tmp_path):
    with ScriptedModel(clerk) as model, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        with application(forked, tmp_path, model.base_url, port) as url:
            tab = browser.new_context().new_page()
            for path in ("/ai/", "/ai/view/", "/ai/view/runs/x/", "/ai/runs", "/ai/openapi.json", "/ai/v1/models"):
                assert tab.goto(url + path).url == f"{url}/login"
            assert tab.request.get(f"{url}/ai/healthz").ok
