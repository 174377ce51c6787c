"""Search for a better workflow, by changes that a model proposes and tasks that score them."""

from operad.configs.optimise.search import Optimised, aoptimise, optimise
from operad.configs.optimise.state import Candidate, State, Step
from operad.configs.optimise.trial import Result

__all__ = ["Candidate", "Optimised", "Result", "State", "Step", "aoptimise", "optimise"]
