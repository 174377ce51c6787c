import doctest
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operad.runtime.values import words as module
from operad.runtime.values.words import words


def test_the_examples_in_the_docstring_hold():
    assert doctest.testmod(module) == (0, 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t.,;–—!?…\"'()[]{}*^~ ", []),
        ("One two, ONE.", ["one", "two", "one"]),
        ("don't re-run", ["don", "t", "re", "run"]),
        ("snake_case camelCase __init__", ["snake", "case", "camelcase", "camel", "case", "init"]),
        ("HTTPServerConfig", ["httpserverconfig", "http", "server", "config"]),
        ("getX v2Alpha", ["getx", "get", "x", "v2alpha", "v2", "alpha"]),
        ("URLs 3D H2O README Fig", ["urls", "3d", "h2o", "readme", "fig"]),
        ("größteBäume ДваСлова", ["grösstebäume", "grösste", "bäume", "дваслова", "два", "слова"]),
        ("v2.10 1,000 3.14", ["v2", "10", "1", "000", "3", "14"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("ＦＴＳ５ ﬁle", ["fts5", "file"]),  # full width; a ligature
        ("café cafe\u0301", ["café", "café"]),  # composed, and not
        ("知识库", ["知识", "识库"]),
        ("知识 库", ["知识", "库"]),
        ("茶", ["茶"]),
        ("第3章：安装Python", ["第", "3", "章", "安装", "python"]),
        ("データベース", ["デー", "ータ", "タベ", "ベー", "ース"]),
        ("ﾃﾞｰﾀ", ["デー", "ータ"]),  # half width
        ("人々と東京。大阪", ["人々", "々と", "と東", "東京", "大阪"]),
        ("가나다 라", ["가나", "나다", "라"]),
        ("𠀀𠀁", ["𠀀𠀁"]),  # beyond 16 bits
        ("ไทย", ["ไท", "ทย"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("Ёлка Ολυμπία שָׁלוֹם", ["ёлка", "ολυμπία", unicodedata.normalize("NFKC", "שָׁלוֹם")]),
    ],
)
def test_words_of_many_scripts(text, expected):
    assert words(text) == expected


def test_a_full_stop_between_letters_of_an_unspaced_script_parts_them():
    assert "识库" in words("知识库")
    assert "库知" not in words("知识库。知识")
    assert "点北" not in words("起点、北方")


@given(st.text())
def test_whatever_the_text_words_are_folded_not_empty_and_without_spaces(text):
    for word in words(text):
        assert word
        assert word == word.strip()
        assert not any(letter.isspace() or letter in "_\"'*^():+-" for letter in word)


@given(st.text(), st.text())
def test_what_is_parted_by_a_space_is_cut_apart(one, other):
    assert words(f"{one} {other}") == words(one) + words(other)
