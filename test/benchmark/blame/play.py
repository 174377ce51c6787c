"""Play of a case: the real workflow and evaluator, with scripted operators and a judge that the caller supplies."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cases import Answers, Calls, Case, Fault
from costs import Request, form_of, text_of

from operad import Evaluator, FaultError, OperadError, Workflow, WorkflowStatus
from operad.runtime import events
from operad.testing import CallTools, Fail, Say, ScriptedModel, Step

JUDGE = "judge"
"""Name of the judge's model, by which its requests are found; the name of an operator's model is the operator's id."""

ROUNDS = 2

Method = Literal["blame", "all", "last"]
"""Method of a run: a model blames; everything runs again; the last operator alone runs again."""

Judge = Callable[[Case, Request, frozenset[str], int], str | None]
"""Function that returns the judge's answer to a request, while some faults are there, in a round; None to end the run."""


@dataclass(frozen=True)
class Asked:
    """Request to a model, with its answer.

    Attributes:
        who: Name of the model: the operator's id, or `JUDGE`.
        round: Number of the round, from 1.
        request: Body of the request.
        answer: Text of the answer, with calls of tools.
    """

    who: str
    round: int
    request: Request
    answer: str


@dataclass(frozen=True)
class Verdict:
    """Verdict on round 1.

    Attributes:
        status: The status.
        blamed: The places that are blamed.
    """

    status: WorkflowStatus
    blamed: frozenset[str]


@dataclass(frozen=True)
class Played:
    """Run of a case.

    Attributes:
        case: The case.
        asked: The requests to models, in their order.
        verdict: The verdict on round 1; None if the judge gave none.
        open: The request of the judge that was not answered.
        is_right: True if the result of the run has no fault.
        error: The error with which the run ended.
    """

    case: Case
    asked: Sequence[Asked]
    verdict: Verdict | None
    open: Request | None
    is_right: bool
    error: str = ""

    @property
    def judged(self) -> str:
        """Everything that the judge received in round 1."""
        judged = [each for each in self.asked if each.who == JUDGE and each.round == 1]
        return "\n".join(text_of(each.request) for each in judged)


def covers(blamed: str, root: str) -> bool:
    """Return True if a root runs again when a place is blamed: it is the place, or inside it."""
    return root == blamed or root.startswith((f"{blamed}[", f"{blamed}/"))


@dataclass
class _Player:
    """Endpoint of all models of a run."""

    case: Case
    judge: Judge
    method: Method
    active: frozenset[str]
    round: int = 1
    asked: list[Asked] = field(default_factory=list)
    blamed: frozenset[str] | None = None
    verdict: Verdict | None = None
    open: Request | None = None
    last: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: Request) -> Step:
        with self.lock:
            step = self._judge(request) if request["model"] == JUDGE else self._operator(request)
            if not isinstance(step, Fail):
                self.asked.append(Asked(request["model"], self.round, request, _text(step)))
            return step

    def hear(self, event: events.Event) -> None:
        """Follow the rounds of the outer workflow."""
        if event.path:
            return
        if isinstance(event, events.RoundStarted):
            self.round = event.round
        elif isinstance(event, events.RoundFinished) and event.round == 1:
            self.blamed = blamed_of(event)
            self.verdict = Verdict(event.status, self.blamed)

    def _judge(self, request: Request) -> Step:
        answer = self.judge(self.case, request, self.active, self.round)
        if answer is None:
            self.open = request
            self.asked.append(Asked(JUDGE, self.round, request, ""))
            return Fail(400, "no answer")
        return Say(answer)

    def _operator(self, request: Request) -> Step:
        who, asked = request["model"], text_of(request)
        place = self.case.place(who, asked)
        if self.round > 1 and self._repairs(place):
            self.active -= {place}
        active = frozenset[str]() if self.round > 1 and self.method != "blame" else self.active
        answer = self.case.answers(active)[place]
        results = sum(message["role"] == "tool" for message in request["messages"])
        if isinstance(answer, Calls) and results < len(answer.calls):
            return CallTools([answer.calls[results]])  # one by one, because the order of simultaneous results varies
        text = answer.text if isinstance(answer, Calls) else answer
        if who == self.case.last:
            self.last = text
        return Say(text)

    def _repairs(self, place: str) -> bool:
        """Return True if an operator was told of its fault: it was blamed, or no operator was."""
        return not self.blamed or any(covers(blamed, place) for blamed in self.blamed)


def blamed_of(event: Any) -> frozenset[str]:
    """Return the places that a verdict blames."""
    places: set[str] = set()
    for fault in getattr(event, "faults", ()):
        item = getattr(fault, "item", None)
        places.add(fault.operator if item is None else f"{fault.operator}[{item}]")
    return frozenset(places | {each for each in event.blame if not any(covers(each, place) for place in places)})


async def play(case: Case, judge: Judge, method: Method = "blame") -> Played:
    """Run a case for at most two rounds.

    Args:
        case: The case.
        judge: The answers of the judge; for other methods than ``blame``, no judge is asked: an evaluator in code rejects
            round 1.
        method: The method of the second round. For other methods than ``blame``, its answers have no fault.
    """
    player = _Player(case, judge, method, case.active)
    with ScriptedModel(player) as endpoint:

        def model(name: str) -> Any:
            return endpoint.model.model_copy(update={"name": name})

        evaluator = (
            Evaluator(case.criteria, id=JUDGE, model=model(JUDGE)) if method == "blame" else _reject(case, method)
        )
        flow = Workflow(
            case.wire({each: op.operator(each, model(each)) for each, op in case.ops.items()}),
            evaluator=evaluator,
            max_rounds=ROUNDS,
            name=case.family,
            listeners=[player.hear],
        )
        error = ""
        try:
            await flow.aexecute(case.job, None, case.previous)
        except OperadError as failed:
            if player.open is None:
                error = str(failed)
    right = case.answers(frozenset())[case.last]
    assert isinstance(right, str)
    verdict = player.verdict if player.open is None or player.round > 1 else None
    return Played(case, player.asked, verdict, player.open, player.last == right, error)


def _reject(case: Case, method: Method) -> Callable[[str], None]:
    """Return an evaluator that rejects the first result."""
    rounds = iter((True,))

    def judge(answer: str) -> None:
        if next(rounds, False):
            raise FaultError("wrong", lesson=findings(case), blame=[case.last] if method == "last" else [])

    return judge


def findings(case: Case, active: frozenset[str] | None = None) -> str:
    """Return the faults of a case in words."""
    faults = [fault for fault in case.faults if active is None or fault.root in active]
    return " ".join(f"Wrong: {fault.wrong}. Right: {fault.right}." for fault in faults)


def key_answer(case: Case, request: Request, active: frozenset[str], round: int = 1) -> str:
    """Return the right verdict, in the form that a request asks for."""
    is_wrong = case.status is not WorkflowStatus.SUCCESS and bool(active)
    faults = [fault for fault in case.faults if fault.root in active] if is_wrong else []
    properties: Mapping[str, Any] = form_of(request)["properties"]
    known = properties.get("blame", {}).get("items", {}).get("enum", ())
    fault_form = properties.get("faults", {}).get("items", {}).get("properties", {})
    said: dict[str, Any] = {
        "evaluation": findings(case, active) if is_wrong else "All criteria are met.",
        "status": (case.status if is_wrong else WorkflowStatus.SUCCESS).value,
        "lesson": findings(case, active) if is_wrong else "",
        "blame": sorted({_known(fault.root, known) for fault in faults if fault.root}),
        "score": 4 if is_wrong else 9,
        "faults": [_said_fault(fault, fault_form) for fault in faults if fault.root],
        "unsure": [],
    }
    return json.dumps({name: said[name] for name in properties if name in said}, ensure_ascii=False)


def _known(root: str, known: Sequence[str]) -> str:
    """Return the place by which a judge may blame a root: itself, or the outermost operator around it."""
    return next((each for each in known if each == root), root.partition("/")[0].partition("[")[0])


def _said_fault(fault: Fault, form: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a fault in the form of a schema."""
    operator = _known(fault.root, form.get("operator", {}).get("enum", ()))
    item = fault.root.removeprefix(operator)
    said: dict[str, Any] = {
        "operator": operator,
        "item": int(item[1:-1]) if item.startswith("[") else None,
        "wrong": fault.wrong,
        "right": fault.right,
        "lesson": f"Use {fault.right}.",
        "sure": True,
    }
    return {name: said[name] for name in form if name in said}


def _text(step: Step) -> str:
    if isinstance(step, Say):
        return step.text
    return (
        "\n".join(f"{name} {json.dumps(arguments)}" for name, arguments in step.pairs)
        if isinstance(step, CallTools)
        else ""
    )


def answers_of(case: Case) -> Answers:
    """Return the answers of a case's operators in round 1."""
    return case.answers(case.active)
