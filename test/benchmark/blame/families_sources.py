"""Families with sources: tools with long results, a knowledge base, a document of 6,000 words, and an earlier expert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cases import Calls, Family, Fault, Lookup, Op, Passages, Random

from operad import Job, WorkflowMessage, WorkflowStatus

# ----------------------------------------------------------------------------------------------------- suppliers

_FIRMS: Sequence[str] = ("Arendt", "Brix", "Colding", "Dahlem", "Esch", "Fabri")
_WARES = (
    "ceiling lamp, white",
    "desk lamp, black",
    "floor lamp, brass",
    "wall lamp, round",
    "garden lamp, steel",
    "night light, blue",
    "spot, swivelling",
    "lamp shade, linen",
    "dimmer, two channels",
    "bulb E27, warm white",
)


def _suppliers(rng: Random, fault: str) -> Mapping[str, Any]:
    firms = sorted(rng.sample(_FIRMS, 4))
    ware = rng.choice(_WARES[6:])
    pieces = rng.choice([12, 20, 24, 36])
    cents = dict(zip(firms, rng.sample(range(1310, 3990, 70), 4), strict=True))
    by_price = sorted(firms, key=lambda firm: cents[firm])
    cheapest, second, dearest = by_price[0], by_price[1], by_price[-1]
    days = {firm: rng.randrange(2, 9) for firm in firms}
    lists: dict[str, str] = {}
    for firm in firms:
        others = [
            f"{each}: {rng.randrange(900, 9000) / 100:.2f} € ({rng.randrange(3, 90)} in stock)" for each in _WARES
        ]
        others[_WARES.index(ware)] = f"{ware}: {cents[firm] / 100:.2f} € ({pieces + 15} in stock)"
        lists[firm] = f"Price list of {firm}. " + "; ".join(others) + f". Delivery within {days[firm]} days."
    misquoted, false = (dearest, cents[dearest] + 170) if fault == "vanished" else (second, cents[cheapest] - 200)

    def answers(active: frozenset[str]) -> dict[str, str | Calls]:
        quoted = dict(cents)
        wait = dict(days)
        if "offers" in active and fault == "delivery":
            wait[cheapest] += 9
        elif "offers" in active:
            quoted[misquoted] = false
        chosen = min(firms, key=lambda firm: quoted[firm])
        if "choose" in active:
            chosen = by_price[2]
        total = quoted[chosen] * pieces
        told = total + 5000 if "order" in active else total
        text = "\n".join(f"{firm}: {quoted[firm] / 100:.2f} €, {wait[firm]} days" for firm in firms)
        return {
            "offers": Calls([("price_list", {"key": firm}) for firm in firms], text),
            "choose": f"{chosen} has the lowest price: {quoted[chosen] / 100:.2f} €, delivery within {wait[chosen]} days.",
            "order": f"Order to {chosen}: {pieces} × {ware} at {quoted[chosen] / 100:.2f} € each, {told / 100:.2f} € in all, "
            f"delivery within {wait[chosen]} days.",
        }

    def in_list(firm: str) -> str:
        return f"{ware}: {cents[firm] / 100:.2f} €"

    quote = Fault("offers", f"{misquoted}: {false / 100:.2f} €", in_list(misquoted))
    order = Fault("order", f"{(cents[cheapest] * pieces + 5000) / 100:.2f} €", f"{cents[cheapest] / 100:.2f} €")
    faults = {
        "quote_low": [quote],
        "delivery": [
            Fault(
                "offers", f"{cents[cheapest] / 100:.2f} €, {days[cheapest] + 9} days", f"within {days[cheapest]} days"
            )
        ],
        "choose": [
            Fault("choose", f"{by_price[2]} has the lowest price", f"{cheapest}: {cents[cheapest] / 100:.2f} €")
        ],
        "order": [order],
        "vanished": [quote],
    }
    return {
        "job": Job(
            goal=f"Order {pieces} pieces of '{ware}' from the supplier with the lowest price.",
            context=f"Suppliers: {', '.join(firms)}. Each has a price list, which the tool shows.",
        ),
        "criteria": "The supplier with the lowest price of the ware is chosen; price and time of delivery are those of its price "
        "list; the sum is right.",
        "ops": {
            "offers": Op(
                "Look the price of the ware and the time of delivery up for each supplier, and list them.",
                tools=(Lookup("price_list", "Return the price list of a supplier, by its name.", lists),),
            ),
            "choose": Op("Choose the supplier with the lowest price."),
            "order": Op("Write the order."),
        },
        "wire": lambda o: [o["offers"] >> o["choose"] >> o["order"], o["offers"] >> o["order"]],
        "answers": answers,
        "last": "order",
        "faults": faults.get(fault, []),
    }


SUPPLIERS = Family(
    "suppliers",
    "chain with a tool, results of 600 characters; 3 operators",
    {
        "none": "none",
        "quote_low": "unsupported",
        "delivery": "unsupported",
        "choose": "middle",
        "order": "last",
        "vanished": "vanished",
    },
    _suppliers,
)

# ----------------------------------------------------------------------------------------------------- handbook

_PARTS = {
    "heat pump": ("filter", "brine", "litres"),
    "coffee roaster": ("cyclone", "bearing grease", "grams"),
    "loom": ("warp guide", "spindle oil", "millilitres"),
    "planing machine": ("dust bag", "gear oil", "millilitres"),
}


def _handbook(rng: Random, fault: str) -> Mapping[str, Any]:
    machine = rng.choice(sorted(_PARTS))
    part, fluid, unit = _PARTS[machine]
    model = f"{rng.choice('KLMT')}{rng.randrange(20, 90)}"
    hours, amount, years = rng.randrange(3, 9) * 100, rng.randrange(11, 48) * 5, rng.choice([3, 4, 6])
    wrong_hours, wrong_amount = hours + 250, amount * 2
    passages = {
        f"handbook.md:{rng.randrange(20, 60)} Care": f"Clean the {part} of the {machine} {model} after every {hours} hours of "
        f"operation, and replace it after {years} years. A {part} that is not cleaned lowers the output by up to a tenth. Let "
        "the machine cool down before it is opened, and wear gloves, because the edges of the housing are sharp.",
        f"handbook.md:{rng.randrange(61, 99)} Fluids": f"The {machine} {model} takes {amount} {unit} of {fluid}. Use only "
        f"{fluid} of the class that the plate on the back names; mixtures damage the seals. Old {fluid} is hazardous waste.",
        f"terms.md:{rng.randrange(3, 19)} Warranty": f"The warranty of {machine}s is {years - 1} years from delivery. It ends "
        "if seals were opened by anybody but the service, or if the care according to the handbook cannot be shown.",
    }
    claims = (
        "The replacement is free of charge within the warranty.",
        f"The service cleans the {part} free of charge once a year.",
        f"A new {part} is in stock and can be sent today.",
    )
    claim = rng.choice(claims)

    def answers(active: frozenset[str]) -> dict[str, str]:
        interval = wrong_hours if "look" in active else hours
        filled = amount
        look = (
            f"Clean the {part} every {interval} hours (handbook.md, Care). Fill in {filled} {unit} of {fluid} (handbook.md, "
            f"Fluids). Replace the {part} after {years} years. Warranty: {years - 1} years (terms.md)."
        )
        used = hours if fault == "vanished" else interval
        poured = wrong_amount if "advise" in active else filled
        advice = (
            f"1. Clean the {part} every {used} hours; let the machine cool down first.\n2. Fill in {poured} {unit} of {fluid}.\n"
            f"3. Replace the {part} after {years} years."
        )
        if fault == "vanished":
            advice += "\n(The interval is that of the passage.)"
        extra = f" {claim}" if "mail" in active else ""
        praise = "please" if fault == "unnamed" else f"the {machine} {model} was a good choice. Please"
        mail = (
            f"Dear customer, {praise} clean the {part} of your {machine} {model} every {used} hours, after it has cooled "
            f"down, and fill in {poured} {unit} of {fluid}. The {part} is to be replaced after {years} years, and the warranty "
            f"is {years - 1} years.{extra}"
        )
        return {"look": look, "advise": advice, "mail": mail}

    look_fault = Fault("look", f"every {wrong_hours} hours", f"after every {hours} hours")
    advise_fault = Fault("advise", f"{wrong_amount} {unit}", f"takes {amount} {unit}")
    mail_fault = Fault("mail", claim, f"The warranty of {machine}s is {years - 1} years")
    faults = {
        "look": [look_fault],
        "vanished": [look_fault],
        "advise": [advise_fault],
        "mail": [mail_fault],
        "two": [look_fault, mail_fault],
    }
    return {
        "job": Job(goal=f"A customer asks how the {machine} {model} is cared for, and for how long it has a warranty."),
        "criteria": "Every statement on care, amounts, times, warranty and service in the mail is in the passages or follows "
        "from them.",
        "ops": {
            "look": Op("Answer from the passages, with their sources.", passages=Passages(passages)),
            "advise": Op("Make a list of steps for the customer.", passages=Passages(passages)),
            "mail": Op("Write the mail to the customer. Begin with a compliment on the choice of the machine."),
        },
        "wire": lambda o: [o["look"] >> o["advise"] >> o["mail"], o["look"] >> o["mail"]],
        "answers": answers,
        "last": "mail",
        "faults": faults.get(fault, []),
    }


HANDBOOK = Family(
    "handbook",
    "chain with a knowledge base; 3 operators",
    {
        "none": "none",
        "look": "unsupported",
        "advise": "middle",
        "mail": "unsupported",
        "vanished": "vanished",
        "two": "two",
        "unnamed": "unnamed",
    },
    _handbook,
)

# ----------------------------------------------------------------------------------------------------- log

_WEATHER = ("clear", "cloudy", "misty", "showery", "overcast")
_DONE = (
    "The mirror was covered at dawn, and the dome was turned to the lee side",
    "The guide star was lost for a moment and found again by hand",
    "The plates were numbered, dried and put into the third cabinet",
    "The clock was compared with the signal and needed no correction",
    "Moths at the lamp disturbed the reading, so that the lamp was shaded",
    "The assistant swept the stairs and oiled the hinge of the shutter",
    "A series of short exposures was taken of the same field, with the blue filter",
)


def _log(rng: Random, fault: str) -> Mapping[str, Any]:
    nights = 124
    winds = [rng.randrange(2, 38) for _ in range(nights)]
    visitors = [0] * nights
    broken: dict[int, str] = {}
    top = rng.randrange(20, nights - 20)
    winds[top] = 51 + rng.randrange(9)
    for night in rng.sample(range(nights), 9):
        visitors[night] = rng.randrange(3, 24)
    things = ["hygrometer", "spare lamp", "telegraph key", "plate holder"]
    for thing, night in zip(things, sorted(rng.sample(range(5, nights), 4)), strict=True):
        broken[night] = thing
    parts: list[str] = []
    for night in range(nights):
        visit = f" {visitors[night]} visitors came with a guide." if visitors[night] else ""
        defect = f" The {broken[night]} broke and was taken to the workshop." if night in broken else ""
        done = " ".join(f"{each}." for each in rng.sample(_DONE, 3))
        parts.append(
            f"Night {night + 1}: {rng.choice(_WEATHER)}, wind up to {winds[night]} km/h. {done}{visit}{defect}"
        )
    total = sum(visitors)
    missed = rng.choice(sorted(broken))
    second = sorted(range(nights), key=lambda night: winds[night])[-2]

    def answers(active: frozenset[str]) -> dict[str, str]:
        stormy = second if "wind" in active else top
        counted = total + 12 if "guests" in active else total
        defects = [f"{broken[night]} (night {night + 1})" for night in sorted(broken)]
        if "defects" in active:
            defects = [each for each in defects if not each.startswith(broken[missed])]
        told = winds[stormy] + 10 if "report" in active else winds[stormy]
        return {
            "wind": f"Strongest wind: {winds[stormy]} km/h in night {stormy + 1}.",
            "guests": "Visitors by night: "
            + ", ".join(f"{number + 1}: {count}" for number, count in enumerate(visitors) if count)
            + f". In all: {counted}.",
            "defects": f"Broken: {', '.join(defects)}.",
            "report": f"Report on {nights} nights\nThe strongest wind was {told} km/h, in night {stormy + 1}. {counted} visitors "
            f"came. Broken were: {', '.join(defects)}.",
        }

    wind = Fault("wind", f"{winds[second]} km/h in night {second + 1}", f"wind up to {winds[top]} km/h")
    defects = Fault("defects", "Broken:", f"The {broken[missed]} broke")
    faults = {
        "wind": [wind],
        "guests": [Fault("guests", f"In all: {total + 12}", f"{max(visitors)} visitors came")],
        "defects": [defects],
        "report": [Fault("report", f"was {winds[top] + 10} km/h", f"Strongest wind: {winds[top]} km/h")],
        "two": [wind, defects],
    }
    return {
        "job": Job(goal="Report on the nights of the observatory: wind, visitors, defects.", context="\n".join(parts)),
        "criteria": "The strongest wind and its night are right, the number of visitors is the sum of all nights, and everything "
        "that broke is named with its night.",
        "ops": {
            "wind": Op("Find the strongest wind, and its night."),
            "guests": Op("Count the visitors of each night, and of all nights."),
            "defects": Op("List everything that broke, with the night."),
            "report": Op("Write the report in three sentences."),
        },
        "wire": lambda o: [o["wind"], o["guests"], o["defects"]] >> o["report"],
        "answers": answers,
        "last": "report",
        "faults": faults.get(fault, []),
    }


LOG = Family(
    "log",
    "fan of 3 and a join, input of 6,000 words; 4 operators",
    {"none": "none", "wind": "passed", "guests": "middle", "defects": "middle", "report": "last", "two": "two"},
    _log,
)

# ----------------------------------------------------------------------------------------------------- expert

_ROOMS = ("kitchen", "hall", "study", "bedroom", "workshop")


def _expert(rng: Random, fault: str) -> Mapping[str, Any]:
    rooms = rng.sample(_ROOMS, 4)
    size = {room: (rng.randrange(21, 65) * 10, rng.randrange(21, 65) * 10) for room in rooms}
    pack, cents = rng.choice([(2, 2980), (3, 4150), (4, 5690)])
    hit, other = rng.sample(rooms, 2)
    surveyed = dict(size)
    if fault == "earlier":
        surveyed[hit] = (size[hit][0] + 200, size[hit][1])
    if fault == "lacks":
        del surveyed[hit]

    def area(room: str, sizes: Mapping[str, tuple[int, int]]) -> float:
        return round(sizes[room][0] * sizes[room][1] / 10_000, 2)

    def answers(active: frozenset[str]) -> dict[str, str]:
        areas = {room: area(room, surveyed) for room in surveyed}
        if "areas" in active:
            areas[other] = round(areas[other] + 2.5, 2)
        total = round(sum(areas.values()), 2)
        packs = -(-round(total * 100) // (pack * 100))
        packs = packs + 3 if "packs" in active else packs
        cost = packs * cents
        told = cost + 10_000 if "offer" in active else cost
        return {
            "areas": "\n".join(f"{room}: {found:.2f} m²" for room, found in areas.items())
            + f"\nIn all: {total:.2f} m²",
            "packs": f"{total:.2f} m² need {packs} packs of {pack} m².",
            "offer": f"Floor boards for {', '.join(areas)}: {total:.2f} m², {packs} packs at {cents / 100:.2f} €, "
            f"{told / 100:.2f} € in all.",
        }

    total = round(sum(area(room, size) for room in rooms), 2)
    packs = -(-round(total * 100) // (pack * 100))
    width, length = size[hit]
    right_size = f"{hit} {width / 100:.1f} m × {length / 100:.1f} m"
    faults = {
        "earlier": [Fault("survey", f"{hit}: {(width + 200) / 100:.1f} m × {length / 100:.1f} m", right_size)],
        "lacks": [Fault("survey", "Survey of the flat", right_size)],
        "areas": [
            Fault(
                "areas",
                f"{other}: {area(other, size) + 2.5:.2f} m²",
                f"{other}: {size[other][0] / 100:.1f} m × {size[other][1] / 100:.1f} m",
            )
        ],
        "packs": [Fault("packs", f"{packs + 3} packs", f"In all: {total:.2f} m²")],
        "offer": [Fault("offer", f"{(packs * cents + 10_000) / 100:.2f} €", f"{cents / 100:.2f} €")],
    }
    plan = ", ".join(f"{room} {size[room][0] / 100:.1f} m × {size[room][1] / 100:.1f} m" for room in rooms)
    survey = "Survey of the flat\n" + "\n".join(
        f"{room}: {across / 100:.1f} m × {along / 100:.1f} m" for room, (across, along) in surveyed.items()
    )
    return {
        "job": Job(
            goal="Offer floor boards for the whole flat, from the surveyor's sizes.",
            context=f"The architect's plan, for comparison: {plan}. Boards are sold in packs of {pack} m² for "
            f"{cents / 100:.2f} €; as few packs as possible.",
        ),
        "criteria": "All rooms of the plan are in the offer; the area is that of the rooms by the plan; packs and price are right.",
        "ops": {
            "areas": Op("Work out the area of each room from the survey, and the sum."),
            "packs": Op("Work out how many packs are needed."),
            "offer": Op("Write the offer: rooms, area, packs, price."),
        },
        "wire": lambda o: [o["areas"] >> o["packs"] >> o["offer"], o["areas"] >> o["offer"]],
        "answers": answers,
        "last": "offer",
        "faults": faults.get(fault, []),
        "previous": (WorkflowMessage(scratchpad=survey, operator_id="survey"),),
        **({"status": WorkflowStatus.INPUT_DATA_ERROR} if fault in ("earlier", "lacks") else {}),
    }


EXPERT = Family(
    "expert",
    "expert of a team, with the result of an earlier expert; 3 operators",
    {"none": "none", "earlier": "earlier", "lacks": "earlier", "areas": "passed", "packs": "middle", "offer": "last"},
    _expert,
)
