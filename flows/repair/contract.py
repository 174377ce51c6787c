"""What instructions state of a workflow: its inputs, its outputs, and of which kind they are.

Read is plain English: names that are marked as variables, ``(variable summary)``, ``a variable called 'summary'``,
```summary```; and, around them, whether they go in or come out, whether they are more, fewer or others than
before, and whether they are of one branch only. What is not stated is left open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from operad.flows.formats.shapes import fields_of, is_selector, list_of
from operad.flows.node_graph import NodeGraph
from operad.operators.variables import Selector, Text, VariableType

T = VariableType
LONGEST = 20_000
"""Characters of instructions that are read."""


class Stated(NamedTuple):
    """An input or an output that an instruction states.

    Attributes:
        name: Its name.
        what: The words before it, in lower case.
    """

    name: str
    what: str = ""

    @property
    def is_document(self) -> bool:
        """Whether it is a file with a text in it."""
        return bool(_DOCUMENT.search(self.what)) and not _PICTURE.search(self.what)

    @property
    def kind(self) -> VariableType | None:
        """Its type, where that is stated."""
        if _MANY.search(self.what):
            return T.ARRAY_FILE
        if _DOCUMENT.search(self.what) or _PICTURE.search(self.what) or _MADE.search(self.what):
            several = re.search(r"(?:list|files|images|documents|pictures|photos)$", self.name.lower())
            return None if _TEXTUAL.search(self.what) else T.ARRAY_FILE if several else T.FILE
        return None

    @property
    def suffixes(self) -> list[str]:
        """The kinds of files that it may be, where these are stated."""
        return [suffix for suffix, words in _SUFFIXES.items() if re.search(words, self.what)]


class Ends(NamedTuple):
    """What an end of the workflow gives: what it must, and what it may besides."""

    needed: frozenset[str]
    allowed: frozenset[str] = frozenset()

    def apart(self, names: frozenset[str]) -> int:
        """How many names are missing or too many."""
        return len(self.needed - names) + len(names - self.needed - self.allowed)


@dataclass(frozen=True, slots=True)
class Contract:
    """What all rounds of instructions together state.

    Attributes:
        inputs: The inputs; none where nothing is stated.
        outputs: What each end gives: several where branches end with different outputs; none where nothing is stated.
        open: Names that are stated, and not on which side: they may be inputs, outputs or both, and need not.
        words: Everything that is stated of an output or an input, by its name.
    """

    inputs: tuple[Stated, ...] = ()
    outputs: tuple[Ends, ...] = ()
    open: frozenset[str] = frozenset()
    words: Mapping[str, Stated] | None = None

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs."""
        return [each.name for each in self.inputs]

    def stated(self, name: str) -> Stated:
        """What is said of an input or an output."""
        return (self.words or {}).get(name, Stated(name))

    def apart(self, graph: NodeGraph) -> int:
        """How many names of a workflow's inputs and outputs are not as stated."""
        count = 0
        if self.inputs:
            given = {
                name for node in graph.nodes if node.type == "start" for name in declared(node.params, "variables")
            }
            count += len((given ^ set(self.input_names)) - self.open)
        if self.outputs:
            ends = ends_of(graph)
            count += sum(min(each.apart(end) for each in self.outputs) for end in ends)
            count += sum(min((each.apart(end) for end in ends), default=2 * len(each.needed)) for each in self.outputs)
        return count

    def raw_documents(self, graph: NodeGraph) -> Iterator[tuple[str, Selector]]:
        """The texts of models that name a stated document itself, or each of several: the model's node, the variable."""
        documents = {each.name for each in self.inputs if each.is_document}
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
                named = dict.fromkeys(each for text in texts for each in Text(text).selectors)
                yield from ((node.id, each) for each in named if each in raw)


def declared(params: Any, key: str) -> list[str]:
    """The names that parameters declare as ``[[name, …], …]``."""
    pairs = map(list_of, list_of(fields_of(params).get(key)))
    return [each[0] for each in pairs if each and isinstance(each[0], str)]


def ends_of(graph: NodeGraph) -> list[frozenset[str]]:
    """The names that each end gives."""
    return [frozenset(declared(node.params, "outputs")) for node in graph.nodes if node.type == "end"]


def read_contract(instructions: Iterable[str]) -> Contract:
    """What instructions state, the first round first.

    Args:
        instructions: The texts of all rounds so far.
    """
    contract = Contract()
    told: dict[str, str] = {}  # the round that each output was first stated in
    room = LONGEST
    for text in instructions:
        text, room = text[:room], room - len(text[:room])
        contract = _after(contract, text, told)
        for each in contract.outputs:
            for name in each.needed:
                told.setdefault(name, text)
    ends = tuple(Ends(each.needed, each.allowed | contract.open) for each in contract.outputs)
    return replace(contract, outputs=ends)


# One round

_NAME = r"[`'\"“‘]?([^\W\d]\w*)[`'\"”’]?"
_LIST = rf"{_NAME}(?:\s*(?:,\s*and|,\s*or|,|;|/|&|\band\b|\bor\b|\bplus\b)\s*(?:variables?\s+)?{_NAME}(?!\w*\s+(?:variable|file)))*"
_MARKED = re.compile(
    rf"\bvariables?\b(?:\s*names?\b)?(?:\s*(?:is|are|being|:|=|called|named)(?!\w))*\s*(?P<a>{_LIST})"
    rf"|\b(?:named|called|labell?ed|titled|under\s+the\s+names?(?:\s+of)?|names?\s+(?:it|them)|name\s*(?::|=|is))\s*:?\s*(?:as\s+)?(?:the\s+)?(?:variables?\s+)?(?P<b>{_LIST})"
    rf"|\bcall\s+(?:it|this|that|them|these|the\s+\w+(?:\s+\w+){{0,3}}?)\s*,?\s+(?P<c>{_LIST})"
    r"|`(?P<d>[^\W\d]\w*)`",
    re.IGNORECASE,
)  # fmt: skip
_WORD = re.compile(r"[^\W\d]\w*")
_NO_NAMES = frozenset(
    "a an the is are be of in on for to as that which with and or must should can may will need needs not no name names named "
    "called remain remains unchanged same input inputs output outputs value values it its this these those them should stay "
    "from by at into each only also all any keep keeps kept instead type types change changed such file files content".split()
)
_NAMES_ALONE = ("output", "content", "input", "file", "files", "value", "name", "type")
"""Of these words, those that may be names where they stand alone."""

_SENTENCE = re.compile(r"(?<=[.!?;。；])\s+|\n+")
_INPUT = re.compile(
    r"\b(inputs?|takes?|taking|receives?|receiving|received|accepts?|accepting|uploads?|uploading|uploaded|suppl(?:y|ies|ied)|enters?|entered|"
    r"submits?|submitted|given|pass(?:es|ed)? in|hands? (?:it|over|in)|fed|feeds?|type[sd]? in|(?:starts?|begins?) (?:from|with)|asks? for)\b",
    re.IGNORECASE,
)  # fmt: skip
_OUTPUT = re.compile(
    r"\b(outputs?|outputting|returns?|returning|returned|produc(?:e|es|ed|ing)|generat(?:e|es|ed|ing)|deliver(?:s|ed|ing)?|results? in|ends? with|"
    r"obtain(?:s|ed|ing)?|emits?|emitted|exposes?|hands? back|gives? back|(?:comes?|goes|get|gets) (?:back|out)|presents?|yields?|renders?|finish(?:es)? with|final result)\b",
    re.IGNORECASE,
)  # fmt: skip
_EITHER = re.compile(r"\b(provid(?:e|es|ed|ing)|gives?|giving|hands?|shares?|sends?)\b", re.IGNORECASE)
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
_MORE = re.compile(
    r"\b(also|additional(?:ly)?|in addition|add(?:s|ed|ing)?|extra|besides|as well|further(?:more)?|on top|plus|too|alongside|along with|moreover|another|together with)\b",
    re.IGNORECASE,
)  # fmt: skip
_ONLY = re.compile(r"\b(only|just|solely|nothing (?:but|else)|exclusively|no other|alone|sole)\b", re.IGNORECASE)
_OTHERS = re.compile(
    r"\b(chang(?:e|es|ed)|replac(?:e|es|ed)|instead|switch(?:es|ed)?|swap(?:ped)?|unif(?:y|ies|ied)|becomes?|turn(?:s|ed)?|now (?:be|is|takes?|accepts?))\b"
    r"|\binputs?\s+(?:can|may|will|should|must|is|are)\b",
    re.IGNORECASE,
)  # fmt: skip
_BRANCH = re.compile(
    r"\b(?:(?:this|that|the new|the (?:second|third|other|added)|on (?:this|that)|in (?:this|that|the new)) (?:branch|case|path|route)|"
    r"(?:in|for) (?:this|that|such) (?:a )?(?:cases?|requests?|inputs?))\b",
    re.IGNORECASE,
)  # fmt: skip
_GONE = re.compile(
    r"\b(?:no longer|not (?:needed|required|necessary)|unnecessary|do(?:es)? not need|don't need|need not|remov(?:e|es|ed|ing)|delet(?:e|es|ed)|drop(?:s|ped)?|"
    r"get rid of|without|omit(?:s|ted)?|tak(?:e|es|en) out)\b",
    re.IGNORECASE,
)  # fmt: skip
_SAME = re.compile(r"\b(?:remain|remains|stay|stays|keep|keeps|keeping|kept|unchanged|the same)\b", re.IGNORECASE)

_PICTURE = re.compile(r"\b(?:images?|pictures?|photos?|photographs?|illustrations?|scans?|screenshots?|drawings?)\b")
_DOCUMENT = re.compile(r"\b(?:documents?|files?|pdfs?|docx|spreadsheets?|workbooks?)\b")
_MADE = re.compile(r"\b(?:audio|mp3|illustration|diagram|courseware|slides)\b")
_TEXTUAL = re.compile(r"\b(?:texts?|code|urls?|names?|lists? of (?:names|words)|links?|titles?|structures?|address(?:es)?|format|list of)\b(?!\s+(?:documents?|files?))")  # fmt: skip
_MANY = re.compile(r"\b(?:lists? of|multiple|several|series of|many|set of|batch of|some|collection of|both)\b.*\b(?:documents|images|files|pictures|photos|pdfs|resumes)\b")  # fmt: skip
_SUFFIXES = {
    "pdf": r"\bpdf\b",
    "docx": r"\b(?:docx|word (?:file|document))\b",
    "pptx": r"\b(?:pptx?|powerpoint|slides|courseware)\b",
    "md": r"(?:\bmarkdown|\bmd|\.md)\b(?=.*\bfile)",
    "html": r"\b(?:html|web\s?page)\b(?=.*\bfile)",
    "png": r"\b(?:png|image|picture|illustration)\b",
}


class _Mention(NamedTuple):
    name: str
    what: str
    goes_in: bool | None
    sentence: str


def _after(contract: Contract, text: str, told: Mapping[str, str]) -> Contract:
    """The contract with one round more."""
    is_first = not (contract.inputs or contract.outputs)
    mentions = list(_mentions(text))
    words = dict(contract.words or {})
    for each in mentions:
        words.setdefault(each.name, Stated(each.name, each.what))
    inputs = _inputs(contract, [each for each in mentions if each.goes_in], text, is_first)
    given = {each.name for each in inputs}
    outputs = [
        each for each in mentions if each.goes_in is False and not (each.name in given and not _names_output(each))
    ]
    ends = _outputs(contract, outputs, text, told, is_first)
    told_of = {*given, *(name for each in ends for name in each.needed)}
    untold = {each.name for each in mentions if each.goes_in is None}
    return replace(contract, inputs=inputs, words=words, outputs=ends, open=(contract.open | untold) - told_of)


def _names_output(each: _Mention) -> bool:
    return bool(_OUTPUT.search(each.sentence))


def _mentions(text: str) -> Iterator[_Mention]:
    side: bool | None = None
    for sentence in _SENTENCE.split(text):
        last, named = 0, side
        side = _last_side(sentence)
        for found in _MARKED.finditer(sentence):
            listed = found["a"] or found["b"] or found["c"] or found["d"]
            quoted = re.match(r"[`'\"“‘]", listed)
            bare = found["b"] or found["c"]
            names = [listed] if found["d"] else _listed(listed)
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
            yield from (_Mention(name, what, goes_in, sentence) for name in names)


def _listed(listed: str) -> list[str]:
    """The names in a list of some: where the first is in quotes, all are; where none is, up to the first word that is no name."""
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


def _closed(sentence: str, found: re.Match[str]) -> bool:
    """Whether a name stands alone: in brackets, or at the end of what is said."""
    return not sentence[found.end() :].strip() or bool(re.match(r"\s*[).,;:!?\]，。—–-]", sentence[found.end() :]))


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
    """Whether a variable goes in or comes out; None where the sentence does not tell.

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
        after = min((clue for clue in clues if clue[0] > end), default=None)
        if after and _PASSIVE.search(sentence[start : after[0]]):
            return after[1]
        return True if _SOURCE.match(sentence[last:start]) else None
    place, goes_in = max(before)
    if place <= last and (
        link := _LINK.match(sentence[last:start])
    ):  # "the summary (variable s) of the paper (variable p)"
        return True if goes_in or _SOURCE.match(sentence[last:start]) else None if link else goes_in
    said = sentence[max(place, last) : start]
    links = list(_LINK_INSIDE.finditer(said))
    if not goes_in and links:  # "a story about the topic (variable topic)"
        head, tail = said[: links[-1].start()], said[links[-1].end() :]
        name = set(_tokens(" ".join(names)))
        if name <= set(_tokens(tail)) and not name & set(_tokens(head)) and not (_PLENTY.search(head) or "," in tail):
            return True if _SOURCE.match(links[-1][0]) else None
    return goes_in


@lru_cache(maxsize=16)  # a sentence is asked for each of its names
def _clues(sentence: str) -> list[tuple[int, bool]]:
    """The words that say that something goes in or comes out, each with where it ends."""
    clues = [(found.end(), True) for found in _INPUT.finditer(sentence)]
    clues += [(found.end(), False) for found in _OUTPUT.finditer(sentence)]
    clues += [(found.end(), bool(_PEOPLE.search(sentence[: found.start()])) or "workflow" not in sentence[: found.start()].lower())
              for found in _EITHER.finditer(sentence)]  # fmt: skip
    return clues


def _last_side(sentence: str) -> bool | None:
    return max(_clues(sentence), default=(0, None))[1]


def _inputs(contract: Contract, mentions: Sequence[_Mention], text: str, is_first: bool) -> tuple[Stated, ...]:
    known = {each.name: each for each in contract.inputs}
    new = {each.name: Stated(each.name, each.what) for each in mentions}
    if is_first or not known:
        return tuple({**known, **new}.values())
    fresh = [name for name in new if name not in known]
    for sentence in _SENTENCE.split(text):
        if found := _GONE.search(sentence):
            said = set(_tokens(sentence))
            about_input = not re.search(r"\b(?:branch|output|mechanism)\b", sentence)
            known = {name: each for name, each in known.items()
                     if name in new or not (about_input and set(_tokens(name)) <= said and found)}  # fmt: skip
    if any(_OTHERS.search(each.sentence) and re.search(r"\binputs?\b", each.sentence, re.IGNORECASE) and each.name in fresh
           and not _MORE.search(each.sentence) for each in mentions):  # fmt: skip
        known = {name: each for name, each in known.items() if name in new}
    for name in list(known):  # question, of which there are now question_1 and question_2
        if name not in new and sum(bool(re.fullmatch(rf"{re.escape(name)}_?\w{{1,6}}", each)) for each in fresh) > 1:
            del known[name]
    known = {name: _many(each, text) for name, each in known.items()}
    return tuple({**known, **{name: new[name] for name in fresh}}.values())


def _many(each: Stated, text: str) -> Stated:
    """An input of which there are now several."""
    for sentence in _SENTENCE.split(text):
        if _INPUT.search(sentence) and _MANY.search(sentence.lower()) and each.kind is T.FILE:
            return Stated(each.name, f"multiple {each.what} files")
    return each


def _outputs(
    contract: Contract, mentions: Sequence[_Mention], text: str, told: Mapping[str, str], is_first: bool
) -> tuple[Ends, ...]:
    ends = contract.outputs
    if is_first or not ends:
        names = frozenset(each.name for each in mentions)
        return (Ends(names),) if names else ends
    known = frozenset(name for each in ends for name in (*each.needed, *each.allowed))
    ends = _without_gone(ends, mentions, text, told)
    by_sentence: dict[str, list[str]] = {}
    for each in mentions:
        by_sentence.setdefault(each.sentence, []).append(each.name)
    if not by_sentence:
        return _narrowed(ends, known, text)
    replaced = False
    for sentence, listed in by_sentence.items():
        names = frozenset(listed)
        unnamed = _unnamed(sentence, len(listed))
        if _BRANCH.search(sentence) and len(ends) < 4 and (_gathers(text) or _ONLY.search(sentence)):
            base = ends[-1].needed if ends else frozenset[str]()
            own = names | base if _MORE.search(sentence) and not _ONLY.search(sentence) else names
            ends = (
                (*ends, Ends(own, known if unnamed else frozenset()))
                if own not in [each.needed for each in ends]
                else ends
            )
        elif (_MORE.search(sentence) and not _ONLY.search(sentence)) or replaced or _BRANCH.search(sentence):
            ends = tuple(Ends(each.needed | names, each.allowed) for each in ends)
        else:
            ends, replaced = (Ends(names, known if unnamed else frozenset()),), True
    return ends


def _gathers(text: str) -> bool:
    """Whether the branches of a workflow exclude each other: their outputs are brought together."""
    return bool(
        re.search(
            r"\b(?:aggregat|unif|merg|combin|bring|brought|gather|join|classif|rout|consolidat)\w*", text, re.IGNORECASE
        )
    )


def _unnamed(sentence: str, named: int) -> bool:
    """Whether a sentence lists more outputs than it names."""
    found = _OUTPUT.search(sentence)
    rest = re.sub(r"\([^()]*\)", "", sentence[found.end() :]) if found else ""
    return (
        not _ONLY.search(sentence) and len([each for each in re.split(r",|\band\b", rest) if each.strip(" .")]) > named
    )


def _narrowed(ends: tuple[Ends, ...], known: frozenset[str], text: str) -> tuple[Ends, ...]:
    """After a round that names no output: those of before that it says are the only ones, if it says so."""
    for sentence in _SENTENCE.split(text):
        for clause in re.split(r"[;,]", sentence):
            if _ONLY.search(clause) and _OUTPUT.search(clause) and not _SAME.search(sentence):
                said = set(_tokens(clause))
                kept = frozenset(name for name in known if set(_tokens(name)) <= said)
                if kept:
                    return (Ends(kept),)
    return ends


def _without_gone(
    ends: tuple[Ends, ...], mentions: Sequence[_Mention], text: str, told: Mapping[str, str]
) -> tuple[Ends, ...]:
    """Without the outputs of a branch that is removed and that another takes the place of: those of the round most like it."""
    for sentence in _SENTENCE.split(text):
        found = _GONE.search(sentence)
        if not found or not mentions or not re.search(r"\bbranch\b", sentence) or not re.search(_OTHERS, sentence):
            continue
        clause = re.split(r"\band\b|,", sentence[found.end() :])[0]
        said = {each for each in _tokens(clause) if each not in ("the", "branch", "a", "of")}
        names = [name for each in ends for name in each.needed]
        alike = {name: len(said & set(_tokens(told.get(name, "")))) for name in names}
        best = max(alike.values(), default=0)
        if best and len({told.get(name) for name in alike if alike[name] == best}) == 1:
            gone = {name for name in alike if alike[name] == best}
            ends = (
                tuple(each for each in (Ends(end.needed - gone, end.allowed | gone) for end in ends) if each.needed)
                or ends
            )
    return ends


def _tokens(text: str) -> list[str]:
    """Words in lower case, those of names apart, without an s at the end."""
    return [each.lower().removesuffix("s") for each in re.findall(r"[^\W_]+", text)]
