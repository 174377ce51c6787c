"""The search for a better workflow: select, propose, run, score, back up; and again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from operad.configs.code import Code, Trust
from operad.configs.loader import load, load_text
from operad.configs.optimise.edits import Data, beside, dump, edited, normalised, outline
from operad.configs.optimise.folder import BEST, Folder, opened
from operad.configs.optimise.proposals import MAX_FAULT, Proposal, attempts, cut, failures, propose
from operad.configs.optimise.state import Candidate, Ranking, State, Step, Unfinished
from operad.configs.optimise.tasks import Case, Cases, read_tasks
from operad.configs.optimise.tree import select
from operad.configs.optimise.trial import Account, Bench
from operad.operators.media.errors import MediaError
from operad.runtime.policies.policy import Budget, causes, check_positive
from operad.runtime.reasoning.reasoner import DualModelReasoner, MonoModelReasoner, Reasoner
from operad.runtime.values.document import MAX_BYTES, parse_document
from operad.runtime.values.errors import (
    AnswerError,
    BudgetError,
    InputError,
    InvalidError,
    MissingExtraError,
    OperadError,
    OperatorError,
    shorten,
)
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import Usage
from operad.runtime.values.sync import run_sync
from operad.runtime.workflow.workflow import Workflow

ROUNDS = 20
AT_ONCE = 4

TRIES = 3
"""Maximum number of tries for a valid proposal."""


@dataclass(frozen=True, slots=True)
class Optimised:
    """Result of a search.

    Attributes:
        state: All candidates and their results.
        tasks: Number of tasks.
        stopped: Reason for the end.
        folder: Folder of the search.
    """

    state: State
    tasks: int
    stopped: str
    folder: Path

    @property
    def best(self) -> Candidate:
        """The best candidate."""
        return self.state.ranked(self.tasks)[0]

    @property
    def baseline(self) -> Candidate:
        """The expert as it was."""
        return self.state.candidates[0]

    @property
    def improved(self) -> bool:
        """True if the best is better than the expert was."""
        return self.best.number != 0


def optimise(expert: str | Path, tasks: str | Path, **options: Any) -> Optimised:
    """Search for a better workflow, and wait for it; for callers without an event loop.

    Arguments, result and errors are those of `aoptimise`.

    Raises:
        RunningLoopError: An event loop is running here: await `aoptimise` instead.
    """
    return run_sync(partial(aoptimise, expert, tasks, **options), instead="aoptimise(…)")


async def aoptimise(
    expert: str | Path,
    tasks: str | Path,
    *,
    out: str | Path | None = None,
    name: str | None = None,
    rounds: int = ROUNDS,
    budget: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    at_once: int = AT_ONCE,
    reasoner: Reasoner | None = None,
    proposer: Reasoner | None = None,
    tell: Callable[[str], None] | None = None,
    trust: Trust = False,
) -> Optimised:
    """Search for a better workflow of an expert, by changes that a model proposes and tasks that score them.

    The same call goes on from where an earlier one ended; with more rounds or a larger budget it goes further.

    Args:
        expert: A configuration file.
        tasks: A file of tasks: JSON lines, or YAML.
        out: The folder in which all is kept; by default, NAME.optimised beside the configuration file.
        name: Name of the expert; by default the only one.
        rounds: Number of changes that are tried; 0 scores the expert as it is.
        budget: Maximum number of tokens, earlier calls included; None for no limit. No run begins after
            that; those under way are stopped.
        sample: Number of random tasks on which each change is tried; None for all. The best are then tried on all.
        seed: Seed of random choices.
        at_once: Number of tasks at once.
        reasoner: Reasoner of the workflow; by default the file's.
        proposer: Reasoner that proposes changes, and judges answers if tasks require it; by default that of the workflow.
        tell: Called with a line for each step.
        trust: True if the code that the two files name may run; see `load`.

    Raises:
        InputError: An argument or a file cannot be used; or the budget did not suffice for the expert as it is.
        InvalidError: A file or a number among the arguments is not valid.
        OperadError: The search ended early, for example because the model cannot be reached; its results are kept.
    """
    given = {"at_once": at_once, "budget": budget, "sample": sample} | ({"rounds": rounds} if rounds != 0 else {})
    check_positive("optimise", tuple(given), **given)
    search = _Search.of(expert, read_tasks(tasks, trust=trust), name, sample, seed, reasoner, proposer, trust)
    folder = Path(out) if out else Path(expert).with_suffix(".optimised")
    with opened(folder, search.settings) as kept:
        account = Account(Budget(tokens=budget), kept.state.usage)
        bench = Bench(search.reasoner, search.proposer, account, at_once)
        work = _Work(search, kept, account, bench, tell or (lambda _: None))
        try:
            stopped = await work.run(rounds)
        except OperadError as error:
            raise OperadError(f"{error}\n{work.how_far()}") from error
        except BaseException:
            work.tell(work.how_far())
            raise
        finally:
            kept.show(len(search.cases))
        work.finish()
        return Optimised(kept.state, len(search.cases), stopped, folder)


@dataclass(frozen=True, slots=True)
class _Search:
    """Inputs and reasoners of a search."""

    text: str
    path: Path
    code: Code
    cases: Sequence[Case]
    expert: str
    sample: int
    seed: int
    reasoner: Reasoner
    proposer: Reasoner
    settings: Data

    @classmethod
    def of(
        cls,
        file: str | Path,
        cases: Cases,
        name: str | None,
        sample: int | None,
        seed: int,
        reasoner: Reasoner | None,
        proposer: Reasoner | None,
        trust: Trust,
    ) -> _Search:
        path = FileDescriptor.of(file).path
        configuration = load(path, trust=trust)
        able = configuration.expert(name)
        text = FileDescriptor.of(path).read_text(MAX_BYTES)
        reasoner = reasoner or able.reasoner
        proposer = proposer or proposing(reasoner)
        if not getattr(proposer, "writes_prose", True):
            raise InputError(
                "the embedded model can propose nothing; name an endpoint: --proposer-model and --proposer-base-url, "
                "or those of `model` in the file"
            )
        settings = {
            "expert": able.profile.name,
            "file": _print(text.encode()),
            "tasks": cases.print,
            "sample": sample,
            "seed": seed,
            "model": _model_of(reasoner),
            "proposer": _model_of(proposer),
        }
        within = min(sample or len(cases.every), len(cases.every))
        return cls(
            text, path, configuration.code, cases.every, able.profile.name, within, seed, reasoner, proposer, settings
        )

    def data(self, text: str) -> Data:
        """The data of a candidate that loads."""
        return normalised(parse_document(text, self.path.name))

    def workflow(self, data: Data) -> Workflow:
        """The workflow of a candidate, which learns nothing from one task for another.

        Raises:
            InvalidError: It cannot be used.
        """
        env = {**cast("Data", data.get("env") or {}), "insights": None}
        text = dump({**data, "env": env})
        made = load_text(text, self.path.name, self.path.parent, trust=self.code.covers)
        return made.expert(self.expert).workflow

    def drawn(self, step: int) -> list[Case]:
        """The tasks of a step, in their order."""
        drawn = random.Random(f"{self.seed} sample {step}").sample(range(len(self.cases)), self.sample)  # noqa: S311
        return [self.cases[number] for number in sorted(drawn)]


@dataclass(frozen=True, slots=True)
class _Work:
    """A search in progress."""

    search: _Search
    kept: Folder
    account: Account
    bench: Bench
    tell: Callable[[str], None]

    async def run(self, rounds: int) -> str:
        """Do what is left to do; the reason why it ended."""
        try:
            if self.kept.state.tree is None:
                await self._keep(self._first)
            while not (stopped := self._done(rounds)):
                await self._keep(self._next)
            await self._rank()
        except BudgetError as error:
            if self.kept.state.tree is None:
                raise InputError(f"{error} before the expert as it is was scored; allow more by --budget") from error
            return str(error)
        return stopped

    def finish(self) -> None:
        """Draw the tree, and say what keeps the best from being run where it was written."""
        try:
            self.kept.draw(len(self.search.cases))
        except (MediaError, MissingExtraError) as error:
            self.tell(f"no picture of the tree: {error}")
        if names := beside(self.search.data(self.search.text), self.search.path.parent):
            where = f"{self.kept.path / BEST} needs what lies beside {self.search.path.name}"
            self.tell(f"{where} ({shorten(names)}): copy it there to run it")

    def how_far(self) -> str:
        """Return the progress of the search as text."""
        steps = self.kept.state.steps
        done = "1 step is" if steps == 1 else f"{steps} steps are"
        return f"{done} done and kept in {self.kept.path}; the same command continues from there"

    def _done(self, rounds: int) -> str:
        """Return the reason for which the search is over; empty while it is not."""
        state = self.kept.state
        best = max(state.candidates, key=lambda each: (each.final, -each.number))
        if self.search.sample == len(self.search.cases) and best.final >= 1:
            return "nothing is left to be improved"
        return f"{rounds} rounds are done" if state.steps > rounds else ""

    async def _keep(self, step: Callable[[], Any]) -> None:
        """Do a step and keep it; where it ends early, what it cost."""
        before, state = self.account.usage, self.kept.state
        try:
            made: Step | Ranking = await step()
        except BaseException:
            cost = _less(self.account.usage, before)
            if cost.calls:
                self.kept.add(Unfinished(usage=cost))
            raise
        self.kept.add(made.model_copy(update={"usage": _less(self.account.usage, before)}))
        self.kept.show(len(self.search.cases))
        self.tell(_line(state, self.kept.state, made))

    async def _first(self) -> Step:
        workflow = self.search.workflow(self.search.data(self.search.text))
        results = await self.bench.try_out(workflow, self.search.drawn(0))
        return Step(parent=None, yaml=self.search.text, results=results, usage=Usage())

    async def _next(self) -> Step:
        state = self.kept.state
        assert state.tree is not None  # noqa: S101 - the first step is done
        parent = state.candidates[select(state.tree, seed=self.search.seed)]
        data = self.search.data(parent.step.yaml)
        known = {dump(self.search.data(each.step.yaml)): each for each in state.candidates}
        shown = self._shown(parent, data)
        lessons: list[str] = []
        for _ in range(TRIES):
            self.account.check()
            try:
                proposal = await propose(shown, self.search.proposer, self.account, lessons)
                made, workflow = self._made(data, proposal, known)
            except OperadError as error:
                lessons.append(_lesson(error))
                continue
            results = await self.bench.try_out(workflow, self.search.drawn(state.steps))
            return Step(
                parent=parent.number,
                operations=proposal.operations,
                reasoning=cut(proposal.reasoning, MAX_FAULT),
                yaml=made,
                results=results,
                usage=Usage(),
            )
        return Step(parent=parent.number, refused=lessons[-1], usage=Usage())

    def _made(self, data: Data, proposal: Proposal, known: dict[str, Candidate]) -> tuple[str, Workflow]:
        """Return the checked workflow that results from a proposal."""
        changed = edited(data, self.search.expert, proposal.operations)
        text = dump(changed)
        if (same := known.get(text)) is not None:
            scored = "the workflow as it was at first" if same.number == 0 else f"candidate {same.number}"
            raise InputError(f"that makes {scored} again, which scored {same.score:.3f}; propose something else")
        return text, self.search.workflow(changed)

    def _shown(self, parent: Candidate, data: Data) -> Data:
        state, search = self.kept.state, self.search
        tried = [(each.step.operations, each.score) for each in state.candidates if each.step.parent == parent.number]
        refused = [step.refused for step in state.refused if step.parent == parent.number]
        lot = f"{search.seed} failures {state.steps}"
        return {
            "workflow": outline(data, search.expert),
            "score": round(parent.score, 3),
            "failures": failures(search.cases, parent.step.results, lot),
            "tried before": attempts(parent.score, tried, refused),
        }

    async def _rank(self) -> None:
        """Try the best on the tasks that their steps had left out."""
        for number in [each.number for each in self.kept.state.finalists()]:
            missing = [case for case in self.search.cases if case.id not in self.kept.state.candidates[number].results]
            if missing:
                await self._keep(partial(self._ranking, number, missing))

    async def _ranking(self, number: int, missing: Sequence[Case]) -> Ranking:
        data = self.search.data(self.kept.state.candidates[number].step.yaml)
        results = await self.bench.try_out(self.search.workflow(data), missing)
        return Ranking(candidate=number, results=results, usage=Usage())


def _lesson(error: OperadError) -> str:
    """Return the lesson from an error caused by the model's proposal; raise other errors."""
    if isinstance(error, OperatorError):
        fault = next((link for link in causes(error) if isinstance(link, AnswerError)), None)
        if fault is None:
            raise error.__cause__ if isinstance(error.__cause__, OperadError) else error
        error = fault
    if not isinstance(error, AnswerError | InputError | InvalidError):
        raise error
    return cut(str(error), MAX_FAULT)


def _line(before: State, after: State, made: Step | Ranking) -> str:
    """A step for people."""
    cost = f"{after.usage.tokens - before.usage.tokens:,} tokens"
    if isinstance(made, Ranking):
        of = after.candidates[made.candidate]
        return f"candidate {of.number} on all tasks: {of.final:.3f}, {cost}"
    if made.parent is None:
        return f"the expert as it is: {after.candidates[0].score:.3f}, {cost}"
    if len(after.candidates) == len(before.candidates):
        return f"step {before.steps}, from {made.parent}: no proposal could be used: {made.refused}; {cost}"
    new, parent = after.candidates[-1], after.candidates[made.parent]
    gain = new.score - parent.score
    return f"step {before.steps}, from {made.parent}: {new.change}: {new.score:.3f} ({gain:+.3f}), {cost}"


def proposing(reasoner: Reasoner) -> Reasoner:
    """A reasoner that answers once, as faults of a proposal are told with the next question."""
    if isinstance(reasoner, MonoModelReasoner):
        return MonoModelReasoner(reasoner.model, max_repairs=0)
    if isinstance(reasoner, DualModelReasoner):
        return MonoModelReasoner(reasoner.thinker, max_repairs=0)
    return reasoner


def _model_of(reasoner: Reasoner) -> str:
    if isinstance(reasoner, MonoModelReasoner):
        return reasoner.model.name
    if isinstance(reasoner, DualModelReasoner):
        return f"{reasoner.thinker.name}, {reasoner.actor.name}"
    return type(reasoner).__name__


def _less(usage: Usage, before: Usage) -> Usage:
    return Usage(
        calls=usage.calls - before.calls,
        prompt_tokens=usage.prompt_tokens - before.prompt_tokens,
        completion_tokens=usage.completion_tokens - before.completion_tokens,
        seconds=usage.seconds - before.seconds,
        cost=usage.cost - before.cost,
        unpriced=usage.unpriced - before.unpriced,
    )


def _print(data: bytes) -> str:
    return sha256(data).hexdigest()
