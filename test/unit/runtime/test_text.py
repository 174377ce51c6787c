"""Shortened texts."""

from operad.runtime.values.text import short_line, shortened


def test_a_shortened_text_has_the_maximum_length_with_its_ellipsis():
    assert [shortened(text, 4) for text in ("", "abcd", "abcde")] == ["", "abcd", "abc…"]


def test_a_short_line_joins_lines_and_spaces_before_it_is_cut():
    assert short_line("  one\n\ttwo  three ", 9) == "one two …"
