"""Test workflows in Dify's format: answers and failures."""

from __future__ import annotations

from collections.abc import Iterator

from dify_files import (
    Case,
    answer,
    app,
    assign,
    branch,
    code,
    end,
    http,
    iteration,
    llm,
    loop,
    node,
    start,
    template,
    variables,
)
from dify_given import API, ASKED, BOOM, BRANCH, RETRY, VALUES


def answers() -> Iterator[Case]:
    yield Case(
        "answers-two-in-a-row",
        "answers: several, in order",
        app([start(), answer("2", "One. "), template("3", "x"), answer("4", "Two {{#3.output#}}.")], "1>2 2>3 3>4"),
        ASKED,
    )
    yield Case(
        "answers-three-with-models",
        "answers: several, in order",
        app(
            [start(), answer("2", "First. "), llm("3", ("user", "{{#sys.query#}}")), answer("4", "{{#3.text#}} "),
             llm("5", ("user", "{{#3.text#}}!")), answer("6", "{{#5.text#}}")],
            "1>2 2>3 3>4 4>5 5>6",
        ),
        ASKED,
    )  # fmt: skip
    yield Case(
        "answers-both-branches",
        "answers: on a branch",
        app(
            [start(), branch("2", "sys.query", "contains", "now"), answer("3", "Now. "), answer("4", "Later. "),
             answer("5", "Done.")],
            "1>2 2.true>3 2.false>4 3>5 4>5",
        ),
        ASKED,
    )  # fmt: skip
    split = code("2", "return {'words': ['a', 'b', 'c']}", {"words": "array[string]"})
    yield Case(
        "answers-in-iteration",
        "answers: inside an iteration",
        app(
            [start(), split, iteration("3", "2.words", "5.output"), template("5", "{{ i }}!", "3", i="3.item"),
             answer("6", "[{{#5.output#}}]", "3"), answer("7", " end")],
            "1>2 2>3 3start>5 5>6 3>7",
        ),
        ASKED,
    )  # fmt: skip
    yield Case(
        "answers-in-loop",
        "answers: inside a loop",
        app(
            [start(), loop("3", 3, ("n", "number", 0)), answer("5", "<{{#3.n#}}>", "loop:3"),
             assign("6", ("3.n", "+=", 1), parent="loop:3"), answer("7", " end")],
            "1>3 3start>5 5>6 3>7",
        ),
        ASKED,
    )  # fmt: skip
    yield Case(
        "answers-in-iteration-and-model",
        "answers: inside an iteration",
        app(
            [start(), split, answer("8", "Start: "), iteration("3", "2.words", "5.text"),
             llm("5", ("user", "{{#3.item#}}"), parent="3"), answer("6", "{{#5.text#}};", "3"),
             answer("7", "{{#3.output#}}")],
            "1>8 8>2 2>3 3start>5 5>6 3>7",
        ),
        ASKED,
    )  # fmt: skip
    values = {
        "texts": ("return {'out': ['a', 'b']}", "array[string]"),
        "numbers": ("return {'out': [1, 2.5]}", "array[number]"),
        "objects": ("return {'out': [{'a': 1}, {'b': 'x'}]}", "array[object]"),
        "object": ("return {'out': {'a': 1, 'b': ['ö']}}", "object"),
        "number": ("return {'out': 3}", "number"),
        "empty": ("return {'out': []}", "array[string]"),
        "boolean": ("return {'out': True}", "boolean"),
        "booleans": ("return {'out': [True, False]}", "array[boolean]"),
    }
    for name, (body, kind) in values.items():
        yield Case(
            f"answer-value-{name}",
            "answers: values of every type",
            app([start(), code("2", body, {"out": kind}), answer("3", "It: {{#2.out#}}.")], "1>2 2>3"),
            ASKED,
        )
    yield Case(
        "answer-and-conversation",
        "answers: variables of the conversation",
        app(
            [
                start(),
                assign("2", ("conversation.n", "+=", 1)),
                answer("3", "{{#conversation.n#}} {{#conversation.name#}}"),
            ],
            "1>2 2>3",
            conversation_variables=variables(n=("number", 4), name=("string", "Ada")),
        ),
        ASKED,
    )


def failures() -> Iterator[Case]:
    yield Case(
        "retry-llm",
        "retry_config: llm",
        app([start(), llm("2", ("user", "FLAKY"), retry_config=RETRY), end("3", text="2.text")], "1>2 2>3"),
    )
    yield Case(
        "retry-llm-too-few",
        "retry_config: llm",
        app(
            [start(), llm("2", ("user", "FLAKY"), retry_config={**RETRY, "max_retries": 1}), end("3", text="2.text")],
            "1>2 2>3",
        ),
    )
    yield Case(
        "retry-then-values",
        "retry_config and error_strategy together",
        app(
            [start(), llm("2", ("user", "FAIL"), retry_config=RETRY, error_strategy="default-value",
                          default_value=[{"key": "text", "type": "string", "value": "none"}]), end("3", text="2.text")],
            "1>2 2>3",
        ),
    )  # fmt: skip
    typed = {
        "string": ("string", "s", "s"),
        "number": ("number", "2.5", 2.5),
        "object": ("object", '{"a": 1}', {"a": 1}),
        "texts": ("array[string]", '["a"]', ["a"]),
        "numbers": ("array[number]", "[1, 2]", [1, 2]),
        "objects": ("array[object]", '[{"a": 1}]', [{"a": 1}]),
    }
    for name, (kind, text, value) in typed.items():
        for form, given in {"text": text, "value": value}.items():
            strategy = {**VALUES, "default_value": [{"key": "out", "type": kind, "value": given}]}
            yield Case(
                f"default-value-{name}-as-{form}",
                "error_strategy default-value: code",
                app([start(), code("2", BOOM, {"out": kind}, **strategy), end("3", out="2.out")], "1>2 2>3"),
            )
    for name, body in {"fails": BOOM, "goes-well": "return {'out': 'fine'}"}.items():
        yield Case(
            f"fail-branch-code-{name}",
            "error_strategy fail-branch: code",
            app(
                [start(), code("2", body, {"out": "string"}, **BRANCH), template("3", "good {{ o }}", o="2.out"),
                 template("4", "bad"), end("5", said="3.output"), end("6", said="4.output")],
                "1>2 2>3 2.fail-branch>4 3>5 4>6",
            ),
        )  # fmt: skip
    for name, prompt in {"fails": "FAIL", "goes-well": "Hi"}.items():
        yield Case(
            f"fail-branch-llm-{name}",
            "error_strategy fail-branch: llm",
            app(
                [start(), llm("2", ("user", prompt), **BRANCH), answer("3", "{{#2.text#}}"), answer("4", "Sorry.")],
                "1>2 2>3 2.fail-branch>4",
            ),
            ASKED,
        )
    yield Case(
        "fail-branch-joined",
        "error_strategy fail-branch: branches that meet again",
        app(
            [start(), code("2", BOOM, {"out": "string"}, **BRANCH), template("3", "good"), template("4", "bad"),
             node("5", "variable-aggregator", output_type="string", variables=[["3", "output"], ["4", "output"]]),
             end("6", said="5.output")],
            "1>2 2>3 2.fail-branch>4 3>5 4>5 5>6",
        ),
    )  # fmt: skip
    yield Case(
        "fail-branch-error-message",
        "error_strategy fail-branch: error_message",
        app(
            [start(), code("2", BOOM, {"out": "string"}, **BRANCH),
             branch("3", "2.error_message", "contains", "boom"), template("4", "boom"), template("5", "other"),
             end("6", said="4.output"), end("7", said="5.output"), end("8", said="2.out")],
            "1>2 2>8 2.fail-branch>3 3.true>4 3.false>5 4>6 5>7",
        ),
    )  # fmt: skip
    yield Case(
        "default-value-template",
        "error_strategy default-value: template",
        app([start(), template("2", "{{ 1 / 0 }}") | {}, end("3", out="2.output")], "1>2 2>3"),
    )
    broken = template("2", "{{ 1 / 0 }}")
    broken["data"] |= {"error_strategy": "default-value",
                       "default_value": [{"key": "output", "type": "string", "value": "none"}]}  # fmt: skip
    yield Case(
        "default-value-template-set",
        "error_strategy default-value: template",
        app([start(), broken, end("3", out="2.output")], "1>2 2>3"),
    )
    yield Case(
        "default-value-llm",
        "error_strategy default-value: llm",
        app(
            [start(), llm("2", ("user", "FAIL"), error_strategy="default-value",
                          default_value=[{"key": "text", "type": "string", "value": "Sorry"}]), answer("3", "{{#2.text#}}")],
            "1>2 2>3",
        ),
        ASKED,
    )  # fmt: skip
    yield Case(
        "default-value-in-iteration",
        "error_strategy default-value: inside an iteration",
        app(
            [start(), code("2", "return {'n': [1, 0, 2]}", {"n": "array[number]"}),
             iteration("3", "2.n", "4.out", output_type="array[number]"),
             code("4", "return {'out': 10 / n}", {"out": "number"}, "3", n="3.item", error_strategy="default-value",
                  default_value=[{"key": "out", "type": "number", "value": -1}]), end("5", out="3.output")],
            "1>2 2>3 3start>4 3>5",
        ),
    )  # fmt: skip
    yield Case(
        "fails-without-strategy",
        "error_strategy none: the run ends",
        app([start(), code("2", BOOM, {"out": "string"}), end("3", out="2.out")], "1>2 2>3"),
    )
    yield Case(
        "strategy-none",
        "error_strategy none: the run ends",
        app(
            [start(), code("2", "return {'out': 'a'}", {"out": "string"}, error_strategy=None), end("3", out="2.out")],
            "1>2 2>3",
        ),
    )
    for name, status in {"fails": "500", "goes-well": "200"}.items():
        yield Case(
            f"fail-branch-http-{name}",
            "error_strategy fail-branch: http-request",
            app(
                [start(base="text-input"), http("2", "{{#1.base#}}/status/" + status, **BRANCH), template("3", "good"),
                 template("4", "bad"), end("5", said="3.output"), end("6", said="4.output")],
                "1>2 2>3 2.fail-branch>4 3>5 4>6",
            ),
            API,
        )  # fmt: skip
    yield Case(
        "default-value-http",
        "error_strategy default-value: http-request",
        app(
            [start(base="text-input"),
             http("2", "{{#1.base#}}/status/404", error_strategy="default-value",
                  default_value=[{"key": "body", "type": "string", "value": "none"},
                                 {"key": "status_code", "type": "number", "value": 0}]),
             end("3", body="2.body", status="2.status_code")],
            "1>2 2>3",
        ),
        API,
    )  # fmt: skip
    yield Case(
        "http-status-without-strategy",
        "error_strategy none: a status of 404 is an answer",
        app(
            [start(base="text-input"), http("2", "{{#1.base#}}/status/404"), end("3", status="2.status_code")],
            "1>2 2>3",
        ),
        API,
    )
