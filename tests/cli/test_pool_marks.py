"""`recollect pool ban`, `unban`, `release`, `pin`, `unpin`."""

from __future__ import annotations

import pytest

from recollect.store import open_reader, open_store
from recollect.store.records import Row
from recollect.types import Action, Status

from .conftest import Filled, ask_json, assert_refused, invoke
from .test_pool_verify import damage


def row(filled: Filled, number: int) -> Row:
    with open_reader(filled.path) as reader:
        return reader.row(filled.items[number].id)


def test_ban_and_unban_with_prefixes_and_a_reason(filled: Filled) -> None:
    ids = [filled.items[4].id[:8], filled.items[5].id]
    result = invoke("pool", "ban", *ids, "--reason", "too rude", "--store", filled.path)
    assert result.exit_code == 0
    assert "2 trajectories banned" in result.stdout
    assert [row(filled, n).status for n in (4, 5)] == [Status.BANNED, Status.BANNED]
    with open_reader(filled.path) as reader:
        (mark,) = reader.marks(filled.items[4].id)
    assert (mark.action, mark.reason, mark.run) == (Action.BAN, "too rude", None)
    assert invoke("pool", "unban", *ids, "--store", filled.path).exit_code == 0
    assert row(filled, 4).status is Status.LIVE


def test_pin_and_unpin(filled: Filled) -> None:
    id_ = filled.items[4].id
    assert ask_json("pool", "pin", id_, "--store", filled.path)["changed"] == [id_]
    assert row(filled, 4).pinned
    assert ask_json("pool", "unpin", id_, "--store", filled.path)["changed"] == [id_]
    assert not row(filled, 4).pinned


@pytest.mark.parametrize(
    ("command", "number", "why"),
    [
        ("ban", 1, "it is banned already"),
        ("unban", 4, "it is live, not banned"),
        ("unban", 3, "it is evicted, not banned"),
        ("pin", 2, "it is pinned already"),
        ("unpin", 4, "it is not pinned"),
        ("release", 1, "it is banned, not quarantined"),
    ],
)
def test_needless_marks_change_nothing(filled: Filled, command: str, number: int, why: str) -> None:
    before = filled.path.read_bytes()
    id_ = filled.items[number].id
    found = ask_json("pool", command, id_, "--store", filled.path)
    assert found == {"action": command, "changed": [], "left_alone": {id_: why}}
    assert filled.path.read_bytes() == before
    assert f"left alone: {why}" in invoke("pool", command, id_, "--store", filled.path).stdout


def test_quarantined_rows_cannot_be_freed_by_ban_and_unban(filled: Filled) -> None:
    id_ = filled.items[4].id
    with open_store(filled.path) as store:
        store.quarantine([id_], "damaged")
    invoke("pool", "ban", id_, "--store", filled.path)
    invoke("pool", "unban", id_, "--store", filled.path)
    assert row(filled, 4).status is Status.QUARANTINED


@pytest.mark.parametrize(("number", "status"), [(1, "banned"), (3, "evicted"), (4, "live")])
def test_what_was_set_aside_is_released_as_it_was(filled: Filled, number: int, status: str) -> None:
    id_ = filled.items[number].id
    with open_store(filled.path) as store:
        store.quarantine([id_], "by mistake")
    found = ask_json("pool", "release", id_[:8], "--reason", "sound", "--store", filled.path)
    assert found == {"action": "release", "changed": [id_], "left_alone": {}}
    assert row(filled, number).status.value == status
    with open_reader(filled.path) as reader:
        assert reader.marks(id_)[-1].reason == "sound"
        assert list(reader.verify()) == []


def test_what_is_damaged_stays_set_aside(filled: Filled) -> None:
    damage(filled, 4)
    id_ = filled.items[4].id
    with open_store(filled.path) as store:
        store.quarantine([id_], "damaged")
    found = ask_json("pool", "release", id_, "--store", filled.path)
    assert found["left_alone"] == {id_: "it is damaged (its checksum does not match)"}
    assert row(filled, 4).status is Status.QUARANTINED


def test_the_end_of_a_ban_revives_no_evicted_row(filled: Filled) -> None:
    for command in ("ban", "unban"):
        invoke("pool", command, filled.items[3].id, "--store", filled.path)
    assert row(filled, 3).status is Status.EVICTED
    with open_reader(filled.path) as reader:
        assert list(reader.verify()) == []


def test_one_wrong_id_and_nothing_happens(filled: Filled) -> None:
    before = filled.path.read_bytes()
    result = invoke("pool", "ban", filled.items[4].id, "nope", "--store", filled.path)
    assert_refused(result, "No trajectory 'nope'")
    assert filled.path.read_bytes() == before


def test_ids_from_stdin(filled: Filled) -> None:
    ids = [filled.items[4].id, filled.items[5].id, filled.items[4].id]
    result = invoke("pool", "pin", "-", "--store", filled.path, input="\n".join(ids))
    assert result.exit_code == 0
    assert row(filled, 4).pinned
    assert row(filled, 5).pinned
    assert "2 trajectories pinned" in result.stdout
