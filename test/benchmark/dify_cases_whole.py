"""Test workflows in Dify's format: whole files, apps, and features that run differently in Operad."""

from __future__ import annotations

from collections.abc import Iterator

from dify_files import Case, answer, app, end, http, llm, node, start, template
from dify_given import ASKED, MEMORY, TURNS


def files() -> Iterator[Case]:
    made = app([start(a="text-input"), template("2", "<{{ a }}>", a="1.a"), end("3", t="2.output")], "1>2 2>3")
    without_kind = {key: value for key, value in made.items() if key != "kind"}
    yield Case(
        "form-kind-graph", "files: a graph alone", {"kind": "graph", "graph": made["workflow"]["graph"]}, {"a": "x"}
    )
    forms = {
        "without-kind": without_kind,
        "bare-graph": made["workflow"]["graph"],
        "workflow-alone": {"workflow": made["workflow"]},
        "graph-alone": {"graph": made["workflow"]["graph"]},
    }
    for name, file in forms.items():
        yield Case(
            f"form-{name}",
            "files: old exports and bare graphs",
            file,
            {"a": "x"},
            alone="it reads files with `kind`, which Dify's server adds",
            as_given=made,
            given_inputs={"a": "x"},
        )

    standing = [llm("4", ("user", "{{#9.text#}}")), template("5", "x")]
    yield Case(
        "nodes-without-path",
        "nodes that no path leads to",
        app(
            [start(a="text-input"), template("2", "<{{ a }}>", a="1.a"), end("3", t="2.output"), *standing],
            "1>2 2>3 4>5",
        ),
        {"a": "x"},
    )


def apps() -> Iterator[Case]:
    model = {"provider": "langgenius/tongyi/tongyi", "name": "qwen-plus", "mode": "chat", "completion_params": {}}
    form = [{"text-input": {"variable": "tone", "label": "Tone", "required": True}}]
    config = {
        "model": model,
        "pre_prompt": "Speak in a {{tone}} tone.",
        "prompt_type": "simple",
        "user_input_form": form,
    }

    def made(mode: str, **more: object) -> dict[str, object]:
        return {
            "app": {"name": "case", "mode": mode},
            "kind": "app",
            "version": "0.4.0",
            "model_config": {**config, **more},
        }

    given = {**ASKED, "tone": "calm"}
    yield Case(
        "app-chat",
        "apps of the mode chat",
        made("chat"),
        given,
        TURNS,
        alone="it reads apps of this mode only as the workflow that Dify converts them to",
        as_given=app(
            [start(tone="text-input"), llm("2", ("system", "Speak in a {{#1.tone#}} tone."), memory=MEMORY),
             answer("3", "{{#2.text#}}")],
            "1>2 2>3",
        ),
        given_inputs=given,
    )  # fmt: skip
    yield Case(
        "app-completion",
        "apps of the mode completion",
        made("completion", pre_prompt="Write a poem in a {{tone}} tone."),
        {"tone": "calm"},
        alone="it reads apps of this mode only as the workflow that Dify converts them to",
        as_given=app(
            [start(tone="text-input"), llm("2", ("user", "Write a poem in a {{#1.tone#}} tone.")), end("3", answer="2.text")],
            "1>2 2>3",
        ),
        given_inputs={"tone": "calm"},
    )  # fmt: skip
    yield Case(
        "app-agent-chat",
        "apps of the mode agent-chat",
        made("agent-chat", agent_mode={"enabled": True, "strategy": "function_call", "tools": [], "max_iteration": 3}),
        given,
        alone="agents run in Dify's server",
        expects={"answer": "system: Speak in a calm tone.\nuser: And now?"},
    )
    datasets = {"datasets": {"datasets": [{"dataset": {"enabled": True, "id": "d"}}]}}
    yield Case(
        "app-chat-knowledge",
        "apps of the mode chat: knowledge",
        made("chat", dataset_configs=datasets),
        refused="model_config.dataset_configs: the app searches knowledge before it answers",
    )
    yield Case(
        "app-chat-words",
        "apps of the mode chat: words that are held back",
        made("chat", sensitive_word_avoidance={"enabled": True}),
        refused="model_config.sensitive_word_avoidance",
    )
    agent = {
        "instruction": {"type": "mixed", "value": "Be brief."},
        "query": {"type": "mixed", "value": "{{#1.q#}}"},
        "tools": {"type": "constant", "value": []},
        "maximum_iterations": {"type": "constant", "value": 3},
        "model": {"type": "constant", "value": model},
    }
    for strategy in ("function_calling", "ReAct"):
        yield Case(
            f"agent-{strategy}".lower(),
            "agent: strategies",
            app(
                [
                    start(q="text-input"),
                    node("2", "agent", agent_strategy_name=strategy, agent_parameters=agent),
                    end("3", t="2.text"),
                ],
                "1>2 2>3",
            ),
            {"q": "Who?"},
            alone="agent strategies are plugins of Dify's server",
            expects={"t": "system: Be brief.\nuser: Who?"},
        )


def refused() -> Iterator[Case]:
    one = llm("2", ("user", "Hi"))
    losses = {
        "classifier-memory": (
            node("2", "question-classifier", model=one["data"]["model"], query_variable_selector=["1", "q"],
                 classes=[{"id": "a", "name": "A"}, {"id": "b", "name": "B"}], memory=MEMORY),
            "question-classifier: memory", "memory of 'question-classifier 2': the model sees no earlier turns",
        ),
        "http-certificates": (http("2", "{{#1.q#}}", ssl_verify=False), "http-request: certificates", "ssl_verify"),
        "knowledge-filter": (
            node("2", "knowledge-retrieval", dataset_ids=["d"], query_variable_selector=["1", "q"], metadata_filtering_mode="manual"),
            "knowledge-retrieval: filters", "metadata_filtering_mode",
        ),
        "tool-settings": (
            node("2", "tool", provider_id="a/b", tool_name="t", tool_parameters={}, tool_configurations={"k": {"value": 1}}),
            "tool: settings", "tool_configurations",
        ),
        "unknown-field": ({**one, "data": {**one["data"], "guardrails": {"on": True}}}, "fields that are not known", "guardrails"),
    }  # fmt: skip
    for name, (made, feature, says) in losses.items():
        yield Case(
            f"differs-{name}", feature, app([start(q="text-input"), made, end("3", q="1.q")], "1>2 2>3"), differs=says
        )
    instead = {
        "datasource": "begin with a start node",
        "trigger-webhook": "begin with a start node",
        "knowledge-index": "index the documents beside the workflow",
    }
    for kind, what in instead.items():
        yield Case(
            f"refused-{kind}",
            f"{kind}: nodes of this type",
            app([start(q="text-input"), node("2", kind), end("3", q="1.q")], "1>2 2>3"),
            refused=f"2: '{kind}' is not a node type; {what}",
        )
    yield Case(
        "refused-mode",
        "apps of other modes",
        {"app": {"name": "case", "mode": "channel"}, "kind": "app", "workflow": {"graph": {"nodes": [], "edges": []}}},
        refused="must be one of workflow, advanced-chat, chat, completion, agent-chat, not 'channel'",
    )
    yield Case(
        "refused-group-of-files",
        "variable-aggregator: variables of several types",
        app(
            [start(q="text-input", n="number"), node("2", "variable-aggregator", output_type="string", variables=[["1", "q"], ["1", "n"]]),
             end("3", q="2.output")],
            "1>2 2>3",
        ),
        refused="variables[1]: '1.n' is number, and the others are string; make them of one type before",
    )  # fmt: skip
