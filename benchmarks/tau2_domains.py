"""How long tau2's domains take here: reset, one step, evaluation; and what no skill scores.

Times are given twice: `cpu`, of this thread, and `wall`, which also holds what other processes took
of the core. Needs tau2-bench (docs/tau2.md). Run: python benchmarks/tau2_domains.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from recollect.envs.base import Environment, OffersGold
from recollect.envs.floors import floors
from recollect.envs.registry import load_environment
from recollect.envs.transcript import Script, play
from results_file import write_results

CASES = (
    ("airline", "script"),
    ("retail", "script"),
    ("telecom", "script"),
    ("telecom", "solo"),
    ("mock", "script"),
)
TASKS = 50
Took = tuple[float, float]  # milliseconds: CPU, wall


def main() -> None:
    """Measure every domain and write the figures."""
    figures = {f"{domain} {user}": measure(domain, user) for domain, user in CASES}
    for name, found in figures.items():
        print(name, found)
    path = write_results("tau2", figures, [0], ["tau2", "pydantic"])
    print(f"Wrote {path}")


def measure(domain: str, user: str) -> dict[str, object]:
    """Measure one domain: gold of its tasks, played step by step, and the floors of its tests."""
    environment = load_environment(f"tau2:{domain}", user=user)
    assert isinstance(environment, OffersGold)
    times: dict[str, list[Took]] = {"reset": [], "step": [], "evaluate": []}
    rewards = []
    split = environment.splits[0]
    for task in islice(environment.tasks(split), TASKS):
        lines = environment.gold(task)
        play(
            environment, task, Script(lines)
        )  # gold's state and the task's own are kept from now on
        with timed(times["reset"]):
            episode = environment.start(task, 0)
        for line in lines:
            with timed(times["step"]):
                episode.respond(line)
        with timed(times["evaluate"]):
            score = episode.score()
        rewards.append(score.reward)
    found = {f"{name}_ms": summary(took) for name, took in times.items()}
    return {
        "tasks": {s: sum(1 for _ in environment.tasks(s)) for s in environment.splits},
        "gold_reward_mean": statistics.mean(rewards),
        **found,
        "floors": {s: best(environment, s) for s in environment.splits if s != "extra"},
    }


@contextmanager
def timed(times: list[Took]) -> Iterator[None]:
    """Add the milliseconds that the block takes, of the core and by the clock."""
    cpu, wall = time.thread_time(), time.perf_counter()
    yield
    times.append((1000 * (time.thread_time() - cpu), 1000 * (time.perf_counter() - wall)))


def summary(took: list[Took]) -> dict[str, float]:
    """Median and 90th percentile, in milliseconds."""
    found = {}
    for name, values in zip(("cpu", "wall"), zip(*took, strict=True), strict=True):
        ordered = sorted(values)
        found[f"{name}_median"] = round(statistics.median(ordered), 3)
        found[f"{name}_p90"] = round(ordered[int(0.9 * (len(ordered) - 1))], 3)
    return found


def best(environment: Environment, split: str) -> dict[str, float]:
    """Success of agents without skill, on all tasks of a split."""
    return {f.agent: round(f.success, 3) for f in floors(environment, split, 10_000)}


if __name__ == "__main__":
    main()
