"""Families with operators inside others, a map and a nested workflow, and two families in Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cases import Calls, Family, Fault, Lookup, Op, Random

from operad import Job, Map, Workflow

# ----------------------------------------------------------------------------------------------------- meters

_STREETS = ("Birch Lane", "Canal Street", "Mill Road", "Quay Street", "Tower Hill")


def _meters(rng: Random, fault: str) -> Mapping[str, Any]:
    count = 9
    street = rng.choice(_STREETS)
    price, fee = rng.choice([(212, 600), (245, 450), (198, 750)])
    old = [rng.randrange(1000, 4000) for _ in range(count)]
    used = [rng.randrange(25, 160) for _ in range(count)]
    homes = [f"{street} {2 * number + 1}" for number in range(count)]
    readings = [
        f"{home}: meter W-{rng.randrange(1000, 9999)}, {old[number]} m³ in January, {old[number] + used[number]} m³ in December"
        for number, home in enumerate(homes)
    ]
    hit, other = rng.sample(range(1, count - 1), 2)

    def cents(number: int, active: frozenset[str]) -> tuple[int, int]:
        cubic = used[number] + (10 if f"bills[{number}]" in active and number == hit else 0)
        return cubic, cubic * price + fee + (900 if f"bills[{number}]" in active and number == other else 0)

    def answers(active: frozenset[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        bills = [cents(number, active) for number in range(count)]
        for number, (cubic, bill) in enumerate(bills):
            extra = " Please pay soon." if fault == "unnamed" and number == hit else ""
            found[f"bills[{number}]"] = (
                f"{homes[number]}: {cubic} m³ × {price / 100:.2f} € + {fee / 100:.2f} € = {bill / 100:.2f} €.{extra}"
            )
        total = sum(bill for _, bill in bills)
        told = total - 10_000 if "sum" in active else total
        most = max(range(count), key=lambda number: bills[number][0])
        return {
            **found,
            "sum": f"{count} bills, {sum(cubic for cubic, _ in bills)} m³ and {told / 100:.2f} € in all. The most was used at "
            f"{homes[most]}: {bills[most][0]} m³.\n"
            + "\n".join(f"- {homes[number]}: {bill / 100:.2f} €" for number, (_, bill) in enumerate(bills)),
        }

    item = Fault(f"bills[{hit}]", f"{homes[hit]}: {used[hit] + 10} m³", f"{old[hit] + used[hit]} m³ in December")
    priced = Fault(
        f"bills[{other}]",
        f"{(used[other] * price + fee + 900) / 100:.2f} €",
        f"{old[other] + used[other]} m³ in December",
    )
    total = sum(each * price + fee for each in used)
    last = Fault("sum", f"{(total - 10_000) / 100:.2f} €", f"{(used[hit] * price + fee) / 100:.2f} €")
    faults = {"item": [item], "price": [priced], "two": [item, priced], "sum": [last]}
    return {
        "job": Job(
            goal=f"Write the water bills of {street}, and an overview.",
            context=f"A cubic metre costs {price / 100:.2f} €, the meter {fee / 100:.2f} € a year.",
            inputs={"readings": readings},
        ),
        "criteria": "Each bill is for the water used between the two readings at the price of the job, with the fee for the "
        "meter; the overview has all bills, their right sum, and the home that used most.",
        "ops": {
            "bill": Op("Work out the bill, in one line. Write nothing else.", place="bills", items=homes_of(readings)),
            "sum": Op("Write the overview: number of bills, sums, the home that used most, and each bill."),
        },
        "wire": lambda o: Map("bills", o["bill"], over="readings") >> o["sum"],
        "answers": answers,
        "last": "sum",
        "faults": faults.get(fault, []),
    }


def homes_of(readings: list[str]) -> list[str]:
    """Return the beginnings of readings, which identify them."""
    return [each.partition(",")[0] for each in readings]


METERS = Family(
    "meters",
    "map over 9 items and a join; 2 operators",
    {"none": "none", "item": "item", "price": "item", "two": "two", "sum": "last", "unnamed": "unnamed"},
    _meters,
)

# ----------------------------------------------------------------------------------------------------- newsletter

_EVENTS = (
    ("Plant swap", "bring seedlings in pots", "free"),
    ("Choir rehearsal", "new voices are welcome", "free"),
    ("Repair café", "bring one broken thing", "donation"),
    ("Film night", "a comedy of 1937", "4 €"),
    ("Bread course", "bring an apron", "18 €"),
    ("Chess evening", "boards are there", "2 €"),
)
_WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


def _newsletter(rng: Random, fault: str) -> Mapping[str, Any]:
    events = rng.sample(_EVENTS, 4)
    when = {name: (day, rng.randrange(14, 20)) for (name, _, _), day in zip(events, rng.sample(_WEEK, 4), strict=True)}
    price = {name: cost for name, _, cost in events}
    note = {name: text for name, text, _ in events}
    names = sorted(when, key=lambda name: _WEEK.index(when[name][0]))
    hit, other, third = rng.sample(names, 3)
    free_day = next(day for day in _WEEK if day not in [day for day, _ in when.values()])

    def line(name: str, times: Mapping[str, tuple[str, int]], costs: Mapping[str, str]) -> str:
        return f"{name}: {times[name][0]}, {times[name][1]}:00, {note[name]}, {costs[name]}"

    def answers(active: frozenset[str]) -> dict[str, str]:
        times, costs = dict(when), dict(price)
        if "collect" in active:
            times[hit] = (free_day, when[hit][1])
        collected = "\n".join(line(name, times, costs) for name in names)
        order = sorted(names, key=lambda name: _WEEK.index(times[name][0]))
        if "draft/outline" in active:
            order = [name for name in order if name != other]
        outline = "\n".join(f"{number}. {times[name][0]}: {name}" for number, name in enumerate(order, 1))
        if "draft/body" in active:
            times[third] = (times[third][0], times[third][1] + 2)
        body = "\n".join(
            f"{times[name][0]}, {times[name][1]}:00: {name}. {note[name].capitalize()}. Entry: {costs[name]}."
            for name in order
        )
        closing = (
            "The house is closed on Sunday." if fault != "claim" else "The house is closed on Sunday. Parking is free."
        )
        number = 4 if "letter" not in active or fault == "claim" else 5
        number = number if "draft/outline" not in active else 3
        return {
            "collect": collected,
            "draft/outline": outline,
            "draft/body": body,
            "letter": f"Dear neighbours, this week there are {number} events.\n{body}\n"
            + (closing if "letter" in active else "The house is closed on Sunday."),
        }

    collect = Fault("collect", f"{hit}: {free_day}", f"{hit} on {when[hit][0]}")
    body = Fault(
        "draft/body",
        f"{when[third][0]}, {when[third][1] + 2}:00: {third}",
        f"{third} on {when[third][0]} at {when[third][1]}:00",
    )
    kept = [name for name in names if name != other]
    faults = {
        "collect": [collect],
        "outline": [Fault("draft/outline", f"3. {when[kept[2]][0]}: {kept[2]}", f"{other} on {when[other][0]}")],
        "body": [body],
        "letter": [Fault("letter", "5 events", f"{hit} on {when[hit][0]}")],
        "claim": [Fault("letter", "Parking is free.", "The house is closed on Sunday.")],
        "two": [collect, body],
    }
    shuffled = rng.sample(names, 4)
    return {
        "job": Job(
            goal="Write this week's letter of the neighbourhood centre.",
            context="\n".join(
                f"{name} on {when[name][0]} at {when[name][1]}:00 ({note[name]}; entry: {price[name]})"
                for name in shuffled
            )
            + "\nThe house is closed on Sunday.",
        ),
        "criteria": "All events are in the letter, by day, with their right day, hour and price; their number is right; the "
        "letter says nothing that the job does not say.",
        "ops": {
            "collect": Op("List the events, each with day, hour, note and price."),
            "outline": Op("Order the events by day.", place="draft/outline"),
            "body": Op("Write one paragraph for each event of the outline.", place="draft/body"),
            "letter": Op("Write the letter: a greeting with the number of events, the paragraphs, the closing day."),
        },
        "wire": lambda o: o["collect"] >> Workflow(o["outline"] >> o["body"], name="draft") >> o["letter"],
        "answers": answers,
        "last": "letter",
        "faults": faults.get(fault, []),
    }


NEWSLETTER = Family(
    "newsletter",
    "nested workflow; 3 operators, with the inner ones 5",
    {
        "none": "none",
        "collect": "passed",
        "outline": "inner",
        "body": "inner",
        "letter": "last",
        "claim": "unsupported",
        "two": "two",
    },
    _newsletter,
)

# ----------------------------------------------------------------------------------------------------- canteen

_DISHES_ZH = {
    "番茄炒蛋": (12, 2),
    "红烧肉": (26, 6),
    "清炒时蔬": (10, 1),
    "宫保鸡丁": (22, 4),
    "麻婆豆腐": (14, 2),
    "清蒸鲈鱼": (38, 8),
}
"""Price and minutes of a portion."""


def _canteen(rng: Random, fault: str) -> Mapping[str, Any]:
    dishes = rng.sample(sorted(_DISHES_ZH), 4)
    portions = {dish: rng.randrange(6, 30) for dish in dishes}
    office = rng.choice(["财务部", "设计部", "档案室", "客服部"])
    floor = rng.randrange(3, 12)
    hit, other = rng.sample(dishes, 2)
    threshold = 1000

    def answers(active: frozenset[str]) -> dict[str, str]:
        ordered = dict(portions)
        if "read" in active:
            ordered[hit] += 3
        sums = {dish: ordered[dish] * _DISHES_ZH[dish][0] for dish in dishes}
        if "price" in active:
            sums[other] += 50
        total = sum(sums.values())
        has_discount = total >= threshold
        pays = total * 9 // 10 if has_discount is not ("discount" in active) else total
        told = floor + 1 if "notice" in active else floor
        return {
            "read": "\n".join(f"{dish}：{ordered[dish]}份" for dish in dishes),
            "price": "\n".join(
                f"{dish}：{ordered[dish]}份 × {_DISHES_ZH[dish][0]}元 = {sums[dish]}元" for dish in dishes
            )
            + f"\n合计：{total}元",
            "discount": f"合计{total}元，{'打九折' if has_discount is not ('discount' in active) else '不打折'}，应付{pays}元（取整）。",
            "notice": f"{office}订餐通知：送到{told}楼。\n"
            + "\n".join(f"- {dish} {ordered[dish]}份" for dish in dishes)
            + f"\n应付{pays}元。",
        }

    total = sum(portions[dish] * _DISHES_ZH[dish][0] for dish in dishes)
    read = Fault("read", f"{hit}：{portions[hit] + 3}份", f"{hit}{portions[hit]}份")
    notice = Fault("notice", f"送到{floor + 1}楼", f"送到{floor}楼")
    faults = {
        "read": [read],
        "price": [
            Fault("price", f"= {portions[other] * _DISHES_ZH[other][0] + 50}元", f"{other}每份{_DISHES_ZH[other][0]}元")
        ],
        "discount": [Fault("discount", "不打折" if total >= threshold else "打九折", f"满{threshold}元打九折")],
        "notice": [notice],
        "two": [read, notice],
    }
    menu = "，".join(f"{dish}每份{price}元" for dish, (price, _) in _DISHES_ZH.items())
    return {
        "job": Job(
            goal=f"为{office}写一份订餐通知。",
            context=f"订单：{'，'.join(f'{dish}{portions[dish]}份' for dish in dishes)}，送到{floor}楼。\n菜单：{menu}。\n"
            f"合计满{threshold}元打九折（舍去不足一元的部分），不满不打折。",
        ),
        "criteria": "菜名、份数、楼层与订单一致；金额按菜单和折扣规则计算，分文不差。",
        "ops": {
            "read": Op("列出订单里的每道菜和份数。"),
            "price": Op("计算每道菜的金额和合计。"),
            "discount": Op("按规则判断是否打折，算出应付金额。"),
            "notice": Op("写订餐通知：部门、楼层、菜名与份数、应付金额。"),
        },
        "wire": lambda o: [o["read"] >> o["price"] >> o["discount"] >> o["notice"], o["read"] >> o["notice"]],
        "answers": answers,
        "last": "notice",
        "faults": faults.get(fault, []),
    }


CANTEEN = Family(
    "canteen",
    "chain of 4, Chinese",
    {"none": "none", "read": "passed", "price": "middle", "discount": "middle", "notice": "last", "two": "two"},
    _canteen,
)

# ----------------------------------------------------------------------------------------------------- train

_CITIES = ("杭州", "南京", "苏州", "合肥", "宁波", "无锡")
_FINE = "核对无误：车次、到达时间和票价都符合要求。"


def _train(rng: Random, fault: str) -> Mapping[str, Any]:
    city = rng.choice(_CITIES)
    people = rng.randrange(3, 9)
    numbers = rng.sample(range(101, 899), 8)
    leave = sorted(rng.sample(range(6 * 60, 15 * 60, 5), 8))
    trains: dict[str, tuple[int, int, int]] = {}
    arrivals = sorted(rng.sample(range(15 * 60 + 5, 20 * 60, 5), 8))
    prices = rng.sample(range(80, 260), 8)
    for number, start, arrival, price in zip(numbers, leave, arrivals, prices, strict=True):
        trains[f"G{number}"] = (start, arrival, price)
    latest = arrivals[5] + 2
    fitting = sorted((name for name in trains if trains[name][1] <= latest), key=lambda name: trains[name][2])
    best, second = fitting[0], fitting[1]
    late = f"G{numbers[-1]}"
    rows = [
        f"{name}次 {_clock(start)}发车 {_clock(arrival)}到达 二等座{price}元 余票{rng.randrange(20, 90)}张"
        for name, (start, arrival, price) in trains.items()
    ]
    result = f"开往{city}的列车：" + "；".join(rows) + "。"
    early = latest - 10

    def answers(active: frozenset[str]) -> dict[str, str | Calls]:
        chosen = late if fault == "checker" and "search" in active else best
        chosen = second if fault == "dear" and "search" in active else chosen
        start, arrival, price = trains[chosen]
        if fault in ("price", "vanished") and "search" in active:
            price += 15
        shown = early if fault == "checker" and "search" in active else arrival
        found = f"{chosen}次，{_clock(start)}发车，{_clock(shown)}到达，二等座{price}元。"
        check = _FINE
        if "search" in active and "check" not in active:
            chosen, (start, shown, price) = best, trains[best]
            check = f"所选有误，已按查询结果更正：{best}次，{_clock(start)}发车，{_clock(shown)}到达，二等座{price}元。"
        total = price * people
        told = total + 100 if "mail" in active else total
        return {
            "search": Calls([("timetable", {"key": city})], found),
            "check": Calls([("timetable", {"key": city})], check),
            "mail": f"{people}人乘坐{chosen}次前往{city}，{_clock(start)}发车，{_clock(shown)}到达，票价共{told}元。",
        }

    _, arrival, price = trains[best]
    row = f"{_clock(arrival)}到达 二等座{price}元"
    late_row = f"{_clock(trains[late][1])}到达"
    faults = {
        "price": [Fault("search", f"二等座{price + 15}元", row), Fault("check", _FINE, row)],
        "dear": [Fault("search", f"{second}次", row), Fault("check", _FINE, row)],
        "checker": [Fault("search", f"{_clock(early)}到达", late_row), Fault("check", _FINE, late_row)],
        "mail": [Fault("mail", f"票价共{price * people + 100}元", f"二等座{price}元")],
        "vanished": [Fault("search", f"二等座{price + 15}元", row)],
    }
    return {
        "job": Job(
            goal=f"为{people}人安排去{city}的火车：{_clock(latest)}前到达，选票价最低的一班。",
            context="车次和票价用工具查询。",
        ),
        "criteria": "所选车次在要求的时间前到达，是其中票价最低的；车次、时间、票价与查询结果一致，总价正确。",
        "ops": {
            "search": Op(
                "查询车次，选出符合要求且票价最低的一班。",
                tools=(Lookup("timetable", "按城市返回列车时刻和票价。", {city: result}),),
            ),
            "check": Op(
                "用工具的查询结果核对所选车次，有误则更正。",
                tools=(Lookup("timetable", "按城市返回列车时刻和票价。", {city: result}),),
            ),
            "mail": Op("写一句话的行程通知：人数、车次、时间、总价。"),
        },
        "wire": lambda o: [o["search"] >> o["check"] >> o["mail"], o["search"] >> o["mail"]],
        "answers": answers,
        "last": "mail",
        "faults": faults.get(fault, []),
    }


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


TRAIN = Family(
    "train",
    "chain of 3 with a tool and a checker, Chinese",
    {
        "none": "none",
        "price": "checker",
        "dear": "checker",
        "checker": "checker",
        "mail": "last",
        "vanished": "vanished",
    },
    _train,
)
