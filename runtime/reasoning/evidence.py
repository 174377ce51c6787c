"""Evidence for an evaluator: the work of the operators of a run as text, with the tool results and passages they saw."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from operad.runtime.reasoning.exchange import Exchange, Rejection
from operad.runtime.values.fault import Fault
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.model_text import is_of_map, items_of, pieces_of, text_of
from operad.runtime.values.step_record import StepRecord, ToolUse
from operad.runtime.values.text import cut, fence

TOKEN_CHARACTERS = 3
"""Number of characters of a token, for an estimate of what fits into the window of a model."""

UNKNOWN_WINDOW = 200_000
"""Number of characters of a prompt for a model whose window is unknown."""

ANSWER_SHARE = 0.25
"""Share of the window that is left for the answer, and for reasoning."""

LONG_TEXT = 80
"""Number of characters from which a text that another operator has given, too, is not shown again."""

FIRST_WIDE = "\u2e80"
"""First character of the scripts of which a token has about one character, such as Chinese."""

_INDEX = re.compile(r"\[\d+\]")


def prompt_budget(context: int | None) -> int:
    """Return how many characters of a prompt fit into a window of `context` tokens, beside an answer."""
    return int(context * TOKEN_CHARACTERS * (1 - ANSWER_SHARE)) if context else UNKNOWN_WINDOW


@dataclass(frozen=True, slots=True)
class Evidence:
    """Work of operators as text.

    Attributes:
        results: Text of each message to judge, in their order.
        cut: Operators of which a part is left out.
        characters: Number of characters that are left out.
    """

    results: tuple[str, ...] = ()
    operators: str = ""
    cut: tuple[str, ...] = ()
    characters: int = 0


@dataclass(frozen=True, slots=True)
class _Shown:
    """Record of an operator as it is shown.

    Attributes:
        step: The record, without texts that are shown elsewhere.
        pieces: Pieces of its result.
        note: Note in place of the result.
        inner: Places of the operators inside of it, if it is a nested workflow.
    """

    step: StepRecord
    pieces: Sequence[str]
    note: str = ""
    inner: Sequence[str] = ()

    def texts(self) -> Iterator[str]:
        """Yield the texts that may be cut."""
        yield self.step.instruction
        for use in self.step.tool_calls or ():
            yield from (use.arguments, use.result)
        for _, text in self.step.passages:
            yield text
        if not self.note:
            yield from self.pieces


def evidence(steps: Sequence[StepRecord], judged: Sequence[WorkflowMessage], budget: int) -> Evidence:
    """Return the work of operators as text of about `budget` characters.

    The results to judge may take half of the budget, all else the rest. If it does not suffice, the longest texts are
    cut, all to the same length, each with a note at its end. A text is shown once: results to judge, items of maps and
    texts that an operator only passed on are named where they come again.
    """
    results = [pieces_of(message, message.operator_id) for message in judged]
    shown = list(_shown(steps, judged))
    budget = _characters(budget, [*(piece for pieces in results for piece in pieces), *_texts(shown)])
    most = fair_share([len(piece) for pieces in results for piece in pieces], budget // 2)
    left = budget - sum(min(len(piece), most) for pieces in results for piece in pieces)
    lost = [(message.operator_id, _lost(pieces, most)) for message, pieces in zip(judged, results, strict=True)]
    share = fair_share(map(len, _texts(shown)), left)
    lost += [(each.step.operator_id, _lost(each.texts(), share)) for each in shown]
    return Evidence(
        results=tuple("\n\n".join(cut(piece, most) for piece in pieces) for pieces in results),
        operators="\n\n".join(_block(each, share) for each in shown),
        cut=tuple(dict.fromkeys(place for place, characters in lost if characters)),
        characters=sum(characters for _, characters in lost),
    )


def in_order(steps: Sequence[StepRecord]) -> tuple[StepRecord, ...]:
    """Return the records of operators in an order in which each follows its predecessors, otherwise as they are."""
    ordered = dict[str, StepRecord]()
    pending, places = list(steps), {each.operator_id for each in steps}
    while pending:
        waiting = list[StepRecord]()
        for each in pending:
            if ordered.keys() >= places.intersection(each.before):
                ordered[each.operator_id] = each
            else:
                waiting.append(each)
        if len(waiting) == len(pending):  # a loop
            ordered |= {each.operator_id: each for each in waiting}
            break
        pending = waiting
    return tuple(ordered.values())


def length_of(steps: Iterable[StepRecord], judged: Collection[str]) -> int:
    """Return the number of characters of instructions and results of models, but not of the results to judge."""
    asked = [each for each in steps if each.operator_id not in judged and not _is_code(each)]
    return sum(len(each.instruction) + len(text_of(each.message)) for each in asked)


def evidence_alone(steps: Iterable[StepRecord], judged: Collection[str]) -> tuple[StepRecord, ...]:
    """Return the records of operators in code, and of those that used tools or passages, or are judged.

    Of operators that asked a model, instruction and result are left out.
    """
    nothing = {"instruction": "", "message": WorkflowMessage()}
    return tuple(
        each if _is_code(each) else each.model_copy(update=nothing)
        for each in steps
        if each.tool_calls is not None or each.passages or each.operator_id in judged or _is_code(each)
    )


def _is_code(step: StepRecord) -> bool:
    """Return True if an operator ran and asked no model."""
    return not step.skipped and not step.message.usage.calls


def without_evidence(steps: Iterable[StepRecord]) -> tuple[StepRecord, ...]:
    """Return the records of operators without their tool calls and passages."""
    return tuple(each.model_copy(update={"tool_calls": None, "passages": ()}) for each in steps)


def fair_share(lengths: Iterable[int], budget: int) -> int:
    """Return the maximum length to which texts of these lengths must be cut so that their total fits the budget."""
    ascending = sorted(lengths)
    for number, length in enumerate(ascending):
        share = max(0, budget) // (len(ascending) - number)
        if length > share:
            return share
        budget -= length
    return max(ascending, default=0)


def last_verdict(rejection: Rejection) -> str:
    """Return an evaluator's last verdict as text, for its next one."""
    verdict = rejection.answer
    faults = "\n".join(map(_fault_line, verdict.faults)) or "\n".join(f"- {place}" for place in verdict.blame)
    evaluation = verdict.evaluation.strip()
    return "\n".join(filter(None, [f"{verdict.status.value}. {evaluation}".strip(), faults]))


def what_changed(steps: Sequence[StepRecord]) -> str:
    """Return which operators have another result than at the last verdict."""
    places = [each.operator_id for each in steps if each.changed and not each.skipped]
    if not places:
        return "Since your last verdict, no result has changed."
    return f"Since your last verdict, these operators have run again and have another result: {', '.join(places)}."


def judge_again(steps: Sequence[StepRecord], exchange: Exchange, budget: int) -> Evidence:
    """Return what an evaluator is told in its own conversation for its next verdict: the changed results.

    Args:
        steps: Records of all operators.
        exchange: The conversation of the last verdict, which holds the results before.
        budget: Number of characters for the changed results.
    """
    told = "\n".join(message.text for message in exchange.messages)
    changed = [new for each in steps if each.changed and (new := _news(each, told)) is not None]
    known = evidence(changed, (), budget)
    head = f"{what_changed(changed)} Everything else is as before."
    end = (
        "Judge the whole result again by the same criteria, and give a whole verdict. If a fault is still there although "
        "the operator that you named ran again, look for its origin in what that operator received."
    )
    text = "\n\n".join(filter(None, [head, known.operators, end]))
    return Evidence(operators=text, cut=known.cut, characters=known.characters)


def _news(step: StepRecord, told: str) -> StepRecord | None:
    """Return the record of an operator without its instruction and the items of a map that were told last as they are.

    Of operators inside of others, it is unknown whether their result has changed; without a change, there is no record.
    """
    place, pieces = step.operator_id, pieces_of(step.message, step.operator_id)
    changes: dict[str, object] = {"instruction": ""}
    if is_of_map(step.message):
        new = [piece for piece in pieces if not _is_last(piece, piece.partition(":")[0] + ":", told)]
        rest = ["The other items are as before."] if len(new) < len(pieces) else []
        changes["message"] = step.message.model_copy(update={"scratchpad": "\n\n".join([*new, *rest]), "parts": ()})
    elif _INDEX.search(place) or "/" in place:
        headings = [*re.finditer(rf"### {re.escape(place)}(?: \(.*\))?\n", told)]
        if headings and f"Result:\n{fence(pieces[0])}" in told[headings[-1].end() :].partition("\n\n### ")[0]:
            return None
    return step.model_copy(update=changes)


def _is_last(text: str, head: str, told: str) -> bool:
    """Return True if what was told last with a head is this text."""
    place = told.rfind(head)
    return place >= 0 and told.startswith(f"{text.rstrip()}\n", place)


def _fault_line(fault: Fault) -> str:
    said = [
        f"wrong: {fault.wrong}" if fault.wrong else "",
        f"right: {fault.right}" if fault.right else "",
        f"lesson: {fault.lesson}" if fault.lesson else "",
    ]
    doubt = "" if fault.sure else " (not sure)"
    return f"- {fault.place}{doubt}: {'; '.join(filter(None, said))}".rstrip(": ")


def _texts(shown: Iterable[_Shown]) -> list[str]:
    return [text for each in shown for text in each.texts()]


def _characters(budget: int, texts: Sequence[str]) -> int:
    """Return how many characters of some texts take a budget: a token has three Latin letters, or one Chinese sign."""
    length = sum(map(len, texts))
    if length <= budget // TOKEN_CHARACTERS:
        return budget
    wide = sum(sign >= FIRST_WIDE for text in texts for sign in text)
    return int(budget / (1 + (TOKEN_CHARACTERS - 1) * wide / length))


def _lost(texts: Iterable[str], most: int) -> int:
    return sum(max(0, len(text) - most) for text in texts)


def _shown(steps: Sequence[StepRecord], judged: Sequence[WorkflowMessage]) -> Iterator[_Shown]:
    """Yield what is shown of each operator, without what is shown elsewhere."""
    judged_ids = {message.operator_id for message in judged}
    first = {text_of(message): message.operator_id for message in judged}
    items = dict[str, str]()
    for step in steps:
        if is_of_map(step.message):
            found = {place: each for place, each in items_of(step.message, step.operator_id) if place}
            items |= dict.fromkeys(found, step.operator_id)
            first = {text_of(each): place for place, each in found.items() if not isinstance(each, str)} | first
    instructions = set[tuple[str, str]]()
    for step in steps:
        place = step.operator_id
        # The instruction of an item's operators is the same for all items, and that of a single one is the map's.
        kind = (_INDEX.sub("[]", place), step.instruction)
        record = step.model_copy(update={"instruction": ""}) if place in items or kind in instructions else step
        instructions.add(kind)
        if step.tool_calls is not None and _has_inner_calls(place, steps):
            record = record.model_copy(update={"tool_calls": None})
        pieces, inner = pieces_of(step.message, place), _inner(place, steps)
        if place in judged_ids:
            shown = _Shown(record, (), "Result: shown above", inner)
        elif place in items:
            shown = _Shown(record, (), f"Result: shown in that of {items[place]}", inner)
        else:
            shown = _Shown(record, pieces, _same_as(step, pieces, first), inner)
        if _tells(shown, is_elsewhere=place in judged_ids or place in items):
            yield shown


def _same_as(step: StepRecord, pieces: Sequence[str], first: dict[str, str]) -> str:
    """Return the note in place of a long text that is shown elsewhere; empty for other texts, which are added."""
    if sum(map(len, pieces)) < LONG_TEXT:
        return ""
    other = first.setdefault(text_of(step.message), step.operator_id)
    return "" if other == step.operator_id else f"Result: the same text as that of {other}"


def _tells(shown: _Shown, *, is_elsewhere: bool) -> bool:
    """Return True if there is anything to show of an operator beside a result that is shown elsewhere."""
    step = shown.step
    is_empty = not (step.instruction or step.passages or step.skipped or step.message.ports)
    return not is_empty or step.tool_calls is not None or (not is_elsewhere and any(shown.pieces))


def _inner(place: str, steps: Iterable[StepRecord]) -> list[str]:
    """Return the places of the operators that a nested workflow consists of."""
    inside = f"{place}/"
    return [
        each.operator_id
        for each in steps
        if each.operator_id.startswith(inside) and "/" not in each.operator_id.removeprefix(inside)
    ]


def _has_inner_calls(place: str, steps: Iterable[StepRecord]) -> bool:
    """Return True if the tool calls of an operator are those of operators inside of it, which have their own records."""
    inside = (f"{place}/", f"{place}[")
    return any(each.tool_calls is not None and each.operator_id.startswith(inside) for each in steps)


def _block(shown: _Shown, most: int) -> str:
    """Return what is shown of an operator as text, each text in it cut to `most` characters."""
    step = shown.step
    after = f"after {', '.join(step.before)}" if step.before else ""
    consists = f"consists of {', '.join(shown.inner)}" if shown.inner else ""
    relations = "; ".join(filter(None, [after, consists]))
    lines = [f"### {step.operator_id} ({relations})" if relations else f"### {step.operator_id}"]
    if step.instruction:
        lines.append(f"Instruction:\n{fence(cut(step.instruction, most))}")
    if step.skipped:
        lines.append(f"Did not run: {step.skipped}")
        return "\n".join(lines)
    if step.passages:
        passages = "\n\n".join(f"[{source}]\n{cut(text, most)}" for source, text in step.passages)
        lines.append(f"Passages that it was given:\n{fence(passages)}")
    if step.tool_calls is not None or step.calls_missing:
        lines.append(_tool_calls(step.tool_calls or (), step.calls_missing, most))
    if step.message.ports:
        lines.append(f"Branch taken: {', '.join(step.message.ports)}")
    if shown.note:
        lines.append(shown.note)
    elif any(shown.pieces) and shown.pieces[0] not in (step.message.ports or ()):
        pieces = "\n\n".join(cut(piece, most) for piece in shown.pieces)
        lines.append(f"Result:\n{fence(pieces)}")
    return "\n".join(lines)


def _tool_calls(calls: Sequence[ToolUse], missing: str, most: int) -> str:
    """Return the list of an operator's tool calls, and whether it is complete."""
    if not calls:
        return f"Tool calls: {f'unknown ({missing})' if missing else 'none'}"
    lines = [
        use.model_copy(update={"arguments": cut(use.arguments, most), "result": cut(use.result, most)}) for use in calls
    ]
    known = f"Tool calls (incomplete: {missing})" if missing else "Tool calls (all)"
    return f"{known}:\n" + fence("\n".join(map(str, lines)))
