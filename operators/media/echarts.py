"""Charts as ECharts options in Markdown, as Dify's tools return them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any, Literal, get_args

from operad.operators.media.errors import MediaError
from operad.runtime.values.errors import did_you_mean

ChartType = Literal["line", "pie", "bar"]


def echarts_option(chart_type: ChartType, title: str, data: str, categories: str) -> str:
    """Return a chart as a Markdown block that chat pages render.

    Args:
        title: Title above the chart; may be empty.
        data: Numbers, separated by ``;``, or as a JSON list.
        categories: A name for each number, in the same form.

    Returns:
        A fence with the language ``echarts`` that contains the option as JSON.

    Raises:
        MediaError: A value is not a number, there are more numbers than names or fewer, or the type is unknown.
    """
    known = get_args(ChartType)
    if chart_type not in known:
        raise MediaError(
            f"echarts: there is no chart {chart_type!r:.100}{did_you_mean(str(chart_type), known)}; "
            f"there are {', '.join(known)}"
        )
    numbers, names = _numbers(_items("data", data)), _items("categories", categories)
    if len(numbers) != len(names):
        raise MediaError(
            f"echarts: {len(numbers):,} numbers in the data and {len(names):,} categories; "
            "each number needs its own, with ';' between them"
        )
    option = _pie(numbers, names) if chart_type == "pie" else _axes(chart_type, numbers, names)
    option_json = json.dumps({"title": {"left": "center", "text": title}, **option}, indent=2, ensure_ascii=False)
    return f"```echarts\n{option_json}\n```"


def _items(what: str, text: str) -> list[str]:
    """Return the items of a list in JSON or with semicolons."""
    if (listed := _json_items(text)) is not None:
        if not listed:
            raise MediaError(f"echarts: the {what} are an empty list; give one or more")
        return listed
    items = [item.strip() for item in text.strip().removesuffix(";").split(";")]
    if items == [""]:
        raise MediaError(f"echarts: the {what} are empty; give them with ';' between them")
    return items


def _json_items(text: str) -> list[str] | None:
    """Return the items of a JSON list of texts and numbers; None for other texts."""
    if not text.lstrip().startswith("["):
        return None
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    plain = all(isinstance(each, str | int | float) and not isinstance(each, bool) for each in value)
    return [str(each).strip() for each in value] if plain else None


def _numbers(items: Sequence[str]) -> Sequence[float]:
    """Return items as numbers; as integers if all are whole."""
    numbers: list[float] = []
    for place, item in enumerate(items, 1):
        try:
            number = float(item)
        except ValueError:
            number = float("nan")
        if not isfinite(number):
            raise MediaError(
                f"echarts: {item!r:.100}, number {place} of {len(items):,} in the data, is not a number; "
                "write it with digits and a point alone, and ';' between numbers"
            )
        numbers.append(number)
    return [int(number) for number in numbers] if all(number.is_integer() for number in numbers) else numbers


def _pie(numbers: Sequence[float], names: Sequence[str]) -> dict[str, Any]:
    parts = [{"value": number, "name": name} for number, name in zip(numbers, names, strict=True)]
    return {
        "tooltip": {"trigger": "item"},
        "legend": {"orient": "vertical", "left": "left"},
        "series": [{"type": "pie", "data": parts}],
    }


def _axes(chart_type: str, numbers: Sequence[float], names: Sequence[str]) -> dict[str, Any]:
    return {
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "cross"}},
        "xAxis": {"type": "category", "data": names},
        "yAxis": {"type": "value"},
        "series": [{"data": numbers, "type": chart_type, "smooth": True}],
    }
