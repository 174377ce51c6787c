"""Long texts, which prompts show cut, and their whole in answers that repeat them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, cast

from operad.flows.edit.paths import Step
from operad.flows.formats.shapes import fields_of, list_of
from operad.operators.variables import Text

CUT = "[… cut"
"""Beginning of the mark of a text that is longer."""

_MARK = re.compile(r"\n?\[… cut(?::[^\]]*)?\]")


def marked(text: str, longest: int) -> str:
    """Return a text, cut if it is longer by more than its mark, which names the variables that the rest reads.

    >>> marked("Answer the question of the customer: {{#1.question#}}", 20)
    'Answer the question [… cut: {{#1.question#}}]'
    """
    if len(text) <= longest + len(CUT):
        return text
    shown = text[:longest]
    hidden = dict.fromkeys(each.in_text for each in Text(text).selectors if each.in_text not in shown)
    mark = f"{CUT}: {' '.join(hidden)}]" if hidden else f"{CUT}]"
    return text if len(text) <= longest + len(mark) else shown + mark


def with_whole_texts(value: Any, texts: Collection[str]) -> Any:
    """Return an answer in which each cut text is the whole one that begins so, if there is one; words after it stay.

    >>> with_whole_texts(["Answer the question [… cut] In French."], ["Answer the question of the customer."])
    ['Answer the question of the customer. In French.']

    Args:
        value: The answer, or a part of it.
        texts: The texts that were shown, whole.
    """
    return with_texts(value, lambda text: _whole(text, texts))


def _whole(text: str, texts: Collection[str]) -> str:
    found = _MARK.search(text)
    if found is None or text in texts:
        return text
    beginning = text[: found.start()]
    whole = {each for each in texts if beginning and each.startswith(beginning)}
    return whole.pop() + text[found.end() :] if len(whole) == 1 else text


def still_cut(value: Any, texts: Collection[str]) -> Iterator[str]:
    """Yield the texts of an answer with the mark of a cut, which belongs to prompts alone."""
    yield from (text for _, text in texts_at(value) if _MARK.search(text) and text not in texts)


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with its texts changed at any depth, without the keys of objects."""
    match value:
        case str():
            return change(value)
        case list():
            return [with_texts(each, change) for each in cast("list[Any]", value)]
        case dict():
            return {key: with_texts(each, change) for key, each in fields_of(value).items()}
        case _:
            return value


def texts_at(value: Any, at: Sequence[Step] = ()) -> Iterator[tuple[Sequence[Step], str]]:
    """Yield the texts in a value at any depth, without the keys of objects, each with its steps."""
    if isinstance(value, str):
        yield at, value
    inner = enumerate(list_of(value)) if isinstance(value, list) else fields_of(value).items()
    for key, each in inner:
        yield from texts_at(each, [*at, key])
