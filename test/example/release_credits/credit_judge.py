"""Judges release credits by what the text itself shows. Deterministic; knows no names by heart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from changelog import SENTENCE_END, name_candidates, sentences
from credit_operators import Credit, CreditFault, WrongCredit

from operad.evaluators.evaluator import Evaluator
from operad.runtime.graph.call import OperatorCall
from operad.runtime.values.fault import Fault
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus

_BEFORE = 60
"""Characters before a name that are looked at."""

_CREDIT = (
    r"(?:report(?:s|ed)?|found|fix(?:es|ed)?|patch(?:es|ed)?|submitted|contribut(?:ed|ions?)|"
    r"suggest(?:ed|ions?)|provided|developed|written|spotted|noticed|discovered|diagnosed|"
    r"pointed out|debugged|implemented|added|sent(?: in)?|given|tweaked|verified|tested|"
    r"PRs?|analysis|work|docs|documentation|translations?|improve(?:d|ments)|version|help|idea)"
)
_GIVEN = re.compile(
    rf"(?:\b{_CREDIT}(?:\s[a-z]+){{0,2}}\s(?:by|from)|\bby|\bthanks to|\bcourtesy of|"
    r"\bcredits? (?:(?:is due|go(?:es)?) )?to|\bcredit)\s[\"'“]?$",
    re.IGNORECASE,
)
_POSSESSIVE = re.compile(rf"['’]s\s({_CREDIT})\b")
_ANY_CREDIT = re.compile(
    r"\b(?:thanks|credits?|courtesy|by|from|reported|found|contributed|suggested|submitted|"
    r"provided|noticed|discovered|spotted|wrote|sent)\b",
    re.IGNORECASE,
)
_DOES = re.compile(rf"[^.;:(\[]{{0,80}}?\b(?:{_CREDIT}|wrote|took over|did|made|tried|helped)\b", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[.;:(\[]|\b(?:by|thanks|from)\b")
_NO_PERSON_BEFORE = re.compile(
    r"\b(?:a|an|the|our|its|this|that|no|two|three|several|at|in|on|of|for|into|using|via|see|"
    r"during|like|than|under|called|named)\s[\"'“]?$",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\s?#\s?\d")
_GROUP = frozenset(
    "AB AG Bug Bugs Center Centre Corp Foundation Fund GmbH Group Inc Institute Ltd LLC "
    "Project Team Univ University".split()
)
_ASIDE = r"(?:\s?(?:<[^<>]{0,120}>|\([^()]{0,60}\)))?"
_COMMA = re.compile(rf"{_ASIDE},\s")
_AND = re.compile(rf"{_ASIDE},?\s(?:and and|and|&|/)\s[\"'“]?")
_BRACKET = re.compile(r"\(([^()]{3,60})\)")
_LAST_BRACKET = re.compile(r"[\[(]([^\[\]()]{3,200})[\])][.]?(?:\s?-\s?[A-Z]{2,4})?$")  # initials may sign it
_SEPARATOR = re.compile(r"[,;/&]|\band\b")


class CreditsEvaluator(Evaluator):
    """Finds entries whose credits the text contradicts; the wrong text of a fault is a `WrongCredit` as JSON."""

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Judge the message of `WriteCredits`; the reasoner is not asked.

        Returns:
            A verdict whose score is the share of entries without a fault, where there are faults.
        """
        table = call.messages[0]
        entries: list[str] = table.outputs["entries"]
        found = [Credit(**credit) for credit in table.outputs["credits"]]
        faults = {
            number: wrong
            for number, (entry, credit) in enumerate(zip(entries, found, strict=True))
            if (wrong := list(judge(entry, credit)))
        }
        if not faults:
            return WorkflowMessage(
                evaluation=f"{sum(bool(credit.persons) for credit in found)} of {len(entries)} entries credit "
                "somebody; no fault was found"
            )
        return WorkflowMessage(
            status=WorkflowStatus.EXECUTION_ERROR,
            evaluation=f"{len(faults)} of {len(entries)} entries {'is' if len(faults) == 1 else 'are'} at fault",
            faults=tuple(
                Fault(
                    operator=table.outputs["credited_by"],
                    wrong=WrongCredit(entry=number, **fault.model_dump()).model_dump_json(),
                    lesson=f"Entry {number + 1}: {fault.text}.",
                )
                for number, wrong in faults.items()
                for fault in wrong
            ),
            score=1 - len(faults) / len(entries),
        )


def judge(entry: str, credit: Credit) -> Iterable[CreditFault]:
    """All that the text of `entry` shows to be wrong with what was made of it."""
    if credit.component not in entry:
        yield CreditFault(text=f"{credit.component!r} does not occur in it")
    names = name_candidates(entry)
    plain = credit_phrases(entry)
    for name in dict.fromkeys(credit.persons):
        if credit.persons.count(name) > 1:
            yield CreditFault(text=f"{name!r} is listed twice", name=name)
        if name in plain:
            continue
        why = "is no name in it" if name not in names else _no_person(entry, name, names)
        if why := why or _no_credit(entry, name, plain):
            yield CreditFault(text=f"{name!r} {why}", name=name, rejected="credited")
    alike = _bracketed(entry)
    if any(name in credit.persons for name in alike):
        plain = dict.fromkeys(alike, "stands in a bracket, as others do") | plain
    for name, where in plain.items():
        if name not in credit.persons:
            yield CreditFault(text=f"{name!r} is left out, but {where}", name=name, rejected="other")


def _no_person(entry: str, name: str, names: Sequence[str]) -> str:
    """Return the reason for which `name` is not a person's, if the words around it show that."""
    at, end = _span(entry, name)
    before, after = entry[max(0, at - _BEFORE) : at], entry[end:]
    if name.split()[-1] in _GROUP:
        return "is a group, a company or a bug"
    if _NUMBER.match(after):
        return "has a number: an issue"
    if word := _NO_PERSON_BEFORE.search(before):
        return f"stands after {word[0].strip()!r}: a thing or a place"
    if before[-1:] in ("'", '"', "“"):
        return "stands in quotes"
    if before.endswith(" (") and after.startswith(")") and before[:-2].endswith(tuple(names)):
        return "stands in brackets after a name: where that person works"
    return ""


def _no_credit(entry: str, name: str, plain: Mapping[str, str]) -> str:
    """Return the reason for which `name` is not credited, if the entry shows that."""
    if _set_apart(entry, name):
        return ""
    if plain and not _placed(entry, name):
        return f"stands nowhere near a credit, while {next(iter(plain))!r} does"
    return "" if _ANY_CREDIT.search(entry) else "is not credited by anything in it"


def credit_phrases(entry: str) -> dict[str, str]:
    """The names that the text credits beyond doubt, each with where it stands.

    A name right after words of credit ("Reported by", "thanks to") or, as their owner, before them
    ("Ada Brook's fix"); the rest of an enumeration that such a name opens and an "and" closes; the
    names that alone fill the bracket at the end ("[Ada Brook, Tom Reed]").
    """
    found: dict[str, str] = {}
    names = _names(entry)
    for number, name in enumerate(names):
        start, end = _span(entry, name)
        if given := _GIVEN.search(entry[max(0, start - _BEFORE) : start]):
            found[name] = f"stands after {given[0].strip()!r}"
        elif owned := _POSSESSIVE.match(entry[end : end + 30]):
            found[name] = f"stands before {owned[1]!r}"
        if name in found:
            found |= dict.fromkeys(_enumerated(entry, names[number:]), found[name])
    return dict.fromkeys(_in_last_bracket(entry, names), "stands in a bracket of names") | found


def _names(entry: str) -> list[str]:
    """The candidates that may be people's."""
    return [name for name in name_candidates(entry) if name.split()[-1] not in _GROUP]


def _span(entry: str, name: str) -> tuple[int, int]:
    start = entry.find(name)
    return start, start + len(name)


def _enumerated(entry: str, names: Sequence[str]) -> list[str]:
    """The names that follow the first one in an enumeration, if an "and" closes it."""
    found: list[str] = []
    for name, following in pairwise(names):
        gap = entry[_span(entry, name)[1] : _span(entry, following)[0]]
        if _AND.fullmatch(gap):
            return [*found, following]
        if not _COMMA.fullmatch(gap):
            break
        found.append(following)
    return []


def _in_last_bracket(entry: str, names: Sequence[str]) -> list[str]:
    """The names in the bracket that ends the entry, if it holds nothing but names and single words."""
    bracket = _LAST_BRACKET.search(entry, max(0, len(entry) - 220))
    if bracket is None or entry[: bracket.start()].rstrip().endswith(tuple(names)):
        return []
    inside = [part.strip().removeprefix("and ") for part in _SEPARATOR.split(bracket[1]) if part.strip()]
    if not all(part in names or (part.isalpha() and " " not in part) for part in inside):
        return []
    return [part for part in inside if part in names]


def _bracketed(entry: str) -> list[str]:
    """The names of which each alone fills a bracket, when there are several such."""
    inside = set(_BRACKET.findall(entry))
    names = [name for name in _names(entry) if name in inside]
    return names if len(names) > 1 else []


def _placed(entry: str, name: str) -> bool:
    """Return True if words of credit stand before `name` in its sentence, or it is their subject."""
    at, end = _span(entry, name)
    starts = [found.end() for found in SENTENCE_END.finditer(entry, 0, at + 1) if found.end() <= at]
    if _ANY_CREDIT.search(entry[starts[-1] if starts else 0 : at]):
        return True
    clause = _CLAUSE_END.split(entry[end : end + 120], maxsplit=1)[0]
    return _DOES.match(clause) is not None


def _set_apart(entry: str, name: str) -> bool:
    """Return True if `name` stands in a bracket, or in a sentence that holds names alone."""
    at = entry.find(name)
    bracket = max(entry.rfind("(", 0, at), entry.rfind("[", 0, at))
    if bracket >= 0 and not set(entry[bracket:at]) & set(")]"):
        return True
    [sentence, *_] = [sentence for sentence in sentences(entry) if name in sentence] or [entry]
    for other in (*name_candidates(entry), "and"):
        sentence = sentence.replace(other, "")
    return not any(character.isalpha() for character in sentence)
