"""Tools check types and ids, and answer every mistake with a text."""

from __future__ import annotations

import pytest

from recollect.envs.desk.database import Database
from recollect.envs.desk.environment import DOMAINS, Desk
from recollect.envs.tools import Call


@pytest.mark.parametrize("domain", DOMAINS)
def test_mistakes_are_answered_and_change_nothing(domain):
    scenario = Desk().scenario(f"{domain}:{4}:{DOMAINS[domain].kinds[4][0]}:0")
    toolbox = DOMAINS[domain].toolbox
    for spec in toolbox.specs:
        for arguments in ({"nonsense": 1}, {p.name: None for p in spec.parameters} or {"x": 1}):
            database = scenario.database.copy()
            answer, worked = toolbox.run(database, Call(spec.name, arguments))
            assert answer.startswith("Error: ")
            assert not worked
            assert database == scenario.database
    assert toolbox.run(database, Call("no_such_tool", {})) == ("Error: unknown tool", False)


@pytest.mark.parametrize("domain", DOMAINS)
def test_an_unknown_id_is_an_error_of_every_tool_with_an_id(domain):
    scenario = Desk().scenario(f"{domain}:1:{DOMAINS[domain].kinds[1][0]}:0")
    examples = {"string": "x", "integer": 1, "boolean": True}
    tried = 0
    for spec in DOMAINS[domain].toolbox.specs:
        if not any(p.name == "id" for p in spec.parameters):
            continue
        arguments = {p.name: (*p.choices, examples[p.type])[0] for p in spec.parameters}
        answer, worked = DOMAINS[domain].toolbox.run(
            scenario.database.copy(), Call(spec.name, {**arguments, "id": "Z0Z0"})
        )
        assert (answer, worked) == ("Error: unknown id", False)
        tried += 1
    assert tried >= 5


@pytest.mark.parametrize("domain", DOMAINS)
def test_reading_changes_nothing_and_lists_show_what_details_show(domain):
    described = DOMAINS[domain]
    scenario = Desk().scenario(f"{domain}:4:{described.kinds[4][0]}:0")
    user = scenario.calls[0].arguments["user"]
    database = scenario.database.copy()
    listed, _ = described.toolbox.run(database, Call(described.list_tool, {"user": user}))
    details = [
        described.toolbox.run(database, Call(described.detail_tool, {"id": key}))[0]
        for key in database.tables[described.table]
    ]
    assert listed == "\n".join(details)
    nobody, worked = described.toolbox.run(database, Call(described.list_tool, {"user": "u0"}))
    assert (nobody, worked) == ("none", True)
    assert database == scenario.database


def test_databases_are_copied_whole_and_compared_whole():
    first = Database({"a": {"x": {"n": 1}}})
    second = first.copy()
    assert first == second
    second.tables["a"]["x"]["n"] = 2
    assert first.tables["a"]["x"]["n"] == 1
    assert first != second
    assert Database({}) != Database({}, handed_over=True)
    assert first != "a"
    with pytest.raises(TypeError, match="unhashable"):
        hash(first)
