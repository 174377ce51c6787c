"""Test workflows in Dify's format: variables, aggregators, lists and conditions."""

from __future__ import annotations

from collections.abc import Iterator

from dify_files import (
    Case,
    answer,
    app,
    assign,
    branch,
    case,
    code,
    condition,
    end,
    llm,
    node,
    start,
    template,
    variables,
)
from dify_given import ASKED, TURNS


def assignments() -> Iterator[Case]:
    yield Case(
        "environment",
        "environment variables: their values",
        app(
            [start(), template("2", "{{ a }} {{ n }}", a="env.A", n="env.N"), end("3", text="2.output", a="env.A")],
            "1>2 2>3",
            environment_variables=variables(A=("string", "one"), N=("number", 2), UNREAD=("string", "x")),
        ),
    )
    yield Case(
        "environment-secret",
        "environment variables: secrets are given",
        app(
            [start(), template("2", "{{ a }}", a="env.A"), end("3", text="2.output")],
            "1>2 2>3",
            environment_variables=variables(A=("secret", "")),
        ),
        {"env.A": "given"},
        alone="an export has no secrets, which Dify's server keeps",
        as_given=app(
            [start(), template("2", "{{ a }}", a="env.A"), end("3", text="2.output")],
            "1>2 2>3",
            environment_variables=variables(A=("secret", "given")),
        ),
    )
    yield Case(
        "system-query",
        "sys.query",
        app([start(), llm("2", ("user", "{{#sys.query#}}")), answer("3", "{{#2.text#}} {{#sys.query#}}")], "1>2 2>3"),
        ASKED,
    )
    of_start = [{"variable": "q", "value_selector": ["1", "sys.query"]}]
    yield Case(
        "system-query-of-start",
        "sys.query",
        app(
            [
                start(),
                node("2", "template-transform", template="{{ q }}", variables=of_start),
                answer("3", "{{#2.output#}}"),
            ],
            "1>2 2>3",
        ),
        ASKED,
    )
    yield Case(
        "system-defaults",
        "sys.files, sys.dialogue_count and others have values",
        app([start(), answer("2", "{{#sys.dialogue_count#}}{{#sys.user_id#}}")], "1>2"),
        turns=TURNS,
        alone="Dify's server counts the exchanges and names the user",
        expects={"answer": "3"},
    )
    optional = {"type": "text-input", "required": False}
    yield Case(
        "input-left-out",
        "inputs: optional, left out",
        app(
            [start(a="text-input", b=optional), template("2", "{{ a }}", a="1.a"), end("3", text="2.output")], "1>2 2>3"
        ),
        {"a": "x"},
    )
    default = app(
        [start(a={"type": "text-input", "default": "D"}), template("2", "{{ a }}", a="1.a"), end("3", t="2.output")],
        "1>2 2>3",
    )
    yield Case(
        "input-default",
        "inputs: default values",
        default,
        alone="Dify's page fills defaults in",
        as_given=default,
        given_inputs={"a": "D"},
    )
    kinds = {"text-input": "t", "paragraph": "p", "number": 3, "select": "s", "checkbox": True}
    yield Case(
        "input-types",
        "inputs: types",
        app(
            [start(**{f"v{n}": kind for n, kind in enumerate(kinds)}),
             template("2", "{{ a }}{{ b }}{{ c }}{{ d }}", a="1.v0", b="1.v1", c="1.v2", d="1.v3"), end("3", t="2.output", e="1.v4")],
            "1>2 2>3",
        ),
        {f"v{n}": value for n, value in enumerate(kinds.values())},
    )  # fmt: skip
    old = node(
        "2",
        "assigner",
        assigned_variable_selector=["conversation", "name"],
        input_variable_selector=["1", "a"],
        write_mode="over-write",
    )
    yield Case(
        "assigner-version-1",
        "variable assigner: version 1",
        app([start(a="text-input"), old, answer("3", "{{#conversation.name#}}")], "1>2 2>3",
            conversation_variables=variables(name=("string", "Ada"))),
        {**ASKED, "a": "Bea"},
    )  # fmt: skip
    yield Case(
        "assigner-version-1-append",
        "variable assigner: version 1",
        app([start(a="text-input"), {**old, "data": {**old["data"], "write_mode": "append"}}, answer("3", "{{#conversation.name#}}")],
            "1>2 2>3", conversation_variables=variables(name=("array[string]", ["Ada"]))),
        {**ASKED, "a": "Bea"},
    )  # fmt: skip
    yield Case(
        "assigner-version-1-clear",
        "variable assigner: version 1",
        app([start(a="text-input"), {**old, "data": {**old["data"], "write_mode": "clear"}}, answer("3", "<{{#conversation.name#}}>")],
            "1>2 2>3", conversation_variables=variables(name=("array[string]", ["Ada"]))),
        {**ASKED, "a": "Bea"},
    )  # fmt: skip
    operations = {
        "set-constant": ("conversation.s", "set", "new"),
        "over-write": ("conversation.s", "over-write", ["1", "a"]),
        "clear-string": ("conversation.s", "clear", None),
        "clear-number": ("conversation.n", "clear", None),
        "clear-list": ("conversation.l", "clear", None),
        "append": ("conversation.l", "append", ["1", "a"]),
        "extend": ("conversation.l", "extend", ["2", "words"]),
        "remove-first": ("conversation.l", "remove-first", None),
        "remove-last": ("conversation.l", "remove-last", None),
        "add": ("conversation.n", "+=", 2),
        "subtract": ("conversation.n", "-=", 2),
        "multiply": ("conversation.n", "*=", 2),
        "divide": ("conversation.n", "/=", 2),
    }
    for name, item in operations.items():
        yield Case(
            f"assign-{name}",
            "variable assigner: operations",
            app(
                [start(a="text-input"), code("2", "return {'words': ['x', 'y']}", {"words": "array[string]"}), assign("3", item),
                 answer("4", "{{#conversation.s#}} | {{#conversation.n#}} | {{#conversation.l#}}")],
                "1>2 2>3 3>4",
                conversation_variables=variables(s=("string", "old"), n=("number", 8), l=("array[string]", ["p", "q"])),
            ),
            {**ASKED, "a": "given"},
        )  # fmt: skip
    yield Case(
        "assign-set-constant-object",
        "variable assigner: operations",
        app(
            [start(), assign("2", ("conversation.o", "set", '{"k": ["a"]}')), answer("3", "{{#conversation.o#}}")],
            "1>2 2>3",
            conversation_variables=variables(o=("object", {"old": 1})),
        ),
        ASKED,
    )
    yield Case(
        "assign-several",
        "variable assigner: several, in order",
        app(
            [start(), assign("2", ("conversation.n", "+=", 1), ("conversation.m", "over-write", ["conversation", "n"])),
             answer("4", "{{#conversation.n#}} {{#conversation.m#}}")],
            "1>2 2>4",
            conversation_variables=variables(n=("number", 1), m=("number", 0)),
        ),
        ASKED,
    )  # fmt: skip


def aggregators() -> Iterator[Case]:
    def grouped(name: str, *selectors: str, kind: str = "string") -> dict[str, object]:
        return {
            "group_name": name,
            "groupId": name,
            "output_type": kind,
            "variables": [each.split(".") for each in selectors],
        }

    for word in ("x", "y"):
        settings = {
            "group_enabled": True,
            "groups": [grouped("g1", "3.output", "4.output"), grouped("g2", "4.output", "3.output")],
        }
        yield Case(
            f"aggregator-groups-{word}",
            "variable-aggregator: groups",
            app(
                [start(w="text-input"), branch("2", "1.w", "is", "x"), template("3", "yes"), template("4", "no"),
                 node("5", "variable-aggregator", output_type="string", variables=[], advanced_settings=settings),
                 end("6", one="5.g1.output", two="5.g2.output")],
                "1>2 2.true>3 2.false>4 3>5 4>5 5>6",
            ),
            {"w": word},
        )  # fmt: skip
    settings = {"group_enabled": True, "groups": [grouped("only", "2.n", kind="number")]}
    yield Case(
        "aggregator-one-group",
        "variable-aggregator: groups",
        app(
            [start(), code("2", "return {'n': 3}", {"n": "number"}),
             node("5", "variable-aggregator", output_type="number", variables=[], advanced_settings=settings),
             template("6", "{{ n }}", n="5.only.output"), end("7", t="6.output")],
            "1>2 2>5 5>6 6>7",
        ),
    )  # fmt: skip
    none = code("2", "return {'n': None, 't': ''}", {"n": "string", "t": "string"})
    for name, variable in (("none", "2.n"), ("empty-text", "2.t")):
        both = [variable.split("."), ["1", "a"]]
        grouped_too = {"group_enabled": True, "groups": [grouped("g", variable, "1.a")]}
        yield Case(
            f"aggregator-first-is-{name}",
            "variable-aggregator: the first one that there is",
            app(
                [start(a="text-input"), none, node("3", "variable-aggregator", output_type="string", variables=both),
                 node("4", "variable-aggregator", output_type="string", variables=[], advanced_settings=grouped_too),
                 end("5", one="3.output", other="4.g.output")],
                "1>2 2>3 3>4 4>5",
            ),
            {"a": "x"},
        )  # fmt: skip
    off = {"group_enabled": False, "groups": [grouped("g1", "2.n", kind="number")]}
    yield Case(
        "aggregator-groups-off",
        "variable-aggregator: one output",
        app(
            [start(), code("2", "return {'n': 3}", {"n": "number"}),
             node("5", "variable-aggregator", output_type="number", variables=[["2", "n"]], advanced_settings=off), end("7", t="5.output")],
            "1>2 2>5 5>7",
        ),
    )  # fmt: skip
    old, new = (
        app(
            [start(), code("2", "return {'n': 3}", {"n": "number"}),
             node("5", kind, output_type="number", variables=[["2", "n"]]), end("7", t="5.output")],
            "1>2 2>5 5>7",
        )
        for kind in ("variable-assigner", "variable-aggregator")
    )  # fmt: skip
    yield Case(
        "aggregator-old-alias",
        "variable-assigner: the old name of the aggregator",
        old,
        alone="it knows the node by its new name",
        as_given=new,
    )


def lists() -> Iterator[Case]:
    yes, no = {"enabled": True}, {"enabled": False}
    whole = {
        "filter_by": {**no, "conditions": []},
        "extract_by": {**no, "serial": "1"},
        "order_by": {**no, "key": "", "value": "asc"},
        "limit": {**no, "size": 10},
    }
    like = {"key": "", "comparison_operator": "contains", "value": "i"}
    operations = {
        "none": {},
        "empty-conditions": {"filter_by": {**yes, "conditions": []}},
        "limit-0": {"limit": {**yes, "size": 0}},
        "filter-and-limit": {"filter_by": {**yes, "conditions": [like]}, "limit": {**yes, "size": 1}},
        "filter-order-limit": {
            "filter_by": {**yes, "conditions": [like]},
            "order_by": {**yes, "key": "", "value": "desc"},
            "limit": {**yes, "size": 2},
        },
        "order-and-extract": {"order_by": {**yes, "key": "", "value": "asc"}, "extract_by": {**yes, "serial": "2"}},
        "two-conditions": {"filter_by": {**yes, "conditions": [like, {**like, "value": "k"}]}},
        "extract-by-variable": {"extract_by": {**yes, "serial": "{{#1.n#}}"}},
        "condition-off": {"filter_by": {**no, "conditions": [{**like, "value": ""}]}, "limit": {**yes, "size": 2}},
    }
    for name, more in operations.items():
        yield Case(
            f"list-{name}",
            "list-operator: operations together",
            app(
                [start(n="number"), code("2", "return {'l': ['pear', 'fig', 'kiwi', 'lime']}", {"l": "array[string]"}),
                 node("3", "list-operator", variable=["2", "l"], var_type="array[string]", item_var_type="string", **{**whole, **more}),
                 end("4", all="3.result", first="3.first_record", last="3.last_record")],
                "1>2 2>3 3>4",
            ),
            {"n": 2},
        )  # fmt: skip


def conditions() -> Iterator[Case]:
    kinds = {
        "string-empty": ("text-input", "empty", "", "string", ("", "a")),
        "string-start-with": ("text-input", "start with", "ab", "string", ("abc", "c")),
        "number-variable": ("number", ">", "{{#1.limit#}}", "number", (3, 9)),
        "text-variable": ("text-input", "is", "{{#1.word#}}", "string", ("w", "v")),
    }
    for name, (kind, operator, value, var_type, given) in kinds.items():
        for number, x in enumerate(given):
            yield Case(
                f"if-{name}-{number}",
                "if-else: comparisons",
                app(
                    [start(x=kind, limit="number", word="text-input"), branch("2", "1.x", operator, value, var_type),
                     template("3", "yes"), template("4", "no"), end("5", t="3.output"), end("6", t="4.output")],
                    "1>2 2.true>3 2.false>4 3>5 4>6",
                ),
                {"x": x, "limit": 5, "word": "w"},
            )  # fmt: skip
    for logic in ("and", "or"):
        yield Case(
            f"if-no-conditions-{logic}",
            "if-else: a case without conditions",
            app(
                [start(), node("2", "if-else", cases=[case("true", logic=logic)]),
                 template("3", "yes"), template("4", "no"), end("5", t="3.output"), end("6", t="4.output")],
                "1>2 2.true>3 2.false>4 3>5 4>6",
            ),
        )  # fmt: skip
    for operator in ("null", "not null", "exists", "not exists"):
        for value in ("None", "0"):
            yield Case(
                f"if-{operator.replace(' ', '-')}-{value}",
                "if-else: comparisons",
                app(
                    [start(), code("2", f"return {{'n': {value}}}", {"n": "number"}), branch("3", "2.n", operator, kind="number"),
                     template("4", "yes"), template("5", "no"), end("6", t="4.output"), end("7", t="5.output")],
                    "1>2 2>3 3.true>4 3.false>5 4>6 5>7",
                ),
            )  # fmt: skip
    yield Case(
        "if-without-end",
        "if-else: a way that leads nowhere",
        app([start(x="text-input"), branch("2", "1.x", "is", "a"), end("3", x="1.x")], "1>2 2.true>3"),
        {"x": "b"},
    )
    for number, x in enumerate(("a", "b", "c")):
        yield Case(
            f"if-elif-{number}",
            "if-else: several cases",
            app(
                [start(x="text-input"),
                 node("2", "if-else", cases=[case("true", condition("1.x", "is", "a")),
                                             case("other", condition("1.x", "is", "b"), condition("1.x", "is", "z"), logic="or")]),
                 template("3", "1"), template("4", "2"), template("5", "3"), end("6", t="3.output"), end("7", t="4.output"), end("8", t="5.output")],
                "1>2 2.true>3 2.other>4 2.false>5 3>6 4>7 5>8",
            ),
            {"x": x},
        )  # fmt: skip
