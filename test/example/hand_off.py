"""Hand-off: a first operator passes a question to the expert for it, and only that expert runs.

OPENAI_API_KEY=… python test/example/hand_off.py "I was charged twice."
"""

import sys

from operad import Operator, Workflow, tool


@tool
def invoices(customer: str) -> list[str]:
    """List the invoices of a customer."""
    return ["2026-10: 20 EUR", "2026-10: 20 EUR"]


@tool
def outages() -> list[str]:
    """List what is out of order at the moment."""
    return []


triage = Operator("Choose who is to answer: billing for money, technical for faults.", ports=["billing", "technical"])
billing = Operator("Answer as an accountant. Look at the invoices.", id="billing", tools=[invoices])
technical = Operator("Answer as a technician. Look for outages.", id="technical", tools=[outages])
friendly = Operator("Write the answer to the customer: friendly, and two sentences at most.", id="friendly")

flow = Workflow([triage["billing"] >> billing, triage["technical"] >> technical] >> friendly)

if __name__ == "__main__":
    result = flow.run(" ".join(sys.argv[1:]) or "I was charged twice.")
    print("answered by:", *(name for name in ("billing", "technical") if name in result.messages))
    print(result.text)
