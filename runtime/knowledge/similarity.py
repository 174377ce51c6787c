"""Similarity of two texts, by their words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from operad.runtime.values.words import words

_LONGEST = 8
_PAIR = 4.0
_CJK = "\u3040"
"""The first of the characters that count in pairs."""


def similarity(one: str, other: str) -> float:
    """Return the similarity of two texts: the cosine of their weighted words, from 0 for no word in common to 1.

    A word weighs as much as it has letters, up to eight: short words are mostly such as stand in
    every text, in every language that writes with letters, and so no list of them is needed. A pair
    of Chinese characters weighs four. A word that stands there n times counts 1 + ln n times.
    """
    a, b = _weights(one), _weights(other)
    return sum(weight * b[word] for word, weight in a.items() if word in b)  # in order: the same in every process


@lru_cache(maxsize=2048)  # one text is compared with many, and they come again
def _weights(text: str) -> Mapping[str, float]:
    """The weights of a text's words, as a vector of length 1."""
    weights = {
        word: (1 + math.log(count)) * (_PAIR if word >= _CJK else min(len(word), _LONGEST))
        for word, count in Counter(words(text)).items()
    }
    length = math.hypot(*weights.values())
    return {word: weight / length for word, weight in weights.items()}
