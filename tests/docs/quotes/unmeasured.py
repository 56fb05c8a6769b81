"""Numbers beside measurements that no results file decides: sizes, settings, aims, names.

By page, the pieces of text that they stand in. A number that was measured does not belong here.
"""

from __future__ import annotations

# A section that calculates from figures, which its quotes have, and from sizes read off a server.
CALCULATED = {("docs/scale.md", "Arithmetic of a pool, to 100 million rows")}
UNMEASURED: dict[str, tuple[str, ...]] = {
    "README.md": ("Python 3.10+", "tmpfs filled at 50 offsets (`make test` as root) | 0 |"),
    "README.zh-CN.md": (
        "Python 3.10+",
        "在 50 个偏移处填满 tmpfs（以 root 运行 `make test`） | 0 |",
    ),
    "docs/continual.md": ("where the default is 0.4)",),
    "docs/notes.md": (
        "Seed 002's four methods",
        "95 % interval",
        "weight is near 0",
        "seed 002's code",
    ),
    "docs/ppo.md": (
        "above 1 the preset needed less; in brackets 95 % intervals",
        "(learning rate 2e-4, two epochs)",
        "We had aimed at 1.5.",
        "begin with step 5 (100 rows, 32 a step), after 128 of those rollouts",
    ),
    "docs/replay.md": (
        "above 1 replay needed less; in brackets 95 % intervals",
        "672 rollouts of the shipped model",
        "in the sparse regime with an interval from 1.3",
        "a factor of two, not of 1.3. Epochs are replay of age 0",
        "of 2,000 tasks",
        "Rows of up to 64 updates' age",
        "| ratio, 99 % |",
        "at a learning rate of 2e-4 do not move far in 64 updates",
        "The default limits (30 updates, 4 uses)",
        "32 stored rows of the desks",
        "256 rows, in turns",
        "64 new rows, 8 tasks with another success rate",
        "an age limit that leaves 1 %",
        "blocks of 128 rows",
    ),
    "docs/results.md": (
        "A run has 16 steps of 4 tasks x 8 attempts",
        "divisors of numbers up to 20,",
        "one more update a step, on 16 stored rows",
    ),
    "docs/store.md": (
        "We aimed at 0.7.",
        "| rows (1 kB each) |",
        "| read 64 |",
        "| rows of 19.7 kB | rows of 1 kB |",
    ),
    "docs/tau2.md": (
        "tau2-bench 1.0.1 at commit",
        "more than 200 characters",
    ),
}
