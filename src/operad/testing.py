"""Fakes for tests: scripted models and reasoners, and a clock on which waiting takes no time.

from operad.testing import Say, ScriptedModel

with ScriptedModel([Say("Hello.")]) as endpoint:
    assert flow.run("Greet.", model=endpoint.model).text == "Hello."
"""

from operad.runtime.testing import (
    DIALECTS,
    BreakOff,
    CallTools,
    DeadlockError,
    Dialect,
    Fail,
    FakeClockLoop,
    Hang,
    LeftoverStepsError,
    Plausible,
    Raw,
    Recorded,
    Refuse,
    Say,
    ScriptedModel,
    ScriptedReasoner,
    Step,
    UnexpectedStepError,
    plausible,
    run_on_fake_clock,
)

__all__ = [
    "DIALECTS",
    "BreakOff",
    "CallTools",
    "DeadlockError",
    "Dialect",
    "Fail",
    "FakeClockLoop",
    "Hang",
    "LeftoverStepsError",
    "Plausible",
    "Raw",
    "Recorded",
    "Refuse",
    "Say",
    "ScriptedModel",
    "ScriptedReasoner",
    "Step",
    "UnexpectedStepError",
    "plausible",
    "run_on_fake_clock",
]
