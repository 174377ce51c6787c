"""Test workflows in Dify's format: iterations and loops."""

from __future__ import annotations

from collections.abc import Iterator

from dify_files import (
    Case,
    answer,
    app,
    assign,
    branch,
    code,
    condition,
    end,
    iteration,
    loop,
    node,
    start,
    template,
    variables,
)
from dify_given import ASKED


def iterations() -> Iterator[Case]:
    lists = code("2", "return {'words': ['a', 'b', 'c']}", {"words": "array[string]"})
    twice = code("4", "return {'two': [item, item + '!']}", {"two": "array[string]"}, "3", item="3.item")
    for flat in (True, False):
        yield Case(
            f"iteration-flatten-{flat}".lower(),
            "iteration: flatten_output",
            app(
                [
                    start(),
                    lists,
                    iteration("3", "2.words", "4.two", flatten_output=flat),
                    twice,
                    end("5", out="3.output"),
                ],
                "1>2 2>3 3start>4 3>5",
            ),
        )
    for parallel in (True, False):
        yield Case(
            f"iteration-parallel-{parallel}".lower(),
            "iteration: parallel",
            app(
                [start(), lists, iteration("3", "2.words", "4.output", is_parallel=parallel, parallel_nums=3),
                 template("4", "{{ n }}{{ item }}", "3", item="3.item", n="3.index"), end("5", out="3.output")],
                "1>2 2>3 3start>4 3>5",
            ),
        )  # fmt: skip
    for mode in ("terminated", "continue-on-error", "remove-abnormal-output"):
        yield Case(
            f"iteration-{mode}",
            "iteration: error_handle_mode",
            app(
                [start(), code("2", "return {'n': [1, 0, 2]}", {"n": "array[number]"}),
                 iteration("3", "2.n", "4.out", error_handle_mode=mode, output_type="array[number]"),
                 code("4", "return {'out': 10 / n}", {"out": "number"}, "3", n="3.item"), end("5", out="3.output")],
                "1>2 2>3 3start>4 3>5",
            ),
        )  # fmt: skip
    yield Case(
        "iteration-empty",
        "iteration: an empty list",
        app(
            [start(), code("2", "return {'words': []}", {"words": "array[string]"}), iteration("3", "2.words", "4.output"),
             template("4", "{{ item }}", "3", item="3.item"), end("5", out="3.output")],
            "1>2 2>3 3start>4 3>5",
        ),
    )  # fmt: skip
    yield Case(
        "iteration-branch-inside",
        "iteration: branches inside",
        app(
            [start(), lists, iteration("3", "2.words", "7.output"), branch("4", "3.item", "is", "b", parent="3"),
             template("5", "B", "3"), template("6", "{{ i }}", "3", i="3.item"),
             node("7", "variable-aggregator", "3", output_type="string", variables=[["5", "output"], ["6", "output"]]),
             end("8", out="3.output")],
            "1>2 2>3 3start>4 4.true>5 4.false>6 5>7 6>7 3>8",
        ),
    )  # fmt: skip
    yield Case(
        "iteration-assigns-conversation",
        "variable assigner: inside an iteration",
        app(
            [start(), lists, iteration("3", "2.words", "4.output"), template("4", "{{ i }}", "3", i="3.item"),
             assign("5", ("conversation.seen", "append", ["3", "item"]), parent="3"), answer("6", "{{#conversation.seen#}}")],
            "1>2 2>3 3start>4 4>5 3>6",
            conversation_variables=variables(seen=("array[string]", ["z"])),
        ),
        ASKED,
    )  # fmt: skip
    yield Case(
        "iteration-assigns-number",
        "variable assigner: inside an iteration",
        app(
            [start(), lists, iteration("3", "2.words", "4.output"), template("4", "{{ n }}", "3", n="conversation.n"),
             assign("5", ("conversation.n", "+=", 1), parent="3"), answer("6", "{{#conversation.n#}} {{#3.output#}}")],
            "1>2 2>3 3start>5 5>4 3>6",
            conversation_variables=variables(n=("number", 0)),
        ),
        ASKED,
    )  # fmt: skip
    asks = variables(answer=("string", ""))
    yield Case(
        "iteration-assigns-for-the-answer",
        "variable assigner: inside an iteration",
        app(
            [start(), lists, iteration("3", "2.words", "5.output"),
             assign("4", ("conversation.answer", "over-write", ["sys", "query"]), parent="3"),
             template("5", "{{ a }}", "3", a="conversation.answer"), answer("6", "{{#conversation.answer#}} {{#3.output#}}")],
            "1>2 2>3 3start>4 4>5 3>6",
            conversation_variables=asks,
        ),
        ASKED,
    )  # fmt: skip
    yield Case(
        "iteration-assigns-on-a-branch",
        "variable assigner: inside an iteration",
        app(
            [start(), lists, iteration("3", "2.words", "8.output"), template("8", "{{ i }}", "3", i="3.item"),
             branch("4", "8.output", "is", "b", parent="3"),
             assign("5", ("conversation.answer", "over-write", ["3", "item"]), parent="3"),
             template("6", "no", "3"), answer("7", "{{#conversation.answer#}}")],
            "1>2 2>3 3start>8 8>4 4.true>5 4.false>6 3>7",
            conversation_variables=asks,
        ),
        ASKED,
    )  # fmt: skip
    yield Case(
        "iteration-assigns-before-and-after",
        "variable assigner: inside an iteration",
        app(
            [start(), lists, assign("8", ("conversation.seen", "append", ["sys", "query"])),
             iteration("3", "2.words", "4.output"), template("4", "{{ s | length }}", "3", s="conversation.seen"),
             assign("5", ("conversation.seen", "append", ["3", "item"]), parent="3"),
             assign("9", ("conversation.seen", "append", ["sys", "query"])), answer("6", "{{#conversation.seen#}} {{#3.output#}}")],
            "1>2 2>8 8>3 3start>4 4>5 3>9 9>6",
            conversation_variables=variables(seen=("array[string]", ["z"])),
        ),
        ASKED,
    )  # fmt: skip


def loops() -> Iterator[Case]:
    yield Case(
        "loop-counts",
        "loop: variables and assigners",
        app(
            [
                start(),
                loop("3", 4, ("n", "number", 1)),
                assign("4", ("3.n", "*=", 2), parent="loop:3"),
                end("5", n="3.n"),
            ],
            "1>3 3start>4 3>5",
        ),
    )
    yield Case(
        "loop-breaks",
        "loop: break conditions",
        app(
            [start(), loop("3", 10, ("n", "number", 0), breaks=[condition("3.n", "≥", "3", "number")]),
             assign("4", ("3.n", "+=", 1), parent="loop:3"), end("5", n="3.n")],
            "1>3 3start>4 3>5",
        ),
    )  # fmt: skip
    yield Case(
        "loop-end-node",
        "loop: the node that ends it",
        app(
            [start(), loop("3", 10, ("n", "number", 0)), assign("4", ("3.n", "+=", 1), parent="loop:3"),
             branch("6", "3.n", "=", "2", "number", parent="loop:3"), node("7", "loop-end", "loop:3"), end("5", n="3.n")],
            "1>3 3start>4 4>6 6.true>7 3>5",
        ),
    )  # fmt: skip
    yield Case(
        "loop-assigns-conversation",
        "variable assigner: inside a loop, of the conversation",
        app(
            [start(), loop("3", 3, ("n", "number", 0)), assign("4", ("conversation.k", "+=", 2), parent="loop:3"),
             answer("5", "{{#conversation.k#}}")],
            "1>3 3start>4 3>5",
            conversation_variables=variables(k=("number", 1)),
        ),
        ASKED,
    )  # fmt: skip
    count = [assign("4", ("3.n", "+=", 1), parent="loop:3"), template("6", "{{ n }}", "loop:3", n="3.n")]
    number = code("2", "return {'n': 3}", {"n": "number"})
    for name, given in {
        "inside": condition("6.output", "is", "2"),
        "before": condition("2.n", "=", "4", "number"),
        "value": condition("3.n", "=", "{{#2.n#}}", "number"),
        "environment": condition("env.m", "=", "4", "number"),
    }.items():
        yield Case(
            f"loop-breaks-by-{name}",
            "loop: break conditions",
            app(
                [start(), number, loop("3", 6, ("n", "number", 0), breaks=[given]), *count, end("5", n="3.n")],
                "1>2 2>3 3start>4 4>6 3>5",
                environment_variables=variables(m=("number", 4)),
            ),
        )
    either = loop(
        "3", 6, ("n", "number", 5), breaks=[condition("6.output", "is", "9"), condition("3.n", "≥", "2", "number")]
    )
    either[0]["data"]["logical_operator"] = "or"
    yield Case(
        "loop-breaks-by-inside-first",
        "loop: break conditions",
        app([start(), either, *count, end("5", n="3.n")], "1>3 3start>4 4>6 3>5"),
    )
    yield Case(
        "loop-breaks-by-conversation",
        "loop: break conditions",
        app(
            [start(), assign("2", ("conversation.k", "+=", 2)),
             loop("3", 9, ("n", "number", 0), breaks=[condition("conversation.k", "≥", "6", "number")]),
             assign("4", ("conversation.k", "+=", 1), ("3.n", "+=", 1), parent="loop:3"), answer("5", "{{#conversation.k#}} {{#3.n#}}")],
            "1>2 2>3 3start>4 3>5",
            conversation_variables=variables(k=("number", 1)),
        ),
        ASKED,
    )  # fmt: skip
