"""`docs/reference/yaml.md`: the keys of a configuration file, from the declarations that check them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import yaml
from pydantic import BaseModel

from operad.configs.schema import OTHER_NAMES, ConfigSpec, title

HEAD = """\
# YAML keys

<!-- Written by docs/make/reference.py from configs/schema.py. -->

This page lists every key of configuration files with its type, default and an example; `operad schema` prints the same
as JSON Schema. [Configuration](../configuration.md) explains how the keys work together. Unknown keys are errors; empty
values count as missing. `[]` in a path stands for each item of a list.
"""

EXAMPLES: Mapping[str, str] = {
    "ConfigSpec": """
app: {name: Facts}
plugin: {workflow_platform: BUILTIN}
model: {name: gpt-5.6-luna}
reasoner: {type: DUAL}
tools: [{name: search, module_path: my_tools}]
actions: [{name: look up, tools: [search]}]
toolkit: [[look up]]
operators: [{name: answer, instruction: Answer.}]
experts: [{profile: {name: Writer}, workflow: [[answer]]}]
leader: {profile: {name: Editor}}
knowledgebase: {paths: [docs]}
services: {folder: made}
durable: {max_runs: 1000}
memory: {tokens: 8000}
env: {insights: true}
""",
    "AppSpec": "{name: Facts, desc: Check what a text claims., version: '1.2'}",
    "PluginSpec": "{workflow_platform: BUILTIN}",
    "ModelSpec": """
name: gpt-5.6-luna
base_url: http://localhost:8000/v1
api_key_env: MY_KEY
thinking: low
temperature: 0
top_p: 0.9
seed: 7
stop: ["END"]
max_tokens: 2000
parameters: {service_tier: flex}
tools: constrained
structured: false
vision: true
api: responses
timeout: 120
total_timeout: 900
max_retries: 4
limits: {concurrency: 4}
price: {prompt: 0.25, completion: 2}
""",
    "LimitsSpec": "{concurrency: 8, requests_per_minute: 60, tokens_per_minute: 100000}",
    "Price": "{prompt: 0.25, completion: 2, cached: 0.03, cache_written: 0.3}",
    "ReasonerSpec": "{type: DUAL, max_rounds: 12}",
    "LocalToolSpec": "{name: search, type: LOCAL_TOOL, desc: Look a claim up., module_path: my_tools, timeout: 20, approve: true}",
    "McpToolSpec": """
name: files
type: MCP
desc: Reads files.
mcp_transport_config: {transport_type: STDIO, command: my-server}
approve: true
sampling: true
resources: true
prompts: true
""",
    "ReadyToolSpec": "{type: WEB_SEARCH, name: google_search, approve: true}",
    "StdioServer": """
transport_type: STDIO
command: my-server
args: [--folder, docs]
env: {LANG: C.UTF-8}
cwd: servers
timeout: 30
call_timeout: 120
""",
    "SseServer": """
transport_type: SSE
url: http://localhost:8931/sse
headers: {X-Team: facts}
oauth: true
timeout: 30
call_timeout: 120
""",
    "StreamableHttpServer": """
transport_type: STREAMABLE_HTTP
url: http://localhost:8931/mcp
headers: {X-Team: facts}
oauth: true
timeout: 30
call_timeout: 120
""",
    "ActionSpec": "{name: look up, desc: Look a claim up., tools: [search]}",
    "OperatorSpec": """
name: check
instruction: Check each claim.
model: {temperature: 0}
examples: [{input: The moon has air., output: 'false'}]
output_schema: {claims: [string]}
inputs: [facts]
actions: [look up]
tools: [search, my_tools.read]
skills: [skills/fill-forms, {path: skills/tables, scripts: true}]
threshold: 0.4
hops: 1
ports: [right, wrong]
join: any
knowledge: false
code_mode: true
memory: false
long_term_memory: {namespace: 'user-{user}'}
max_turns: 20
check: Every claim is quoted.
class: my_operators.Check
params: {strict: true}
retry: {attempts: 5}
timeout: {run: 60}
fallback: {text: There is no answer., port: right}
cache: true
---
instruction: Check this claim.
map: {over: claims}
---
written_by: my_steps.reply
""",
    "Example": "{input: The moon has air., output: 'false'}",
    "TypedSpec": """
name: count
type: code
params: {variables: [], outputs: [[n, number]], code: "def main(): return {'n': 1}"}
join: all
retry: {attempts: 2}
timeout: {run: 10}
fallback: {outputs: {n: 0}}
cache: true
""",
    "FunctionSpec": """
name: list
function: my_steps.bullets
inputs: [facts]
ports: [long, short]
join: all
retry: {attempts: 2}
timeout: {run: 10}
fallback: {text: None., port: short}
cache: true
---
function: my_steps.shout
map: {over: facts.claims}
""",
    "WorkflowSpec": """
name: soothe
workflow: [[draft, shorten]]
evaluator: {instruction: It must be friendly.}
max_rounds: 2
on_reject: {text: A colleague will answer.}
policy: {cache: true}
limits: {concurrency: 2}
budget: {calls: 20}
inputs: [triage]
join: all
map: {over: letters}
retry: {attempts: 2}
timeout: {run: 120}
fallback: {text: A colleague will answer.}
""",
    "StepSpec": "{operator: triage, port: refund}",
    "MapSpec": "{over: claims, concurrency: 4, on_error: keep}",
    "PolicySpec": "{retry: {attempts: 3}, timeout: {run: 120}, fallback: {text: There is no answer.}, cache: {path: said.db}}",
    "RetrySpec": "{attempts: 5, first_delay: 0.5, max_delay: 30, 'on': [ModelError, AnswerError]}",
    "TimeoutSpec": "{run: 60, idle: 20}",
    "FallbackSpec": """
operator: guess
---
model: {name: gpt-5.6-luna}
---
text: There is no answer.
outputs: {claims: []}
port: wrong
""",
    "CacheSpec": "{path: said.db, max_age: 86400}",
    "ExpertSpec": """
profile: {name: Fact checker}
workflow: [[facts, check, answer], [facts, answer]]
evaluator: {instruction: Every sentence must rest on a checked claim.}
max_rounds: 2
on_reject: continue
reasoner: {max_rounds: 4}
model: {name: gpt-5.6}
memory: {tokens: 8000}
schedule: {cron: 0 7 * * *}
webhook: {secret: GITHUB_HOOK}
policy: {retry: {attempts: 3}}
limits: {concurrency: 8}
budget: {tokens: 100000}
""",
    "MemorySpec": "{tokens: 8000}",
    "ProfileSpec": "{name: Fact checker, desc: Checks the claims of a text.}",
    "ExpertReasonerSpec": "{actor_name: doer, thinker_name: planner, type: DUAL, max_rounds: 4}",
    "CheckSpec": "{function: my_checks.short}",
    "ReplacementSpec": "{text: There is no plan., outputs: {plan: none}}",
    "BudgetSpec": "{tokens: 100000, calls: 50, cost: 0.5, seconds: 600}",
    "LeaderSpec": """
profile: {name: Editor}
actions: [look up]
reasoner: {max_rounds: 4}
model: {name: gpt-5.6}
memory: {tokens: 16000}
schedule: {cron: 0 7 * * *}
webhook: {secret: GITHUB_HOOK}
max_splits: 2
life_cycles: 2
max_depth: 1
budget: {tokens: 500000}
""",
    "LongTermMemorySpec": "{store: memory.sqlite, namespace: 'user-{user}', embeddings: embedded, max_age: 2592000, recalled: 8}",
    "SkillSpec": "{path: skills/tables, scripts: true}",
    "KnowledgeSpec": "{paths: [docs, handbook.pdf], index: knowledge.sqlite, passages: 8, embeddings: text-embedding-3-small}",
    "EmbeddingsSpec": "{name: bge-m3, base_url: 'http://localhost:8000/v1', api_key_env: MY_KEY}",
    "ServicesSpec": """
search: {type: serpapi}
images: {name: gpt-image-1}
speech: {name: tts-1}
http: {timeout: 30}
code: {seconds: 10}
folder: made
workflows: {translate: translate.json}
tools: [{type: WEB_SEARCH}]
models: {gpt-4o-mini: {name: gpt-5.6-luna}}
knowledge: {handbook: {paths: [docs]}}
lossy: false
""",
    "SearchSpec": "{type: tavily, api_key_env: SEARCH_KEY, base_url: 'https://api.tavily.com'}",
    "ImagesSpec": "{name: gpt-image-1, base_url: 'http://localhost:8000/v1', api_key_env: MY_KEY, size: 1024x1024}",
    "SpeechSpec": """
name: tts-1
base_url: http://localhost:8000/v1
api_key_env: MY_KEY
voice: alloy
format: mp3
""",
    "HttpSpec": "{allowed_hosts: ['localhost:8080'], timeout: 30, max_bytes: 1000000}",
    "CodeSpec": "{seconds: 10, memory_bytes: 128000000, packages: [pandas]}",
    "ScheduleSpec": "{cron: 0 7 * * mon-fri, timezone: Europe/Berlin, job: Write the digest., inputs: {topic: trade}}",
    "WebhookSpec": "{secret: GITHUB_HOOK, job: Summarize the issue., inputs: {title: body.issue.title}, wait: 30}",
    "DurableSpec": "{max_age: 2592000, max_runs: 1000}",
    "EnvSpec": "{insights: lessons.sqlite}",
}
"""Per part, values that every key of it is in, as documents of YAML; the parts stand in the page in this order."""


def page() -> str:
    """The page.

    Raises:
        ValueError: A part or a key has no example, or no meaning.
    """
    schema = ConfigSpec.model_json_schema()
    parts: dict[str, Any] = {"ConfigSpec": schema, **schema["$defs"]}
    parts = {name: part for name, part in parts.items() if part.get("properties")}
    if parts.keys() != EXAMPLES.keys():
        raise ValueError(f"give examples, in EXAMPLES, of exactly these: {', '.join(parts)}")
    classes = {each.__name__: each for each in _models(ConfigSpec, set())}
    places = _places(parts)
    return "\n".join([HEAD, *(_section(classes[name], parts[name], places.get(name, [])) for name in EXAMPLES)])


def _section(spec: type[BaseModel], part: Mapping[str, Any], places: list[str]) -> str:
    given = list(yaml.safe_load_all(EXAMPLES[spec.__name__]))
    for document in given:
        spec.model_validate(document)
    lines = [f"## {title(spec.__name__)}", "", inspect.cleandoc(spec.__doc__ or "").partition("\n\n")[0], ""]
    lines += [f"In {', '.join(f'`{place}`' for place in places)}.", ""] if places else []
    lines += ["| key | type | default | meaning | example |", "|---|---|---|---|---|"]
    for key, value in part["properties"].items():
        example = next((document[key] for document in given if key in document), None)
        if example is None:
            raise ValueError(f"the example of {spec.__name__} has no {key!r}")
        default = "required" if key in part.get("required", ()) else _default(value)
        keys = f"`{key}` or `{OTHER_NAMES[key]}`" if key in OTHER_NAMES else f"`{key}`"
        cells = [keys, _type(value), default, _meaning(spec, key, value), f"`{_flow(example)}`"]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, ""])


def _type(value: Mapping[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        if name not in EXAMPLES:
            return {"JsonValue": "any value"}.get(name, "empty mapping")
        return f"[{title(name).lower()}](#{title(name).lower().replace(' ', '-')})"
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        shown = [f"`{each}`" for each in value["enum"]]
        return " or ".join(shown) if len(shown) <= 6 else f"one of {', '.join(shown)}"
    if several := value.get("anyOf") or value.get("oneOf"):
        return " or ".join(dict.fromkeys(_type(each) for each in several if each != {"type": "null"}))
    kind = value.get("type", "")
    if kind == "array":
        return f"list of: {_type(value['items'])}" if "items" in value else "list"
    if kind == "object":
        inner = value.get("additionalProperties")
        return f"mapping of names to: {_type(inner)}" if isinstance(inner, dict) else "mapping"
    if "pattern" in value:
        return "text that begins with http:// or https://" if "http" in value["pattern"] else "text with a dot"
    bounds = [
        f"{word} {value[key]}"
        for key, word in (("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"))
        if key in value
    ]
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}
    return " ".join([words[kind], *bounds])


def _default(value: Mapping[str, Any]) -> str:
    default = value.get("default")
    return "" if default in (None, "", [], {}) or isinstance(default, dict) else f"`{_flow(default)}`"


def _meaning(spec: type[BaseModel], key: str, value: Mapping[str, Any]) -> str:
    said = value.get("description") or _attribute(spec, key)
    if not said:
        refs = list(_refs(value))
        classes = {each.__name__: each for each in _models(spec, set())}
        said = inspect.cleandoc(classes[refs[0]].__doc__ or "").partition("\n")[0] if len(refs) == 1 else ""
    if not said and "const" not in value:
        raise ValueError(f"{spec.__name__}.{key} has no description")
    return " ".join(said.split())


def _attribute(spec: type[BaseModel], key: str) -> str:
    """Return the description of an attribute in the docstring of a class, or of one above it."""
    for kind in spec.__mro__:
        _, _, attributes = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
        if found := re.search(rf"^    {key}: (.*(?:\n      .*)*)", attributes, re.MULTILINE):
            return found[1]
    return ""


def _places(parts: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the paths of each part; recursive and frequent parts are listed once per enclosing key."""
    places: dict[str, list[str]] = {"ConfigSpec": [""]}
    waiting = ["ConfigSpec"]
    for name in waiting:
        for key, value in parts[name]["properties"].items():
            for inner, path in _paths(value, f"{places[name][0]}.{key}".lstrip(".")):
                if inner in parts:
                    found = places.setdefault(inner, [])
                    if not found:
                        waiting.append(inner)
                    if len(found) < 3 and path not in found:
                        found.append(path)
    return {name: paths for name, paths in places.items() if name != "ConfigSpec"}


def _paths(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if "$ref" in value:
        yield value["$ref"].rpartition("/")[2], path
    for each in (*value.get("anyOf", ()), *value.get("oneOf", ())):
        yield from _paths(each, path)
    if isinstance(value.get("items"), dict):
        yield from _paths(value["items"], f"{path}[]")


def _refs(value: Any) -> Iterator[str]:
    return (name for name, _ in _paths(value, ""))


def _models(annotation: Any, seen: set[Any]) -> Iterator[type[BaseModel]]:
    """The models that stand in an annotation, with those inside them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in seen:
        seen.add(annotation)
        yield annotation
        for field in annotation.model_fields.values():
            yield from _models(field.annotation, seen)
    for argument in get_args(annotation):
        yield from _models(argument, seen)


def _flow(value: Any) -> str:
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True).strip()
