"""ComfyFlow: scores of ComfyUI workflows that models wrote, and the reward to train them with.

Source: "ComfyFlow: Benchmarking LLMs for AIGC Workflow Generation".
"""

from operad.evaluators.comfyflow.answer import Answer, read_answer
from operad.evaluators.comfyflow.evaluator import ComfyFlowEvaluator
from operad.evaluators.comfyflow.rates import Rates, by_difficulty, rates
from operad.evaluators.comfyflow.reward import Reward, reward
from operad.evaluators.comfyflow.score import ComfyScore, difficulty, score

__all__ = [
    "Answer",
    "ComfyFlowEvaluator",
    "ComfyScore",
    "Rates",
    "Reward",
    "by_difficulty",
    "difficulty",
    "rates",
    "read_answer",
    "reward",
    "score",
]
