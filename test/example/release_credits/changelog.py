"""Parser of changelogs: releases, their entries, and the words in an entry that may be names.

Pure functions over the text of a NEWS or changelog file of any common style. All matching goes
line by line or token by token, so that time is linear in the text, whatever the text is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_HEADING = 160
"""Characters of the longest heading; a longer line is prose."""

MAX_ENTRY = 20_000
"""Characters of an entry that are looked at."""

_WORD = r"(?:[A-Za-z][A-Za-z'’+.]{0,30}\s{1,3})"
_VERSION = r"[vV]?\d{1,6}(?:[.]\d{1,6}){1,4}(?:[._+~-]?[A-Za-z0-9]{1,12}){0,4}"
_DATE = r"(?:\d{4}[-./]\d\d?[-./]\d\d?)"
_HEADING = re.compile(
    rf"(?P<mark>[#=*]{{1,4}}\s{{1,3}})?"
    rf"(?:{_DATE}[\s:-]{{1,4}}|[A-Z][a-z]{{2}}\s\d\d?,\s\d{{4}}:\s)?"  # a date first
    rf"[\[(]?(?P<words>{_WORD}{{0,6}})[\[(]?"
    rf"(?:[A-Za-z][A-Za-z0-9+]{{0,30}}[-_])?{_VERSION}[\])]?"
    r"(?P<tail>.{0,90})"
)
_TAIL = re.compile(
    r"\s*(?:$|[:?=]*\s*$"  # nothing more
    r"|(?:alpha|beta|candidate|final|patched|release|released|rc|stable|to|TO)\b"
    r"|,\s\S{1,20}$|[,:–-]?\s*[(\[]|[,:/–-]?\s*\d"  # (2022-04-15), [stable], 11-December-2022
    r"|[,:–-]?\s*(?:[A-Z][a-z]{2},?\s)?(?:\d\d?\s)?"
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\b"
    r'|\s*")'
)
_CHANGES = frozenset({"version", "release", "changes", "news", "what's", "overview", "new"})
_UNRELEASED = re.compile(r"[#=*\s]{0,6}\[?unreleased\]?\s*$", re.IGNORECASE)
_RULE = re.compile(r"\s{0,8}([=\-~^*#+_])\1{2,}\s*$")
_BULLET = re.compile(
    r"(?P<indent>\s{0,24})"
    r"(?P<mark>\*{1,3}|[-+o•–]|\(?\d{1,3}[.)]|[A-Z]{1,3}/\d{1,3})\s{1,8}(?=\S)"
)

_SECTION = re.compile(r"#{2,6}\s")
"""A section within a release, of Markdown; no blank line need part it from entries."""


def _is_heading(line: str, before: str, after: str) -> bool:
    """Return True if `line` opens a release; `before` and `after` are its neighbours."""
    if not line or line[0].isspace() or len(line) > MAX_HEADING:
        return False
    if _UNRELEASED.match(line):
        return True
    bullet = _BULLET.match(line)
    if bullet is not None and not bullet["mark"].startswith("*"):
        return False
    found = _HEADING.match(line)
    if found is None:
        return False
    mark, words = found["mark"], found["words"].lower().split()
    named = not _CHANGES.isdisjoint(words)
    if _TAIL.match(found["tail"]) is None or not (named or len(words) <= 3):
        return False
    if mark and mark.startswith("*"):  # a bullet otherwise
        return named
    alone = not before.strip() or bool(_RULE.match(before))
    return alone or bool(mark) or bool(_RULE.match(after))


def releases(text: str) -> list[tuple[str, str]]:
    """The releases of a NEWS text as (heading, body), in the order of the file.

    What stands before the first heading belongs to none. A text without any
    heading is one release with an empty heading.
    """
    lines = text.splitlines()
    starts = [
        i
        for i, line in enumerate(lines)
        if _is_heading(
            line.rstrip(),
            lines[i - 1] if i else "",
            lines[i + 1] if i + 1 < len(lines) else "",
        )
    ]
    if not starts:
        return [("", text)] if text.strip() else []
    ends = [*starts[1:], len(lines)]
    return [(lines[s].strip().lstrip("#=* "), "\n".join(lines[s + 1 : e])) for s, e in zip(starts, ends, strict=True)]


def _is_label(lines: Sequence[str]) -> bool:
    """A section's name ("Bug fixes:", "### Thanks", an underlined title), not an entry."""
    if any(_RULE.match(line) for line in lines):
        return len(lines) <= 2
    line = lines[0].strip()
    return len(lines) == 1 and (
        line.startswith("#") or line.endswith(":") or (len(line) < 60 and line[-1] not in ".!)")
    )


def split_release(body: str) -> list[str]:
    """The entries of one release, each on one line, whitespace collapsed, no bullet.

    A bullet opens an entry. A line belongs to the open entry when no blank line parts them, or when
    it is indented deeper than the entry's bullet; deeper bullets belong to it too, except after a
    mere label ("* Build:"), whose items are entries. Paragraphs outside of bullets are entries
    unless they are labels; so is a short item over paragraphs or over items with more stars
    ("** Bug fixes").
    """
    splitter = _Splitter()
    for line in body.expandtabs(8).splitlines():
        splitter.take(line.rstrip())
    splitter.close()
    return splitter.entries


class _Splitter:
    """Collects the lines of the open entry."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self._open: list[str] = []
        self._depth = -1  # indent of the open entry's bullet; -1 for a paragraph or nothing
        self._mark = ""  # its bullet
        self._after_blank = True

    def take(self, line: str) -> None:
        if not line:
            self._after_blank = True
            return
        bullet = _BULLET.match(line)
        if bullet is not None and not self._holds(len(bullet["indent"])):
            self.close(heads=bullet["mark"].startswith(f"{self._mark}*"))
            self._depth, self._mark = len(bullet["indent"]), bullet["mark"]
            line = line[bullet.end() :]
        elif not self._continues(line):
            self.close(heads=self._depth < len(line) - len(line.lstrip()))
        self._open.append(line.strip())
        self._after_blank = False

    def close(self, heads: bool = False) -> None:
        """End the open entry; `heads` says whether what follows stands under it."""
        is_item = self._depth >= 0 and not heads and not self._open[0].endswith(":")
        if self._open and (is_item or not _is_label(self._open)):
            self.entries.append(" ".join(" ".join(self._open).split())[:MAX_ENTRY])
        self._open, self._depth, self._mark = [], -1, ""

    def _holds(self, indent: int) -> bool:
        """Return True if a bullet at `indent` is a part of the open entry."""
        is_label = len(self._open) == 1 and self._open[0].endswith(":")
        return bool(self._open) and 0 <= self._depth < indent and not is_label

    def _continues(self, line: str) -> bool:
        indent = len(line) - len(line.lstrip())
        if not self._open or _SECTION.match(line) or _SECTION.match(self._open[0]):
            return False
        if self._after_blank and _is_label(self._open):
            return False
        return not self._after_blank or 0 <= self._depth < indent


def read_release(text: str) -> tuple[str, list[str]]:
    """Heading and entries of the newest release: the first that has any entries."""
    for heading, body in releases(text):
        entries = split_release(body)
        if entries:
            return heading, entries
    return "", []


def sentences(entry: str) -> list[str]:
    """The sentences of an entry, the first one never empty where the entry is not."""
    return SENTENCE_END.split(entry)


MAX_NAME_PARTS = 5
"""The most capitalised words of a name."""

MAX_NAMES = 24
"""The most candidates of one entry."""

_TOKEN = re.compile(r"[^\W\d_]\.(?=[\s,A-Z])|\w+(?:['’´-]\w+)*|\S")
_ADDRESS = re.compile(r"<[^<>\s]{1,200}>|https?://\S{1,500}|(?<!\S)[\w.+-]{1,80}@[\w.-]{1,120}")
_PARTICLES = frozenset("al am bin da de del den der di do dos du el la le ten ter van von zu".split())
_ELIDED = re.compile(r"[dl]['’][^\W\d_a-z]")  # d'Arc
# Capitalised words that open a sentence or a date and are no part of a name: the calendar; articles,
# pronouns and prepositions; a changelog's verbs and adjectives.
_NOT_A_NAME = frozenset(
    "January February March April June July August September October November December "
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday "
    "A An The This These That Those All Many Now Several Some If When With Without Also As At By For "
    "From In On Of To Via It Its See "
    "Add Added Adds Change Changed Fix Fixed Fixes Improve Improved Make New Original "
    "Remove Removed Support Update Updated Updates Upgrade Upgraded Use "
    "Credit Credits Thank Thanks".split()
)


def _is_part(token: str) -> bool:
    """Return True if it may be a part of a name: Ada, O'Neil, Dong-hee, J., McCoy; not TLS, iPhone, Blake2."""
    if _ELIDED.match(token):
        return True
    if token in _NOT_A_NAME or not token[0].isupper() or len(token) == 1:
        return False
    if token.endswith("."):
        return True
    return not token.isupper() and not any(c.isdigit() or c == "_" for c in token)


def name_candidates(entry: str) -> list[str]:
    """Return the candidates for full names: two to five capitalised words in a row.

    Initials ("J.") and particles ("van der") may stand inside. Each candidate occurs
    word for word in `entry`; order of appearance, no repetition.
    """
    found: dict[str, None] = {}
    run: list[re.Match[str]] = []
    text = _ADDRESS.sub(lambda m: "\0" * len(m[0]), entry)

    def close() -> None:
        while run and not _is_part(run[-1][0]):
            run.pop()
        if run and run[-1][0].endswith("."):  # "Plan B." ends a sentence
            run.pop()
        while run and not _is_part(run[-1][0]):
            run.pop()
        parts = [m for m in run if _is_part(m[0])]
        if 2 <= len(parts) <= MAX_NAME_PARTS and any(len(m[0]) > 2 for m in parts):
            name = entry[run[0].start() : run[-1].end()]
            for ending in ("'s", "’s"):
                name = name.removesuffix(ending)
            found[name] = None
        run.clear()

    before = ""  # the token before, if a space alone parts them
    end = 0
    for token in _TOKEN.finditer(text):
        word, gap = token[0], entry[end : token.start()]
        if run and gap != " " and not (gap == "" and run[-1][0].endswith(".")):
            close()
        opens = _is_part(word) and not (word.endswith(".") and before[:1].isupper())
        if (opens if not run else _is_part(word)) or (run and word in _PARTICLES):
            run.append(token)
        else:
            close()
        before, end = word, token.end()
    close()
    return list(found)[:MAX_NAMES]


_LABEL = re.compile(r"\[([\w.+-]{2,40})\]|([A-Za-z_][\w.+-]{1,40}):(?=\s)")
_ISSUE = re.compile(r"(?:[A-Za-z]{1,8}(?:-issue)?[-#]?\d+|CVE-[\d-]+)$")
SENTENCE_END = re.compile(r"(?<=[a-z0-9)\]`'][.;])\s+(?=[A-Z(\[])")
_ROLE = re.compile(r":[a-z:]{1,16}:`~?!?([\w.-]{1,80})`")
_WORD_OF = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_]\w*)*")
_SMALL_WORDS = frozenset(
    "and are but for from has have into its more not now some than that the this was when which with".split()
)


def component_candidates(entry: str, limit: int = 8) -> list[str]:
    """Return words that may name the component, likeliest first, each word for word in `entry`.

    Labels ("libfoo:", "[Gui]") where the entry opens with them, and nothing else then;
    otherwise the identifiers, then the plain words, of the first sentence. An issue's
    number is not a label. Never empty: an entry without a word gives [its first token].
    """
    labels: list[str] = []
    at = 0
    for _ in range(4):
        found = _LABEL.match(entry, at)
        if found is None:
            break
        label = found[1] or found[2]
        if _ISSUE.match(label) is None:
            labels.append(label)
        at = found.end()
        while entry[at : at + 1] == " ":
            at += 1
    if labels:
        return list(dict.fromkeys(labels))[:limit]
    first = SENTENCE_END.split(entry[at : at + 2000], maxsplit=1)[0]
    first = _ADDRESS.sub(" ", first)
    roles = _ROLE.findall(first)
    words = [w for w in _WORD_OF.findall(_ROLE.sub(" ", first)) if len(w) > 2]
    own = [w for w in words if any(c in w for c in "_-.") or w[1:] != w[1:].lower()]
    ranked = [w for w in dict.fromkeys([*roles, *own, *words]) if w not in _NOT_A_NAME and w not in _SMALL_WORDS]
    return ranked[:limit] or entry.split()[:1]
