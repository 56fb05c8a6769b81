"""Runs whose notes come from a service: guided by it, repeated without it, unguided when down."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import BadConfig
from recollect.proof.logical import all_rows
from recollect.proof.traces import trace
from recollect.store import open_reader
from recollect.store.records import Query
from recollect.telemetry.events import Event, StepFinished, Warned
from recollect.telemetry.reading import read_metrics
from recollect.train.folder import RunFolder
from recollect.train.loop import train
from recollect.train.session import open_session
from recollect.types import Origin, RunId

from notes.remote.canned import REME, canned  # isort: skip
from .noted import GUIDED
from .small import WORLDS, Recorder, make_config, open_run, run_to_end

SHORT = ("run.steps=3", "eval.every=0", "checkpoint.every=2", "remote.tries=1", "remote.seconds=30")


class Killed(Exception):
    """Stands for kill -9 in the middle of a step."""


def guided(folder: Path) -> list[int]:
    with open_reader(folder / "store.db") as store:
        rows = all_rows(store, Query(run=RunId("run")))
        return sorted(row.step for row in rows if row.origin is Origin.GUIDED)


def figures(folder: Path, name: str) -> list[float]:
    return [line.metrics[name] for line in read_metrics(folder / "metrics.jsonl").steps]


def test_a_run_is_guided_by_a_service_and_repeated_without_it(model: Path, tmp_path: Path) -> None:
    with canned(lambda call: REME) as server:
        config = make_config(model, *SHORT, *GUIDED, f"notes.remote={server.url}")
        whole, cut = tmp_path / "a" / "run", tmp_path / "b" / "run"
        run_to_end(whole, config)
        assert guided(whole) == [1] * 4 + [2] * 4 + [3] * 4
        assert len(server.calls) == 6  # 2 tasks in 3 steps, though 4 attempts of each are guided
        with open_run(cut, config) as session:
            update = session.learner.update

            def die(batch: Any, step: int, *rest: Any) -> Any:
                if step == 3:
                    raise Killed
                return update(batch, step, *rest)

            session.learner.update = die  # type: ignore[method-assign]
            with pytest.raises(Killed):
                train(session)
        server.say = lambda call: {"answer": "something else"}
    with open_session(RunFolder(cut), {}) as session:  # nobody answers any more
        train(session)
    assert trace(cut) == trace(whole)
    assert figures(cut, "notes/remote_failed") == [0, 0, 0]
    assert figures(cut, "notes/remote_asked") == [2, 2, 2]


def test_a_run_whose_service_is_down_goes_on_unguided_and_says_so(
    model: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    heard = Recorder()
    flags = (*SHORT, *GUIDED, "remote.failures=1", "remote.rest=1000", f"notes.remote={url}")
    run_to_end(tmp_path / "run", make_config(model, *flags), heard)
    assert guided(tmp_path / "run") == []
    assert figures(tmp_path / "run", "notes/remote_failed") == [2, 2, 2]
    assert figures(tmp_path / "run", "notes/remote_tries") == [1, 0, 0]  # then it is left alone
    said = [event.text for event in heard.events if isinstance(event, Warned)]
    assert any("go without" in text and "cannot be reached" in text for text in said)


def test_a_service_that_fails_is_told_after_ever_so_many_failed_episodes(
    model: Path, tmp_path: Path
) -> None:
    """Each kind of trouble has a limit of its own: one cannot silence another."""
    with canned(lambda call: REME) as server:

        def stop_answering(event: Event) -> None:
            if isinstance(event, StepFinished) and event.step == 1:
                server.say = lambda call: {"success": False}

        heard = Recorder(stop_answering)
        flags = (*SHORT, *GUIDED, "rollout.max_failed_share=1", f"notes.remote={server.url}")
        config = make_config(model, *flags, world=f"{WORLDS}:Talkative")
        run_to_end(tmp_path / "run", config, heard)
    said = [event.text for event in heard.events if isinstance(event, Warned)]
    assert sum("Failed episodes never train" in text for text in said) == 5
    assert sum("The service of notes fails" in text for text in said) == 1


def test_a_service_is_sent_what_happened(model: Path, tmp_path: Path) -> None:
    with canned(lambda call: REME) as server:
        flags = (*SHORT, *GUIDED, "distill.every=1", "distill.by=remote")
        run_to_end(tmp_path / "run", make_config(model, *flags, f"notes.remote={server.url}"))
        told = [call.body for call in server.calls if call.path == "/summary_task_memory"]
    assert [len(body["trajectories"]) for body in told] == [8, 8, 8]  # type: ignore[call-overload]
    first = told[0]["trajectories"][0]  # type: ignore[call-overload,index]
    assert {message["role"] for message in first["messages"]} >= {"user", "assistant"}
    assert "say abc" not in str(first["messages"][:1])


@pytest.mark.parametrize(
    "flags",
    [
        ("notes.remote=localhost:8002",),
        ("notes.remote=http://127.0.0.1:1", "distill.every=1"),
        ("distill.by=remote", "distill.every=1"),
    ],
)
def test_settings_that_lead_nowhere_are_refused(model: Path, flags: tuple[str, ...]) -> None:
    with pytest.raises(BadConfig, match=r"remote"):
        make_config(model, *flags)
