"""Job graph: a job split into parts, each for an expert."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError
from typing import TYPE_CHECKING, Any

from operad.runtime.graph.schedule import Plan
from operad.runtime.values.errors import Issue, did_you_mean
from operad.runtime.values.message import Job, SubJob
from operad.runtime.values.value import Value

if TYPE_CHECKING:
    from networkx import DiGraph

MAX_SUB_JOBS = 64
"""Maximum number of parts of one split."""

_ID = re.compile(r"[\w-]([\w -]{0,62}[\w-])?")


class JobGraph(Value):
    """Sub-jobs and their dependencies (Chat2Graph, Job Graph).

        graph = JobGraph(sub_jobs=(SubJob("Find the facts.", id="find"), SubJob("Write.", id="write", dependencies=("find",))))
        print([part.id for part in graph.sub_jobs])

    Attributes:
        sub_jobs: The parts, in the order in which the leader named them.
    """

    sub_jobs: tuple[SubJob, ...]

    @classmethod
    def of(cls, answer: Mapping[str, Any], job: Job, earlier: Collection[str] = ()) -> JobGraph:
        """Return the graph that an answer of the form `split.split_schema` describes; `check` finds its issues.

        The ids of the parts of a sub-job begin with the id of that sub-job, so that ids are unique in the whole job.
        Dependencies on `earlier` results, given by their ids, are left out, as every part gets these results.
        """
        prefix, already = _prefix(job), set(earlier) - {part["id"] for part in answer["sub_jobs"]}
        shared: dict[str, Any] = {
            "session_id": job.session_id,
            "files": job.files,
            "inputs": job.inputs,
            "parent_id": job.parent_id if isinstance(job, SubJob) else job.id,
        }
        return cls(
            sub_jobs=tuple(
                SubJob(
                    id=prefix + part["id"],
                    goal=part["goal"],
                    context=part["context"],
                    completion_criteria=part["completion_criteria"],
                    dependencies=tuple(
                        dict.fromkeys(prefix + other for other in part["dependencies"] if other not in already)
                    ),
                    assigned_expert_name=part["assigned_expert"],
                    **shared,
                )
                for part in answer["sub_jobs"]
            )
        )

    @classmethod
    def alone(cls, job: Job, expert: str) -> JobGraph:
        """Return a graph with a single part: the whole job, for one expert."""
        own: dict[str, Any] = {"id": "job", "parent_id": job.id, "dependencies": (), "assigned_expert_name": expert}
        return cls(sub_jobs=(SubJob(**{**dict(job), **own}),))

    @property
    def tails(self) -> tuple[str, ...]:
        """Ids of the parts on which no other part depends; their results are the result of the job."""
        needed = {other for part in self.sub_jobs for other in part.dependencies}
        return tuple(part.id for part in self.sub_jobs if part.id not in needed)

    def get_graph(self) -> DiGraph[str]:
        """Return a networkx graph: each part's id with the part as ``job``, and an edge from each dependency."""
        from networkx import DiGraph  # not at import: only readers of graphs need it

        graph: DiGraph[str] = DiGraph()
        graph.add_nodes_from((part.id, {"job": part}) for part in self.sub_jobs)
        graph.add_edges_from((other, part.id) for part in self.sub_jobs for other in part.dependencies)
        return graph

    def check(self, job: Job, experts: Collection[str]) -> list[Issue]:
        """Return all issues of the graph as a split of a job among the experts with these names."""
        ids, prefix = [part.id for part in self.sub_jobs], _prefix(job)
        if not ids:
            return [Issue("empty", "there is no sub-job: name at least one")]
        if len(ids) > MAX_SUB_JOBS:
            return [Issue("too-many", f"{len(ids)} sub-jobs are more than {MAX_SUB_JOBS}: split more coarsely")]
        issues: list[Issue] = []
        for number, part in enumerate(self.sub_jobs):
            own = part.id.removeprefix(prefix)
            if not _ID.fullmatch(own):
                rule = "an id is made of at most 64 letters, digits, dashes and underscores, with spaces between them"
                issues.append(Issue("id", rule, repr(own[:100])))
            if part.id in ids[:number]:
                issues.append(Issue("duplicate-id", "another sub-job has this id", own))
            if not part.goal.strip():
                issues.append(Issue("no-goal", "its goal is empty", own))
            expert = part.assigned_expert_name or ""
            if expert not in experts:
                known = f"{did_you_mean(expert, experts)}; there are: {', '.join(experts)}"
                issues.append(Issue("unknown-expert", f"no expert is called {expert!r}{known}", own))
            for other in part.dependencies:
                if other not in ids:
                    name = other.removeprefix(prefix)
                    hint = did_you_mean(name, [known.removeprefix(prefix) for known in ids])
                    issues.append(
                        Issue("unknown-dependency", f"depends on {name!r}, which is not a sub-job{hint}", own)
                    )
        return issues + self._cycles(ids, prefix)

    def _cycles(self, ids: Sequence[str], prefix: str) -> list[Issue]:
        """Return an issue if dependencies form a cycle; unknown dependencies are ignored."""
        known = {part.id: [other for other in part.dependencies if other in ids] for part in self.sub_jobs}
        try:
            Plan(known)
        except CycleError as error:
            along = " → ".join(part_id.removeprefix(prefix) for part_id in error.args[1])
            return [Issue("cycle", f"the sub-jobs wait for each other: {along}; remove one of these dependencies")]
        return []


def _prefix(job: Job) -> str:
    """Return the prefix of the ids of a job's parts; empty for a job that is not a sub-job."""
    return f"{job.id}." if isinstance(job, SubJob) else ""
