"""Statements of instructions about a workflow: its inputs, its outputs, and their types.

Names are read that are marked as variables: ``(variable summary)``, ``a variable called 'summary'``, ```summary```,
``（变量 summary）``. Whether a name is an input or an output follows from the verb and from who acts: "the user gives"
is an input, "give me" and "I want" are outputs. Where the verb says neither, the name is `Contract.open`. Further words
say whether names are more, fewer or others than before, and whether they are of one branch only.
A contract is a hint: it may misread what a person means, so no workflow is changed because of it alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from operad.flows.formats.shapes import fields_of, is_selector, list_of
from operad.flows.node_graph import NodeGraph
from operad.flows.repair.mentions import INPUT, OUTPUT, SENTENCE, Mention, mentions_of, tokens
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
        """True if it is a file with a text in it."""
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
    """Outputs of an end of the workflow: those that it must have, and those that it may have."""

    needed: frozenset[str]
    allowed: frozenset[str] = frozenset()

    def apart(self, names: frozenset[str]) -> int:
        """Return the number of names that are missing or too many."""
        return len(self.needed - names) + len(names - self.needed - self.allowed)


@dataclass(frozen=True, slots=True)
class Contract:
    """Statements of all rounds of instructions together.

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
        """Return the statement about an input or an output."""
        return (self.words or {}).get(name, Stated(name))

    def apart(self, graph: NodeGraph) -> int:
        """Return the number of inputs and outputs of a workflow whose names are not as stated."""
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
    """Read the statements of instructions, the first round first.

        contract = read_contract(["The user gives a text (variable text). Output the summary (variable summary)."])
        assert contract.input_names == ["text"]

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

MORE = re.compile(
    r"\b(also|additional(?:ly)?|in addition|add(?:s|ed|ing)?|extra|besides|as well|further(?:more)?|on top|plus|too|alongside|along with|moreover|another|together with)\b"
    r"|再|还|另外|同时|此外|也(?:要|请|输出)|并且",
    re.IGNORECASE,
)  # fmt: skip
"""Words of a request that add something."""

_ONLY = re.compile(r"\b(only|just|solely|nothing (?:but|else)|exclusively|no other|alone|sole)\b|只|仅", re.IGNORECASE)
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


def _after(contract: Contract, text: str, told: Mapping[str, str]) -> Contract:
    """The contract with one round more."""
    is_first = not (contract.inputs or contract.outputs)
    found = list(mentions_of(text))
    words = dict(contract.words or {})
    for each in found:
        words.setdefault(each.name, Stated(each.name, each.what))
    inputs = _inputs(contract, [each for each in found if each.goes_in], text, is_first)
    given = {each.name for each in inputs}
    outputs = [each for each in found if each.goes_in is False and not (each.name in given and not _names_output(each))]
    ends = _outputs(contract, outputs, text, told, is_first)
    told_of = {*given, *(name for each in ends for name in each.needed)}
    untold = {each.name for each in found if each.goes_in is None}
    return replace(contract, inputs=inputs, words=words, outputs=ends, open=(contract.open | untold) - told_of)


def _names_output(each: Mention) -> bool:
    return bool(OUTPUT.search(each.sentence))


def _inputs(contract: Contract, mentions: Sequence[Mention], text: str, is_first: bool) -> tuple[Stated, ...]:
    known = {each.name: each for each in contract.inputs}
    new = {each.name: Stated(each.name, each.what) for each in mentions}
    if is_first or not known:
        return tuple({**known, **new}.values())
    fresh = [name for name in new if name not in known]
    for sentence in SENTENCE.split(text):
        if found := _GONE.search(sentence):
            said = set(tokens(sentence))
            about_input = not re.search(r"\b(?:branch|output|mechanism)\b", sentence)
            known = {name: each for name, each in known.items()
                     if name in new or not (about_input and set(tokens(name)) <= said and found)}  # fmt: skip
    if any(_OTHERS.search(each.sentence) and re.search(r"\binputs?\b", each.sentence, re.IGNORECASE) and each.name in fresh
           and not MORE.search(each.sentence) for each in mentions):  # fmt: skip
        known = {name: each for name, each in known.items() if name in new}
    for name in list(known):  # question, of which there are now question_1 and question_2
        if name not in new and sum(bool(re.fullmatch(rf"{re.escape(name)}_?\w{{1,6}}", each)) for each in fresh) > 1:
            del known[name]
    known = {name: _many(each, text) for name, each in known.items()}
    return tuple({**known, **{name: new[name] for name in fresh}}.values())


def _many(each: Stated, text: str) -> Stated:
    """An input of which there are now several."""
    for sentence in SENTENCE.split(text):
        if INPUT.search(sentence) and _MANY.search(sentence.lower()) and each.kind is T.FILE:
            return Stated(each.name, f"multiple {each.what} files")
    return each


def _outputs(
    contract: Contract, mentions: Sequence[Mention], text: str, told: Mapping[str, str], is_first: bool
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
            own = names | base if MORE.search(sentence) and not _ONLY.search(sentence) else names
            ends = (
                (*ends, Ends(own, known if unnamed else frozenset()))
                if own not in [each.needed for each in ends]
                else ends
            )
        elif (MORE.search(sentence) and not _ONLY.search(sentence)) or replaced or _BRANCH.search(sentence):
            ends = tuple(Ends(each.needed | names, each.allowed) for each in ends)
        else:
            ends, replaced = (Ends(names, known if unnamed else frozenset()),), True
    return ends


def _gathers(text: str) -> bool:
    """Return whether the branches of a workflow exclude each other, so that their outputs are brought together."""
    return bool(
        re.search(
            r"\b(?:aggregat|unif|merg|combin|bring|brought|gather|join|classif|rout|consolidat)\w*", text, re.IGNORECASE
        )
    )


def _unnamed(sentence: str, named: int) -> bool:
    """Return whether a sentence lists more outputs than it names."""
    found = OUTPUT.search(sentence)
    rest = re.sub(r"\([^()]*\)", "", sentence[found.end() :]) if found else ""
    return (
        not _ONLY.search(sentence) and len([each for each in re.split(r",|\band\b", rest) if each.strip(" .")]) > named
    )


def _narrowed(ends: tuple[Ends, ...], known: frozenset[str], text: str) -> tuple[Ends, ...]:
    """After a round that names no output: those of before that it says are the only ones, if it says so."""
    for sentence in SENTENCE.split(text):
        for clause in re.split(r"[;,]", sentence):
            if _ONLY.search(clause) and OUTPUT.search(clause) and not _SAME.search(sentence):
                said = set(tokens(clause))
                kept = frozenset(name for name in known if set(tokens(name)) <= said)
                if kept:
                    return (Ends(kept),)
    return ends


def _without_gone(
    ends: tuple[Ends, ...], mentions: Sequence[Mention], text: str, told: Mapping[str, str]
) -> tuple[Ends, ...]:
    """Without the outputs of a branch that is removed and that another takes the place of: those of the round most like it."""
    for sentence in SENTENCE.split(text):
        found = _GONE.search(sentence)
        if not found or not mentions or not re.search(r"\bbranch\b", sentence) or not re.search(_OTHERS, sentence):
            continue
        clause = re.split(r"\band\b|,", sentence[found.end() :])[0]
        said = {each for each in tokens(clause) if each not in ("the", "branch", "a", "of")}
        names = [name for each in ends for name in each.needed]
        alike = {name: len(said & set(tokens(told.get(name, "")))) for name in names}
        best = max(alike.values(), default=0)
        if best and len({told.get(name) for name in alike if alike[name] == best}) == 1:
            gone = {name for name in alike if alike[name] == best}
            ends = (
                tuple(each for each in (Ends(end.needed - gone, end.allowed | gone) for end in ends) if each.needed)
                or ends
            )
    return ends
