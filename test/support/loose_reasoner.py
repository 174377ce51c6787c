"""Reasoner without checks, for tests with answers that Operad's reasoners would not return."""

from collections.abc import Sequence


class LooseReasoner:
    """Reasoner that returns answers in order, or always the same one, without checking them; raises those that are errors.

    As a context manager, it fails at the end if answers are left.

    Attributes:
        tasks: The tasks so far.
    """

    def __init__(self, answers: str | Exception | Sequence[str | Exception]) -> None:
        self.tasks = []
        self._always = answers if isinstance(answers, str | Exception) else None
        self._in_turn = [] if isinstance(answers, str | Exception) else list(answers)

    async def infer(self, task):
        self.tasks.append(task)
        answer = self._in_turn.pop(0) if self._always is None else self._always
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        assert error or not self._in_turn
