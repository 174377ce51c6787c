"""Speech synthesis, by espeak-ng."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter

from operad.operators.media.child import python, run
from operad.operators.media.errors import MediaError, check_text, need

MAX_SPOKEN_CHARS = 10_000
"""Maximum length of a spoken text, in characters: ten minutes of English, or an hour of Chinese with 140 MB."""

_SECONDS = 60.0

_VOICES = {
    "ARABIC": "ar",
    "ARMENIAN": "hy",
    "BENGALI": "bn",
    "CJK": "cmn",
    "CYRILLIC": "ru",
    "DEVANAGARI": "hi",
    "GEORGIAN": "ka",
    "GREEK": "el",
    "HANGUL": "ko",
    "HEBREW": "he",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "LATIN": "en-us",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAI": "th",
}
"""Voices of scripts, by the first word of the Unicode names of their letters."""

_LETTERS_PER_WORD = {"cmn": 1.5, "ja": 2, "ko": 2}
"""Length of a word in letters, for languages with short words."""


async def speak(text: str, voice: str | None = None) -> bytes:
    """Convert a text to speech.

    Args:
        text: The text, without markup.
        voice: A voice of espeak-ng, such as ``en-gb``, ``cmn`` or ``de``, optionally followed by a plus sign and a
            variant, such as ``f3``. By default, a voice for the script with the most words; English for Latin letters.

    Returns:
        A WAV file: one channel, 16 bits, 22,050 samples a second.

    Raises:
        MediaError: The text is empty or too long, the voice is unknown, or the result is silent.
        MissingExtraError: The extra ``media`` is not installed.
    """
    what = "text to speech"
    check_text(what, text, MAX_SPOKEN_CHARS)
    if not any(letter.isalnum() for letter in text):
        raise MediaError(
            f"{what}: the text {text.strip()[:40]!r} has no letter and no digit, so there is nothing to say"
        )
    need(what, "espeakng_loader")
    plain = text.replace("\0", " ").encode("utf-8", errors="replace").decode()
    request = {"text": plain, "voice": voice_for(text) if voice is None else voice}
    return await run(what, python("espeak.py"), json.dumps(request).encode(), seconds=_SECONDS)


def voice_for(text: str) -> str:
    """Return the voice for the script with the most words of a text."""
    letters = Counter(
        voice for letter in text if (voice := _VOICES.get(unicodedata.name(letter, "").partition(" ")[0]))
    )
    if letters["ja"]:
        letters["ja"] += letters.pop("cmn", 0)  # Chinese letters are also used in Japanese
    words = {voice: count / _LETTERS_PER_WORD.get(voice, 5) for voice, count in letters.items()}
    return max(words, key=lambda voice: words[voice], default="en-us")
