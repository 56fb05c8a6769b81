"""Scenarios follow from their address, for all time, in every process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from recollect.canonical import digest
from recollect.envs.desk.environment import DOMAINS, Desk
from recollect.envs.desk.scenario import VERSION, make_scenario


def fingerprint() -> str:
    parts = []
    for name, domain in DOMAINS.items():
        for level, kinds in domain.kinds.items():
            for kind in kinds:
                scenario = make_scenario(domain, level, kind, 3)
                parts += [name, scenario.request, scenario.content, *scenario.transcript()]
        parts += [domain.policy, *(str(spec.schema()) for spec in domain.toolbox.specs)]
    return digest(*parts)


def test_tasks_are_what_they_were_unless_the_version_says_otherwise():
    """If this fails on purpose: raise VERSION and write the new fingerprint here."""
    assert (VERSION, fingerprint()) == ("1", "b9b4d189749d8ba7a2c451b67bae5386")


def test_another_process_with_another_hash_seed_makes_the_same():
    code = "from tests.envs.desk.test_scenario import fingerprint; print(fingerprint())"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[3],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(p for p in sys.path if p)},
        )
        assert done.stdout.strip() == fingerprint()


def test_a_sample_reads_well():
    scenario = Desk().scenario("airline:3:move:0")
    assert scenario.request == "Hi, move booking T3A9 to Fri."
    assert scenario.transcript() == (
        '<tool_call>{"name":"booking","arguments":{"id":"T3A9"}}</tool_call>',
        '<tool_call>{"name":"flights","arguments":{"to":"Lima"}}</tool_call>',
        '<tool_call>{"name":"move","arguments":{"id":"T3A9","flight":"F96"}}</tool_call>',
        "Done. The fee is $60.",
    )
