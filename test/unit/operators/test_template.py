"""Templates of instructions: which braces are fields, which are text, and how values are put in."""

import pytest

from operad.operators.instruction import LONGEST_IN_LINE, Template


def filled(template, /, **values):
    """The text with values, and where its first paragraph with a value starts; other names stay as they are."""
    return Template(template).filled(lambda field: values.get(field.name))


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("Translate {text} into {language}.", [("text", ()), ("language", ())]),
        ("Again {a}, {b} and {a}.", [("a", ()), ("b", ())]),
        ("翻译{text}成{语言}。", [("text", ()), ("语言", ())]),
        ("{facts.title} of {facts.claims.0}", [("facts", ("title",)), ("facts", ("claims", "0"))]),
        ('In JSON: {"text": {text}}', [("text", ())]),
        ("{{{text}}}", [("text", ())]),
        ("{check-facts} and { facts }", [("check-facts", ()), ("facts", ())]),
    ],
)
def test_a_name_in_braces_is_a_field(text, fields):
    assert [(field.name, field.path) for field in Template(text).fields] == fields


@pytest.mark.parametrize(
    "text",
    ["Say it.", '{"a": 1}', '{"a": {"b": {"c": [1]}}}', "{}", "{ }", "{1}", "\\d{2,3}", "{a b}", "{a, b}", "{a: b}", "{x!r}",
     "{'a'}", "{.a}", "{a.}", "{a", "a}", "}}", "{\na\n}", "function f() {\n  return {};\n}"],
)  # fmt: skip
def test_other_braces_are_text(text):
    assert Template(text).fields == ()
    assert filled(text) == (text, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{text}}", "{text}"),
        ("{{ text }} and {{text.part}}", "{ text } and {text.part}"),
        ('{{"a": {{"b": 1}}}}', '{"a": {"b": 1}}'),
        ('{{"a": {"b": {"c": 1}}}}', '{"a": {"b": {"c": 1}}}'),
        ('{"a": {{text}}}', '{"a": {text}}'),
        ("An open {{ stays open.", "An open { stays open."),
        ("{{a}", "{a}"),
    ],
)
def test_a_doubled_brace_is_text_and_so_is_the_doubled_one_that_closes_it(text, expected):
    assert filled(text, text="never", a="never") == (expected, None)


def test_braces_of_a_value_are_not_replaced():
    assert filled("{a}{b}", a="{b} {{b}}", b="two") == ("{b} {{b}}two", 0)


def test_a_value_in_one_line_is_put_into_the_line():
    line = "x" * LONGEST_IN_LINE
    assert filled("Say {a}, {b}.", a="one", b=line) == (f"Say one, {line}.", 0)


@pytest.mark.parametrize("value", ["one\ntwo", "x" * (LONGEST_IN_LINE + 1)])
def test_a_value_of_several_lines_or_of_a_long_one_is_a_block(value):
    assert filled("Say {a} now.\nEnd.", a=value)[0] == f"Say\n```\n{value}\n```\nnow.\nEnd."
    assert filled("Say:\n{a}\n\nEnd.", a=value)[0] == f"Say:\n```\n{value}\n```\n\nEnd."


def test_a_value_cannot_close_its_block():
    assert filled("{a}", a="one ``` two")[0] == "````\none ``` two\n````"


def test_the_first_paragraph_with_a_value_is_known():
    text, start = filled("Be brief.\n\nName no one.\n\nSay {a}.\n\nEnd with {a}.", a="x")
    assert text[:start] == "Be brief.\n\nName no one."
    assert filled("Say {a}.\n\nBe brief.", a="x")[1] == 0


def test_a_field_that_is_no_identifier_is_text_unless_its_name_is_known():
    assert [field.may_be_text for field in Template("{a} {a.b} {a-b} { a } {a.0}").fields] == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert filled("{a-b} { c }", c="x") == ("{a-b} x", 0)
