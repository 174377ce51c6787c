# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportOptionalIterable=false
from app.core.toolkit.action import Action
from app.core.toolkit.toolkit import Toolkit


def run():
    one, two, three = (Action(id=name, name=name, description="", tools=[]) for name in ("sow", "water", "reap"))
    toolkit = Toolkit()
    toolkit.add_chain([one, two, three])
    toolkit.set_score("water", "reap", 0.3)
    return [action.name for action in toolkit.recommend([one], threshold=0.5, hops=2).actions]
