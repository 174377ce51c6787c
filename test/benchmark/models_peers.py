"""Ask with pydantic-ai and the OpenAI Agents SDK, for conformance_models.py; runs in their environment.

Reads a question as JSON from each line of standard input, and writes its outcome as JSON; first, the versions.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from models_asked import PNG, SECONDS, TYPES, Ask, Outcome, outcome, total, weather


def pydantic_ai_model(ask: Ask) -> Any:
    """The model class that the library has for an endpoint."""
    if ask.api == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel(ask.model, provider=AnthropicProvider(api_key=ask.key, base_url=ask.url))
    if ask.api == "google":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleModel(ask.model, provider=GoogleProvider(api_key=ask.key, base_url=ask.url))
    if ask.api == "mistral":
        from pydantic_ai.models.mistral import MistralModel
        from pydantic_ai.providers.mistral import MistralProvider

        return MistralModel(ask.model, provider=MistralProvider(api_key=ask.key, base_url=ask.url))
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.deepseek import DeepSeekProvider
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.vllm import VLLMProvider

    provider = {"deepseek": DeepSeekProvider, "local": VLLMProvider}.get(ask.endpoint, OpenAIProvider)
    kind = OpenAIResponsesModel if ask.api == "responses" else OpenAIChatModel
    return kind(ask.model, provider=provider(openai_client=openai_client(ask)))


async def pydantic_ai(ask: Ask, found: Outcome, piece: Callable[[], None]) -> Outcome:
    from pydantic_ai import Agent, BinaryContent, FinalResultEvent, PartDeltaEvent, PartStartEvent

    def photo() -> Any:
        """A photo of the sky."""
        return BinaryContent(PNG, media_type="image/png")

    async def read(_: Any, events: Any) -> None:
        async for event in events:
            if isinstance(event, PartStartEvent | PartDeltaEvent | FinalResultEvent):
                piece()

    settings: Any = {**ask.settings, "max_retries": 2}
    if "stop" in settings:
        settings["stop_sequences"] = settings.pop("stop")
    if ask.thinking:
        settings["thinking"] = ask.thinking
    tools = {"weather": weather, "total": total, "photo": photo}
    agent = Agent(
        pydantic_ai_model(ask),
        instructions="Be brief.",
        output_type=TYPES.get(ask.output, str),
        tools=[tools[name] for name in ask.tools],
        model_settings=settings,
    )
    prompt = [ask.prompt, BinaryContent(PNG, media_type="image/png")] if ask.image else ask.prompt
    result = await agent.run(prompt, event_stream_handler=read)
    if ask.then:
        result = await agent.run(ask.then, message_history=result.all_messages(), event_stream_handler=read)
    usage = result.usage
    found.finish = result.response.finish_reason or ""
    found.usage = {"prompt": usage.input_tokens, "cached": usage.cache_read_tokens}
    found.usage["reasoning"] = usage.output_reasoning_tokens
    return found.answer(result.output, ask)


async def openai_agents(ask: Ask, found: Outcome, piece: Callable[[], None]) -> Outcome:
    import agents  # pyright: ignore[reportMissingImports]
    from agents import function_tool  # pyright: ignore[reportMissingImports]

    agents.set_tracing_disabled(True)
    image_url = f"data:image/png;base64,{b64encode(PNG).decode()}"

    @function_tool
    def photo() -> Any:
        """A photo of the sky."""
        return agents.ToolOutputImage(image_url=image_url)

    # free keys are not possible in the strict mode, as its error says
    is_strict = "dict" not in ask.output
    output = agents.AgentOutputSchema(TYPES[ask.output], strict_json_schema=is_strict) if ask.output else None
    tools = {"weather": function_tool(weather), "total": function_tool(total, strict_mode=False), "photo": photo}
    kind = agents.OpenAIResponsesModel if ask.api == "responses" else agents.OpenAIChatCompletionsModel
    agent = agents.Agent(
        name="agent",
        instructions="Be brief.",
        model=kind(ask.model, openai_client=openai_client(ask)),
        output_type=output,
        tools=[tools[name] for name in ask.tools],
        model_settings=agents.ModelSettings(**openai_settings(ask)),
    )
    content = [{"type": "input_text", "text": ask.prompt}, {"type": "input_image", "image_url": image_url}]
    prompt: Any = [{"role": "user", "content": content}] if ask.image else ask.prompt

    async def run(prompt: Any) -> Any:
        result = agents.Runner.run_streamed(agent, prompt)
        try:
            async for event in result.stream_events():
                if event.type == "raw_response_event" and str(event.data.type).endswith(".delta"):
                    piece()
        except asyncio.CancelledError:
            result.cancel()
            raise
        return result

    result = await run(prompt)
    if ask.then:
        result = await run([*result.to_input_list(), {"role": "user", "content": ask.then}])
    usage = result.context_wrapper.usage
    details = {"cached": usage.input_tokens_details.cached_tokens}
    details["reasoning"] = usage.output_tokens_details.reasoning_tokens
    found.usage = {"prompt": usage.input_tokens, **details}
    return found.answer(result.final_output, ask)


def openai_settings(ask: Ask) -> dict[str, Any]:
    """Return the settings of the OpenAI Agents SDK."""
    from openai.types.shared import Reasoning

    settings: dict[str, Any] = dict(ask.settings)
    # the library has no settings for these
    further = {name: settings.pop(name) for name in ("seed", "stop") if name in settings}
    if ask.api == "mistral" and "seed" in further:
        settings["extra_body"] = {"random_seed": further.pop("seed")}
    settings["extra_args"] = further
    if ask.thinking:
        settings["reasoning"] = Reasoning(effort=ask.thinking)  # pyright: ignore[reportArgumentType]
    if ask.api == "responses":
        settings |= {"store": False, "response_include": ["reasoning.encrypted_content"]}
    elif ask.api == "chat-completions":
        settings["include_usage"] = True
    return settings


def openai_client(ask: Ask) -> Any:
    from openai import AsyncOpenAI

    base_url = f"{ask.url}/v1" if ask.api == "mistral" else ask.url
    return AsyncOpenAI(base_url=base_url, api_key=ask.key)


PEERS: Mapping[str, Any] = {"pydantic-ai": pydantic_ai, "OpenAI Agents": openai_agents}
PACKAGES = {"pydantic-ai": "pydantic-ai-slim", "OpenAI Agents": "openai-agents"}


def installed() -> dict[str, str]:
    """Versions of the peers that are installed."""
    found = {}
    for name, package in PACKAGES.items():
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    told = sys.stdout
    sys.stdout = sys.stderr  # for what libraries print
    print(json.dumps(installed()), file=told, flush=True)
    for line in sys.stdin:
        name, given = json.loads(line)
        signal.alarm(3 * SECONDS)  # ends the process if a library blocks it
        said = asyncio.run(outcome(PEERS[name], Ask(**{**given, "tools": tuple(given["tools"])})))
        signal.alarm(0)
        print(json.dumps(asdict(said)), file=told, flush=True)


if __name__ == "__main__":
    main()
