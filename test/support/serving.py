"""Server with experts for a test, and clients for it."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import httpx2
import uvicorn
from local_http import NO_AUTHORITIES
from openai import AsyncOpenAI

from operad.configs.runnable import Source
from operad.operators import Operator, OperatorConfig
from operad.runtime import BuiltinWorkflow, interrupt
from operad.runtime.agents.agent import Expert, Profile
from operad.runtime.testing import ScriptedReasoner
from operad.server.api.app import Serving
from operad.server.api.experts import Offer, by_name
from operad.server.http.connections import http_config

HELLO = {"role": "user", "content": "Hello"}


class Code:
    """Operator that calls a function with the job."""

    def __init__(self, work, name="code"):
        self._work, self._name = work, name

    def get_id(self):
        return self._name

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return await self._work(job)


def offered(*operators, name="Expert", reasoner=None, **options):
    workflow = BuiltinWorkflow(name=name, **options)
    for before, operator in zip([None, *operators], operators, strict=False):
        workflow.add_operator(operator, [before] if before else None)
    agent = Expert(Profile(name=name, description=f"It is {name}."), workflow, reasoner or ScriptedReasoner("said"))
    return Offer(agent, Source(file=f"{name}.yaml"))


def words(name="words", **options):
    return Operator(OperatorConfig(id=name, instruction="Say something.", **options))


async def echo(job):
    turns = "".join(f"|{turn.role}: {turn.text}" for turn in job.turns)
    return f"{job.goal}|{job.context}|{json.dumps(job.inputs)}{turns}"


async def order(job):
    agreed = await interrupt(f"Order {job.goal}?", "boolean")
    return f"{job.goal}: {'ordered' if agreed else 'left'}"


class Here:
    """Running server.

    Attributes:
        serving: The served application.
        server: The server of its connections.
        url: The address.
        http: A client for it.
    """

    def __init__(self, serving, server, url, http):
        self.serving, self.server, self.url, self.http = serving, server, url, http

    def openai(self, key="any", **options) -> Any:
        return AsyncOpenAI(base_url=f"{self.url}/v1", api_key=key, **options)

    async def ended(self, run_id):
        """Wait until a run is not running any more, and return it."""
        while (run := (await self.http.get(f"/runs/{run_id}")).json())["state"] == "running":
            await asyncio.sleep(0.01)
        return run

    async def until(self, run_id, state):
        end = asyncio.get_running_loop().time() + 60
        while (run := (await self.http.get(f"/runs/{run_id}")).json())["state"] != state:
            assert asyncio.get_running_loop().time() < end, f"never came to {state}: {run}"
            await asyncio.sleep(0.01)
        return run


@asynccontextmanager
async def served(*offers, headers=None, proxies=(), **options):
    serving = Serving(by_name(offers), **options)
    server: Any = uvicorn.Server(http_config(serving.app, proxies=proxies))
    server.capture_signals = nullcontext
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        task = asyncio.ensure_future(server.serve(sockets=[listening]))
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=30, verify=NO_AUTHORITIES) as http:
            try:
                yield Here(serving, server, url, http)
            finally:
                await serving.drain(0)
                server.should_exit = True
                await http.aclose()
                await task


@asynccontextmanager
async def opened(url, chromium, **options):
    """The page in a browser; at the end it has sent no request elsewhere, and had no error."""
    from playwright.async_api import async_playwright

    asked, faults = [], []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = await browser.new_page(**options)
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("dialog", lambda dialog: faults.append(dialog.message))
        await tab.goto(url)
        yield tab
        await browser.close()
    assert [each for each in asked if not each.startswith(url)] == []
    assert faults == []
