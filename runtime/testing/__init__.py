"""Fakes for tests: a scripted reasoner, a scripted model, and a clock on which waiting takes no time.

`ScriptedReasoner` replaces the reasoner and the model. `ScriptedModel` is an HTTP server on this machine that speaks
OpenAI's chat-completions and responses protocols, so that a test uses the real client, its errors and the real reasoners. Both
raise an error if a test asks for more or fewer answers than its script has.
`run_on_fake_clock` runs a coroutine on an event loop on which waiting takes no time.
"""

from operad.runtime.testing.dialects import DIALECTS, Dialect
from operad.runtime.testing.fake_clock import DeadlockError, FakeClockLoop, run_on_fake_clock
from operad.runtime.testing.plausible import plausible
from operad.runtime.testing.scripted_model import LeftoverStepsError, ScriptedModel, UnexpectedStepError
from operad.runtime.testing.scripted_reasoner import ScriptedReasoner
from operad.runtime.testing.steps import BreakOff, CallTools, Fail, Hang, Plausible, Raw, Recorded, Refuse, Say, Step

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
