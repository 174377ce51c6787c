import json

import pytest

from operad.operators.media.echarts import echarts_option
from operad.operators.media.errors import MediaError


def option(*given):
    first, *body, last = echarts_option(*given).split("\n")
    assert (first, last) == ("```echarts", "```")
    return json.loads("\n".join(body))


@pytest.mark.parametrize("chart", ["line", "bar"])
def test_a_chart_with_axes(chart):
    assert option(chart, "Sales", "1;2;3", "a;b;c") == {
        "title": {"left": "center", "text": "Sales"},
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "cross"}},
        "xAxis": {"type": "category", "data": ["a", "b", "c"]},
        "yAxis": {"type": "value"},
        "series": [{"data": [1, 2, 3], "type": chart, "smooth": True}],
    }


def test_a_pie():
    assert option("pie", "", "1;2.5", "无花果;dates") == {
        "title": {"left": "center", "text": ""},
        "tooltip": {"trigger": "item"},
        "legend": {"orient": "vertical", "left": "left"},
        "series": [{"type": "pie", "data": [{"value": 1.0, "name": "无花果"}, {"value": 2.5, "name": "dates"}]}],
    }


def test_letters_stay_and_whole_numbers_are_whole():
    text = echarts_option("bar", "销量", "1.0;-2;3e2", "一;二;三")
    assert "销量" in text
    assert "[\n        1,\n        -2,\n        300\n      ]" in text


def test_spaces_and_a_last_semicolon_do_not_count():
    made = option("bar", "", " 1 ; 2;\n", "a; b c ;")
    assert made["series"][0]["data"] == [1, 2]
    assert made["xAxis"]["data"] == ["a", "b c"]


@pytest.mark.parametrize(
    ("data", "names"),
    [("[1, 2.5]", '["a", "b; c"]'), (" [1, 2.5]\n", "a;b; c".replace("; ", "_")), ('["1", 2.5]', '["a", 3]')],
)
def test_a_json_list_is_as_good(data, names):
    assert option("bar", "", data, names)["series"][0]["data"] == [1, 2.5]


def test_other_json_is_no_list_of_numbers():
    for data in ("[]", "[[1], [2]]", "[true, 1]", '[{"a": 1}]', "[1, 2", "[" * 100_000):
        with pytest.raises(MediaError, match="echarts"):
            echarts_option("bar", "", data, '["a", "b"]')


def test_a_fence_in_a_name_does_not_end_the_block():
    assert option("bar", "```\n```", "1", "```")["xAxis"]["data"] == ["```"]


@pytest.mark.parametrize("number", ["x", "", "12%", "1,000", "nan", "inf", "1e999", "1 2"])
def test_what_is_no_number_is_named_with_its_place(number):
    with pytest.raises(MediaError, match=r"echarts: '.*', number 2 of 3 in the data, is not a number"):
        echarts_option("bar", "", f"1;{number};3", "a;b;c")


def test_lengths_that_differ_are_both_named():
    with pytest.raises(MediaError, match="echarts: 3 numbers in the data and 2 categories"):
        echarts_option("line", "", "1;2;3", "a;b")


@pytest.mark.parametrize(
    ("data", "categories", "what"), [("", "a", "data"), ("1", " ; ", "categories"), ("1", "", "categories")]
)
def test_nothing_is_an_error(data, categories, what):
    with pytest.raises(MediaError, match=f"echarts: the {what} are empty"):
        echarts_option("bar", "", data, categories)


def test_an_unknown_chart_is_an_error_that_names_the_known_ones():
    with pytest.raises(
        MediaError, match=r"there is no chart 'lines' \(did you mean 'line'\?\); there are line, pie, bar"
    ):
        echarts_option("lines", "", "1", "a")  # pyright: ignore[reportArgumentType]
