"""Proof that an environment keeps the contract of `recollect.envs.base`, or what it breaks.

Each check plays real episodes and compares what came out. A finding names the task and says
what happened; no findings means that nothing was found on the tasks tried, which the report
counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from recollect.envs.agents import RandomTool
from recollect.envs.base import (
    Environment,
    Limits,
    OffersContent,
    OffersGold,
    OffersProofs,
    Opening,
    Proof,
)
from recollect.envs.probe import Probe, Trace, all_messages, garbage, interleave, shorten, trace
from recollect.types import Task

# How many tasks of a split are compared with those of the others.
MOST_COMPARED = 2000


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise that was broken: by which task ("" = by the environment as a whole), and how."""

    task: str
    problem: str


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, how many tasks or episodes it was tried on, and what was found."""

    name: str
    promise: str
    tried: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All checks of one environment."""

    environment: str
    version: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Tell whether nothing was found."""
        return not any(check.findings for check in self.checks)


@dataclass(frozen=True, slots=True)
class _Subject:
    """What the episode checks look at: some tasks, and for each the lines to play on it."""

    environment: Environment
    seed: int
    plans: tuple[tuple[Task, tuple[str, ...]], ...]


_Outcome: TypeAlias = "tuple[int, list[Finding]]"


def check_environment(environment: Environment, tasks: int = 20, seed: int = 0) -> Report:
    """Try every promise on up to `tasks` tasks of each split.

    Never raises for what the environment does. It plays some dozens of episodes per task, so
    a slow environment wants a small `tasks`.
    """
    checks = [_run("description", _description, environment)]
    if not checks[0].findings:
        checks.append(_run("tasks", _tasks, environment))
        checks.append(_run("splits", _splits, environment))
    if not any(check.findings for check in checks):
        subject = _subject(environment, tasks, seed)
        checks += [_run(name, function, subject) for name, function in _EPISODE_CHECKS.items()]
        if isinstance(environment, OffersGold):
            checks.append(_run("gold", _gold, subject))
        if isinstance(environment, OffersProofs):
            checks += [_prove(proof) for proof in environment.proofs()]
    name, version = getattr(environment, "name", "?"), getattr(environment, "version", "?")
    return Report(str(name), str(version), tuple(checks))


def _run(name: str, function: Callable[[Any], _Outcome], subject: object) -> Check:
    """Run one check; what the environment raises outside of an episode is a finding too."""
    promise = (function.__doc__ or "").strip()
    try:
        tried, findings = function(subject)
    except Exception as error:  # a stranger's environment: anything can come
        findings, tried = [Finding("", f"{type(error).__name__}: {error}"[:300])], 0
    return Check(name, promise, tried, tuple(findings))


def _prove(proof: Proof) -> Check:
    """Try a promise of the environment's own."""
    try:
        tried, found = proof.run()
    except Exception as error:
        tried, found = 0, [("", f"{type(error).__name__}: {error}"[:300])]
    findings = tuple(Finding(task, problem) for task, problem in found)
    return Check(proof.name, proof.promise, tried, findings)


def _description(environment: Environment) -> _Outcome:
    """Name, version, domains, splits and limits are there and make sense."""
    findings = []
    for field in ("name", "version"):
        value = getattr(environment, field, None)
        if not isinstance(value, str) or not value:
            findings.append(Finding("", f"{field} is {value!r}, not a text"))
    for field in ("domains", "splits"):
        value = getattr(environment, field, None)
        if not isinstance(value, tuple) or not value or len(set(value)) != len(value):
            findings.append(Finding("", f"{field} is {value!r}, not a tuple of different names"))
    if not isinstance(getattr(environment, "limits", None), Limits):
        findings.append(Finding("", "limits is not a Limits"))
    return 1, findings


def _tasks(environment: Environment) -> _Outcome:
    """Each split lists its own tasks, each once, in the same order every time."""
    findings: list[Finding] = []
    tried = 0
    for split in environment.splits:
        first = list(islice(environment.tasks(split), MOST_COMPARED))
        tried += len(first)
        if [t.key for t in islice(environment.tasks(split), len(first))] != [t.key for t in first]:
            findings.append(Finding("", f"{split} lists other tasks the second time"))
        if len({t.key for t in first}) != len(first) or len({t.id for t in first}) != len(first):
            findings.append(Finding("", f"{split} lists a task twice"))
        for task in first:
            findings += _task_findings(environment, task, split)
    if not tried:
        findings.append(Finding("", "there are no tasks in any split"))
    return tried, findings


def _task_findings(environment: Environment, task: Task, split: str) -> list[Finding]:
    expected = {
        "environment": environment.name,
        "version": environment.version,
        "split": split,
    }
    findings = [
        Finding(task.id, f"its {field} is {getattr(task, field)!r}, not {value!r}")
        for field, value in expected.items()
        if getattr(task, field) != value
    ]
    if task.domain not in environment.domains:
        findings.append(Finding(task.id, f"its domain {task.domain!r} is not declared"))
    return findings


def _splits(environment: Environment) -> _Outcome:
    """No two splits hold a task of the same content."""
    findings: list[Finding] = []
    where: dict[str, Task] = {}
    tried = 0
    for split in environment.splits:
        for task in islice(environment.tasks(split), MOST_COMPARED):
            tried += 1
            known = where.setdefault(_content(environment, task), task)
            if known.split != task.split:
                findings.append(Finding(task.id, f"also in {known.split}, as {known.id}"))
    return tried, findings


def _content(environment: Environment, task: Task) -> str:
    if isinstance(environment, OffersContent):
        return environment.content(task)
    return task.query or task.id


def _subject(environment: Environment, tasks: int, seed: int) -> _Subject:
    plans: list[tuple[Task, tuple[str, ...]]] = []
    for split in environment.splits:
        for task in islice(environment.tasks(split), tasks):
            plans.append((task, _lines(environment, task, seed + len(plans))))
    return _Subject(environment, seed, tuple(plans))


def _lines(environment: Environment, task: Task, seed: int) -> tuple[str, ...]:
    """Give lines to play: gold but for its last, which would end it, then random tool calls."""
    opening = trace(environment, task, seed, ()).opening
    if opening is None:
        return ()  # the first episode check will say why it does not start
    agent = RandomTool(seed, stop=0.1)
    agent.begin(opening)
    calls = [agent.act(opening.messages) or "" for _ in range(environment.limits.turns)]
    return (*_gold_lines(environment, task)[:-1], *calls)


def _gold_lines(environment: Environment, task: Task) -> tuple[str, ...]:
    try:
        return tuple(environment.gold(task)) if isinstance(environment, OffersGold) else ()
    except Exception:  # the gold check will meet it again and say so
        return ()


def _opening(subject: _Subject) -> _Outcome:
    """An episode starts with something to read, and tools with different names."""
    findings = []
    for task, _ in subject.plans:
        found = trace(subject.environment, task, subject.seed, ())
        if found.error:
            findings.append(Finding(task.id, found.error))
        elif not isinstance(found.opening, Opening) or not found.opening.messages:
            findings.append(Finding(task.id, "the opening has no messages"))
        elif len({spec.name for spec in found.opening.tools}) != len(found.opening.tools):
            findings.append(Finding(task.id, "two tools have the same name"))
    return len(subject.plans), findings


def _determinism(subject: _Subject) -> _Outcome:
    """The same task, seed and texts give the same messages and score."""
    findings = []
    for task, lines in subject.plans:
        first = trace(subject.environment, task, subject.seed, lines)
        again = trace(subject.environment, task, subject.seed, lines)
        if first.error:
            findings.append(Finding(task.id, first.error))
        elif first != again:
            findings.append(Finding(task.id, _difference(first, again)))
    return len(subject.plans), findings


def _isolation(subject: _Subject) -> _Outcome:
    """Episodes played at the same time do not influence each other."""
    findings = []
    for place, (task, lines) in enumerate(subject.plans):
        neighbour, other_lines = subject.plans[place - 1]
        seed = subject.seed
        alone = trace(subject.environment, task, seed, lines)
        plans = ((task, seed, lines), (task, seed, ()), (neighbour, seed + 1, other_lines))
        together, idle, _ = interleave(subject.environment, plans)
        if alone != together:
            findings.append(Finding(task.id, _difference(alone, together)))
        if idle != trace(subject.environment, task, seed, ()):
            findings.append(Finding(task.id, "an idle episode changed while another was played"))
    return len(subject.plans), findings


def _limits(subject: _Subject) -> _Outcome:
    """Episodes end within limits.turns, and messages stay within limits.chars."""
    findings = []
    limits = subject.environment.limits
    for task, lines in subject.plans:
        # Questions keep a talkative environment going for longer than calls do.
        for texts in (lines * 2, ("What?",) * (limits.turns + 1)):
            probe = Probe(subject.environment, task, subject.seed)
            for text in texts[: limits.turns]:
                probe.step(text)
            over, found = probe.over or len(texts) < limits.turns, probe.finish()
            if not over:
                findings.append(Finding(task.id, f"still going after {limits.turns} turns"))
            longest = max((len(m.text) for m in all_messages(found)), default=0)
            if longest > limits.chars:
                problem = f"a message of {longest:,} characters, declared are {limits.chars:,}"
                findings.append(Finding(task.id, problem))
    return len(subject.plans), findings


def _garbage(subject: _Subject) -> _Outcome:
    """No text an agent may write makes an episode raise; every score is finite."""
    findings = []
    tried = 0
    for task, _ in subject.plans[:5]:
        start = trace(subject.environment, task, subject.seed, ())
        texts = garbage(start.opening.tools if start.opening else ())
        for lines in (*((text,) for text in texts), texts):
            tried += 1
            found = trace(subject.environment, task, subject.seed, lines)
            if found.error:
                findings.append(Finding(task.id, found.error))
    return tried, findings


def _gold(subject: _Subject) -> _Outcome:
    """The gold that the environment offers ends in success, with any seed."""
    findings = []
    environment = subject.environment
    assert isinstance(environment, OffersGold)
    for task, _ in subject.plans:
        for seed in (subject.seed, subject.seed + 1):
            found = trace(environment, task, seed, tuple(environment.gold(task)))
            if found.error or found.score is None or not found.score.success:
                findings.append(Finding(task.id, found.error or "its gold is no success"))
                break
    return len(subject.plans), findings


_EPISODE_CHECKS: dict[str, Callable[[_Subject], _Outcome]] = {
    "opening": _opening,
    "determinism": _determinism,
    "isolation": _isolation,
    "limits": _limits,
    "garbage": _garbage,
}


def _difference(first: Trace, second: Trace) -> str:
    """Say where two episodes that should be equal part ways."""
    if first.error != second.error:
        return f"once {first.error or 'fine'}, once {second.error or 'fine'}"
    if first.opening != second.opening:
        return "the openings differ"
    for number, (a, b) in enumerate(zip(first.turns, second.turns, strict=False), 1):
        if a != b:
            said = [shorten(" ".join(m.text for m in turn.messages)) for turn in (a, b)]
            return f"turn {number} differs: {said[0]} and {said[1]}"
    if len(first.turns) != len(second.turns):
        return f"once {len(first.turns)} turns, once {len(second.turns)}"
    return f"the scores differ: {first.score} and {second.score}"
