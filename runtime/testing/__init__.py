"""Fakes for tests: a scripted reasoner, a scripted model, and a clock on which waiting takes no time.

`ScriptedReasoner` stands in for all thinking. `ScriptedModel` is an HTTP server on this machine that
speaks the OpenAI chat-completions protocol, so that the client, its errors and the reasoners are
the real ones. Both say clearly when a test asked more or less of them than its script holds.
`FakeComfyUI` is a ComfyUI server whose runs make given files. `run_on_fake_clock` runs a coroutine on an event loop on which waiting takes no time.
"""

from operad.runtime.testing.fake_clock import DeadlockError, FakeClockLoop, run_on_fake_clock
from operad.runtime.testing.fake_comfyui import FakeComfyUI
from operad.runtime.testing.scripted_model import (
    BreakOff,
    CallTools,
    Fail,
    Hang,
    LeftoverStepsError,
    Plausible,
    Raw,
    Say,
    ScriptedModel,
    Step,
    UnexpectedStepError,
    plausible,
)
from operad.runtime.testing.scripted_reasoner import ScriptedReasoner

__all__ = [
    "BreakOff",
    "CallTools",
    "DeadlockError",
    "Fail",
    "FakeClockLoop",
    "FakeComfyUI",
    "Hang",
    "LeftoverStepsError",
    "Plausible",
    "Raw",
    "Say",
    "ScriptedModel",
    "ScriptedReasoner",
    "Step",
    "UnexpectedStepError",
    "plausible",
    "run_on_fake_clock",
]
