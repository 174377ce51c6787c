import re

import pytest
from amounts import amount
from hypothesis import given, settings
from hypothesis import strategies as st

from operad.runtime.knowledge.extract import CHUNK_CHARS, Chunk, chunks

GUIDE = """\
Before any heading.

# Guide

Welcome.

## Installing

Get it.

    # not a heading: it is indented

```sh
# not a heading: code
make
```

## Running
### At night ###
Start it.

Second
------
Under a line.
"""


def test_pieces_follow_headings_and_know_their_line():
    assert list(chunks(GUIDE)) == [
        Chunk("Before any heading.", 1, ""),
        Chunk("Welcome.", 5, "Guide"),
        Chunk(
            "Get it.\n\n    # not a heading: it is indented\n\n```sh\n# not a heading: code\nmake\n```",
            9,
            "Guide > Installing",
        ),
        Chunk("Start it.", 20, "Guide > Running > At night"),
        Chunk("Under a line.", 24, "Guide > Second"),
    ]


def test_code_has_no_headings():
    assert list(chunks("# a comment\nx = 1\n---\ny", headings=False)) == [Chunk("# a comment\nx = 1\n---\ny", 1)]


@pytest.mark.parametrize(
    "text",
    [
        "#hashtag\ntext",
        "word\n--\ntext",
        "| a | b |\n---\ntext",
        "- item\n---\ntext",
        "a line of\na paragraph\n---\ntext",  # a rule after prose, in what people write
        "---\n---\ntext",
        "```\n# code\n---\n",
        "~~~\n# code\n```\n# still code",
        f"{'long ' * 60}\n---\ntext",
    ],
)
def test_what_only_looks_like_a_heading(text):
    assert {chunk.heading for chunk in chunks(text)} == {""}


def test_headings_of_restructured_text():
    text = "=====\nTitle\n=====\n\nA.\n\nPart\n----\nB.\n\nInner\n~~~~~\nC."
    assert [(chunk.heading, chunk.text) for chunk in chunks(text)][1:] == [
        ("Title", "A."),
        ("Title > Part", "B."),
        ("Title > Part > Inner", "C."),
    ]


def test_paragraphs_stand_together_as_long_as_they_fit():
    text = "\n\n".join(f"{n} " + "x" * 90 for n in range(6))
    found = list(chunks(text, most=300))
    assert [chunk.text.count("x" * 90) for chunk in found] == [3, 3]
    assert [chunk.line for chunk in found] == [1, 7]
    assert found[0].text.startswith("0 ")
    assert "\n\n1 " in found[0].text


def test_a_long_paragraph_is_cut_at_its_lines():
    text = "\n".join(f"{n:03} " + "y" * 60 for n in range(10))
    found = list(chunks(text, most=200))
    assert "\n".join(chunk.text for chunk in found) == text
    assert [chunk.line for chunk in found] == [1, 4, 7, 10]


def test_a_long_line_is_cut_after_a_sentence_or_else_at_a_space():
    sentences = " ".join(f"Sentence number {n} says something." for n in range(20))
    assert all(chunk.text.endswith(".") for chunk in chunks(sentences, most=200))
    spaced = "word " * 200
    assert all(set(chunk.text.split()) == {"word"} for chunk in chunks(spaced, most=203))
    chinese = "这是第一句话。" * 60
    assert all(chunk.text.endswith("。") for chunk in chunks(chinese, most=200))
    assert "".join(chunk.text for chunk in chunks("x" * 1000, most=200)) == "x" * 1000


def test_each_piece_of_a_table_has_its_head():
    table = "\n".join(["| name | price |", "| --- | --- |", *(f"| thing {n} | {n} |" for n in range(30))])
    found = list(chunks(table, most=200))
    assert len(found) > 2
    assert all(chunk.text.startswith("| name | price |\n| --- | --- |\n| thing") for chunk in found)
    assert found[0].line == 3
    rows = [line for chunk in found for line in chunk.text.splitlines()[2:]]
    assert rows == table.splitlines()[2:]


def test_the_head_of_a_table_that_takes_too_much_is_not_repeated():
    table = "\n".join(["| " + "n" * 150 + " |", "| --- |", *(f"| {n} |" for n in range(60))])
    assert [chunk.text.count("n" * 150) for chunk in chunks(table, most=200)][:2] == [1, 0]


def test_the_head_of_a_table_of_many_columns_is_repeated_with_its_rule():
    head = ["| " + " | ".join(f"column {n}" for n in range(25)) + " |", "|" + "---|" * 25]
    found = list(chunks("\n".join([*head, *(f"| {n} |" for n in range(1000))])))
    assert len(found) > 2
    assert all(chunk.text.splitlines()[:2] == head for chunk in found)


def test_lines_are_counted_as_editors_count_them():
    assert [chunk.line for chunk in chunks("a\r\n\x0cb\rc\n# H\nd\u2028e")] == [1, 5]


def test_nothing_gives_nothing():
    assert list(chunks("")) == []
    assert list(chunks(" \n\n\t\n")) == []
    assert list(chunks("===\n#\n", headings=True)) == [Chunk("===\n#", 1)]


def test_a_heading_with_nothing_under_it_is_a_piece():
    text = "# To do\n## Buy figs\n## Call Bob\n\nLoudly.\n\n# Done\n"
    assert list(chunks(text)) == [
        Chunk("Buy figs", 2, "To do"),
        Chunk("Loudly.", 5, "To do > Call Bob"),
        Chunk("Done", 7, ""),
    ]


def test_a_long_line_is_no_heading_and_is_not_lost():
    long = "# " + "figs " * 60 + "nuts"
    assert "".join(chunk.text for chunk in chunks(long, most=200)).endswith("nuts")


@pytest.mark.parametrize(
    "line", ["# " + " " * 100_000 + "x", "---" + " " * 100_000 + "x", "# a" + " #" * 50_000 + "x", "`" * 100_000]
)
def test_hostile_lines_take_no_time(line):
    assert list(chunks(f"title\n{line}\n{line}\n{line}"))


LINES = st.lists(
    st.one_of(st.text(max_size=500), st.sampled_from(["", "# H", "## I", "title", "---", "===", "```", "| a |"])),
    max_size=40,
).map("\n".join)


@settings(max_examples=amount(10, 100))
@given(LINES, st.booleans())
def test_whatever_the_text_pieces_fit_are_not_empty_and_stand_where_they_say(text, headings):
    lines = re.split(r"\r\n?|\n", text)
    found = list(chunks(text, headings=headings, most=200))
    assert [chunk.line for chunk in found] == sorted(chunk.line for chunk in found)
    for chunk in found:
        assert chunk.text.strip()
        assert len(chunk.text) <= 200
        assert chunk.text.splitlines()[-1].strip()[:20] in text
        assert 1 <= chunk.line <= len(lines)


@given(LINES)
def test_without_headings_nothing_is_lost(text):
    kept = "".join("".join(chunk.text.split()) for chunk in chunks(text, headings=False, most=CHUNK_CHARS))
    assert kept == "".join(text.split())
