"""Test workflows in Dify's format: models."""

from __future__ import annotations

from collections.abc import Iterator

from dify_files import Case, answer, app, arguments, code, end, llm, node, start, template
from dify_given import ASKED, MEMORY, SCHEMA, TURNS


def models() -> Iterator[Case]:
    windows = {"off": MEMORY, "one": {**MEMORY, "window": {"enabled": True, "size": 1}}}
    windows["wide"] = {**MEMORY, "window": {"enabled": True, "size": 50}}
    for name, each in windows.items():
        yield Case(
            f"memory-window-{name}",
            "LLM memory: window",
            app([start(), llm("2", ("system", "Be brief."), memory=each), answer("3", "{{#2.text#}}")], "1>2 2>3"),
            ASKED,
            TURNS,
        )
    queries = {
        "template": "Answer this: {{#sys.query#}} ({{#1.how#}})",
        "empty": "",
        "fixed": "Go on.",
        "files": "{{#sys.query#}}\n\n{{#sys.files#}}",
    }
    for name, query in queries.items():
        memory = {**MEMORY, "query_prompt_template": query}
        yield Case(
            f"memory-query-{name}",
            "LLM memory: query template",
            app(
                [
                    start(how="text-input"),
                    llm("2", ("system", "Be brief."), memory=memory),
                    answer("3", "{{#2.text#}}"),
                ],
                "1>2 2>3",
            ),
            {**ASKED, "how": "in French", "sys.files": []},
            TURNS,
        )
    yield Case(
        "memory-after-prompt",
        "LLM memory: after the messages of the prompt",
        app(
            [
                start(),
                llm("2", ("system", "S"), ("user", "U {{#sys.query#}}"), memory=MEMORY),
                answer("3", "{{#2.text#}}"),
            ],
            "1>2 2>3",
        ),
        ASKED,
        TURNS,
    )
    yield Case(
        "memory-of-two-nodes",
        "LLM memory: a node with, one without",
        app(
            [start(), llm("2", ("user", "{{#sys.query#}}")), llm("3", ("system", "{{#2.text#}}"), memory=MEMORY),
             answer("4", "{{#3.text#}}")],
            "1>2 2>3 3>4",
        ),
        ASKED,
        TURNS,
    )  # fmt: skip
    yield Case(
        "memory-first-turn",
        "LLM memory: no earlier turns",
        app([start(), llm("2", ("system", "S"), memory=MEMORY), answer("3", "{{#2.text#}}")], "1>2 2>3"),
        ASKED,
    )
    shots = [("system", "Say the opposite."), ("user", "hot"), ("assistant", "cold"), ("user", "{{#1.word#}}")]
    prompts = {
        "few-shot": shots,
        "few-shot-without-system": shots[1:],
        "two-user-messages": [("system", "S"), ("user", "one {{#1.word#}}"), ("user", "two")],
        "two-system-messages": [("system", "S1"), ("system", "S2"), ("user", "{{#1.word#}}")],
        "system-alone": [("system", "Tell of {{#1.word#}}.")],
        "user-alone": [("user", "Tell of {{#1.word#}}.")],
        "empty-message": [("system", ""), ("user", "{{#1.word#}}")],
        "several-shots": [*shots[:3], ("user", "wet"), ("assistant", "dry"), ("user", "{{#1.word#}}")],
    }
    for name, prompt in prompts.items():
        yield Case(
            f"prompt-{name}",
            "LLM prompt: messages and roles",
            app([start(word="text-input"), llm("2", *prompt), end("3", text="2.text")], "1>2 2>3"),
            {"word": "high"},
        )
    jinja = {
        "edition_type": "jinja2",
        "role": "user",
        "text": "",
        "jinja2_text": "{% for w in words %}<{{ w }}>{% endfor %}",
    }
    given = {"jinja2_variables": arguments({"words": "2.words", "word": "1.word"})}
    split = code("2", "return {'words': word.split()}", {"words": "array[string]"}, word="1.word")
    for name, messages in {
        "alone": [jinja],
        "with-system": [{"role": "system", "text": "S {{#1.word#}}"}, jinja],
        "system": [
            {**jinja, "role": "system", "jinja2_text": "Say {{ word|upper }}"},
            {"role": "user", "text": "Now."},
        ],
        "shots": [{"role": "user", "text": "a"}, {"role": "assistant", "text": "b"}, jinja],
    }.items():
        yield Case(
            f"jinja-{name}",
            "LLM prompt: Jinja",
            app(
                [start(word="text-input"), split, llm("3", prompt_template=messages, prompt_config=given),
                 end("4", text="3.text")],
                "1>2 2>3 3>4",
            ),
            {"word": "pear fig"},
        )  # fmt: skip
    for name, key in {"switch": "structured_output_switch_on", "older": "structured_output_enabled"}.items():
        on = {key: True, "structured_output": {"schema": SCHEMA}}
        yield Case(
            f"structured-output-{name}",
            "LLM structured output",
            app(
                [start(), llm("2", ("user", "Read."), **on), end("3", all="2.structured_output", text="2.text")],
                "1>2 2>3",
            ),
        )
    yield Case(
        "structured-output-parts",
        "LLM structured output: parts of it",
        app(
            [start(), llm("2", ("user", "Read."), structured_output_enabled=True, structured_output={"schema": SCHEMA}),
             template("3", "{{ n }} {{ t|length }}", n="2.structured_output.name", t="2.structured_output.tags"),
             end("4", text="3.output", name="2.structured_output.name")],
            "1>2 2>3 3>4",
        ),
    )  # fmt: skip
    yield Case(
        "structured-output-off",
        "LLM structured output: switched off",
        app(
            [start(), llm("2", ("user", "Read."), structured_output_enabled=False, structured_output={"schema": SCHEMA}),
             end("3", text="2.text")],
            "1>2 2>3",
        ),
    )  # fmt: skip
    sources = {
        "text": ("return {'out': 'one\\ntwo'}", "string"),
        "texts": ("return {'out': ['one', 'two']}", "array[string]"),
        "empty": ("return {'out': ''}", "string"),
    }
    for name, (body, kind) in sources.items():
        context = {"enabled": True, "variable_selector": ["2", "out"]}
        yield Case(
            f"context-{name}",
            "LLM context",
            app(
                [start(), code("2", body, {"out": kind}),
                 llm("3", ("system", "Use {{#context#}}."), ("user", "Why?"), context=context), end("4", text="3.text")],
                "1>2 2>3 3>4",
            ),
        )  # fmt: skip
    params = {"temperature": 0.2, "top_p": 0.9, "max_tokens": 100, "stop": ["END"]}
    yield Case(
        "model-parameters",
        "LLM: parameters of the model",
        app([start(), llm("2", ("user", "Hi"), params=params), end("3", text="2.text")], "1>2 2>3"),
    )
    other = {"provider": "langgenius/tongyi/tongyi", "name": "qwen-max", "mode": "chat", "completion_params": {}}
    yield Case(
        "model-per-node",
        "LLM: a model per node",
        app(
            [
                start(),
                llm("2", ("user", "Hi")),
                llm("3", ("user", "{{#2.text#}}!"), model=other),
                end("4", text="3.text"),
            ],
            "1>2 2>3 3>4",
        ),
    )
    yield Case(
        "response-format-json",
        "LLM: response_format",
        app(
            [start(), llm("2", ("user", "Hi"), params={"response_format": "json_object"}), end("3", text="2.text")],
            "1>2 2>3",
        ),
        differs="response_format",
    )
    yield Case(
        "last-message-of-the-model",
        "LLM prompt: last message of the model",
        app([start(), llm("2", ("user", "Hi"), ("assistant", "Well,")), end("3", text="2.text")], "1>2 2>3"),
        differs="an empty message of the user follows",
    )
    values = {
        "numbers": ("return {'out': [1, 2, 3]}", "array[number]"),
        "texts": ("return {'out': ['a', 'ö']}", "array[string]"),
        "object": ("return {'out': {'a': 'ö', 'b': [1]}}", "object"),
        "number": ("return {'out': 3}", "number"),
        "fraction": ("return {'out': 2.5}", "number"),
        "empty-list": ("return {'out': []}", "array[string]"),
    }
    for name, (body, kind) in values.items():
        yield Case(
            f"prompt-value-{name}",
            "LLM prompt: values of every type in texts",
            app([start(), code("2", body, {"out": kind}), llm("3", ("user", "<{{#2.out#}}>")), end("4", text="3.text")],
                "1>2 2>3 3>4"),
        )  # fmt: skip


def questions() -> Iterator[Case]:
    model = llm("0")["data"]["model"]
    classes = [{"id": "a", "name": "Orders"}, {"id": "b", "name": "Other"}]
    asks = {
        "model": model,
        "query_variable_selector": ["1", "q"],
        "classes": classes,
        "instruction": "",
        "vision": {"enabled": False},
    }
    for pick in (0, 1):
        yield Case(
            f"classifier-{pick}",
            "question-classifier",
            app(
                [start(q="text-input"), node("2", "question-classifier", **asks), template("3", "order"),
                 template("4", "else"), node("5", "variable-aggregator", output_type="string",
                                             variables=[["3", "output"], ["4", "output"]]), end("6", said="5.output")],
                "1>2 2.a>3 2.b>4 3>5 4>5 5>6",
            ),
            {"q": "Where is it?"},
            pick=pick,
        )  # fmt: skip
    yield Case(
        "classifier-id",
        "question-classifier: the id of the class",
        app(
            [start(q="text-input"), node("2", "question-classifier", **asks),
             template("3", "{{ id }} {{ usage.total_tokens }}", id="2.class_id", usage="2.usage"), end("4", said="3.output")],
            "1>2 2.a>3 2.b>3 3>4",
        ),
        {"q": "Where is it?"},
        pick=1,
    )  # fmt: skip
    yield Case(
        "extractor-report",
        "parameter-extractor: __usage, __is_success",
        app(
            [start(q="text-input"),
             node("2", "parameter-extractor", query=["1", "q"], model=asks["model"], reasoning_mode="prompt", instruction="",
                  parameters=[{"name": "n", "type": "number", "required": True, "description": "A number"}]),
             template("3", "{{ n }} {{ usage.total_tokens }} {{ success }}", n="2.n", usage="2.__usage", success="2.__is_success"),
             end("4", said="3.output")],
            "1>2 2>3 3>4",
        ),
        {"q": "7"},
    )  # fmt: skip
    yield Case(
        "llm-report",
        "llm: usage, reasoning_content",
        app(
            [start(), llm("2", ("user", "<think>Hm.</think>Hello")),
             template("3", "{{ text }}|{{ thought }}|{{ usage.total_tokens }} {{ usage.currency }}",
                      text="2.text", thought="2.reasoning_content", usage="2.usage"), end("4", said="3.output")],
            "1>2 2>3 3>4",
        ),
    )  # fmt: skip
