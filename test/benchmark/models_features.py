"""The features of conformance_models.py: a question each, the answers of the model, and what is right."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jsonschema
from models_asked import PNG, Outcome, weather
from models_endpoints import Endpoint, Served, need

from operad.runtime.reasoning.tool_results import READ_MORE
from operad.runtime.values.message import Usage
from operad.testing import DIALECTS, BreakOff, CallTools, Dialect, Fail, Refuse, Say


@dataclass(frozen=True)
class Feature:
    """A question, and what is right.

    Attributes:
        name: Its name in the table.
        script: Steps of the endpoint.
        wrong: Function of the outcome, the requests and the endpoint, that returns what is wrong; empty if all is right.
        asks: Fields of `Ask`.
        fails: True if an error is right, if `wrong` finds no fault in it.
    """

    name: str
    script: Callable[[Endpoint], Sequence[Any]]
    wrong: Callable[[Outcome, Served, Endpoint], str]
    asks: Mapping[str, Any] = field(default_factory=dict)
    fails: bool = False


OSLO, ROME = ("weather", {"city": "Oslo"}), ("weather", {"city": "Rome"})
REFUSAL = "I cannot help with that."
SETTINGS = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "stop": ["END"], "max_tokens": 300}
WORDS = {"temperature": ("temperature",), "top_p": ("topp",), "seed": ("seed", "randomseed")} | {
    "stop": ("stop", "stopsequences"),
    "max_tokens": ("maxtokens", "maxoutputtokens", "maxcompletiontokens"),
}
"""Names of settings in requests, without underscores."""
USAGE = Usage(prompt_tokens=1000, cached_tokens=800, completion_tokens=50, reasoning_tokens=40)


def text_is(text: str, found: Outcome, *_: Any) -> str:
    return "" if found.text.strip() == text else f"the answer is {found.text!r}"


def results_are(results: Sequence[str], found: Outcome, served: Served, endpoint: Endpoint) -> str:
    """Check that the model got the results of its calls, and the user the answer."""
    got = [*endpoint.reader.results(served.requests[-1]).values()] if served.requests else []
    return text_is("Warm.", found) or ("" if got == [*results] else f"the model gets {got}")


def chat_is(found: Outcome, served: Served, endpoint: Endpoint) -> str:
    """Check that the model gets its first answer with the second question."""
    sent = endpoint.reader.texts(served.requests[-1]) if served.requests else []
    return text_is("Cold.", found) or ("" if ("assistant", "Warm.") in sent else f"the model gets {sent}")


ASIDE = ("weather", READ_MORE)
"""Tools in which no library takes the answer."""


def answers(value: Any, request: Any, *, endpoint: Endpoint) -> Any:
    """Answer with a value in the form that the request asks for: enclosed, or as the arguments of a tool."""
    offered = endpoint.reader.schema(request)
    forms: list[Any] = [(offered, lambda made: Say(json.dumps(made)))] if offered else []
    for name, schema in tools_of(request):
        if name not in ASIDE:
            forms.append((schema, lambda made, name=name: CallTools([(name, made)])))
    for schema, step in forms:
        enclosed: list[Any] = [{key: value} for key in schema.get("properties", ())]
        enclosed.append({"result": {"kind": "Country", "data": value}})  # pydantic-ai's form of a union
        for made in (value, *enclosed):
            try:
                jsonschema.validate(made, schema)
            except jsonschema.ValidationError:
                continue
            return step(made)
    need(not forms, "the schema in the request excludes the answer")
    return Say(json.dumps(value))


PARAMETERS = ("parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema")


def tools_of(request: Any) -> list[tuple[str, Any]]:
    """Name and JSON Schema of each tool in a request."""
    found = []
    for tool in request.get("tools") or ():
        for each in tool.get("functionDeclarations", [tool.get("function", tool)]):
            schemas = (each.get(name) for name in PARAMETERS)
            found.append((each["name"], next(filter(None, schemas))))
    return found


def typed(name: str, output: str, value: Any, first: Sequence[Any] = (), **asks: Any) -> Feature:
    def wrong(found: Outcome, *_: Any) -> str:
        return "" if found.output == value else f"the answer is {found.output!r}"

    def script(endpoint: Endpoint) -> Sequence[Any]:
        return [*first, partial(answers, value, endpoint=endpoint)]

    return Feature(name, script, wrong, {"output": output, **asks})


def says(words: str, found: Outcome, *_: Any) -> str:
    """Check that an error, or the reason of the end, holds one of some words."""
    if re.search(words, f"{found.error} {found.finish}", re.IGNORECASE):
        return ""
    return f"the error does not say why: {found.error}" if found.error else f"the answer is {found.text!r}"


def fails(found: Outcome, *_: Any) -> str:
    """Check that there is an error."""
    return "" if found.error else f"the answer is {found.text!r}"


def image_arrives(number: int, found: Outcome, served: Served, endpoint: Endpoint) -> str:
    images = endpoint.reader.images(served.requests[number]) if len(served.requests) > number else []
    return text_is("A cat.", found) or ("" if images == [PNG] else "the model does not get the image")


def settings_arrive(found: Outcome, served: Served, _: Any) -> str:
    """Check that each setting is in the request, or that its user is told that it is not."""
    request = served.requests[-1] if served.requests else {}
    sent = {name.lower().replace("_", "") for name in {**request, **request.get("generationConfig", {})}}
    lost = [name for name, words in WORDS.items() if not sent & {*words} and name not in found.said]
    return text_is("Warm.", found) or (f"not sent, without a word: {', '.join(lost)}" if lost else "")


def effort_arrives(found: Outcome, served: Served, _: Any) -> str:
    """Check that the effort of reasoning is in the request, or that its user is told that it is not."""
    sent = json.dumps(served.requests).lower()
    arrives = '"high"' in sent or "budget" in sent or "thinking" in found.said or "reasoning" in found.said
    return text_is("Warm.", found) or ("" if arrives else "not sent, without a word")


def retried(found: Outcome, served: Served, _: Any) -> str:
    if wrong := text_is("Warm.", found):
        return wrong
    return "" if served.times[1] - served.times[0] >= 1 else "Retry-After is not kept"


def usage_is(found: Outcome, served: Served, endpoint: Endpoint) -> str:
    wanted = {"prompt": USAGE.prompt_tokens, "cached": USAGE.cached_tokens, "reasoning": USAGE.reasoning_tokens}
    wanted = {name: value for name, value in wanted.items() if (endpoint.api, name) not in UNCOUNTED}
    got = {name: found.usage.get(name) for name in wanted}
    return text_is("Warm.", found) or ("" if got == wanted else f"counts {got}")


UNCOUNTED = {("mistral", "reasoning"), ("mistral", "cached")}
"""Numbers that an endpoint's protocol does not have."""


def after(*steps: Any) -> Callable[[Endpoint], Sequence[Any]]:
    return lambda _: steps


COUNTRY, CITY = {"code": "no"}, {"name": "Oslo", "degrees": 3}
TREE = {"name": "a", "parts": [{"name": "b", "parts": []}]}
WARM, CAT = Say("Warm."), Say("A cat.")
TOOLS = {"tools": ("weather",)}
THOUGHTS = [CallTools([("weather", {"city": city})], thinking=f"About {city}.") for city in ("Oslo", "Rome", "Lima")]

FEATURES = (
    Feature("text", after(WARM), partial(text_is, "Warm.")),
    Feature("tool", after(CallTools([OSLO]), WARM), partial(results_are, ["sun in Oslo"]), TOOLS),
    Feature(
        "parallel tools",
        after(CallTools([OSLO, ROME]), WARM),
        partial(results_are, ["sun in Oslo", "sun in Rome"]),
        TOOLS,
    ),
    Feature(
        "tool whose argument has free keys",
        after(CallTools([("total", {"prices": {"a": 1, "b": 2}})]), WARM),
        partial(results_are, ["3 euros"]),
        {"tools": ("total",)},
    ),
    Feature(
        "thinking with tools, three turns",
        after(*THOUGHTS, Say("Warm.", thinking="All known.")),
        partial(results_are, ["sun in Oslo", "sun in Rome", "sun in Lima"]),
        {**TOOLS, "thinking": "low"},
    ),
    Feature(
        "second question after thinking with tools",
        after(*THOUGHTS[:1], Say("Warm.", thinking="Known."), *THOUGHTS[1:2], Say("Cold.", thinking="Known.")),
        chat_is,
        {**TOOLS, "thinking": "low", "then": "And in Rome?"},
    ),
    typed("typed answer", "City", CITY),
    typed("typed answer after a tool", "City", CITY, [CallTools([OSLO])], tools=("weather",)),
    typed(
        "typed answer after thinking with a tool",
        "City",
        CITY,
        THOUGHTS[:1],
        tools=("weather",),
        thinking="low",
    ),
    typed("list", "list[int]", [1, 2]),
    typed("union", "City | Country", COUNTRY),
    typed("recursive type", "Part", TREE),
    typed("free keys", "dict[str, int]", {"a": 1, "b": 2}),
    Feature("refusal", after(Refuse(REFUSAL)), partial(says, "cannot help"), fails=True),
    Feature("filter", after(Say("It is", finish_reason="content_filter")), partial(says, "filter"), fails=True),
    Feature(
        "length", after(Say("It is", finish_reason="length")), partial(says, "length|max_output_tokens"), fails=True
    ),
    Feature(
        "typed answer that is cut off",
        after(Say('{"name": "Os', finish_reason="length"), *[Fail(400, "asked again")] * 2),
        fails,
        {"output": "City"},
        fails=True,
    ),
    Feature("an answer breaks off", after(BreakOff(after_chars=6)), fails, fails=True),
    Feature("image", after(CAT), partial(image_arrives, 0), {"image": True}),
    Feature(
        "image of a tool", after(CallTools([("photo", {})]), CAT), partial(image_arrives, 1), {"tools": ("photo",)}
    ),
    Feature("settings", after(WARM), settings_arrive, {"settings": SETTINGS}),
    Feature("effort of reasoning", after(WARM), effort_arrives, {"thinking": "high"}),
    Feature("broken arguments", after(CallTools([("weather", '{"city": ')]), WARM), partial(text_is, "Warm."), TOOLS),
    Feature("half a character in the prompt", after(WARM), partial(text_is, "Warm."), {"prompt": "cut \ud83d"}),
    Feature("cancellation", after(), lambda *_: "", {"cancel": True}),
    Feature(
        "retry after 429 and 503", after(Fail(429, "slow down", {"retry-after": "1"}), Fail(503, "busy"), WARM), retried
    ),
    Feature("cached and reasoning tokens", after(Say("Warm.", usage=USAGE)), usage_is),
)


def dialect_feature(name: str, dialect: Dialect) -> Feature:
    """Return the feature of reading an answer of chat completions in a dialect."""
    if dialect.fails:
        return Feature(name, after(*[dialect] * 3), fails, fails=True)
    if not dialect.calls:
        return Feature(name, after(dialect), partial(text_is, dialect.text), TOOLS)
    results = [weather(**arguments) for _, arguments in dialect.calls]

    def then(request: Any) -> Any:
        turn = next(each for each in request["messages"] if each["role"] == "assistant")
        signature = turn["tool_calls"][0].get("extra_content", {}).get("google", {}).get("thought_signature")
        if "signature" in name and not signature:
            return Fail(400, "Function call is missing a thought_signature")
        return WARM

    return Feature(name, after(dialect, then), partial(results_are, results), TOOLS)


DIALECT_FEATURES = tuple(dialect_feature(name, dialect) for name, dialect in DIALECTS.items())
