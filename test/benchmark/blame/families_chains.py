"""Families whose workflows are chains: a recipe, a roster, insurance claims with typed answers, and a tender."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from cases import Family, Fault, Op, Random

from operad import Job, WorkflowStatus

# ----------------------------------------------------------------------------------------------------- recipe

_DISHES: Mapping[str, Mapping[str, tuple[int, int, int]]] = {
    "Lentil soup": {
        "lentils": (320, 500, 189),
        "carrots": (240, 1000, 129),
        "leek": (180, 400, 169),
        "stock": (1200, 1000, 249),
        "cumin": (6, 40, 199),
    },
    "Potato gratin": {
        "potatoes": (900, 2000, 279),
        "cream": (420, 200, 95),
        "cheese": (160, 250, 349),
        "butter": (30, 250, 239),
        "nutmeg": (2, 20, 259),
    },
    "Vegetable curry": {
        "rice": (300, 1000, 219),
        "coconut milk": (380, 400, 159),
        "peas": (200, 450, 175),
        "peppers": (340, 500, 289),
        "curry paste": (44, 110, 229),
    },
}
"""Grams for four persons, grams in a pack, and cents of a pack, of each ingredient."""


def _recipe(rng: Random, fault: str) -> Mapping[str, Any]:
    dish = rng.choice(sorted(_DISHES))
    data = _DISHES[dish]
    people = rng.choice([10, 14, 18, 22, 26])
    names = sorted(data, key=lambda _: rng.random())
    right = {name: data[name][0] * people // 4 for name in names}
    hit = rng.choice(names[1:4])
    slip = {name: right[name] + (data[name][1] if name == hit else 0) for name in names}
    seen = rng.choice([name for name in names if name != hit])

    def packs(amounts: Mapping[str, int]) -> dict[str, int]:
        return {name: ceil(amounts[name] / data[name][1]) for name in names}

    few = packs(right)
    few[hit] += 1
    costs = {name: packs(right)[name] * data[name][2] for name in names}
    dear = costs[hit] + 110

    def answers(active: frozenset[str]) -> dict[str, str]:
        amounts = slip if "scale" in active else right
        bought = few if "shop" in active else packs(right if fault == "vanished" else amounts)
        paid = {name: bought[name] * data[name][2] for name in names}
        if "price" in active:
            paid[hit] = dear
        used = right if fault == "vanished" else amounts
        shown = {**used, seen: used[seen] * 10} if "card" in active else used
        order = sorted(names, reverse=True) if fault == "unnamed" else sorted(names)
        reread = " (amounts taken from the recipe again)" if fault == "vanished" else ""
        return {
            "scale": "\n".join(f"{name}: {data[name][0]} g / 4 × {people} = {amounts[name]} g" for name in names),
            "shop": "\n".join(f"{name}: {used[name]} g, {bought[name]} × {data[name][1]} g" for name in order) + reread,
            "price": "\n".join(f"{name}: {bought[name]} packs, {paid[name] / 100:.2f} €" for name in names)
            + f"\nTotal: {sum(paid.values()) / 100:.2f} €",
            "card": f"{dish} for {people}\n"
            + "\n".join(f"- {name}: {shown[name]} g; buy {bought[name]} packs" for name in names)
            + f"\nCost of all packs: {sum(paid.values()) / 100:.2f} €",
        }

    scale = Fault("scale", f"= {slip[hit]} g", f"{data[hit][0]} g")
    card = Fault("card", f"{right[seen] * 10} g", f"{right[seen]} g")
    faults = {
        "scale": [scale],
        "vanished": [scale],
        "shop": [Fault("shop", f"{few[hit]} × {data[hit][1]} g", f"{right[hit]} g")],
        "price": [Fault("price", f"{dear / 100:.2f} €", f"{data[hit][2] / 100:.2f} €")],
        "card": [card],
        "two": [scale, card],
    }
    lines = [
        f"{name}: {grams} g; sold in packs of {pack} g for {cents / 100:.2f} €"
        for name, (grams, pack, cents) in data.items()
    ]
    return {
        "job": Job(
            goal=f"Prepare the kitchen's card for {dish.lower()} for {people} persons.",
            context=f"Recipe for 4 persons. Whole packs are bought, and as few as possible.\n{chr(10).join(lines)}",
        ),
        "criteria": "Each amount is that of the recipe for the number of persons; the packs suffice, and none is too many; "
        "the cost is that of all packs.",
        "ops": {
            "scale": Op("Scale each ingredient to the number of persons; show the calculation."),
            "shop": Op("Work out how many packs of each ingredient to buy. Sort the list by name."),
            "price": Op("Work out what the packs of each ingredient cost, and the total."),
            "card": Op("Write the card: amount and packs of each ingredient, and the total cost."),
        },
        "wire": lambda o: [o["scale"] >> o["shop"] >> o["price"] >> o["card"], o["scale"] >> o["card"]],
        "answers": answers,
        "last": "card",
        "faults": faults.get(fault, []),
    }


RECIPE = Family(
    "recipe",
    "chain of 4",
    {
        "none": "none",
        "scale": "passed",
        "shop": "middle",
        "price": "middle",
        "card": "last",
        "vanished": "vanished",
        "two": "two",
        "unnamed": "unnamed",
    },
    _recipe,
)

# ----------------------------------------------------------------------------------------------------- roster

_DAYS: Sequence[str] = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
_NAMES: Sequence[str] = ("Ayla", "Bruno", "Cleo", "Dario", "Elif", "Finn", "Greta", "Hugo")
_ALL_RIGHT = "Every day has one person, everybody is free on their day, and each person works once. The plan is right."


def _roster(rng: Random, fault: str) -> Mapping[str, Any]:
    people = rng.sample(_NAMES, 5)
    plan = dict(zip(_DAYS, people, strict=True))
    free = {
        person: sorted({day, *rng.sample([each for each in _DAYS if each != day], 2)}, key=_DAYS.index)
        for day, person in plan.items()
    }
    first, second = next(
        (a, b)
        for a in rng.sample(_DAYS, 5)
        for b in _DAYS
        if a != b and (b not in free[plan[a]] or a not in free[plan[b]])
    )
    swapped = {**plan, first: plan[second], second: plan[first]}
    misplaced = first if first not in free[plan[second]] else second
    who = swapped[misplaced]
    misread = rng.choice(_DAYS)
    alarmed = {**plan, misread: rng.choice([name for name in _NAMES if name not in people])}
    wrong_line = f"{misplaced}: {who}"
    last_day = rng.choice(_DAYS)
    hour = rng.choice(["07:30", "08:15", "09:45"])

    def answers(active: frozenset[str]) -> dict[str, str]:
        planned = swapped if "plan" in active else plan
        checked = planned
        if "plan" in active and "check" not in active:
            check = f"{who} is not free on {misplaced}. Corrected plan:\n{_lines(plan)}"
            checked = plan
        elif "check" in active and fault == "alarm":
            check = f"{plan[misread]} is not free on {misread}. Corrected plan:\n{_lines(alarmed)}"
            checked = alarmed
        else:
            check = _ALL_RIGHT
        told = (
            {**checked, last_day: people[(people.index(checked[last_day]) + 1) % 5]} if "notice" in active else checked
        )
        return {
            "plan": _lines(planned),
            "check": check,
            "notice": f"Opening the library, next week, {hour} each day:\n{_lines(told)}",
        }

    plan_fault = Fault("plan", wrong_line, f"{who}: {', '.join(free[who])}")
    faults = {
        "unseen": [plan_fault, Fault("check", _ALL_RIGHT, f"{who}: {', '.join(free[who])}")],
        "alarm": [
            Fault(
                "check",
                f"{plan[misread]} is not free on {misread}",
                f"{plan[misread]}: {', '.join(free[plan[misread]])}",
            )
        ],
        "vanished": [plan_fault],
        "notice": [
            Fault(
                "notice",
                f"{last_day}: {people[(people.index(plan[last_day]) + 1) % 5]}",
                f"{last_day}: {plan[last_day]}",
            )
        ],
    }
    return {
        "job": Job(
            goal="Write the notice that says who opens the library on each day of next week.",
            context=f"The library opens at {hour}. Days on which each person is free:\n"
            + "\n".join(f"{person}: {', '.join(days)}" for person, days in sorted(free.items())),
        ),
        "criteria": "Each day from Monday to Friday has exactly one person, who is free on that day; each of the five persons "
        "comes once; the time of opening is right.",
        "ops": {
            "plan": Op("Assign one person to each day, so that everybody is free on their day and comes once."),
            "check": Op(
                "Compare the plan with the days on which each person is free. Say that it is right, or correct it."
            ),
            "notice": Op("Write the notice from the checked plan."),
        },
        "wire": lambda o: [o["plan"] >> o["check"] >> o["notice"], o["plan"] >> o["notice"]],
        "answers": answers,
        "last": "notice",
        "faults": faults.get(fault, []),
    }


def _lines(plan: Mapping[str, str]) -> str:
    return "\n".join(f"{day}: {person}" for day, person in plan.items())


ROSTER = Family(
    "roster",
    "chain of 3 with a checker",
    {"none": "none", "unseen": "checker", "alarm": "middle", "vanished": "vanished", "notice": "last"},
    _roster,
)

# ----------------------------------------------------------------------------------------------------- claims

_DAMAGES = {
    "bicycle": (640, 50),
    "laptop": (1180, 100),
    "window": (410, 0),
    "phone": (720, 100),
    "coat": (260, 50),
    "camera": (990, 100),
}
"""Value and deductible in euros."""


def _claims(rng: Random, fault: str) -> Mapping[str, Any]:
    things = rng.sample(sorted(_DAMAGES), 4)
    age = {thing: rng.choice([1, 2, 3, 4]) for thing in things}
    number = f"C-{rng.randrange(2000, 9000)}"
    hit, other = rng.sample(things, 2)

    def pays(thing: str, years: int, value: int, deductible: int) -> int:
        return max(0, value * (100 - 10 * years) // 100 - deductible)

    def answers(active: frozenset[str]) -> dict[str, str]:
        years = {**age, hit: age[hit] + 2} if "extract" in active else age
        values = {thing: _DAMAGES[thing][0] for thing in things}
        kept = {thing: _DAMAGES[thing][1] for thing in things}
        if "terms" in active:
            kept = {**kept, hit: kept[hit] + 100}
        settled = {thing: pays(thing, years[thing], values[thing], kept[thing]) for thing in things}
        if "settle" in active:
            settled[other] += 90
        total = sum(settled.values())
        told = total + 100 if "letter" in active else total
        extracted = [{"thing": thing, "value": values[thing], "years": years[thing]} for thing in things]
        terms = [{"thing": thing, "deductible": kept[thing]} for thing in things]
        payments = [{"thing": thing, "pays": settled[thing]} for thing in things]
        promise = " The money arrives tomorrow." if fault == "promise" and "letter" in active else ""
        return {
            "extract": json.dumps({"items": extracted}),
            "terms": json.dumps({"items": terms}),
            "settle": json.dumps({"items": payments, "total": total}),
            "letter": f"Claim {number}\n"
            + "\n".join(f"- {thing}: {settled[thing]} €" for thing in things)
            + f"\nWe pay {total if promise else told} € in all.{promise}",
        }

    right = answers(frozenset())
    before = json.loads(right["settle"])
    faults = {
        "extract": [Fault("extract", f'"years": {age[hit] + 2}', f"{age[hit]} years old")],
        "terms": [Fault("terms", f'"deductible": {_DAMAGES[hit][1] + 100}', f"{hit}: deductible {_DAMAGES[hit][1]} €")],
        "settle": [
            Fault(
                "settle",
                str(next(each["pays"] for each in before["items"] if each["thing"] == other) + 90),
                str(_DAMAGES[other][0]),
            )
        ],
        "letter": [Fault("letter", f"{before['total'] + 100} €", str(before["total"]))],
        "promise": [Fault("letter", "The money arrives tomorrow.", f"Claim {number}")],
        "two": [
            Fault("extract", f'"years": {age[hit] + 2}', f"{age[hit]} years old"),
            Fault("terms", f'"deductible": {_DAMAGES[hit][1] + 100}', f"{hit}: deductible {_DAMAGES[hit][1]} €"),
        ],
    }
    report = "; ".join(f"{thing}, bought for {_DAMAGES[thing][0]} €, {age[thing]} years old" for thing in things)
    terms_text = "\n".join(f"{thing}: deductible {kept} €" for thing, (_, kept) in _DAMAGES.items())
    return {
        "job": Job(
            goal=f"Settle claim {number}.",
            context=f"Stolen or destroyed: {report}.\n\nTerms: of the price, 10 % is subtracted per year of age, then the "
            f"deductible.\n{terms_text}",
        ),
        "criteria": "The letter names the claim, and for each thing the payment under the terms; the total is their sum; it "
        "says nothing that claim and terms do not say.",
        "ops": {
            "extract": Op(
                "Extract the things with price and age.",
                output="{items: [{thing: string, value: integer, years: integer}]}",
            ),
            "terms": Op("Find the deductible of each thing.", output="{items: [{thing: string, deductible: integer}]}"),
            "settle": Op(
                "Work out the payment for each thing, and the total.",
                output="{items: [{thing: string, pays: integer}], total: integer}",
            ),
            "letter": Op("Write the letter to the customer: the number of the claim, each payment, the total."),
        },
        "wire": lambda o: [[o["extract"], o["terms"]] >> o["settle"] >> o["letter"]],
        "answers": answers,
        "last": "letter",
        "faults": faults.get(fault, []),
    }


CLAIMS = Family(
    "claims",
    "two heads and a join, typed answers; 4 operators",
    {
        "none": "none",
        "extract": "passed",
        "terms": "middle",
        "settle": "middle",
        "letter": "last",
        "promise": "unsupported",
        "two": "two",
    },
    _claims,
)

# ----------------------------------------------------------------------------------------------------- tender

_WORKS = ("a footbridge", "a playground", "a bus shelter", "a bicycle stand")


def _tender(rng: Random, fault: str) -> Mapping[str, Any]:
    work = rng.choice(_WORKS)
    start = rng.randrange(2, 6)
    length = rng.choice([3, 4, 5])
    budget = rng.choice([48_000, 62_000, 75_000, 90_000])
    months = "January February March April May June July August September October November December".split()
    end, late = months[start + length - 1], months[start + length]
    other_end = months[start + length + 1]
    lowest = budget + rng.choice([6_000, 9_000, 14_000])
    contradicts = fault in ("dates", "budget")
    stated_budget = budget

    def answers(active: frozenset[str]) -> dict[str, str]:
        frame_end = late if "frame" in active else end
        tasks_length = length + 1 if "tasks" in active else length
        told_budget = stated_budget - 10_000 if "call" in active else stated_budget
        return {
            "frame": f"Object: {work}. Start: beginning of {months[start]}. Completion: end of {frame_end}. Limit: {stated_budget:,} €.",
            "tasks": f"1. Survey and foundations\n2. Construction\n3. Inspection\nDuration: {tasks_length} months.",
            "call": f"Call for tenders: {work}\nWork starts at the beginning of {months[start]}, takes {tasks_length} months "
            f"and is completed at the end of {frame_end}.\nOffers may cost up to {told_budget:,} €.\nTasks: survey and foundations; "
            "construction; inspection.",
        }

    extra = ""
    if fault == "dates":
        extra = f"\nThe council decided that the work must not be completed before the end of {other_end}."
    if fault == "budget":
        extra = f"\nBy law, an offer for such a work must cost at least {lowest:,} €."
    faults = {
        "dates": [Fault("", f"completed at the end of {end}", f"must not be completed before the end of {other_end}")],
        "budget": [Fault("", f"up to {budget:,} €", f"at least {lowest:,} €")],
        "frame": [Fault("frame", f"Completion: end of {late}", f"completed at the end of {end}")],
        "tasks": [Fault("tasks", f"Duration: {length + 1} months", f"takes {length} months")],
        "call": [Fault("call", f"up to {budget - 10_000:,} €", f"{budget:,} €")],
    }
    return {
        "job": Job(
            goal=f"Write the call for tenders for {work}.",
            context=f"Work starts at the beginning of {months[start]}, takes {length} months and is completed at the end of "
            f"{end}. Offers may cost up to {budget:,} €. Tasks: survey and foundations; construction; inspection.{extra}",
        ),
        "criteria": "Dates, duration, tasks and limit are those of the job, and the call keeps all conditions of the job.",
        "ops": {
            "frame": Op("State object, start, completion and limit of the cost."),
            "tasks": Op("List the tasks, and the duration."),
            "call": Op("Write the call for tenders."),
        },
        "wire": lambda o: [o["frame"], o["tasks"]] >> o["call"],
        "answers": answers,
        "last": "call",
        "faults": faults.get(fault, []),
        **({"status": WorkflowStatus.INPUT_DATA_ERROR} if contradicts else {}),
    }


TENDER = Family(
    "tender",
    "two heads and a join; 3 operators",
    {
        "none": "none",
        "dates": "contradiction",
        "budget": "contradiction",
        "frame": "middle",
        "tasks": "middle",
        "call": "last",
    },
    _tender,
)
