"""Fonts for Chinese, Japanese and Korean: selected for a text among the installed ones.

Typst and mermaid-render include no such fonts. They come from the package noto-cjk-sans-otc, or from the font folders
of the system.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from operad.operators.media.errors import MediaError

_PACKAGE = "noto_cjk_sans_otc"

_LETTER = re.compile("[\u3001-\u3020\u3041-\u30ff\u3105-\u3129\u4e00-\u9fa5\uac00-\ud7a3\uff01-\uff5e]")
"""Common letters. Rarer letters that no font has are rendered as boxes, without an error."""

_KANA = re.compile("[\u3041-\u30ff]")
_HANGUL = re.compile("[\uac00-\ud7a3]")

_FAMILY = re.compile(
    r"CJK|Source Han|Noto (Sans|Serif) (SC|TC|HK|JP|KR)\b|WenQuanYi|LXGW|Sarasa|Unifont|Droid Sans Fallback|AR PL|HarmonyOS"
    r"|PingFang|Heiti|Songti|Kaiti|Hiragino|Apple SD Gothic|AppleGothic|AppleMyungjo"
    r"|YaHei|JhengHei|SimSun|SimHei|KaiTi|FangSong|DengXian|MingLiU|Yu Gothic|Yu Mincho|Meiryo|MS P?(Gothic|Mincho)|Malgun"
    r"|Batang|Gulim|Dotum|Nanum|IPA(ex)? ?P?(Gothic|Mincho)|Takao|VL P?Gothic|BabelStone Han",
    re.IGNORECASE,
)
"""Names of font families with such letters on Linux, macOS and Windows."""


@dataclass(frozen=True, slots=True)
class CjkFont:
    """A font with Chinese, Japanese or Korean letters."""

    family: str
    path: Path


def cjk_fonts(what: str, text: str) -> list[CjkFont]:
    """Return fonts for the Chinese, Japanese and Korean letters of a text, the main font first.

    Args:
        what: Purpose of the fonts, for errors.

    Raises:
        MediaError: No installed font has some letters; the message names a package to install.
    """
    missing = {ord(letter) for letter in _LETTER.findall(text)}
    if not missing:
        return []
    fonts: list[CjkFont] = []
    for font in _installed_fonts(text):
        covered = _code_points(font.path, font.index) & missing
        if covered:
            fonts.append(CjkFont(font.family, Path(font.path)))
            missing -= covered
        if not missing:
            return fonts
    letters = "".join(map(chr, sorted(missing)[:10])) + ("…" if len(missing) > 10 else "")
    raise MediaError(
        f"{what}: no installed font has the letters {letters}; install one, for example "
        "with: pip install noto-cjk-sans-otc, or: apt install fonts-noto-cjk (or fonts-wqy-microhei, which is smaller)"
    )


def _installed_fonts(text: str) -> list[Any]:
    """Return the upright fonts with such letters: first those for the language of the text, then by distance from the
    regular weight.
    """
    typst: Any = import_module("typst")
    own_folder = font_folder()
    language = "JP" if _KANA.search(text) else "KR" if _HANGUL.search(text) else "SC"
    fonts = [
        font
        for font in typst.Fonts(font_paths=[own_folder] if own_folder else []).fonts()
        if font.path
        and font.style == "normal"
        and (_FAMILY.search(font.family) or Path(font.path).parent == own_folder)
    ]
    return sorted(
        fonts,
        key=lambda font: (
            Path(font.path).parent != own_folder,
            not font.family.endswith(language),
            abs(font.weight - 400),
            font.family,
        ),
    )


def font_folder() -> Path | None:
    """Return the folder of the font in the package noto-cjk-sans-otc, if it is installed."""
    package = find_spec(_PACKAGE)
    return Path(package.origin).parent if package and package.origin else None


@lru_cache(maxsize=32)
def _code_points(path: str, index: int) -> frozenset[int]:
    """Return the code points of the letters of a font; empty for a broken font."""
    fonts: Any = import_module("fontTools.ttLib")
    try:
        with fonts.TTFont(path, fontNumber=index, lazy=True) as font:
            return frozenset(font.getBestCmap() or ())
    except (OSError, fonts.TTLibError):  # a broken font
        return frozenset()
