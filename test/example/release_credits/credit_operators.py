"""Release credits: the people to thank for a release, and their contributions, from its changelog.

`ReadRelease` → `CreditEntries` → `WriteCredits`. A model is asked one thing per entry: which of
the entry's own words names the component, and which of its names are credited. Everything else is
code. What an evaluator rejects leaves the candidates of its entry, and only such entries are asked
about again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from changelog import (
    component_candidates,
    name_candidates,
    read_release,
    sentences,
)

from operad.operators import Operator, OperatorConfig
from operad.runtime import events
from operad.runtime.graph.call import OperatorCall
from operad.runtime.reasoning.reasoner import Reasoner, ask
from operad.runtime.reasoning.task import Example, Task
from operad.runtime.tools.toolkit import Toolkit
from operad.runtime.values.concurrently import concurrently
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.value import Value

MAX_SHOWN = 3_000
"""Characters of an entry that a model gets to see."""

MAX_ENTRIES = 2_000
"""Entries of the largest release; more are a whole history."""

Decision = Literal["credited", "other"]
DECISIONS: tuple[Decision, Decision] = ("credited", "other")
"""Possible decisions on a name: a credited person, or anything else."""

Rejected = Mapping[str, Decision]
"""For a name of an entry, the decision that an evaluator found wrong."""


class Credit(Value):
    """Credits of one entry.

    Attributes:
        component: The word of the entry that names the component concerned.
        persons: Credited persons, in the entry's order and spelling; empty if there are none.
    """

    component: str
    persons: tuple[str, ...] = ()


class CreditFault(Value):
    """One fault in the credits of one entry.

    Attributes:
        text: Description of the fault.
        name: The name it is about.
        rejected: The decision on that name that must not be made again.
    """

    text: str
    name: str = ""
    rejected: Decision | None = None


class WrongCredit(CreditFault):
    """Fault in the credits of an entry, with the number of the entry, counted from 0."""

    entry: int


def answer_schema(entry: str, rejected: Rejected) -> dict[str, Any]:
    """The JSON Schema of the answer for one entry.

    One decision per name, in the order of the text: asked for a list of the credited, a small
    model stops early or names somebody twice.
    """
    decisions = {
        name: {"type": "string", "enum": [d for d in DECISIONS if d != rejected.get(name)]}
        for name in name_candidates(entry)
    }
    return _closed({"component": {"type": "string", "enum": component_candidates(entry)}, "names": _closed(decisions)})


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _example(entry: str, component: str, *credited: str) -> Example:
    names = {name: DECISIONS[name not in credited] for name in name_candidates(entry)}
    return Example(input=entry, output=json.dumps({"component": component, "names": names}, ensure_ascii=False))


EXAMPLES = (
    _example("libfoo: Fix a leak in the parser. Reported by Ada Brook.", "libfoo", "Ada Brook"),
    _example(
        "foo-tool: Support the Blue Sky protocol. Patch from Tom Reed <tom@reed.example> and Ines de Vries at "
        "Open Harbour.",
        "foo-tool",
        "Tom Reed",
        "Ines de Vries",
    ),
    _example(
        "Fix a crash of the Night Owl viewer in libbar. Karl Ott found it, Lena Moss wrote the fix, fixes Grey "
        "Stone Bug #12.",
        "libbar",
        "Karl Ott",
        "Lena Moss",
    ),
)
"""The people and projects in these are invented."""


class ReadRelease(Operator):
    """Splits the newest release of the job's changelog into entries.

    Outputs:
        release: The release's heading.
        entries: Its entries, each on one line.
    """

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Read the job's one file, or its context where it has none.

        Raises:
            InputError: There is nothing to read, more than one file, or no release with entries in it.
        """
        if len(call.job.files) > 1:
            raise InputError(
                "give one changelog at a time; these are " + ", ".join(file.name for file in call.job.files)
            )
        where = call.job.files[0].path if call.job.files else "the job's context"
        text = await asyncio.to_thread(call.job.files[0].read_text) if call.job.files else call.job.context
        if not text.strip():
            raise InputError(f"{where}: is empty; give a changelog, with --file or as the job's context")
        release, entries = await asyncio.to_thread(read_release, text)
        if not entries:
            raise InputError(f"{where}: has no entries; a changelog lists the changes of each release")
        if len(entries) > MAX_ENTRIES:
            raise InputError(
                f"{where}: its newest release, {release!r}, has {len(entries):,} entries, more than {MAX_ENTRIES:,}; "
                "perhaps its headings are not recognised: cut out one release"
            )
        return WorkflowMessage(
            scratchpad=f"{release}: {len(entries)} entries", outputs={"release": release, "entries": entries}
        )


class CreditEntries(Operator):
    """Asks, entry by entry and concurrently, who is credited and for which component.

    Outputs:
        credits: A `Credit` per entry, as plain values.
        rejected: Per entry number, what evaluators have rejected so far.

    Args:
        config: Its instruction is what the model is told.
        toolkit: Not used.
        concurrency: Number of entries that are asked about at once.
    """

    asks_model = True

    def __init__(self, config: OperatorConfig, *, toolkit: Toolkit | None = None, concurrency: int = 8) -> None:
        super().__init__(config, toolkit=toolkit)
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}; at least one entry must be asked about at once")
        self._concurrency = concurrency

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask about every entry; after a verdict, only about those at fault."""
        entries: list[str] = call.messages[0].outputs["entries"]
        earlier = call.rejection.answer.outputs if call.rejection else {}
        wrong = (
            [WrongCredit.model_validate_json(fault.wrong) for fault in call.rejection.faults] if call.rejection else []
        )
        rejected = _with_rejected(earlier.get("rejected", {}), wrong)
        found: list[Credit | None] = [Credit(**credit) for credit in earlier.get("credits", ())]
        asked = [n for n in range(len(entries)) if not found or any(fault.entry == n for fault in wrong)]
        found = found or [None] * len(entries)
        slots = asyncio.Semaphore(self._concurrency)
        done = 0

        async def ask(number: int) -> None:
            nonlocal done
            lesson = "\n".join(fault.text for fault in wrong if fault.entry == number)
            async with slots:
                found[number] = await self._ask(call.reasoner, entries[number], rejected.get(str(number), {}), lesson)
            done += 1
            events.emit(events.Progress(done=done, total=len(asked)))

        await concurrently(ask(number) for number in asked)
        known = cast("list[Credit]", found)
        return WorkflowMessage(
            scratchpad=f"{sum(bool(credit.persons) for credit in known)} of {len(entries)} entries credit somebody",
            outputs={"credits": [credit.model_dump() for credit in known], "rejected": rejected},
        )

    async def _ask(self, reasoner: Reasoner, entry: str, rejected: Rejected, lesson: str) -> Credit:
        names = name_candidates(entry)
        if not names:
            return Credit(component=component_candidates(entry)[0])
        form = AnswerSchema.of(answer_schema(entry, rejected))
        task = Task(
            job=Job(goal=_shown(entry, names)),
            instruction=self.config.instruction,
            examples=EXAMPLES,
            output_schema=form,
            lesson=lesson,
        )
        answer = form.validate(await ask(reasoner, task))
        credited = tuple(name for name in names if answer["names"][name] == "credited")
        return Credit(component=answer["component"], persons=credited)


def _with_rejected(
    earlier: Mapping[str, Mapping[str, Decision]], wrong: Iterable[WrongCredit]
) -> dict[str, dict[str, Decision]]:
    """Return rejected decisions so that a name keeps one to choose: if both are rejected, the later verdict holds."""
    rejected = {number: dict(names) for number, names in earlier.items()}
    for fault in wrong:
        if fault.rejected is not None:
            rejected.setdefault(str(fault.entry), {})[fault.name] = fault.rejected
    return rejected


class WriteCredits(Operator):
    """Joins the credits into a Markdown table by component.

    A reasoner that can write prose adds a sentence per component.

    Outputs:
        entries, credits: As it got them.
        credited_by: The id of the operator that the credits came from.
    """

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Write the table."""
        outputs: dict[str, Any] = {}
        for message in call.messages:
            outputs |= message.outputs
            if "credits" in message.outputs:
                outputs["credited_by"] = message.operator_id
        entries: list[str] = outputs["entries"]
        by_component = _by_component(entries, [Credit(**credit) for credit in outputs["credits"]])
        text = f"{outputs['release']}\n\n{_table(by_component)}"
        if getattr(call.reasoner, "writes_prose", True) and by_component:
            text += "\n\n" + "\n".join(
                await concurrently(self._thank(call.reasoner, *item) for item in by_component.items())
            )
        passed_on = ("entries", "credits", "credited_by")
        return WorkflowMessage(scratchpad=text, outputs={key: outputs[key] for key in passed_on if key in outputs})

    async def _thank(self, reasoner: Reasoner, component: str, rows: Sequence[tuple[Credit, str]]) -> str:
        material = "\n".join(f"{', '.join(credit.persons)}: {what}" for credit, what in rows)
        task = Task(job=Job(goal=f"Component: {component}", context=material), instruction=self.config.instruction)
        return f"- **{_cell(component)}**: {' '.join((await ask(reasoner, task)).split())}"


def _shown(entry: str, names: Sequence[str]) -> str:
    """The first sentence, and those in which a name stands."""
    first, *rest = sentences(entry)
    return " ".join([first, *(sentence for sentence in rest if any(name in sentence for name in names))])[:MAX_SHOWN]


def _by_component(entries: Sequence[str], credits: Sequence[Credit]) -> dict[str, list[tuple[Credit, str]]]:
    """Per component, in alphabetical order, who is credited and for what: an entry's first sentence."""
    found: dict[str, list[tuple[Credit, str]]] = {}
    for entry, credit in zip(entries, credits, strict=True):
        if credit.persons:
            what = sentences(entry)[0].removeprefix(f"{credit.component}: ")
            found.setdefault(credit.component, []).append((credit, what))
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def _table(by_component: Mapping[str, Sequence[tuple[Credit, str]]]) -> str:
    if not by_component:
        return "Nobody is credited."
    rows = [
        f"| {_cell(component)} | {_cell(', '.join(credit.persons))} | {_cell(what)} |"
        for component, thanked in by_component.items()
        for credit, what in thanked
    ]
    return "\n".join(["| component | thanks to | for |", "|---|---|---|", *rows])


def _cell(text: str, most: int = 90) -> str:
    text = text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
    return text.replace("\\", "\\\\").replace("|", "\\|")
