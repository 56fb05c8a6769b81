"""Probes write down everything an environment does, and nothing it raises gets out."""

from __future__ import annotations

from recollect.envs.base import Parameter, ToolSpec
from recollect.envs.probe import Probe, all_messages, garbage, interleave, shorten, trace

from .guessing import Guessing


def test_a_trace_holds_the_episode():
    environment = Guessing()
    task = next(t for t in environment.tasks("train") if int(t.query) > 1)
    found = trace(environment, task, 0, ["1", task.query, "ignored after the end"])
    assert found.error == ""
    assert len(found.turns) == 2
    assert found.score is not None
    assert found.score.success
    assert [m.text for m in all_messages(found)] == ["Find the number.", "What is it?", "Higher."]


def test_interleaving_plays_every_line_of_every_plan():
    environment = Guessing()
    tasks = list(environment.tasks("train"))[:3]
    plans = [(task, 0, ["x"] * n) for n, task in enumerate(tasks, 1)]
    assert [len(t.turns) for t in interleave(environment, plans)] == [1, 2, 3]
    assert interleave(environment, []) == ()


def test_an_error_stops_the_probe_and_is_kept():
    class Failing(Guessing):
        def start(self, task, seed):
            raise ConnectionError("no server")

    probe = Probe(Failing(), next(Guessing().tasks("train")), 0)
    probe.step("1")
    found = probe.finish()
    assert found.error == "start raised ConnectionError: no server"
    assert (found.turns, found.score, all_messages(found)) == ((), None, ())


def test_garbage_covers_every_tool():
    tools = (ToolSpec("a", parameters=(Parameter("x"),)), ToolSpec("b"))
    texts = garbage(tools)
    assert len(set(texts)) == len(texts)
    for name in ("a", "b"):
        assert sum(f'"name":"{name}"' in text for text in texts) > 5


def test_shorten_is_printable_and_short():
    assert shorten("\ud800\n") == r"'\ud800\n'"
    assert len(shorten("x" * 10_000)) < 80
