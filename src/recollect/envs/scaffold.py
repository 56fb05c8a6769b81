"""A first environment of one's own: a file that works, and a test that proves it."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path

from recollect.errors import BadEnvironment, WouldOverwrite

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")

_ENVIRONMENT = '''"""Guess a number from 1 to 500 in ten tries. Put your own task here."""

from recollect.envs.base import Limits, Opening, Turn, system, user
from recollect.envs.dialogue import Dialogue, DialogueEnvironment
from recollect.types import Task


class {class_name}Episode(Dialogue):
    def begin(self) -> Opening:
        self.secret = int(self.task.query)  # the agent reads the opening, not the query
        rules = "Find the number from 1 to 500. Answer with a number only."
        return Opening((system(rules), user("What is it?")))

    def reply(self, text: str) -> Turn:
        guess = text.strip()
        if not (guess.isascii() and guess.isdecimal() and len(guess) < 10):
            return self.say("A number, please.")
        if int(guess) == self.secret:
            self.reward = 1.0
            return self.end()
        return self.say("Higher." if int(guess) < self.secret else "Lower.")


class {class_name}(DialogueEnvironment):
    name = "{name}"
    episode = {class_name}Episode
    limits = Limits(turns=10, chars=100)

    def queries(self) -> list[str]:
        return [str(number) for number in range(1, 501)]

    def gold(self, task: Task) -> tuple[str, ...]:
        return (task.query,)
'''

_TEST = '''"""{class_name} keeps the contract, and can be won and lost."""

from {name} import {class_name}

from recollect.envs.checker import check_environment
from recollect.envs.transcript import Script, play


def test_contract():
    report = check_environment({class_name}(), tasks=5)
    assert report.ok, report


def test_right_and_wrong_guesses():
    environment = {class_name}()
    task = next(environment.tasks("train"))
    assert play(environment, task, Script(environment.gold(task))).score.success
    assert not play(environment, task, Script(["0"] * 10)).score.success
'''


def class_name(name: str) -> str:
    """Give the class that the file of this name holds: my_task has MyTask."""
    return "".join(part.capitalize() for part in name.split("_"))


def write_environment(name: str, folder: Path) -> tuple[Path, Path]:
    """Write NAME.py and test_NAME.py into a folder, made if need be; refuse to replace either."""
    if not _NAME.match(name) or keyword.iskeyword(name) or name in sys.stdlib_module_names:
        hint = "Small letters, digits and _, not a word of Python's own: my_task"
        raise BadEnvironment(name[:60], "is not a name for a new Python file", hint)
    if folder.exists() and not folder.is_dir():
        raise BadEnvironment(name, f"{folder} is no folder")
    files = {
        folder / f"{name}.py": _ENVIRONMENT,
        folder / f"test_{name}.py": _TEST,
    }
    for path in files:
        if path.exists():
            raise WouldOverwrite(path)
    folder.mkdir(parents=True, exist_ok=True)
    for path, template in files.items():
        # "x" refuses to replace a file that appeared in the meantime.
        with path.open("x", encoding="utf-8") as file:
            file.write(template.format(name=name, class_name=class_name(name)))
    first, second = files
    return first, second
