"""Workflow files, and a client of a studio that sends the requests of a browser."""

import base64
import json

FIVE = """\
workflow: five
nodes:
  1: {type: start, after: [], variables: [[topic, string]]}
  2: {type: template-transform, after: 1, template: "About {{ topic }}", variables: [[topic, [topic, "1"]]]}
  3: {type: template-transform, after: 2, template: "{{ said }}!", variables: [[said, [output, "2"]]]}
  4: {type: template-transform, after: 1, template: "<{{ topic }}>", variables: [[topic, [topic, "1"]]]}
  5: {type: end, after: [3, 4], outputs: [[loud, [output, "3"]], [quoted, [output, "4"]]]}
"""

EXPERTS = """\
# my experts
app: {name: Facts, desc: Check what a text claims.}
operators:
  - &facts
    instruction: List what the text claims. # short
    output_schema: "{claims: [string]}"
  - &check
    instruction: >-
      Check each claim.
      Say what is right.

  - &judge
    instruction: Every sentence rests on a claim.
experts:
  - profile: {name: Fact checker, desc: Checks claims.}
    workflow:
      - [*facts, *check]
    evaluator: *judge
    max_rounds: 2
"""

LETTER = """\
workflow: letter
nodes:
  1: {type: start, after: [], variables: [[name, string]]}
  2: {type: llm, after: 1, system: Write a letter., user: "To {{#1.name#}}"}
  3: {type: template-transform, after: 2, template: "{{ body }}!", variables: [[body, [text, "2"]]]}
  4: {type: end, after: 3, outputs: [[letter, [output, "3"]]]}
"""

VERDICT = '{"evaluation": "Right.", "status": "SUCCESS", "unsure": [], "score": 9, "faults": []}'
"""Verdict of an evaluator."""


class Client:
    """Client of a studio.

    Attributes:
        url: The studio's address.
        folder: The folder of its files.
    """

    def __init__(self, url, folder, http):
        self.url = url
        self.folder = folder
        self._http = http

    def get(self, path, **named):
        return self._http.get(f"{self.url}{path}", **named)

    def post(self, path, body, **named):
        return self._http.post(f"{self.url}{path}", json=body, **named)

    def told(self, path, body):
        """Return the answer to a request that succeeds."""
        answer = self.post(f"data/{path}", body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def open(self, name="five.yaml"):
        return self.told("open", {"path": name})

    def apply(self, document, *operations):
        return self.told(
            "apply", {"path": document["path"], "version": document["version"], "operations": list(operations)}
        )

    def refused(self, path, body, status):
        answer = self.post(f"data/{path}", body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def messages(self, path):
        """Yield the messages of a stream."""
        with self._http.stream("GET", f"{self.url}{path}") as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line[6:])

    def run(self, name="five.yaml", **options):
        """Run a file to its end; return the outputs of nodes, and the last message."""
        run = self.told("run", {"path": name, **options})["run"]
        outputs, last = {}, {}
        for last in self.messages(f"data/runs/{run}/changes"):
            outputs |= last["outputs"]
        return outputs, last

    def upload(self, name, data):
        return {"name": name, "base64": base64.b64encode(data).decode()}
