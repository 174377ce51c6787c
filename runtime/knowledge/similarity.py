"""Similarity of two texts, by their words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from operad.runtime.values.words import words

_LONGEST = 8
"""Number of letters from which on a word has the maximum weight."""
_PAIR = 4.0
"""Weight of a pair of letters of an unspaced script."""
_CJK = "\u3040"
"""The first of the characters that `words` cuts into pairs."""


def similarity(one: str, other: str) -> float:
    """Return the similarity of two texts: the cosine of their weighted words, from 0 for no word in common to 1.

    The weight of a word is its number of letters, up to eight: the words that occur in all texts are short in every
    alphabetic language, so no list of stopwords is needed. A pair of Chinese characters has the weight four. The weight
    of a word that occurs n times is multiplied by 1 + ln n.
    """
    weights, other_weights = _weights(one), _weights(other)
    return sum(
        weight * other_weights[word] for word, weight in weights.items() if word in other_weights
    )  # in order, so that rounding is the same in every process


@lru_cache(maxsize=2048)  # texts are compared with many others, repeatedly
def _weights(text: str) -> Mapping[str, float]:
    """Return the weights of the words of a text, as a unit vector."""
    weights = {
        word: (1 + math.log(count)) * (_PAIR if word >= _CJK else min(len(word), _LONGEST))
        for word, count in Counter(words(text)).items()
    }
    length = math.hypot(*weights.values())
    return {word: weight / length for word, weight in weights.items()}
