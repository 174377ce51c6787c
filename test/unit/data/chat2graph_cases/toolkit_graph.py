# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportOptionalIterable=false
from app.core.toolkit.action import Action
from app.core.toolkit.toolkit import Toolkit


def run():
    one, two, three = (Action(id=name, name=name, description="", tools=[]) for name in ("sow", "water", "reap"))
    toolkit = Toolkit()
    toolkit.add_action(two, [], [])
    toolkit.add_action(one, [(two, 0.9)], [])
    toolkit.add_action(three, next_actions=[], prev_actions=[(two, 0.4)])
    return [toolkit.vertices(), toolkit.edges(), toolkit.successors("water"), toolkit.get_score("water", "reap")]
