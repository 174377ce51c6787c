"""Jobs as people write them: families that share a pitfall, and jobs of no family.

The weights of `operad.runtime.values.words` and the threshold of `operad.runtime.knowledge.insights` were chosen
on the first families; the families in `UNSEEN` were written afterwards. ``python test/benchmark/bench_insights.py
--similarity`` shows both.
"""

from __future__ import annotations

FAMILIES: dict[str, list[str]] = {
    "sql": [
        "Write a SQL query for our orders table: revenue per month in 2024.",
        "Write a SQL query that lists the ten customers with the highest revenue in the orders table.",
        "I need a SQL query on the orders table: average order value per country.",
        "SQL query please: which orders were shipped late last quarter, by customer?",
        "Write a SQL query: monthly revenue of returning customers from the orders table.",
    ],
    "minutes": [
        "Summarise the minutes of Monday's board meeting for those who were absent.",
        "Summarise the minutes of the product meeting in five bullet points.",
        "Please summarise these meeting minutes: who decided what, and by when?",
        "Make a summary of the minutes of the budget meeting for the finance team.",
        "Summarise the minutes of yesterday's safety meeting; list the open action items.",
    ],
    "recipe": [
        "Convert this recipe for banana bread to metric units.",
        "Convert the recipe for pumpkin pie from cups and ounces to grams.",
        "Please convert my grandmother's biscuit recipe to metric units, oven temperature included.",
        "Rewrite this chili recipe with metric units for six persons.",
        "Convert this recipe for pancakes into grams and millilitres.",
    ],
    "translation": [
        "Translate this letter to the landlord into German.",
        "Translate the terms of delivery into German for our customer in Graz.",
        "Translate this press release into German, about 200 words.",
        "Please translate the user manual's safety chapter into German.",
        "Translate my cover letter into German for an application in Hamburg.",
    ],
    "release notes": [
        "Write release notes for version 2.4 from this changelog.",
        "Write the release notes of version 3.0 from the list of merged pull requests.",
        "Draft release notes for version 2.4.1 from the changelog, for end users.",
        "Release notes for version 1.9 please, from the commits since 1.8.",
        "Write release notes for the beta of version 4 from this changelog.",
    ],
    "复核合同": [
        "请审查这份房屋租赁合同,列出对承租人不利的条款。",
        "请审查这份劳动合同,列出对员工不利的条款。",
        "审查附件中的采购合同,指出对买方不利的条款和风险。",
        "请帮我审查这份软件外包合同,列出风险条款。",
        "请审查这份保密合同,列出对乙方不利的条款。",
    ],
    "product texts": [
        "Write a product description for our stainless steel water bottle, 80 words, for the web shop.",
        "Write a product description for the merino hiking socks in our web shop.",
        "We need a product description of the folding camping chair for the web shop, 80 words.",
        "Product description for a cast iron pan, please, for the web shop and the catalogue.",
        "Write the product description of our new trail running shoes, 100 words.",
    ],
    "bug reports": [
        "Triage this bug report: the app crashes when I rotate the phone on the payment page.",
        "Triage the bug report about missing umlauts in exported PDF files.",
        "Triage this bug report: login with a passkey fails on Firefox.",
        "Please triage this bug report from a customer: the search returns nothing for long words.",
        "Triage this bug report: the app shows yesterday's date after midnight.",
    ],
    "papers": [
        "Review this paper's abstract for a workshop on graph learning and name three weaknesses.",
        "Review the abstract of this paper on protein folding for our reading group.",
        "Please review this paper's methods section and name weaknesses of the statistics.",
        "Review this paper on federated learning: strengths, weaknesses, questions to the authors.",
        "Review the abstract of my paper for the spring conference, and name three weaknesses.",
    ],
    "周报": [
        "根据以下提交记录写一份本周的项目周报。",
        "请根据会议纪要写一份研发部的项目周报。",
        "根据任务清单写一份测试组的项目周报,突出风险。",
        "写一份销售部的项目周报,数据见附件。",
        "请根据以下提交记录写一份项目周报,语气正式。",
    ],
}

OTHERS: list[str] = [
    "Plan a three-day trip to Lisbon in May for two adults and a child.",
    "Explain to a ten-year-old why the sky is blue.",
    "Find three suppliers of recycled cardboard near Lyon and compare their prices.",
    "Which of these laptops is the best for video editing under 1,500 euros?",
    "Write a polite reminder to a client whose invoice is two weeks overdue.",
    "Design a logo brief for a bakery called Morning Crust.",
    "把这段 Python 代码改写成 Go,并补充单元测试。",
    "Estimate how much paint I need for a room of four by five metres.",
]

UNSEEN: dict[str, list[str]] = {
    "job offers": [
        "Write a job advertisement for a nurse on the night shift, 36 hours a week.",
        "Job advertisement for an apprentice electrician, starting in September.",
        "Write a job advertisement for a part-time bookkeeper; remote work is possible.",
        "We are looking for a kindergarten teacher: write the job advertisement.",
    ],
    "mails": [
        "Answer this customer's e-mail: the parcel arrived damaged and she wants her money back.",
        "Answer the e-mail of a customer who asks when his order will arrive.",
        "Please answer this e-mail: a customer cannot find the invoice in his account.",
        "Answer this customer's e-mail about a wrong colour; offer an exchange.",
    ],
    "Angebote": [
        "Schreibe ein Angebot für den Anstrich eines Treppenhauses mit vier Etagen.",
        "Schreibe ein Angebot über die Reinigung von 40 Fenstern, zweimal im Jahr.",
        "Bitte ein Angebot für den Einbau einer Küche, Lieferung im März.",
        "Schreibe ein Angebot für die Wartung der Heizung in einem Mehrfamilienhaus.",
    ],
    "クレーム": [
        "商品が壊れて届いたというお客様のメールに返信を書いてください。",
        "配送が遅れているというお客様のメールに返信を書いてください。",
        "請求書が間違っているというお客様に返信メールを書いてください。",
        "返品の方法を尋ねるお客様のメールに返信を書いてください。",
    ],
    "logs": [
        "Find out from this nginx log why requests to /api/login took so long last night.",
        "Look through the nginx log and tell me which clients caused most 429 answers.",
        "Find the cause of the 502 errors in this nginx log between 3 and 4 a.m.",
        "From this nginx log: how many requests per minute did the checkout get on Friday?",
    ],
}
"""Families that were written after all parameters were chosen."""
