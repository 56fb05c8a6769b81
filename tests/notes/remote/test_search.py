"""Notes of a service in a run: asked once, written down, taken with care."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from factories import FakeRun
from recollect.notes.note import Draft
from recollect.notes.remote.client import MemoryClient, RemotePatience
from recollect.notes.remote.search import RemoteRules, RemoteSearch
from recollect.notes.store_bank import StoreBank
from recollect.store import open_store
from recollect.store.records import Batch
from recollect.store.sqlite import SqliteStore
from recollect.types import NoteAction, RunId, TaskKey
from recollect.wire.address import Address

from ..service.serving import TOKEN, served
from .canned import REME, canned

RUN = RunId("r")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with open_store(tmp_path / "run.db") as store:
        store.commit(FakeRun(id=RUN).setup())
        yield store


def searching(store: SqliteStore, url: str, **rules: Any) -> RemoteSearch:
    return RemoteSearch(
        MemoryClient(Address.parse(url), TOKEN, RemotePatience(seconds=20, tries=1), print),
        StoreBank(store, max_similarity=1.0),
        RUN,
        RemoteRules(**{"url": url, "trust": 0.5, **rules}),
        known=store.distillation,
        keep=lambda answer: store.commit(Batch(distillations=[answer])),
    )


def contents(search: RemoteSearch, question: str = "letters", **more: Any) -> list[str]:
    return [found.note.content for found in search.search(question, 3, **more)]


def test_reme_s_answer_becomes_a_note_of_the_run(store: SqliteStore) -> None:
    with canned(lambda call: REME) as server:
        search = searching(store, server.url)
        search.begin(1)
        (found,) = search.search("letters", 3, "w", 0.5)
        assert [c.path for c in server.calls] == ["/retrieve_task_memory"]
        assert server.calls[0].body == {"query": "letters", "top_k": 3, "workspace_id": "w"}
    note = found.note
    assert (note.content, note.when_to_use, note.workspace) == ("say abc", "letters", "w")
    assert (note.author, note.trust, note.run, note.step) == (server.url, 0.5, RUN, 1)
    assert StoreBank(store).get(note.id) == note


def test_an_answer_without_a_list_is_one_note(store: SqliteStore) -> None:
    answers = [{"answer": "a b c", "metadata": {}}, {"answer": " ", "success": True}]
    with canned(lambda call: answers[len(server.calls) - 1]) as server:
        search = searching(store, server.url)
        assert contents(search, "one") == ["a b c"]
        assert contents(search, "two") == []
        assert search.figures.failed == 0


def test_each_question_is_asked_once_a_step_and_never_again(store: SqliteStore) -> None:
    with canned(lambda call: REME) as server:
        search = searching(store, server.url)
        for step in (1, 1, 2):
            if step != search._step:
                search.begin(step)
            assert contents(search) == ["say abc"]
        assert len(server.calls) == 2
        url = server.url
    again = searching(store, url)  # the service is gone, the run goes back to step 1
    again.begin(1)
    assert contents(again) == ["say abc"]
    assert (again.figures.asked, again.figures.failed, again.figures.tries) == (1, 0, 1)
    again.begin(3)
    assert contents(again) == []
    assert again.figures.failed == 1
    assert "cannot be reached" in again.figures.reasons[0]


def test_a_failure_is_written_down_too(store: SqliteStore) -> None:
    with canned(lambda call: {"success": False}) as server:
        search = searching(store, server.url)
        assert contents(search) == []
        server.say = lambda call: REME
        assert contents(searching(store, server.url)) == []  # the same step, run again
        search.begin(1)
        assert contents(search) == ["say abc"]


def test_what_is_no_note_or_comes_from_evaluated_tasks_is_not_taken(store: SqliteStore) -> None:
    (good,) = REME["metadata"]["memory_list"]  # type: ignore[index]
    leaked = {**good, "content": "leak", "metadata": {"tasks": ["held-out"]}}
    bad = [leaked, {"content": 3}, {"content": ""}, {"content": "x" * 9000}, "x", good]
    with canned(lambda call: {"metadata": {"memory_list": bad}}) as server:
        evaluated = frozenset([TaskKey("held-out")])
        search = searching(store, server.url, evaluated=evaluated)
        found = search.search("letters", 10)
        assert [each.note.content for each in found] == ["say abc"]
        assert search.figures.refused == 5


@pytest.mark.parametrize("trust", [10**400, -(10**400), -0.5], ids=["huge", "low", "negative"])
def test_a_trust_that_is_none_costs_its_note_and_not_the_run(
    store: SqliteStore, trust: float
) -> None:
    (good,) = REME["metadata"]["memory_list"]  # type: ignore[index]
    absurd = {**good, "content": "absurd", "metadata": {"trust": trust}}
    with canned(lambda call: {"metadata": {"memory_list": [absurd, good]}}) as server:
        search = searching(store, server.url)
        assert contents(search) == ["say abc"]
        assert search.figures.refused == 1


def test_banned_barred_and_distrusted_notes_stay_out(store: SqliteStore) -> None:
    with canned(lambda call: REME) as server:
        search = searching(store, server.url, trust=0.3)
        assert contents(search, min_trust=0.5) == []
        (found,) = search.search("letters", 3)
        assert contents(search, without=[found.note.id]) == []
        StoreBank(store).mark([found.note.id], NoteAction.BAN, "poison")
        assert contents(search) == []


def test_our_own_service_answers_it(store: SqliteStore, tmp_path: Path) -> None:
    draft = replace(Draft("say abc", "letters", trust=0.4), tasks=(TaskKey("t"),))
    with open_store(tmp_path / "bank.db") as bank:
        StoreBank(bank).add([draft, Draft("say xyz", "letters", trust=1.0)])
    with served(tmp_path / "bank.db") as server:
        search = searching(store, server.url, trust=0.9)
        (found,) = search.search("which letters", 3)
        assert (found.note.content, found.note.trust) == ("say xyz", 0.9)
