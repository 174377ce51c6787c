"""Contract of a workflow: the inputs, outputs and types that instructions state.

Only names that are marked as variables are read: ``(variable summary)``, ``a variable called 'summary'``,
```summary```, ``（变量 summary）``. The verb and its subject determine whether a name is an input or an output: "the
user gives" is an input, "give me" and "I want" are outputs. If they determine neither, the name is in `Contract.undirected`.
Other words determine whether names are added to, removed from or replace earlier ones, or belong to a single branch.
A contract is a hint: it may misread an instruction, so no workflow is changed because of the contract alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from operad.flows.formats.shapes import fields_of, is_selector, list_of
from operad.flows.node_graph import NodeGraph
from operad.flows.repair.walk import declared
from operad.operators.variables import Selector, Text, VariableType

# Names that an instruction marks as variables, each with its direction: word lists, and the reading of a text.

_NAME = r"[`'\"“‘]?([^\W\d]\w*)[`'\"”’]?"
_LIST = rf"{_NAME}(?:\s*(?:,\s*and|,\s*or|,|;|/|&|\band\b|\bor\b|\bplus\b)\s*(?:variables?\s+)?{_NAME}(?!\w*\s+(?:variable|file)))*"
_LATIN_NAME = r"[`'\"“‘]?[A-Za-z_][A-Za-z0-9_]*[`'\"”’]?"
_CHINESE_NAME = r"[`'\"“‘]?[\u4e00-\u9fff]+[`'\"”’]?"
_SEPARATOR_ZH = r"\s*[,，、/和与及]\s*"
_MARKED = re.compile(
    rf"\bvariables?\b(?:\s*names?\b)?(?:\s*(?:is|are|being|:|=|called|named)(?!\w))*\s*(?P<a>{_LIST})"
    rf"|\b(?:named|called|labell?ed|titled|under\s+the\s+names?(?:\s+of)?|names?\s+(?:it|them)|name\s*(?::|=|is))\s*:?\s*(?:as\s+)?(?:the\s+)?(?:variables?\s+)?(?P<b>{_LIST})"
    rf"|\bcall\s+(?:it|this|that|them|these|the\s+\w+(?:\s+\w+){{0,3}}?)\s*,?\s+(?P<c>{_LIST})"
    r"|`(?P<d>[^\W\d]\w*)`"
    rf"|[（(]\s*变量名?[\s:：为是]*(?:(?P<e>{_LATIN_NAME}(?:{_SEPARATOR_ZH}{_LATIN_NAME})*)(?:\s*[,，;；][^（）()]{{0,80}})?"
    rf"|(?P<f>{_CHINESE_NAME}(?:{_SEPARATOR_ZH}{_CHINESE_NAME})*))\s*[）)]",
    re.IGNORECASE,
)  # fmt: skip
_WORD = re.compile(r"[^\W\d]\w*")
_NO_NAMES = frozenset(
    "a an the is are be of in on for to as that which with and or must should can may will need needs not no name names named "
    "called remain remains unchanged same input inputs output outputs value values it its this these those them should stay "
    "from by at into each only also all any keep keeps kept optional required instead type types change changed such file files content".split()
)
_NAMES_ALONE = ("output", "content", "input", "file", "files", "value", "name", "type")
"""Words of `_NO_NAMES` that may be the first name of a list."""

SENTENCE = re.compile(r"(?:(?<=[.!?;。；！？])\s+|(?<=[。；！？]))(?![^()（）\n]{0,200}[)）])|\n+")
"""Ends of sentences, except in brackets."""
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
_EITHER_DIRECTION = re.compile(r"\b(provid(?:e|es|ed|ing)|gives?|giving|hands?|shares?|sends?)\b", re.IGNORECASE)
"""Verbs whose direction depends on their subject: "users give" is an input, "the workflow gives" an output."""

_ASKS_FOR_RESULT = re.compile(
    r"\b(?:give|tell|send|show|hand|get|bring|write|make|create|build|return|e-?mail)\s+(?:me|us)\b"
    r"|\b(?:I|we)(?:\s+(?:also|just|only|really))?(?:\s+(?:want|need|expect)|\s+would\s+like|['’]d\s+like)\b"
    r"|(?:给|发|告诉|展示|返给)(?:到|给)?我|我(?:们)?(?:还|也|只|就)?(?:想要|想|要|需要|希望)",
    re.IGNORECASE,
)
"""Requests of a result in the first person, which state an output."""

_FURTHER_STEP = re.compile(
    r"(?:\band\b|\bthen\b|,|;)\s+(?:(?:also|then|please)\s+)?(?:write|create|make|draw|compose|design|build|suggest|translate|summari[sz]e|extract|list|turn|find|check|"
    r"score|rate|rank|sort|classify|compare|compute|calculate|convert|count|explain|answer|rewrite|improve|fix|correct|shorten|pick|choose|select|use|put|add|"
    r"read|look|search|plan|prepare|assess|evaluate|review|judge|decide|detect|identify|split|merge|combine|group|analy[sz]e|describe|propose|recommend|grade|"
    r"clean|format|fill|transcribe|rephrase|paraphrase|draft|sum\s+up|let|say)s?\b",
    re.IGNORECASE,
)  # fmt: skip
"""Further steps in the same sentence; a variable after them may be an input or an output."""

_FURTHER_STEP_ZH = re.compile(
    r"[，,；、）)]\s*(?:并且?|然后|再|最后|同时|请)?(?:把[^，。]{1,20})?"
    r"(?:写|画|绘|做|译|翻译|总结|概括|提取|抽取|列|整理|改写|缩写|制作|设计|计算|挑|选|找|打分|评|判|分析|检查|比较|对比|回答|解释|统计|搜|查|润色|修改|纠正|转|"
    r"变成|归类|分类|排序|推荐|起草|拟|编|算|标|识别|检测|合并|拆|汇总|朗读|念|说明|起|用)"
    r"|用户的"
)  # fmt: skip
"""Further steps in Chinese, and words that begin another subject."""

_NEW_CLAUSE = re.compile(
    r"\b(?:which|where|when|so|workflow|model|gets?|is|are|was|were|be|has|have|if|whose)\b|\bto\s+(?:receive|get|have|see)\b|(?:,|;|\band|\bthat)\s+(?:it|they|you)\b"
    r"|工作流|模型|由|它|您|你|把|被|将|后的",
    re.IGNORECASE,
)  # fmt: skip
_LIST_END = re.compile(
    r"[)）\]`'\"”’\s]*(?:$|[,.;:!?(，。；：、！？（—–-]|(?:and|or|as|plus|for|of|in|to|with|from|that|which|by|on|at|into|respectively|along|together|separately|is|are)\b"
    r"|[和与及或并作以])",
    re.IGNORECASE,
)  # fmt: skip
"""Text that may follow the last name of a list; after other text, the direction of the sentence does not apply."""

_TO_RECEIVE = re.compile(r"\bto\s+(?:receive|get)\b", re.IGNORECASE)
"""Purposes, as in "users upload a photo to receive a caption", or tasks: "it has to receive a photo"."""

_OTHER_SUBJECT = re.compile(
    r"\b(?:users?|people|they|he|she|customers?|clients?|callers?|students?|teachers?)\s+(?:\w+\s+)?$", re.IGNORECASE
)
"""Text before a verb that gives it another subject than the author, as in "users give us"."""

_AUTHOR_ACTS = re.compile(r"\b(?:I|we)(?:['’]ll|\s+(?:will|shall|can|always|then|first))?\s*$", re.IGNORECASE)
"""Text before a verb of `_EITHER_DIRECTION` whose subject is the author of the instruction: an input."""

_COMMAND = re.compile(r"(?:^|[,;:]|\b(?:and|then|also|please|finally|additionally))\s*$", re.IGNORECASE)
"""Text before a verb of `_EITHER_DIRECTION` in the imperative, which the workflow is to do: an output."""

_INPUT_ZH = re.compile(r"输入|上传|提交|接收|收到|传入|填写|(?:用户|客户|顾客|学生|我(?:们)?)(?:会|将|先|再)?(?:给出|给|提供|发送|发)(?!我)|给定|(?:根据|基于|按照)")  # fmt: skip
_OUTPUT_ZH = re.compile(r"输出|返回|生成|得到|产出|导出|(?:工作流|流程)(?:会|将|再)?(?:给出|提供)")
_REFERS_BACK = re.compile(r"\b(?:is|are|be|been|being|was|were|get|gets|which|that|as)\b[\w\s]{0,30}$", re.IGNORECASE)
"""Text before a verb that refers to the preceding noun, as in "(variable s) is returned"."""

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
"""Prepositions: `_SOURCE` introduces an input; `_LINK`, at the start of a phrase, and `_LINK_INSIDE`, within it,
connect two nouns, of which only the first has the direction of the verb."""

_QUANTITY = re.compile(
    r"\b(?:lists?|sets?|series|collections?|arrays?|numbers?|amounts?|cop(?:y|ies)|versions?|files?|texts?)\s*$",
    re.IGNORECASE,
)
"""Words after which ``of`` names the kind of the same thing, as in "a list of titles"."""

_PRONOUN = re.compile(r"\b(?:name|call|label|title)\s+(?:it|them|this|that|these|those)\b", re.IGNORECASE)
_PEOPLE = re.compile(
    r"\b(users?|people|person|they|he|she|customers?|clients?|callers?|students?|teachers?|someone|who)\b",
    re.IGNORECASE,
)


class Mention(NamedTuple):
    """Name that an instruction marks as a variable.

    Attributes:
        name: The name.
        description: Words before the name, in lower case, which describe the variable.
        is_input: True for an input, False for an output, None if the sentence does not tell.
        sentence: Sentence that contains the name.
    """

    name: str
    description: str
    is_input: bool | None
    sentence: str


def mentions_of(text: str) -> Iterator[Mention]:
    """Yield the names that an instruction marks as variables, in order."""
    direction: bool | None = None
    for sentence in SENTENCE.split(text):
        last, previous_direction = 0, direction
        direction = _last_direction(sentence)
        for found in _MARKED.finditer(sentence):
            listed = found["a"] or found["b"] or found["c"] or found["d"] or found["e"] or found["f"]
            quoted = re.match(r"[`'\"“‘]", listed)
            unmarked = found["b"] or found["c"]
            names = (
                [listed]
                if found["d"]
                else _names_in_chinese_list(listed)
                if found["e"] or found["f"]
                else _names_in_list(listed)
            )
            if not found["d"]:
                names = _without_descriptions(
                    names, listed, sentence[found.end() :], plural=bool(_VARIABLES.match(found[0]))
                )
            if not names or (
                unmarked and not quoted and not any("_" in name for name in names) and not _ends_clause(sentence, found)
            ):
                continue
            if found["a"] and not quoted and not _ends_clause(sentence, found) and names[0].lower() in _NO_NAMES:
                continue
            description = _words_before(sentence[last : found.start()])
            is_input = _direction_of_mention(sentence, last, found.start(), found.end(), names)
            if is_input is None and _PRONOUN.search(sentence):
                is_input = previous_direction
            last = found.end()
            yield from (Mention(name, description, is_input, sentence) for name in names)


def _names_in_list(listed: str) -> list[str]:
    """Return the names in a list: the quoted ones if the first is in quotes, else those up to the first other word."""
    quoted = [found[1] for found in re.finditer(r"[`'\"“‘]([^\W\d]\w*)[`'\"”’]", listed)]
    if re.match(r"[`'\"“‘]", listed):
        return list(dict.fromkeys(quoted))
    names: list[str] = []
    for word in _WORD.findall(listed):
        if word.lower() in ("and", "or", "plus", "variable", "variables"):
            continue
        if word.lower() in _NO_NAMES and (names or word.lower() not in _NAMES_ALONE):
            break
        names.append(word)
    return list(dict.fromkeys(names))


_VARIABLES = re.compile(r"variables", re.IGNORECASE)
_NAME_LIKE = re.compile(r"\w*[_\d]\w*")
_BEFORE_NAME = re.compile(r"(?:[`'\"“‘]|variables?\s+|[、和与及]\s*)$", re.IGNORECASE)
_TYPE_WORDS = re.compile(r"texts?|strings?|numbers?|integers?|booleans?|lists?|arrays?|objects?|files?|json|markdown", re.IGNORECASE)  # fmt: skip


def _without_descriptions(names: Sequence[str], listed: str, after: str, *, plural: bool) -> list[str]:
    """Return the names of a list without words that only describe the variables.

    After ``variable``, as in "(variable result, exactly one text)", the first word is a name. So are words in quotes,
    after 、 or after ``variable``, or with an underscore or a digit. After ``variables``, all words are names except
    those after the last ``and``, types, and words that go on without a comma: "(variables long and short, one each)".

    Args:
        names: Words of the list.
        listed: The list as written.
        after: Text after the list.
        plural: True if the list follows ``variables``.
    """
    kept: list[str] = []
    joined = False
    for number, name in enumerate(names):
        start = _found_at(name, listed)
        between = listed[:start].rstrip("`'\"“‘ ")
        is_last = number == len(names) - 1
        if not number or _NAME_LIKE.fullmatch(name) or _BEFORE_NAME.search(listed[:start]):
            kept.append(name)
        elif (
            not plural
            or (joined and between.endswith(","))
            or (is_last and between.endswith(",") and (_TYPE_WORDS.fullmatch(name) or re.match(r"\s+\w", after)))
        ):
            break
        else:
            kept.append(name)
        joined = joined or bool(re.search(r"\band$", between, re.IGNORECASE))
    return kept


def _found_at(name: str, listed: str) -> int:
    """Return the index of a name in the text of a list."""
    found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", listed)
    return found.start() if found else listed.find(name)


def _names_in_chinese_list(listed: str) -> list[str]:
    """Return the names in a list in brackets after 变量."""
    return list(dict.fromkeys(name.strip("`'\"“‘”’ ") for name in re.split(r"[,，、/和与及]", listed) if name.strip()))


def _ends_clause(sentence: str, found: re.Match[str]) -> bool:
    """Return whether a name ends its clause: a bracket, a punctuation mark or the end of the sentence follows."""
    return not sentence[found.end() :].strip() or bool(
        re.match(r"\s*(?:[),;:!?\]，。、；：）—–-]|\.(?!\w))", sentence[found.end() :])
    )


def _words_before(text: str) -> str:
    """Return the words that describe a variable: those since the last comma, ``and`` or verb."""
    clauses = re.split(r"[,;:()]|\band\b|\bas well as\b", text.lower())
    parts = [clause.strip() for clause in clauses if clause.strip()]
    if not parts:
        return ""
    pieces = re.split(r"\b(?:provides?|inputs?|outputs?|returns?|generates?|receives?|uploads?|takes?|accepts?|gives?|supplies|deliver|produces?)\b", text.lower())  # fmt: skip
    after_verb = pieces[-1]
    last_part = parts[-1]
    return (
        last_part if (len(last_part) > 2 and last_part in after_verb) or not after_verb.strip() else after_verb
    ).strip(" (—–-'\"`")


def _direction_of_mention(sentence: str, last: int, start: int, end: int, names: Sequence[str]) -> bool | None:
    """Return True for an input, False for an output, None if the sentence does not tell.

    Args:
        sentence: The sentence.
        last: Index of the end of the preceding mention, or 0.
        start: Index of the start of this mention.
        end: Index of its end.
        names: Names of the mention.
    """
    follows = re.match(
        r"[^.,;]{0,40}?\bas\s+(?:an?\s+|its\s+|the\s+)?(?:\w+\s+)?(input|output)s?\b", sentence[end:], re.IGNORECASE
    )
    if follows:
        return follows[1].lower() == "input"
    clues = _direction_clues(sentence)
    before = [clue for clue in clues if clue[0] <= start]
    if not before:
        after = min((clue for clue in clues if clue[0] > end), key=_position, default=None)
        if after and _REFERS_BACK.search(sentence[start : after[0]]):
            return after[1]
        return True if _SOURCE.match(sentence[last:start]) else None
    clue_end, is_input = max(before, key=_position)
    if is_input is None:
        return True if _SOURCE.match(sentence[last:start]) else None
    if clue_end <= last and _LINK.match(sentence[last:start]):  # "the summary (variable s) of the paper (variable p)"
        return True if is_input or _SOURCE.match(sentence[last:start]) else None
    if clue_end <= last and (_NEW_CLAUSE.search(sentence[last:start]) or not _LIST_END.match(sentence[end:])):
        return None
    phrase = sentence[max(clue_end, last) : start]
    links = list(_LINK_INSIDE.finditer(phrase))
    if not is_input and links:  # "a story about the topic (variable topic)"
        head, tail = phrase[: links[-1].start()], phrase[links[-1].end() :]
        name_tokens = set(tokens(" ".join(names)))
        if (
            name_tokens <= set(tokens(tail))
            and not name_tokens & set(tokens(head))
            and not (_QUANTITY.search(head) or "," in tail)
        ):
            return True if _SOURCE.match(links[-1][0]) else None
    return is_input


def _position(clue: tuple[int, bool | None]) -> int:
    return clue[0]


@lru_cache(maxsize=16)  # called once for each name of a sentence
def _direction_clues(sentence: str) -> list[tuple[int, bool | None]]:
    """Return the end of each phrase about a direction, as an index, with True for in, False for out, None if unsure."""
    asking = [
        found.span()
        for found in _ASKS_FOR_RESULT.finditer(sentence)
        if not _OTHER_SUBJECT.search(sentence[: found.start()])
    ]
    clues: list[tuple[int, bool | None]] = [(end, False) for _, end in asking]
    clues += [(found.end(), None) for found in _TO_RECEIVE.finditer(sentence)]
    clues += [(found.end(), True) for found in (*INPUT.finditer(sentence), *_INPUT_ZH.finditer(sentence))]
    clues += [(found.end(), False) for found in (*OUTPUT.finditer(sentence), *_OUTPUT_ZH.finditer(sentence))]
    clues += [
        (found.end(), None) for found in (*_FURTHER_STEP.finditer(sentence), *_FURTHER_STEP_ZH.finditer(sentence))
    ]
    clues += [
        (found.end(), _direction_of_verb(sentence[: found.start()], found[0]))
        for found in _EITHER_DIRECTION.finditer(sentence)
        if not any(start <= found.start() < end for start, end in asking)
    ]
    return clues


def _direction_of_verb(before: str, verb: str) -> bool | None:
    """Return the direction of a verb of `_EITHER_DIRECTION`, by the words before it."""
    if _PEOPLE.search(before) or _AUTHOR_ACTS.search(before):
        return True
    if "workflow" in before.lower():
        return False
    if verb.lower() == "provided":
        return True
    return False if _COMMAND.search(before) else None


def _last_direction(sentence: str) -> bool | None:
    """Return the direction of the last phrase of a sentence that tells one."""
    return max(_direction_clues(sentence), key=_position, default=(0, None))[1]


def tokens(text: str) -> list[str]:
    """Return the words of a text in lower case, without a final s; names are split at underscores."""
    return [word.lower().removesuffix("s") for word in re.findall(r"[^\W_]+", text)]


T = VariableType
LONGEST = 20_000
"""Maximum number of characters of instructions to read."""


class Stated(NamedTuple):
    """Input or output that an instruction states.

    Attributes:
        name: Name of the variable.
        description: Words before the name, in lower case, which describe the variable.
    """

    name: str
    description: str = ""

    @property
    def is_document(self) -> bool:
        """True if the words describe a file that contains text."""
        return bool(_DOCUMENT.search(self.description)) and not _PICTURE.search(self.description)

    @property
    def kind(self) -> VariableType | None:
        """Type of the variable; None if the words state none."""
        if _SEVERAL.search(self.description):
            return T.ARRAY_FILE
        if any(words.search(self.description) for words in (_DOCUMENT, _PICTURE, _GENERATED)):
            several = re.search(r"(?:list|files|images|documents|pictures|photos)$", self.name.lower())
            return None if _TEXTUAL.search(self.description) else T.ARRAY_FILE if several else T.FILE
        return None

    @property
    def suffixes(self) -> list[str]:
        """File extensions that the words allow; empty if they state none."""
        return [suffix for suffix, words in _SUFFIXES.items() if re.search(words, self.description)]


class EndOutputs(NamedTuple):
    """Outputs of one end node: the names that it must have, and further names that it may have."""

    needed: frozenset[str]
    allowed: frozenset[str] = frozenset()

    def mismatches(self, names: frozenset[str]) -> int:
        """Return the number of names that are missing or not allowed."""
        return len(self.needed - names) + len(names - self.needed - self.allowed)


@dataclass(frozen=True, slots=True)
class Contract:
    """Inputs and outputs that the instructions of all rounds state.

    Attributes:
        inputs: Inputs; empty if the instructions state none.
        outputs: Outputs of each end: several if branches end with different outputs; empty if none are stated.
        undirected: Names without a stated direction: each may be an input, an output, both or neither.
        words: Statements about inputs and outputs by name.
    """

    inputs: tuple[Stated, ...] = ()
    outputs: tuple[EndOutputs, ...] = ()
    undirected: frozenset[str] = frozenset()
    words: Mapping[str, Stated] | None = None

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs."""
        return [stated.name for stated in self.inputs]

    def stated(self, name: str) -> Stated:
        """Return the statement about an input or an output."""
        return (self.words or {}).get(name, Stated(name))

    def mismatches(self, graph: NodeGraph) -> int:
        """Return the number of inputs and outputs of a workflow whose names differ from the contract."""
        count = 0
        if self.inputs:
            given = {
                name for node in graph.nodes if node.type == "start" for name in declared(node.params, "variables")
            }
            count += len((given ^ set(self.input_names)) - self.undirected)
        if self.outputs:
            ends = ends_of(graph)
            count += sum(min(stated_end.mismatches(end) for stated_end in self.outputs) for end in ends)
            count += sum(
                min((stated_end.mismatches(end) for end in ends), default=2 * len(stated_end.needed))
                for stated_end in self.outputs
            )
        return count

    def raw_documents(self, graph: NodeGraph) -> Iterator[tuple[str, Selector]]:
        """Yield the id of each ``llm`` node whose prompt names a document instead of its text, with the variable."""
        documents = {stated.name for stated in self.inputs if stated.is_document}
        if not documents:
            return
        raw = {Selector(name, node.id) for node in graph.nodes if node.type == "start" for name in documents}
        for node in graph.nodes:
            if node.type == "iteration":
                over = fields_of(node.params).get("iterator_selector")
                if is_selector(over) and Selector(*list_of(over)) in raw:
                    raw.add(Selector("item", node.id))
        for node in graph.nodes:
            if node.type == "llm":
                texts = [each for each in fields_of(node.params).values() if isinstance(each, str)]
                named = dict.fromkeys(selector for text in texts for selector in Text(text).selectors)
                yield from ((node.id, selector) for selector in named if selector in raw)


def ends_of(graph: NodeGraph) -> list[frozenset[str]]:
    """Return the names of the outputs of each end node."""
    return [frozenset(declared(node.params, "outputs")) for node in graph.nodes if node.type == "end"]


def read_contract(instructions: Iterable[str]) -> Contract:
    """Read the inputs and outputs that instructions state.

        contract = read_contract(["The user gives a text (variable text). Output the summary (variable summary)."])
        assert contract.input_names == ["text"]

    Args:
        instructions: The instructions of all rounds so far, the first round first.
    """
    contract = Contract()
    first_stated_in: dict[str, str] = {}  # by output, the instruction that stated it first
    characters_left = LONGEST
    for text in instructions:
        text, characters_left = text[:characters_left], characters_left - len(text[:characters_left])
        contract = _with_round(contract, text, first_stated_in)
        for end in contract.outputs:
            for name in end.needed:
                first_stated_in.setdefault(name, text)
    ends = tuple(EndOutputs(end.needed, end.allowed | contract.undirected) for end in contract.outputs)
    return replace(contract, outputs=ends)


# Reading one round of instructions

MORE = re.compile(
    r"\b(also|additional(?:ly)?|in addition|add(?:s|ed|ing)?|extra|besides|as well|further(?:more)?|on top|plus|too|alongside|along with|moreover|another|together with)\b"
    r"|再|还|另外|同时|此外|也(?:要|请|输出)|并且",
    re.IGNORECASE,
)  # fmt: skip
"""Words of an instruction that add inputs, outputs or steps."""

_ONLY = re.compile(r"\b(only|just|solely|nothing (?:but|else)|exclusively|no other|alone|sole)\b|只|仅", re.IGNORECASE)
_REPLACES = re.compile(
    r"\b(chang(?:e|es|ed)|replac(?:e|es|ed)|instead|switch(?:es|ed)?|swap(?:ped)?|unif(?:y|ies|ied)|becomes?|turn(?:s|ed)?|now (?:be|is|takes?|accepts?))\b"
    r"|\binputs?\s+(?:can|may|will|should|must|is|are)\b",
    re.IGNORECASE,
)  # fmt: skip
_BRANCH = re.compile(
    r"\b(?:(?:this|that|the new|the (?:second|third|other|added)|on (?:this|that)|in (?:this|that|the new)) (?:branch|case|path|route)|"
    r"(?:in|for) (?:this|that|such) (?:a )?(?:cases?|requests?|inputs?))\b",
    re.IGNORECASE,
)  # fmt: skip
_MERGES = re.compile(
    r"\b(?:aggregat|unif|merg|combin|bring|brought|gather|join|classif|rout|consolidat)\w*", re.IGNORECASE
)
"""Words of an instruction by which branches exclude each other, or their outputs are merged."""

_REMOVES = re.compile(
    r"\b(?:no longer|not (?:needed|required|necessary)|unnecessary|do(?:es)? not need|don't need|need not|remov(?:e|es|ed|ing)|delet(?:e|es|ed)|drop(?:s|ped)?|"
    r"get rid of|without|omit(?:s|ted)?|tak(?:e|es|en) out)\b",
    re.IGNORECASE,
)  # fmt: skip
_KEEPS = re.compile(r"\b(?:remain|remains|stay|stays|keep|keeps|keeping|kept|unchanged|the same)\b", re.IGNORECASE)

_PICTURE = re.compile(r"\b(?:images?|pictures?|photos?|photographs?|illustrations?|scans?|screenshots?|drawings?)\b")
_DOCUMENT = re.compile(r"\b(?:documents?|files?|pdfs?|docx|spreadsheets?|workbooks?)\b")
_GENERATED = re.compile(r"\b(?:audio|mp3|illustration|diagram|courseware|slides)\b")
_TEXTUAL = re.compile(r"\b(?:texts?|code|urls?|names?|lists? of (?:names|words)|links?|titles?|structures?|address(?:es)?|format|list of)\b(?!\s+(?:documents?|files?))")  # fmt: skip
_SEVERAL = re.compile(r"\b(?:lists? of|multiple|several|series of|many|set of|batch of|some|collection of|both)\b.*\b(?:documents|images|files|pictures|photos|pdfs|resumes)\b")  # fmt: skip
_SUFFIXES = {
    "pdf": r"\bpdf\b",
    "docx": r"\b(?:docx|word (?:file|document))\b",
    "pptx": r"\b(?:pptx?|powerpoint|slides|courseware)\b",
    "md": r"(?:\bmarkdown|\bmd|\.md)\b(?=.*\bfile)",
    "html": r"\b(?:html|web\s?page)\b(?=.*\bfile)",
    "png": r"\b(?:png|image|picture|illustration)\b",
}


def _with_round(contract: Contract, text: str, first_stated_in: Mapping[str, str]) -> Contract:
    """Return the contract after one more round of instructions."""
    is_first = not (contract.inputs or contract.outputs)
    mentions = list(mentions_of(text))
    words = dict(contract.words or {})
    for mention in mentions:
        words.setdefault(mention.name, Stated(mention.name, mention.description))
    inputs = _updated_inputs(contract, [mention for mention in mentions if mention.is_input], text, is_first)
    input_names = {stated.name for stated in inputs}
    outputs = [
        mention
        for mention in mentions
        if mention.is_input is False and (mention.name not in input_names or OUTPUT.search(mention.sentence))
    ]
    ends = _updated_outputs(contract, outputs, text, first_stated_in, is_first)
    named = {*input_names, *(name for end in ends for name in end.needed)}
    undirected = {mention.name for mention in mentions if mention.is_input is None}
    return replace(
        contract, inputs=inputs, words=words, outputs=ends, undirected=(contract.undirected | undirected) - named
    )


def _updated_inputs(contract: Contract, mentions: Sequence[Mention], text: str, is_first: bool) -> tuple[Stated, ...]:
    """Return the inputs after one more round, which may add, remove or replace some."""
    known = {stated.name: stated for stated in contract.inputs}
    mentioned = {mention.name: Stated(mention.name, mention.description) for mention in mentions}
    if is_first or not known:
        return tuple({**known, **mentioned}.values())
    added = [name for name in mentioned if name not in known]
    for sentence in SENTENCE.split(text):
        if _REMOVES.search(sentence):
            words = set(tokens(sentence))
            about_input = not re.search(r"\b(?:branch|output|mechanism)\b", sentence)
            known = {name: stated for name, stated in known.items()
                     if name in mentioned or not (about_input and set(tokens(name)) <= words)}  # fmt: skip
    if any(
        _REPLACES.search(mention.sentence)
        and re.search(r"\binputs?\b", mention.sentence, re.IGNORECASE)
        and mention.name in added
        and not MORE.search(mention.sentence)
        for mention in mentions
    ):
        known = {name: stated for name, stated in known.items() if name in mentioned}
    for name in list(known):  # ``question`` was replaced by ``question_1`` and ``question_2``
        if (
            name not in mentioned
            and sum(bool(re.fullmatch(rf"{re.escape(name)}_?\w{{1,6}}", other)) for other in added) > 1
        ):
            del known[name]
    known = {name: _made_plural(stated, text) for name, stated in known.items()}
    return tuple({**known, **{name: mentioned[name] for name in added}}.values())


def _made_plural(stated: Stated, text: str) -> Stated:
    """Return an input as a list of files if the instruction now states several."""
    for sentence in SENTENCE.split(text):
        if INPUT.search(sentence) and _SEVERAL.search(sentence.lower()) and stated.kind is T.FILE:
            return Stated(stated.name, f"multiple {stated.description} files")
    return stated


def _updated_outputs(
    contract: Contract, mentions: Sequence[Mention], text: str, first_stated_in: Mapping[str, str], is_first: bool
) -> tuple[EndOutputs, ...]:
    """Return the outputs after one more round, which may add or replace some, or state those of a branch."""
    ends = contract.outputs
    if is_first or not ends:
        names = frozenset(mention.name for mention in mentions)
        return (EndOutputs(names),) if names else ends
    known = frozenset(name for end in ends for name in (*end.needed, *end.allowed))
    ends = _without_replaced_branch(ends, mentions, text, first_stated_in)
    by_sentence: dict[str, list[str]] = {}
    for mention in mentions:
        by_sentence.setdefault(mention.sentence, []).append(mention.name)
    if not by_sentence:
        return _narrowed_to_named(ends, known, text)
    replaced = False
    for sentence, sentence_names in by_sentence.items():
        names = frozenset(sentence_names)
        unnamed = _lists_unnamed(sentence, len(sentence_names))
        if _BRANCH.search(sentence) and len(ends) < 4 and (_MERGES.search(text) or _ONLY.search(sentence)):
            last_names = ends[-1].needed if ends else frozenset[str]()
            branch_names = names | last_names if MORE.search(sentence) and not _ONLY.search(sentence) else names
            if branch_names not in [end.needed for end in ends]:
                ends = (*ends, EndOutputs(branch_names, known if unnamed else frozenset()))
        elif (MORE.search(sentence) and not _ONLY.search(sentence)) or replaced or _BRANCH.search(sentence):
            ends = tuple(EndOutputs(end.needed | names, end.allowed) for end in ends)
        else:
            ends, replaced = (EndOutputs(names, known if unnamed else frozenset()),), True
    return ends


def _lists_unnamed(sentence: str, count: int) -> bool:
    """Return whether a sentence lists more outputs than the number that it names."""
    found = OUTPUT.search(sentence)
    rest = re.sub(r"\([^()]*\)", "", sentence[found.end() :]) if found else ""
    return (
        not _ONLY.search(sentence) and len([each for each in re.split(r",|\band\b", rest) if each.strip(" .")]) > count
    )


def _narrowed_to_named(ends: tuple[EndOutputs, ...], known: frozenset[str], text: str) -> tuple[EndOutputs, ...]:
    """Return the outputs after a round without marked outputs, which may say that only some remain."""
    for sentence in SENTENCE.split(text):
        for clause in re.split(r"[;,]", sentence):
            if _ONLY.search(clause) and OUTPUT.search(clause) and not _KEEPS.search(sentence):
                words = set(tokens(clause))
                kept = frozenset(name for name in known if set(tokens(name)) <= words)
                if kept:
                    return (EndOutputs(kept),)
    return ends


def _without_replaced_branch(
    ends: tuple[EndOutputs, ...], mentions: Sequence[Mention], text: str, first_stated_in: Mapping[str, str]
) -> tuple[EndOutputs, ...]:
    """Return the outputs without those of a branch that is replaced: those of the round most like its description."""
    for sentence in SENTENCE.split(text):
        found = _REMOVES.search(sentence)
        if not found or not mentions or not re.search(r"\bbranch\b", sentence) or not re.search(_REPLACES, sentence):
            continue
        clause = re.split(r"\band\b|,", sentence[found.end() :])[0]
        words = {token for token in tokens(clause) if token not in ("the", "branch", "a", "of")}
        names = [name for each in ends for name in each.needed]
        similarity = {name: len(words & set(tokens(first_stated_in.get(name, "")))) for name in names}
        best = max(similarity.values(), default=0)
        if best and len({first_stated_in.get(name) for name in similarity if similarity[name] == best}) == 1:
            gone = {name for name in similarity if similarity[name] == best}
            kept = tuple(EndOutputs(end.needed - gone, end.allowed | gone) for end in ends if end.needed - gone)
            ends = kept or ends
    return ends
