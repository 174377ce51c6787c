"""Test workflows in Dify's format: requests."""

from __future__ import annotations

from collections.abc import Iterator

from dify_files import Case, app, code, end, http, start, variables
from dify_given import API


def requests() -> Iterator[Case]:
    for method in ("get", "post", "put", "patch", "delete", "head"):
        yield Case(
            f"http-{method}",
            "http-request: methods",
            app(
                [start(base="text-input"), http("2", "{{#1.base#}}/a/b?x=1", method),
                 end("3", body="2.body", status="2.status_code")],
                "1>2 2>3",
            ),
            API,
        )  # fmt: skip
    yield Case(
        "http-upper-case-method",
        "http-request: methods",
        app([start(base="text-input"), http("2", "{{#1.base#}}/", "POST"), end("3", body="2.body")], "1>2 2>3"),
        API,
    )
    word = {**API, "word": "two words & ö"}
    for name, params in {"one": "q:{{#1.word#}}", "several": "q:{{#1.word#}}\nq:2\n empty:\n{{#1.word#}}:k"}.items():
        yield Case(
            f"http-params-{name}",
            "http-request: query",
            app(
                [
                    start(base="text-input", word="text-input"),
                    http("2", "{{#1.base#}}/find", params=params),
                    end("3", body="2.body"),
                ],
                "1>2 2>3",
            ),
            word,
        )
    yield Case(
        "http-params-and-query",
        "http-request: query",
        app(
            [start(base="text-input"), http("2", "{{#1.base#}}/find?a=1", params="b:2"), end("3", body="2.body")],
            "1>2 2>3",
        ),
        API,
    )
    for name, body in {
        "quotes": '{"a": "{{#1.word#}}", "n": {{#1.n#}}}',
        "bare": '{"a": {{#1.n#}}, "b": {{#1.word#}}}',
    }.items():
        yield Case(
            f"http-body-json-{name}",
            "http-request: body",
            app(
                [start(base="text-input", word="text-input", n="number"),
                 http("2", "{{#1.base#}}/", "post", body={"type": "json", "data": [{"key": "", "type": "text", "value": body}]}),
                 end("3", body="2.body")],
                "1>2 2>3",
            ),
            {**API, "word": 'say "hi"\nnow' if name == "quotes" else "text", "n": 3},
        )  # fmt: skip
    yield Case(
        "http-headers",
        "http-request: headers",
        app(
            [start(base="text-input"), http("2", "{{#1.base#}}/", headers="X-One: {{#1.base#}}x\nX-Two:2\n\n"),
             code("3", "import json\nreturn {'two': json.loads(body)['headers']['x-two']}", {"two": "string"}, body="2.body"),
             end("4", two="3.two")],
            "1>2 2>3 3>4",
        ),
        API,
    )  # fmt: skip
    keys = {
        "bearer": {"type": "bearer", "api_key": "{{#env.KEY#}}"},
        "basic": {"type": "basic", "api_key": "name:word"},
        "basic-encoded": {"type": "basic", "api_key": "bmFtZQ=="},
        "custom": {"type": "custom", "api_key": "k {{#env.KEY#}}", "header": "X-Key"},
        "other-header": {"type": "bearer", "api_key": "k", "header": "X-Key"},
    }
    for name, config in keys.items():
        yield Case(
            f"http-authorization-{name}",
            "http-request: authorization",
            app(
                [start(base="text-input"), http("2", "{{#1.base#}}/", authorization={"type": "api-key", "config": config}),
                 end("3", body="2.body")],
                "1>2 2>3",
                environment_variables=variables(KEY=("string", "s3cret")),
            ),
            API,
        )  # fmt: skip
    text = {"key": "", "type": "text"}
    pairs = [{"key": "a", "type": "text", "value": "{{#1.word#}}"}, {"key": "b", "type": "text", "value": "2"}]
    bodies = {
        "json": {"type": "json", "data": [{**text, "value": '{"word": "{{#1.word#}}", "n": [1, 2]}'}]},
        "json-as-text": {"type": "json", "data": '{"n": 1}'},
        "json-repaired": {"type": "json", "data": [{**text, "value": "{'n': 1,}"}]},
        "raw": {"type": "raw-text", "data": [{**text, "value": "<{{#1.word#}}>"}]},
        "urlencoded": {"type": "x-www-form-urlencoded", "data": pairs},
        "form": {"type": "form-data", "data": pairs},
        "none": {"type": "none", "data": []},
    }
    for name, body in bodies.items():
        yield Case(
            f"http-body-{name}",
            "http-request: body",
            app(
                [
                    start(base="text-input", word="text-input"),
                    http("2", "{{#1.base#}}/", "post", body=body),
                    end("3", body="2.body"),
                ],
                "1>2 2>3",
            ),
            word,
        )
    yield Case(
        "http-body-content-type",
        "http-request: body with its own content type",
        app(
            [start(base="text-input"),
             http("2", "{{#1.base#}}/", "post", headers="Content-Type: text/markdown",
                  body={"type": "raw-text", "data": [{**text, "value": "# a"}]}), end("3", body="2.body")],
            "1>2 2>3",
        ),
        API,
    )  # fmt: skip
    yield Case(
        "http-text-answer",
        "http-request: answers in words",
        app([start(base="text-input"), http("2", "{{#1.base#}}/text"), end("3", body="2.body")], "1>2 2>3"),
        API,
    )
    yield Case(
        "http-address-of-parts",
        "http-request: variables in the address",
        app(
            [
                start(base="text-input", word="text-input"),
                http("2", "{{#1.base#}}/{{#1.word#}}/x"),
                end("3", body="2.body"),
            ],
            "1>2 2>3",
        ),
        {**API, "word": "item-7"},
    )
    yield Case(
        "http-no-address",
        "http-request: no address of the web",
        app([start(word="text-input"), http("2", "{{#1.word#}}"), end("3", body="2.body")], "1>2 2>3"),
        {"word": "not-an-address"},
    )
