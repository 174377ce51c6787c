"""Names that an instruction marks as variables, each with its direction: the word list and the reading of one text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

_NAME = r"[`'\"“‘]?([^\W\d]\w*)[`'\"”’]?"
_LIST = rf"{_NAME}(?:\s*(?:,\s*and|,\s*or|,|;|/|&|\band\b|\bor\b|\bplus\b)\s*(?:variables?\s+)?{_NAME}(?!\w*\s+(?:variable|file)))*"
_LATIN = r"[`'\"“‘]?[A-Za-z_][A-Za-z0-9_]*[`'\"”’]?"
_CHINESE = r"[`'\"“‘]?[\u4e00-\u9fff]+[`'\"”’]?"
_BETWEEN_ZH = r"\s*[,，、/和与及]\s*"
_MARKED = re.compile(
    rf"\bvariables?\b(?:\s*names?\b)?(?:\s*(?:is|are|being|:|=|called|named)(?!\w))*\s*(?P<a>{_LIST})"
    rf"|\b(?:named|called|labell?ed|titled|under\s+the\s+names?(?:\s+of)?|names?\s+(?:it|them)|name\s*(?::|=|is))\s*:?\s*(?:as\s+)?(?:the\s+)?(?:variables?\s+)?(?P<b>{_LIST})"
    rf"|\bcall\s+(?:it|this|that|them|these|the\s+\w+(?:\s+\w+){{0,3}}?)\s*,?\s+(?P<c>{_LIST})"
    r"|`(?P<d>[^\W\d]\w*)`"
    rf"|[（(]\s*变量名?[\s:：为是]*(?:(?P<e>{_LATIN}(?:{_BETWEEN_ZH}{_LATIN})*)(?:\s*[,，;；][^（）()]{{0,80}})?"
    rf"|(?P<f>{_CHINESE}(?:{_BETWEEN_ZH}{_CHINESE})*))\s*[）)]",
    re.IGNORECASE,
)  # fmt: skip
_WORD = re.compile(r"[^\W\d]\w*")
_NO_NAMES = frozenset(
    "a an the is are be of in on for to as that which with and or must should can may will need needs not no name names named "
    "called remain remains unchanged same input inputs output outputs value values it its this these those them should stay "
    "from by at into each only also all any keep keeps kept optional required instead type types change changed such file files content".split()
)
_NAMES_ALONE = ("output", "content", "input", "file", "files", "value", "name", "type")
"""Of these words, those that may be names where they stand alone."""

SENTENCE = re.compile(r"(?:(?<=[.!?;。；！？])\s+|(?<=[。；！？]))(?![^()（）\n]{0,200}[)）])|\n+")
"""Ends of sentences, but those in brackets."""
INPUT = re.compile(
    r"\b(inputs?|takes?|taking|receives?|receiving|received|accepts?|accepting|uploads?|uploading|uploaded|suppl(?:y|ies|ied)|enters?|entered|"
    r"submits?|submitted|given|pass(?:es|ed)? in|hands? (?:it|over|in)|fed|feeds?|type[sd]? in|(?:starts?|begins?) (?:from|with)|asks? for)\b",
    re.IGNORECASE,
)  # fmt: skip
OUTPUT = re.compile(
    r"\b(outputs?|outputting|returns?|returning|returned|produc(?:e|es|ed|ing)|generat(?:e|es|ed|ing)|deliver(?:s|ed|ing)?|results? in|ends? with|"
    r"obtain(?:s|ed|ing)?|emits?|emitted|exposes?|hands? back|gives? back|(?:comes?|goes|get|gets) (?:back|out)|presents?|yields?|renders?|finish(?:es)? with|final result)\b",
    re.IGNORECASE,
)  # fmt: skip
_EITHER = re.compile(r"\b(provid(?:e|es|ed|ing)|gives?|giving|hands?|shares?|sends?)\b", re.IGNORECASE)
"""Verbs of which only the person who acts tells the direction."""

_FOR_ME = re.compile(
    r"\b(?:give|tell|send|show|hand|get|bring|write|make|create|build|return|e-?mail)\s+(?:me|us)\b"
    r"|\b(?:I|we)(?:\s+(?:also|just|only|really))?(?:\s+(?:want|need|expect)|\s+would\s+like|['’]d\s+like)\b"
    r"|(?:给|发|告诉|展示|返给)(?:到|给)?我|我(?:们)?(?:还|也|只|就)?(?:想要|想|要|需要|希望)",
    re.IGNORECASE,
)
"""A result for the person who asks."""

_MAKES = re.compile(
    r"(?:\band\b|\bthen\b|,|;)\s+(?:(?:also|then|please)\s+)?(?:write|create|make|draw|compose|design|build|suggest|translate|summari[sz]e|extract|list|turn|find|check|"
    r"score|rate|rank|sort|classify|compare|compute|calculate|convert|count|explain|answer|rewrite|improve|fix|correct|shorten|pick|choose|select|use|put|add|"
    r"read|look|search|plan|prepare|assess|evaluate|review|judge|decide|detect|identify|split|merge|combine|group|analy[sz]e|describe|propose|recommend|grade|"
    r"clean|format|fill|transcribe|rephrase|paraphrase|draft|sum\s+up|let|say)s?\b",
    re.IGNORECASE,
)  # fmt: skip
"""A further step in the same sentence: what it works on and what comes of it may be on either side."""

_MAKES_ZH = re.compile(
    r"[，,；、）)]\s*(?:并且?|然后|再|最后|同时|请)?(?:把[^，。]{1,20})?"
    r"(?:写|画|绘|做|译|翻译|总结|概括|提取|抽取|列|整理|改写|缩写|制作|设计|计算|挑|选|找|打分|评|判|分析|检查|比较|对比|回答|解释|统计|搜|查|润色|修改|纠正|转|"
    r"变成|归类|分类|排序|推荐|起草|拟|编|算|标|识别|检测|合并|拆|汇总|朗读|念|说明|起|用)"
    r"|用户的"
)  # fmt: skip
"""The same in Chinese; and words that begin another subject."""

_CLAUSE = re.compile(
    r"\b(?:which|where|when|so|workflow|model|gets?|is|are|was|were|be|has|have|if|whose)\b|\bto\s+(?:receive|get|have|see)\b|(?:,|;|\band|\bthat)\s+(?:it|they|you)\b"
    r"|工作流|模型|由|它|您|你|把|被|将|后的",
    re.IGNORECASE,
)  # fmt: skip
_GOES_ON = re.compile(
    r"[)）\]`'\"”’\s]*(?:$|[,.;:!?(，。；：、！？（—–-]|(?:and|or|as|plus|for|of|in|to|with|from|that|which|by|on|at|into|respectively|along|together|separately|is|are)\b"
    r"|[和与及或并作以])",
    re.IGNORECASE,
)  # fmt: skip
"""Words by which a clause of its own begins before a name, and what may follow a name of a list: others end it."""

_TO_RECEIVE = re.compile(r"\bto\s+(?:receive|get)\b", re.IGNORECASE)
"""A purpose, as in "users upload a photo to receive a caption", or a task: "it has to receive a photo"."""

_ACTOR = re.compile(
    r"\b(?:users?|people|they|he|she|customers?|clients?|callers?|students?|teachers?)\s+(?:\w+\s+)?$", re.IGNORECASE
)
"""Before a verb: somebody else acts, as in "users give us"."""

_FROM_ME = re.compile(r"\b(?:I|we)(?:['’]ll|\s+(?:will|shall|can|always|then|first))?\s*$", re.IGNORECASE)
"""Before a verb of `_EITHER`: the person who asks acts."""

_COMMAND = re.compile(r"(?:^|[,;:]|\b(?:and|then|also|please|finally|additionally))\s*$", re.IGNORECASE)
"""Before a verb of `_EITHER` in the imperative: the workflow is to act."""

_INPUT_ZH = re.compile(r"输入|上传|提交|接收|收到|传入|填写|(?:用户|客户|顾客|学生|我(?:们)?)(?:会|将|先|再)?(?:给出|给|提供|发送|发)(?!我)|给定|(?:根据|基于|按照)")  # fmt: skip
_OUTPUT_ZH = re.compile(r"输出|返回|生成|得到|产出|导出|(?:工作流|流程)(?:会|将|再)?(?:给出|提供)")
_PASSIVE = re.compile(r"\b(?:is|are|be|been|being|was|were|get|gets|which|that|as)\b[\w\s]{0,30}$", re.IGNORECASE)
"""Before a verb that says it of what stands before."""

_SOURCE = re.compile(
    r"\W*(?:from|based\s+on|about|using|according\s+to|given|in\s+(?:the|a|an|this|that)|by\s+means\s+of)\b",
    re.IGNORECASE,
)
_LINK = re.compile(
    r"\W*(?:from|based\s+on|about|using|according\s+to|given|in|by|of|for|to|into|with|on|at|as)\b", re.IGNORECASE
)
_LINK_INSIDE = re.compile(
    r"\b(?:from|based\s+on|about|using|according\s+to|given|of|for|to|into|with|on)\b", re.IGNORECASE
)
"""Words before what something is made of, and before what it may have to do with."""

_PLENTY = re.compile(
    r"\b(?:lists?|sets?|series|collections?|arrays?|numbers?|amounts?|cop(?:y|ies)|versions?|files?|texts?)\s*$",
    re.IGNORECASE,
)
"""Words after which ``of`` says what the same thing is."""

_PRONOUN = re.compile(r"\b(?:name|call|label|title)\s+(?:it|them|this|that|these|those)\b", re.IGNORECASE)
_PEOPLE = re.compile(
    r"\b(users?|people|person|they|he|she|customers?|clients?|callers?|students?|teachers?|someone|who)\b",
    re.IGNORECASE,
)


class Mention(NamedTuple):
    """A name that an instruction marks as a variable.

    Attributes:
        name: The name.
        what: The words before it, in lower case.
        goes_in: Whether it is an input, or an output; None where that is unsure.
        sentence: The sentence that it stands in.
    """

    name: str
    what: str
    goes_in: bool | None
    sentence: str


def mentions_of(text: str) -> Iterator[Mention]:
    """Yield the marked names of a text, in order."""
    side: bool | None = None
    for sentence in SENTENCE.split(text):
        last, named = 0, side
        side = _last_side(sentence)
        for found in _MARKED.finditer(sentence):
            listed = found["a"] or found["b"] or found["c"] or found["d"] or found["e"] or found["f"]
            quoted = re.match(r"[`'\"“‘]", listed)
            bare = found["b"] or found["c"]
            names = [listed] if found["d"] else _listed_zh(listed) if found["e"] or found["f"] else _listed(listed)
            if not found["d"]:
                names = _undescribed(names, listed, sentence[found.end() :], plural=bool(_PLURAL.match(found[0])))
            if not names or (
                bare and not quoted and not any("_" in name for name in names) and not _closed(sentence, found)
            ):
                continue
            if found["a"] and not quoted and not _closed(sentence, found) and names[0].lower() in _NO_NAMES:
                continue
            what = _words_before(sentence[last : found.start()])
            goes_in = _goes_in(sentence, last, found.start(), found.end(), names)
            if goes_in is None and _PRONOUN.search(sentence):
                goes_in = named
            last = found.end()
            yield from (Mention(name, what, goes_in, sentence) for name in names)


def _listed(listed: str) -> list[str]:
    """Return the names in a list: the quoted ones if the first is in quotes, else those up to the first other word."""
    quoted = [found[1] for found in re.finditer(r"[`'\"“‘]([^\W\d]\w*)[`'\"”’]", listed)]
    if re.match(r"[`'\"“‘]", listed):
        return list(dict.fromkeys(quoted))
    names: list[str] = []
    for each in _WORD.findall(listed):
        if each.lower() in ("and", "or", "plus", "variable", "variables"):
            continue
        if each.lower() in _NO_NAMES and (names or each.lower() not in _NAMES_ALONE):
            break
        names.append(each)
    return list(dict.fromkeys(names))


_PLURAL = re.compile(r"variables", re.IGNORECASE)
_LIKE_A_NAME = re.compile(r"\w*[_\d]\w*")
_INTRODUCED = re.compile(r"(?:[`'\"“‘]|variables?\s+|[、和与及]\s*)$", re.IGNORECASE)
_KINDS = re.compile(r"texts?|strings?|numbers?|integers?|booleans?|lists?|arrays?|objects?|files?|json|markdown", re.IGNORECASE)  # fmt: skip


def _undescribed(names: Sequence[str], listed: str, after: str, *, plural: bool) -> list[str]:
    """Return names of a list without the words that describe what the names stand for.

    Behind ``variable``, as in "(variable result, exactly one text)", the first is a name. So are those that stand in
    quotes, behind 、 or the word itself, or hold an underscore or a digit. Behind ``variables`` all are names, but for
    what follows the last ``and``, or is a type, or goes on without a comma: "(variables long and short, one text each)".

    Args:
        names: The names.
        listed: The list as it is written.
        after: What follows it.
        plural: Whether it stands behind ``variables``.
    """
    kept: list[str] = []
    joined = False
    for place, name in enumerate(names):
        start = _found_at(name, listed)
        between = listed[:start].rstrip("`'\"“‘ ")
        is_last = place == len(names) - 1
        if not place or _LIKE_A_NAME.fullmatch(name) or _INTRODUCED.search(listed[:start]):
            kept.append(name)
        elif (
            not plural
            or (joined and between.endswith(","))
            or (is_last and between.endswith(",") and (_KINDS.fullmatch(name) or re.match(r"\s+\w", after)))
        ):
            break
        else:
            kept.append(name)
        joined = joined or bool(re.search(r"\band$", between, re.IGNORECASE))
    return kept


def _found_at(name: str, listed: str) -> int:
    """Return the place of a name in a list."""
    found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", listed)
    return found.start() if found else listed.find(name)


def _listed_zh(listed: str) -> list[str]:
    """The names in a list that stands in brackets behind 变量."""
    return list(dict.fromkeys(each.strip("`'\"“‘”’ ") for each in re.split(r"[,，、/和与及]", listed) if each.strip()))


def _closed(sentence: str, found: re.Match[str]) -> bool:
    """Return whether a name stands alone: in brackets, or at the end of a clause."""
    return not sentence[found.end() :].strip() or bool(
        re.match(r"\s*(?:[),;:!?\]，。、；：）—–-]|\.(?!\w))", sentence[found.end() :])
    )


def _words_before(said: str) -> str:
    """The words that say what a variable is: those since the last comma, ``and`` or verb."""
    cut = re.split(r"[,;:()]|\band\b|\bas well as\b", said.lower())
    parts = [each.strip() for each in cut if each.strip()]
    if not parts:
        return ""
    pieces = re.split(r"\b(?:provides?|inputs?|outputs?|returns?|generates?|receives?|uploads?|takes?|accepts?|gives?|supplies|deliver|produces?)\b", said.lower())  # fmt: skip
    tail = pieces[-1]
    last = parts[-1]
    return (last if (len(last) > 2 and last in tail) or not tail.strip() else tail).strip(" (—–-'\"`")


def _goes_in(sentence: str, last: int, start: int, end: int, names: Sequence[str]) -> bool | None:
    """Return True for an input, False for an output, None where the sentence does not tell.

    Args:
        sentence: The sentence.
        last: Where the variable before it ends.
        start: Where it begins.
        end: Where it ends.
        names: What it is called.
    """
    follows = re.match(
        r"[^.,;]{0,40}?\bas\s+(?:an?\s+|its\s+|the\s+)?(?:\w+\s+)?(input|output)s?\b", sentence[end:], re.IGNORECASE
    )
    if follows:
        return follows[1].lower() == "input"
    clues = _clues(sentence)
    before = [clue for clue in clues if clue[0] <= start]
    if not before:
        after = min((clue for clue in clues if clue[0] > end), key=_place, default=None)
        if after and _PASSIVE.search(sentence[start : after[0]]):
            return after[1]
        return True if _SOURCE.match(sentence[last:start]) else None
    place, goes_in = max(before, key=_place)
    if goes_in is None:
        return True if _SOURCE.match(sentence[last:start]) else None
    if place <= last and (
        link := _LINK.match(sentence[last:start])
    ):  # "the summary (variable s) of the paper (variable p)"
        return True if goes_in or _SOURCE.match(sentence[last:start]) else None if link else goes_in
    if place <= last and (_CLAUSE.search(sentence[last:start]) or not _GOES_ON.match(sentence[end:])):
        return None
    said = sentence[max(place, last) : start]
    links = list(_LINK_INSIDE.finditer(said))
    if not goes_in and links:  # "a story about the topic (variable topic)"
        head, tail = said[: links[-1].start()], said[links[-1].end() :]
        name = set(tokens(" ".join(names)))
        if name <= set(tokens(tail)) and not name & set(tokens(head)) and not (_PLENTY.search(head) or "," in tail):
            return True if _SOURCE.match(links[-1][0]) else None
    return goes_in


def _place(clue: tuple[int, bool | None]) -> int:
    return clue[0]


@lru_cache(maxsize=16)  # a sentence is asked for each of its names
def _clues(sentence: str) -> list[tuple[int, bool | None]]:
    """The words that tell a direction, each with where it ends: in, out, or None where the person who acts is unsure."""
    for_me = [found.span() for found in _FOR_ME.finditer(sentence) if not _ACTOR.search(sentence[: found.start()])]
    clues: list[tuple[int, bool | None]] = [(end, False) for _, end in for_me]
    clues += [(found.end(), None) for found in _TO_RECEIVE.finditer(sentence)]
    clues += [(found.end(), True) for found in (*INPUT.finditer(sentence), *_INPUT_ZH.finditer(sentence))]
    clues += [(found.end(), False) for found in (*OUTPUT.finditer(sentence), *_OUTPUT_ZH.finditer(sentence))]
    clues += [(found.end(), None) for found in (*_MAKES.finditer(sentence), *_MAKES_ZH.finditer(sentence))]
    clues += [
        (found.end(), _direction(sentence[: found.start()], found[0]))
        for found in _EITHER.finditer(sentence)
        if not any(start <= found.start() < end for start, end in for_me)
    ]
    return clues


def _direction(before: str, verb: str) -> bool | None:
    """Return the direction of a verb of `_EITHER`, from the words before it."""
    if _PEOPLE.search(before) or _FROM_ME.search(before):
        return True
    if "workflow" in before.lower():
        return False
    if verb.lower() == "provided":
        return True
    return False if _COMMAND.search(before) else None


def _last_side(sentence: str) -> bool | None:
    return max(_clues(sentence), key=_place, default=(0, None))[1]


def tokens(text: str) -> list[str]:
    """Words in lower case, those of names apart, without an s at the end."""
    return [each.lower().removesuffix("s") for each in re.findall(r"[^\W_]+", text)]
