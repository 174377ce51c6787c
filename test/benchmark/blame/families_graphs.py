"""Families with fans, routers and many operators: a stocktaking, a freight desk, six plants, and a long log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cases import Family, Fault, Op, Random

from operad import Job

# ----------------------------------------------------------------------------------------------------- stock

_GOODS = {
    "bolts M6": 12,
    "hinges": 340,
    "door handles": 1290,
    "padlocks": 860,
    "saw blades": 475,
    "wall plugs": 9,
    "work gloves": 615,
    "paint rollers": 399,
}
"""Cents per piece."""


def _stock(rng: Random, fault: str) -> Mapping[str, Any]:
    goods = rng.sample(sorted(_GOODS), 7)
    book = {name: rng.randrange(40, 400) for name in goods}
    change = dict.fromkeys(goods, 0)
    for name in goods[:3]:
        change[name] = -rng.randrange(3, 20)
    for name in goods[3:5]:
        change[name] = rng.randrange(2, 9)
    count = {name: book[name] + change[name] for name in goods}
    hit, over = rng.choice(goods[:3]), rng.choice(goods[3:5])

    def answers(active: frozenset[str]) -> dict[str, str]:
        missing = {name: -change[name] for name in goods if change[name] < 0}
        surplus = {name: change[name] for name in goods if change[name] > 0}
        if "missing" in active:
            missing[hit] += 10
        if "surplus" in active:
            del surplus[over]
        loss = {name: -change[name] * _GOODS[name] for name in goods if change[name] < 0}
        if "value" in active:
            loss[hit] *= 10
        total = sum(loss.values()) / 100
        told = total + 20 if "report" in active else total
        return {
            "missing": "\n".join(f"{name}: {number} missing" for name, number in missing.items()),
            "surplus": "\n".join(f"{name}: {number} too many" for name, number in surplus.items()),
            "value": "\n".join(
                f"{name}: {-change[name]} × {_GOODS[name] / 100:.2f} € = {cents / 100:.2f} €"
                for name, cents in loss.items()
            )
            + f"\nLoss: {total:.2f} €",
            "report": "Stocktaking\nMissing: "
            + "; ".join(f"{name} {number}" for name, number in missing.items())
            + "\nToo many: "
            + ("; ".join(f"{name} {number}" for name, number in surplus.items()) or "none")
            + f"\nThe missing pieces are worth {told:.2f} €.",
        }

    loss = sum(-change[name] * _GOODS[name] for name in goods[:3]) / 100
    missing = Fault(
        "missing", f"{hit}: {-change[hit] + 10} missing", f"{hit}: {book[hit]} in the books, {count[hit]} counted"
    )
    value = Fault("value", f"= {-change[hit] * _GOODS[hit] / 10:.2f} €", f"{_GOODS[hit] / 100:.2f} €")
    faults = {
        "missing": [missing],
        "surplus": [Fault("surplus", "too many", f"{over}: {book[over]} in the books, {count[over]} counted")],
        "value": [value],
        "report": [Fault("report", f"{loss + 20:.2f} €", f"Loss: {loss:.2f} €")],
        "two": [missing, value],
    }
    table = "\n".join(
        f"{name}: {book[name]} in the books, {count[name]} counted, {_GOODS[name] / 100:.2f} € each" for name in goods
    )
    return {
        "job": Job(goal="Report on the stocktaking of the hardware shop.", context=table),
        "criteria": "Every article that is missing or too many is named with the right number of pieces, no other article is, "
        "and the value is that of the missing pieces.",
        "ops": {
            "missing": Op("List the articles of which fewer were counted than are in the books, with the difference."),
            "surplus": Op("List the articles of which more were counted than are in the books, with the difference."),
            "value": Op("Work out the value of the missing pieces of each article, and the sum."),
            "report": Op("Write the report: missing pieces, surplus pieces, value of the missing pieces."),
        },
        "wire": lambda o: [o["missing"], o["surplus"], o["value"]] >> o["report"],
        "answers": answers,
        "last": "report",
        "faults": faults.get(fault, []),
    }


STOCK = Family(
    "stock",
    "fan of 3 and a join; 4 operators",
    {"none": "none", "missing": "middle", "surplus": "middle", "value": "middle", "report": "last", "two": "two"},
    _stock,
)

# ----------------------------------------------------------------------------------------------------- desk

_TARIFF = """Tariff
T1 Letters: at most 1 kg and 35 cm. 2.20 €, abroad 4.90 €.
T2 Parcels: at most 31.5 kg and 120 cm. 6.40 €, plus 0.45 € for each whole kg above 5 kg; abroad twice that.
T3 Freight: all others. 38.00 €, plus 0.90 € per kg; abroad plus 55.00 €.
Every offer names the rule and is valid for 14 days."""

_PLACES = {"Graz": False, "Linz": False, "Salzburg": False, "Malmö": True, "Porto": True, "Cork": True}
"""Places with True if they are abroad."""


def _desk(rng: Random, fault: str) -> Mapping[str, Any]:
    place = rng.choice(sorted(_PLACES))
    abroad = _PLACES[place]
    branch = rng.choice(["parcel", "freight"])
    kilograms = rng.randrange(8, 30) if branch == "parcel" else rng.randrange(34, 80)
    size = rng.randrange(60, 119) if branch == "parcel" or rng.random() < 0.5 else rng.randrange(130, 190)
    wrong_branch = "freight" if branch == "parcel" else "parcel"
    why = f"{kilograms} kg and {size} cm " + (
        "are within the limits of parcels." if branch == "parcel" else "are beyond the limits of parcels."
    )
    false = f"{kilograms} kg and {size} cm " + (
        "are beyond the limits of parcels." if branch == "parcel" else "are within the limits of parcels."
    )

    def price(chosen: str, weight: int) -> int:
        if chosen == "parcel":
            return (640 + 45 * (weight - 5)) * (2 if abroad else 1)
        return 3800 + 90 * weight + (5500 if abroad else 0)

    def formula(chosen: str, weight: int) -> str:
        if chosen == "parcel":
            return f"T2: 6.40 € + {weight - 5} × 0.45 €" + (", twice that abroad" if abroad else "")
        return f"T3: 38.00 € + {weight} × 0.90 €" + (" + 55.00 € abroad" if abroad else "")

    right = price(branch, kilograms)
    slip = right + rng.choice([90, 450, 900])

    def answers(active: frozenset[str]) -> dict[str, str]:
        chosen = wrong_branch if "sort" in active and fault != "reason" else branch
        reason = false if "sort" in active else why
        cents = slip if branch in active else price(chosen, kilograms)
        told = cents + 1000 if "offer" in active else cents
        rule = "T2" if chosen == "parcel" else "T3"
        days = 30 if fault == "days" and "offer" in active else 14
        told = cents if fault == "days" else told
        quotes = {
            each: f"{formula(each, kilograms)} = {(cents if each == chosen else price(each, kilograms)) / 100:.2f} €"
            for each in ("parcel", "freight")
        }
        return {
            "sort": f'{{"reason": "{reason}", "port": "{chosen}"}}',
            "letter": "T1: 2.20 €",
            **quotes,
            "offer": f"Your consignment to {place} ({kilograms} kg) goes as {chosen} under {rule} for {told / 100:.2f} €. This "
            f"offer is valid for {days} days.",
        }

    limits = "at most 31.5 kg and 120 cm"
    faults = {
        "branch": [Fault("sort", false, limits)],
        "quote": [
            Fault(
                branch, f"= {slip / 100:.2f} €", "plus 0.45 € for each" if branch == "parcel" else "plus 0.90 € per kg"
            )
        ],
        "offer": [Fault("offer", f"{right / 100 + 10:.2f} €", f"= {right / 100:.2f} €")],
        "days": [Fault("offer", "valid for 30 days", "valid for 14 days")],
        "reason": [Fault("sort", false, limits)],
        "two": [
            Fault(
                branch, f"= {slip / 100:.2f} €", "plus 0.45 € for each" if branch == "parcel" else "plus 0.90 € per kg"
            ),
            Fault("offer", f"{slip / 100 + 10:.2f} €", f"= {slip / 100:.2f} €"),
        ],
    }
    return {
        "job": Job(
            goal=f"Offer a price for a consignment of {kilograms} kg to {place} ({'abroad' if abroad else 'at home'}); its "
            f"longest side has {size} cm.",
            context=_TARIFF,
        ),
        "criteria": "The consignment goes as the tariff says, for the price under that rule; the offer names the rule and is "
        "valid as long as the tariff says.",
        "ops": {
            "sort": Op(
                "Choose how the consignment goes under the tariff, and give the reason in one sentence.",
                ports=("letter", "parcel", "freight"),
                output="{reason: string}",
            ),
            "letter": Op("Work out the price of a letter under T1."),
            "parcel": Op("Work out the price of a parcel under T2."),
            "freight": Op("Work out the price of freight under T3."),
            "offer": Op("Write the offer to the customer."),
        },
        "wire": lambda o: [o["sort"][way] >> o[way] >> o["offer"] for way in ("letter", "parcel", "freight")],
        "answers": answers,
        "last": "offer",
        "faults": faults.get(fault, []),
    }


DESK = Family(
    "desk",
    "router with 3 branches; 5 operators",
    {
        "none": "none",
        "branch": "router",
        "quote": "middle",
        "offer": "last",
        "days": "last",
        "reason": "vanished",
        "two": "two",
    },
    _desk,
)

# ----------------------------------------------------------------------------------------------------- plants

_PLANTS = ("Aller", "Bode", "Eder", "Fulda", "Ilm", "Naab")
_LIMIT = 180


def _plants(rng: Random, fault: str) -> Mapping[str, Any]:
    power = {plant: rng.randrange(400, 900) for plant in _PLANTS}
    hours = {plant: rng.randrange(120, 300) for plant in _PLANTS}
    grams = {plant: rng.choice([140, 155, 165, 195, 210, 240]) for plant in _PLANTS}
    hit, other, third = rng.sample(_PLANTS, 3)
    digits = [rng.randrange(100, 999) for _ in range(3)]

    def answers(active: frozenset[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        energy: dict[str, int] = {}
        verdict: dict[str, str] = {}
        for plant in _PLANTS:
            low = plant.lower()
            run = hours[plant] + (60 if f"read_{low}" in active else 0)
            shown = run - 20 if fault == "vanished" and f"read_{low}" in active else run
            found[f"read_{low}"] = (
                f"{plant}: {power[plant]} kW, {shown if fault == 'vanished' else run} h, {grams[plant]} g/kWh"
            )
            used = hours[plant] if fault == "vanished" else run
            energy[plant] = power[plant] * used + (5000 if f"energy_{low}" in active else 0)
            note = " (hours taken from the log again)" if fault == "vanished" and f"read_{low}" in active else ""
            found[f"energy_{low}"] = f"{plant}: {power[plant]} kW × {used} h = {energy[plant]:,} kWh{note}"
            is_clean = grams[plant] <= _LIMIT
            verdict[plant] = "clean" if is_clean is not (f"rate_{low}" in active) else "not clean"
            found[f"rate_{low}"] = f"{plant}: {grams[plant]} g/kWh, limit {_LIMIT} g/kWh: {verdict[plant]}"
        total = sum(energy.values()) + (1000 * digits[0] if "total" in active else 0)
        clean = [plant for plant in _PLANTS if verdict[plant] == "clean"]
        told = {**energy, third: energy[third] + 700} if "report" in active else energy
        found["total"] = f"Energy of all six plants: {total:,} kWh. Clean plants: {', '.join(clean) or 'none'}."
        found["report"] = (
            "Month of the six plants\n"
            + "\n".join(f"- {plant}: {told[plant]:,} kWh, {verdict[plant]}" for plant in _PLANTS)
            + f"\nIn all {total:,} kWh; clean: {', '.join(clean) or 'none'}."
        )
        return found

    right = answers(frozenset())
    rate = "clean" if grams[hit] > _LIMIT else "not clean"
    sum_right = sum(power[plant] * hours[plant] for plant in _PLANTS)
    read_fault = Fault(f"read_{hit.lower()}", f"{hours[hit] + 60} h", f"ran for {hours[hit]} hours")
    rate_fault = Fault(f"rate_{hit.lower()}", f"g/kWh: {rate}", f"{grams[hit]} g/kWh")
    energy_fault = Fault(
        f"energy_{other.lower()}",
        f"= {power[other] * hours[other] + 5000:,} kWh",
        f"{power[other]} kW × {hours[other]} h",
    )
    vanished = Fault(f"read_{hit.lower()}", f"{hours[hit] + 40} h", f"ran for {hours[hit]} hours")
    faults = {
        "read": [read_fault],
        "energy": [energy_fault],
        "rate": [rate_fault],
        "total": [
            Fault("total", f"{sum_right + 1000 * digits[0]:,} kWh", right[f"energy_{hit.lower()}"].split("= ")[1])
        ],
        "report": [
            Fault(
                "report", f"{power[third] * hours[third] + 700:,} kWh", right[f"energy_{third.lower()}"].split("= ")[1]
            )
        ],
        "two": [rate_fault, energy_fault],
        "vanished": [vanished],
    }
    log = "\n".join(
        f"Plant {plant}: nominal power {power[plant]} kW; ran for {hours[plant]} hours; emissions {grams[plant]} g/kWh."
        for plant in _PLANTS
    )
    ops: dict[str, Op] = {}
    for plant in _PLANTS:
        ops[f"read_{plant.lower()}"] = Op(f"State power, hours and emissions of plant {plant}.")
        ops[f"energy_{plant.lower()}"] = Op(f"Work out the energy that plant {plant} produced.")
        ops[f"rate_{plant.lower()}"] = Op(f"Compare the emissions of plant {plant} with the limit: clean or not clean.")
    ops["total"] = Op("Add up the energy of all plants, and list the clean ones.")
    ops["report"] = Op("Write the report: energy and rating of each plant, the sum, the clean plants.")

    def wire(o: Mapping[str, Any]) -> Any:
        chains: list[Any] = []
        for plant in _PLANTS:
            read, energy, rate = (o[f"{step}_{plant.lower()}"] for step in ("read", "energy", "rate"))
            chains += [read >> [energy, rate] >> o["total"], energy >> o["report"], rate >> o["report"]]
        return [*chains, o["total"] >> o["report"]]

    return {
        "job": Job(
            goal="Report on the month of our six plants.",
            context=f"A plant is clean if its emissions are at most {_LIMIT} g/kWh.\n{log}",
        ),
        "criteria": "Energy and rating of each plant follow from the log, the sum is right, and exactly the clean plants are "
        "named as clean.",
        "ops": ops,
        "wire": wire,
        "answers": answers,
        "last": "report",
        "faults": faults.get(fault, []),
    }


PLANTS = Family(
    "plants",
    "six branches of 3, two joins; 20 operators",
    {
        "none": "none",
        "read": "passed",
        "energy": "middle",
        "rate": "middle",
        "total": "middle",
        "report": "last",
        "two": "two",
        "vanished": "vanished",
    },
    _plants,
)
