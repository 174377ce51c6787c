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
from typing import Any, NamedTuple

from operad.flows.formats.shapes import fields_of, is_selector, list_of
from operad.flows.node_graph import NodeGraph
from operad.flows.repair.mentions import INPUT, OUTPUT, SENTENCE, Mention, mentions_of, tokens
from operad.operators.variables import Selector, Text, VariableType

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


def declared(params: Any, key: str) -> list[str]:
    """Return the names that parameters declare as ``[[name, …], …]``."""
    pairs = map(list_of, list_of(fields_of(params).get(key)))
    return [pair[0] for pair in pairs if pair and isinstance(pair[0], str)]


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
