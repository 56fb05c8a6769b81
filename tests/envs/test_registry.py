"""Names lead to environments: built in, plugged in, or a file of one's own."""

from __future__ import annotations

import sys

import pytest

from recollect.envs.desk.environment import Desk
from recollect.envs.registry import environment_names, load_environment
from recollect.errors import BadEnvironment, UnknownEnvironment, UnknownTask

OWN = """
from recollect.envs.base import Opening, Turn, user
from recollect.envs.dialogue import Dialogue, DialogueEnvironment

class E(Dialogue):
    def begin(self):
        return Opening((user("?"),))
    def reply(self, text):
        return self.end()

class Own(DialogueEnvironment):
    name = "own"
    episode = E
    def __init__(self, size: int = 3):
        self.size = size
    def queries(self):
        return [str(n) for n in range(self.size)]

def plug(argument: str = "", size: int = 4):
    made = Own(size)
    made.name = f"own-{argument}"
    return made

class Nothing:
    pass

def broken():
    raise ZeroDivisionError("no luck")

number = 7
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


@pytest.fixture
def plugged(tmp_path, own, monkeypatch):
    """A really installed plug-in: a module and its metadata on the path."""
    own.rename(tmp_path / "own_plug_in.py")
    info = tmp_path / "own_plug_in-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-plug-in\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[recollect.environments]\nowny = own_plug_in:plug\nsick = own_plug_in:missing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("own_plug_in", None)


def test_desk_names():
    assert load_environment("desk").domains == ("airline", "retail", "telecom")
    assert load_environment("desk:retail").domains == ("retail",)
    assert load_environment("desk:telecom,airline").domains == ("airline", "telecom")
    assert isinstance(load_environment("desk"), Desk)


def test_options_reach_the_environment():
    desk = load_environment("desk:airline", levels=[1], size=20)
    assert {task.level for task in desk.tasks("train")} == {1}


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UnknownEnvironment, match="Did you mean 'desk:airline'") as caught:
        load_environment("dask:airline")
    assert caught.value.nearest == "desk:airline"
    with pytest.raises(UnknownEnvironment, match="Known: desk, reasoning_gym, single_turn"):
        load_environment("zzzzzz")


def test_an_unknown_domain_names_the_known():
    with pytest.raises(UnknownTask, match="Known: airline, retail, telecom"):
        load_environment("desk:hotel")


def test_an_unknown_option_gets_the_nearest():
    with pytest.raises(BadEnvironment, match="Did you mean 'levels'"):
        load_environment("desk", level=1)
    with pytest.raises(BadEnvironment, match="named twice"):
        load_environment("desk:airline", domains=["retail"])


def test_a_missing_option_is_named():
    with pytest.raises(BadEnvironment, match="'reward'"):
        load_environment("single_turn:prompts.jsonl")


def test_a_file_of_ones_own(own):
    environment = load_environment(f"{own}:Own", size=5)
    assert sum(len(list(environment.tasks(s))) for s in environment.splits) == 5


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Missing", "has no Missing"),
        ("number", "is not a class or a function"),
        ("Nothing", "lacks tasks, start, name, version"),
        ("broken", "ZeroDivisionError: no luck"),
    ],
)
def test_a_file_that_does_not_fit(own, name, problem):
    with pytest.raises(BadEnvironment, match=problem):
        load_environment(f"{own}:{name}")


def test_a_file_that_is_not_there_or_does_not_load(tmp_path):
    with pytest.raises(BadEnvironment, match="there is no file"):
        load_environment(f"{tmp_path}/none.py:X")
    bad = tmp_path / "bad.py"
    bad.write_text("x = = 1")
    before = set(sys.modules)
    with pytest.raises(BadEnvironment, match="fails to load: SyntaxError"):
        load_environment(f"{bad}:X")
    assert not [name for name in set(sys.modules) - before if "recollect_user" in name]


def test_plug_ins_are_listed_without_loading_and_loaded_by_name(plugged):
    assert environment_names() == ("desk", "reasoning_gym", "single_turn", "tau2", "owny", "sick")
    assert "own_plug_in" not in sys.modules
    environment = load_environment("owny:here", size=2)
    assert environment.name == "own-here"
    assert sum(len(list(environment.tasks(s))) for s in environment.splits) == 2


def test_a_sick_plug_in_is_named(plugged):
    with pytest.raises(BadEnvironment, match="own_plug_in:missing fails to load"):
        load_environment("sick")


def test_a_class_takes_nothing_after_the_colon_unless_it_says_so(own):
    with pytest.raises(UnknownEnvironment):
        load_environment(f"{own}:Own:extra")
