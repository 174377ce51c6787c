"""Words of a text, case-folded and in any script, and the similarity of two texts by their words."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import pairwise

_UNSPACED = (
    "\u0e01-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u1100-\u11ff\uac00-\ud7ff"  # Hangul: there are spaces, but not between a noun and its particle
    "\u3005-\u3007\u3031-\u3035\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana, and marks of repetition
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Letters of scripts that do not separate words by spaces."""


@cache  # compiled on first use, because the patterns are large and most commands do not need them
def _word_pattern() -> re.Pattern[str]:
    """Return the pattern of a run: letters of an unspaced script, or letters and digits with their marks."""
    # combining marks, such as the vowel signs of Hindi, which `re` does not count as letters
    marks = "".join(mark for mark in map(chr, range(0x300, 0xE00)) if unicodedata.category(mark).startswith("M"))
    return re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|[^\W_{_UNSPACED}](?:[^\W_{_UNSPACED}]|[{marks}])*")


@cache
def _camel_case_boundary() -> re.Pattern[str]:
    """Return the pattern of word boundaries inside a name in code, as in `maxAge` and `HTTPServer`; not in `URLs`."""
    cased = [chr(number) for number in range(0x41, 0x590)]
    upper, lower = "".join(filter(str.isupper, cased)), "".join(filter(str.islower, cased))
    return re.compile(
        rf"(?<=[{lower}])(?=[{upper}])|(?<=\d)(?=[{upper}][{lower}])|(?<=[{upper}])(?=[{upper}][{lower}]{{2}})"
    )


def words(text: str) -> list[str]:
    """Return the words of `text` in order, with repetitions.

    Letters are folded (NFKC, lower case). Words are runs of letters and digits, separated by other characters including
    `_`. A name in camel case, such as `maxAge`, gives both the whole name and its parts. Scripts without spaces between
    words, such as Chinese, Japanese, Korean and Thai, are cut into pairs of adjacent letters; a lone letter is a word.

    >>> words("Die Straße, FTS5 und max_age")
    ['die', 'strasse', 'fts5', 'und', 'max', 'age']
    >>> words("maxAge")
    ['maxage', 'max', 'age']
    >>> words("用PDF存知识库。")
    ['用', 'pdf', '存知', '知识', '识库']
    """
    result: list[str] = []
    for run in _word_pattern().finditer(unicodedata.normalize("NFKC", text)):
        word = run.group()
        if run.lastgroup and len(word) > 1:
            result += map("".join, pairwise(word))
            continue
        result.append(word.casefold())
        if not word.islower() and len(parts := _camel_case_boundary().split(word)) > 1:
            result += map(str.casefold, parts)
    return result


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
