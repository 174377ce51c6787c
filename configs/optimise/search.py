"""Search for a better workflow: repeated selection, proposal, trial, score and back-up."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from operad.configs.capabilities import Capabilities, Trust
from operad.configs.expert_file import ExpertFile
from operad.configs.loader import load, load_text
from operad.configs.optimise.edits import Data, beside, edited, outline
from operad.configs.optimise.folder import BEST, Folder, opened
from operad.configs.optimise.proposals import MAX_FAULT, Proposal, attempts, blamed, cut, failures, propose
from operad.configs.optimise.state import Candidate, Ranking, State, Step, Unfinished
from operad.configs.optimise.tasks import Case, Cases, read_tasks
from operad.configs.optimise.tree import select
from operad.configs.optimise.trial import Account, Bench
from operad.operators.media.errors import MediaError
from operad.runtime.policies.policy import Budget, causes, check_positive
from operad.runtime.reasoning.reasoner import DualModelReasoner, MonoModelReasoner, Reasoner
from operad.runtime.values.document import MAX_BYTES
from operad.runtime.values.errors import (
    AnswerError,
    BudgetError,
    InputError,
    InvalidError,
    Issue,
    MissingExtraError,
    OperadError,
    OperatorError,
    shorten,
)
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import NO_USAGE
from operad.runtime.workflow.workflow import Workflow

ROUNDS = 20
"""Default number of changes to try."""

AT_ONCE = 4
"""Default number of tasks that run at the same time."""

TRIES = 3
"""Maximum number of tries for a valid proposal."""


@dataclass(frozen=True, slots=True)
class Optimised:
    """Result of a search.

    Attributes:
        state: All candidates and their results.
        stopped: Reason for the end.
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
        """The unchanged expert."""
        return self.state.candidates[0]

    @property
    def improved(self) -> bool:
        """True if the best candidate is not the unchanged expert."""
        return self.best.number != 0


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

    The same call continues an earlier search; with more rounds or a larger budget, it continues a finished one.

    Args:
        expert: A configuration file.
        tasks: A file of tasks: JSON lines, or YAML.
        out: Folder of the search; by default, NAME.optimised beside the configuration file.
        name: Name of the expert; by default the only one.
        rounds: Number of changes to try; 0 scores the unchanged expert.
        budget: Maximum number of tokens, including earlier calls; None for no limit. When it is used up, no run starts,
            and runs in progress are stopped.
        sample: Number of random tasks on which each change is tried; None for all. The best are then tried on all.
        seed: Seed of random choices.
        reasoner: Reasoner of the workflow; by default the file's.
        proposer: Reasoner that proposes changes, and judges answers if tasks require it; by default that of the workflow.
        tell: Called with a line for each step.
        trust: True if the two files may do what they can; see `load`.

    Raises:
        InputError: An argument or a file cannot be used, or the budget does not suffice to score the unchanged expert.
        InvalidError: A file or a numeric argument is not valid.
        OperadError: The search ended early, for example because the model cannot be reached; its results are kept.
    """
    if isinstance(rounds, int) and rounds < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        issue = Issue("not-positive", f"{rounds} must be 0 or more", "optimise.rounds")
        raise InvalidError("optimise", [issue])
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
            raise OperadError(f"{error}\n{work.progress_text()}") from error
        except BaseException:
            work.tell(work.progress_text())
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
    capabilities: Capabilities
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
        agent = configuration.expert(name)
        text = FileDescriptor.of(path).read_text(MAX_BYTES)
        reasoner = reasoner or agent.reasoner
        proposer = proposer or proposing(reasoner)
        if not getattr(proposer, "writes_prose", True):
            raise InputError(
                "the embedded model cannot propose changes; name an endpoint: --proposer-model and --proposer-base-url, "
                "or those of `model` in the file"
            )
        settings = {
            "expert": agent.profile.name,
            "file": sha256(text.encode()).hexdigest(),
            "tasks": cases.print,
            "sample": sample,
            "seed": seed,
            "model": _model_name(reasoner),
            "proposer": _model_name(proposer),
        }
        sample_size = min(sample or len(cases.every), len(cases.every))
        return cls(
            text,
            path,
            configuration.capabilities,
            cases.every,
            agent.profile.name,
            sample_size,
            seed,
            reasoner,
            proposer,
            settings,
        )

    def file(self, text: str) -> ExpertFile:
        """Return a candidate's configuration."""
        return ExpertFile(text, self.path.name)

    def workflow(self, file: ExpertFile) -> Workflow:
        """Return the workflow of a candidate, without insights: no task may learn from another.

        Raises:
            InvalidError: The candidate's configuration is not valid.
        """
        env = {**cast("Data", file.values.get("env") or {}), "insights": None}
        text = file.with_values({**file.values, "env": env}).text
        configuration = load_text(text, self.path.name, self.path.parent, trust=self.capabilities.covers)
        return configuration.expert(self.expert).workflow

    def sampled_cases(self, step: int) -> list[Case]:
        """Return the random tasks of a step, in the order of the file."""
        numbers = random.Random(f"{self.seed} sample {step}").sample(range(len(self.cases)), self.sample)  # noqa: S311
        return [self.cases[number] for number in sorted(numbers)]


@dataclass(frozen=True, slots=True)
class _Work:
    """A search in progress."""

    search: _Search
    kept: Folder
    account: Account
    bench: Bench
    tell: Callable[[str], None]

    async def run(self, rounds: int) -> str:
        """Run the remaining steps, and return the reason for the end."""
        try:
            if self.kept.state.tree is None:
                await self._run_step(self._try_unchanged)
            while not (stopped := self._stop_reason(rounds)):
                await self._run_step(self._try_change)
            await self._rank_finalists()
        except BudgetError as error:
            if self.kept.state.tree is None:
                raise InputError(f"{error} before the expert as it is was scored; allow more by --budget") from error
            return str(error)
        return stopped

    def finish(self) -> None:
        """Draw the tree, and name files that the best configuration needs beside it."""
        try:
            self.kept.draw(len(self.search.cases))
        except (MediaError, MissingExtraError) as error:
            self.tell(f"no picture of the tree: {error}")
        if names := beside(self.search.file(self.search.text).data, self.search.path.parent):
            where = f"{self.kept.path / BEST} needs what lies beside {self.search.path.name}"
            self.tell(f"{where} ({shorten(names)}): copy it there to run it")

    def progress_text(self) -> str:
        """Return the progress of the search as text."""
        steps = self.kept.state.steps
        done = "1 step is" if steps == 1 else f"{steps} steps are"
        return f"{done} done and kept in {self.kept.path}; the same command continues from there"

    def _stop_reason(self, rounds: int) -> str:
        """Return the reason why the search is over; empty while it is not."""
        state = self.kept.state
        is_perfect = any(all(each.score >= 1 for each in found.results.values()) for found in state.candidates)
        if self.search.sample == len(self.search.cases) and is_perfect:
            return "nothing is left to be improved"
        return f"{rounds} rounds are done" if state.steps > rounds else ""

    async def _run_step(self, step: Callable[[], Any]) -> None:
        """Run a step and store its result; if it ends early, store its usage."""
        self.account.step, state = NO_USAGE, self.kept.state
        try:
            result: Step | Ranking = await step()
        except BaseException:
            if self.account.step.calls:
                self.kept.add(Unfinished(usage=self.account.step))
            raise
        self.kept.add(result.model_copy(update={"usage": self.account.step}))
        self.kept.show(len(self.search.cases))
        self.tell(_progress_line(state, self.kept.state, result))

    async def _try_unchanged(self) -> Step:
        workflow = self.search.workflow(self.search.file(self.search.text))
        results = await self.bench.try_out(workflow, self.search.sampled_cases(0))
        return Step(parent=None, yaml=self.search.text, results=results, usage=NO_USAGE)

    async def _try_change(self) -> Step:
        state = self.kept.state
        assert state.tree is not None  # noqa: S101 - the first step is done
        parent = state.candidates[select(state.tree, seed=self.search.seed)]
        file = self.search.file(parent.step.yaml)
        inputs = self._proposal_inputs(parent, file)
        lessons: list[str] = []
        for _ in range(TRIES):
            self.account.check()
            try:
                proposal = await propose(inputs, self.search.proposer, self.account, lessons)
                yaml, workflow = self._apply_proposal(file, proposal)
            except OperadError as error:
                lessons.append(_lesson_from(error))
                continue
            results = await self.bench.try_out(workflow, self.search.sampled_cases(state.steps))
            return Step(
                parent=parent.number,
                operations=proposal.operations,
                reasoning=cut(proposal.reasoning, MAX_FAULT),
                yaml=yaml,
                results=results,
                usage=NO_USAGE,
            )
        return Step(parent=parent.number, refused=lessons[-1], usage=NO_USAGE)

    def _apply_proposal(self, file: ExpertFile, proposal: Proposal) -> tuple[str, Workflow]:
        """Return the YAML and the checked workflow that a proposal results in."""
        changed = edited(file, self.search.expert, proposal.operations)
        for known in self.kept.state.candidates:
            if self.search.file(known.step.yaml).data == changed.data:
                name = "the workflow as it was at first" if known.number == 0 else f"candidate {known.number}"
                raise InputError(f"that makes {name} again, which scored {known.score:.3f}; propose something else")
        return changed.text, self.search.workflow(changed)

    def _proposal_inputs(self, parent: Candidate, file: ExpertFile) -> Data:
        state, search = self.kept.state, self.search
        tried = [
            (candidate.step.operations, candidate.score)
            for candidate in state.candidates
            if candidate.step.parent == parent.number
        ]
        refused = [step.refused for step in state.refused if step.parent == parent.number]
        shuffle_seed = f"{search.seed} failures {state.steps}"
        return {
            "workflow": outline(file, search.expert),
            "score": round(parent.score, 3),
            "failures": failures(search.cases, parent.step.results, shuffle_seed),
            "blamed": blamed(result.blamed for result in parent.results.values()),
            "tried before": attempts(parent.score, tried, refused),
        }

    async def _rank_finalists(self) -> None:
        """Try the finalists on the tasks that their steps left out."""
        for number in [candidate.number for candidate in self.kept.state.finalists()]:
            missing = [case for case in self.search.cases if case.id not in self.kept.state.candidates[number].results]
            if missing:
                await self._run_step(partial(self._try_on_remaining, number, missing))

    async def _try_on_remaining(self, number: int, missing: Sequence[Case]) -> Ranking:
        file = self.search.file(self.kept.state.candidates[number].step.yaml)
        results = await self.bench.try_out(self.search.workflow(file), missing)
        return Ranking(candidate=number, results=results, usage=NO_USAGE)


def _lesson_from(error: OperadError) -> str:
    """Return the lesson from an error caused by the model's proposal; raise other errors."""
    if isinstance(error, OperatorError):
        fault = next((link for link in causes(error) if isinstance(link, AnswerError)), None)
        if fault is None:
            raise error.__cause__ if isinstance(error.__cause__, OperadError) else error
        error = fault
    if not isinstance(error, AnswerError | InputError | InvalidError):
        raise error
    return cut(str(error), MAX_FAULT)


def _progress_line(before: State, after: State, result: Step | Ranking) -> str:
    """Return a line on a finished step, for people."""
    cost = f"{after.usage.tokens - before.usage.tokens:,} tokens"
    if isinstance(result, Ranking):
        candidate = after.candidates[result.candidate]
        return f"candidate {candidate.number} on all tasks: {candidate.final:.3f}, {cost}"
    if result.parent is None:
        return f"the expert as it is: {after.candidates[0].score:.3f}, {cost}"
    if len(after.candidates) == len(before.candidates):
        return f"step {before.steps}, from {result.parent}: no proposal could be used: {result.refused}; {cost}"
    newest, parent = after.candidates[-1], after.candidates[result.parent]
    gain = newest.score - parent.score
    return f"step {before.steps}, from {result.parent}: {newest.change}: {newest.score:.3f} ({gain:+.3f}), {cost}"


def proposing(reasoner: Reasoner) -> Reasoner:
    """Return a reasoner for proposals; it does not repair answers, as faults are lessons for the next proposal."""
    if isinstance(reasoner, MonoModelReasoner):
        return MonoModelReasoner(reasoner.model, max_repairs=0)
    if isinstance(reasoner, DualModelReasoner):
        return MonoModelReasoner(reasoner.thinker, max_repairs=0)
    return reasoner


def _model_name(reasoner: Reasoner) -> str:
    if isinstance(reasoner, MonoModelReasoner):
        return reasoner.model.name
    if isinstance(reasoner, DualModelReasoner):
        return f"{reasoner.thinker.name}, {reasoner.actor.name}"
    return type(reasoner).__name__
