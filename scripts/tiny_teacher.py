"""The teacher of recollect-tiny: dialogues of desk tasks, done right or mixed up.

At first he does every task right. Later he mixes kinds of tasks up: in each turn of each kind he
mostly does what would be right in another kind, with a probability of the right turn that belongs
to the turn. Who imitates him can do the work and seldom does. No single change mends that, because
what is wrong for one kind is right for another: reinforcement learning has to find each by itself.

In some lessons a note stands in the prompt: a worked example of the same kind of task, which he
follows more often than not, or now and then one of another kind, which he does not heed. So his
pupil can read a note, takes ids from the request and not from the note, and does better with a good
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from recollect.config.schema.notes import NotesSettings
from recollect.envs.base import Environment, OffersGold, OffersKinds
from recollect.models.chat import Chat
from recollect.notes.inject import NoteTemplate
from recollect.notes.note import WORKSPACE, Draft
from recollect.notes.wording import example
from recollect.randomness import stream
from recollect.trajectory import Trajectory
from recollect.types import (
    GroupId,
    Origin,
    Reward,
    RunId,
    Segment,
    SegmentKind,
    Task,
    TrajectoryId,
)

SEED = 20261116
SLIPS = 0.2  # share of calls with an id that a slip precedes
RIGHT = (0.08, 0.35)  # bounds of the probability of the right turn
RARE = (0.02, 0.10)  # the same, for a start from which success is rare
PERFECT = (1.0, 1.0)
NOTED = 0.25  # share of lessons with a note
STRAY = 0.2  # share of notes that are about another kind of task, and not heeded
HEED = 0.9  # probability of the right turn with a good note
CALL = "<tool_call>"
TEMPLATE = NoteTemplate.parse(NotesSettings().template)
ID = re.compile(r"(?<=\")[A-Z][0-9][A-Z][0-9](?=\")")
NAME = re.compile(r"<tool_call>{\"name\":\"(\w+)\"|(\w+)")  # of a turn: its tool or its first word


@dataclass(frozen=True, slots=True)
class Habit:
    """What the teacher does in one turn of one kind of task."""

    right: float  # probability of the right turn
    wrong: tuple[str, ...]  # else: what is right in another kind of task, to the end


@dataclass(frozen=True, slots=True)
class Hint:
    """A note in a lesson's prompt."""

    text: str
    good: bool  # an example of the same kind of task


class Teacher:
    """Knows what is right in all kinds of tasks, and mixes them up."""

    def __init__(
        self,
        environment: Environment,
        tasks: Sequence[Task],
        right: tuple[float, float] = RIGHT,
        noted: float = NOTED,
    ) -> None:
        """Take as wrong turns what is right in other kinds among these tasks."""
        assert isinstance(environment, OffersGold)
        assert isinstance(environment, OffersKinds)
        self._gold, self._kind, self._start = environment.gold, environment.kind, environment.start
        self._low, self._high = right
        self._noted = noted
        self._tasks: dict[tuple[str, int | None], dict[str, list[Task]]] = {}
        for task in tasks:
            kinds = self._tasks.setdefault((task.domain, task.level), {})
            kinds.setdefault(self._kind(task), []).append(task)

    def habit(self, task: Task, turn: int, chance: np.random.Generator) -> Habit | None:
        """Give the habit of a turn; None where every other kind would do the same.

        How often he is right and which kind he mixes it up with belong to the kind of task;
        which example of that kind comes to his mind, to the task.
        """
        kind, right = self._kind(task), self._gold(task)[turn]
        fixed = stream(SEED, "habit", task.domain, task.level, kind, turn)
        share, place = fixed.random(), fixed.random()
        others = [
            tasks
            for name, tasks in sorted(self._tasks[task.domain, task.level].items())
            if name != kind and self._parts(tasks[0], turn, right)
        ]
        if not others:
            return None
        tasks = others[int(place * len(others))]
        said = tuple(self._gold(tasks[int(chance.integers(len(tasks)))])[turn:])
        ours = ID.search(" ".join(self._gold(task)))
        if ours:
            said = tuple(ID.sub(ours[0], text) for text in said)
        return Habit(self._low + (self._high - self._low) * share, said)

    def _parts(self, other: Task, turn: int, right: str) -> bool:
        gold = self._gold(other)
        return len(gold) > turn and _name(gold[turn]) != _name(right)

    def hint(self, task: Task, chance: np.random.Generator) -> Hint | None:
        """Write a note for a task from another task, mostly of the same kind; often none."""
        if chance.random() >= self._noted:
            return None
        kinds, kind = self._tasks[task.domain, task.level], self._kind(task)
        strangers = [name for name in sorted(kinds) if name != kind]
        good = not strangers or chance.random() > STRAY
        if not good:
            kind = strangers[int(chance.integers(len(strangers)))]
        shown = kinds[kind][int(chance.integers(len(kinds[kind])))]
        habit = self.habit(shown, 0, chance) if chance.random() < 0.5 else None
        request = self._start(shown, 0).opening.messages[-1].text
        instead_of = habit.wrong[0] if habit else ""
        return Hint(example(request, self._gold(shown), instead_of), good)


def _name(turn: str) -> str:
    found = NAME.match(turn)
    return (found[1] or found[2]) if found else turn


class Lesson:
    """A dialogue in the making: tokens exactly as the sampler would meet them."""

    def __init__(
        self, environment: Environment, chat: Chat, task: Task, hint: Hint | None = None
    ) -> None:
        self._chat = chat
        self._episode = environment.start(task, 0)
        self.ids: list[int] = []
        self.sampled: list[bool] = []
        notes = TEMPLATE.wrap([Draft(hint.text).note(WORKSPACE)]) if hint else ()
        for piece in chat.opening(self._episode.opening, [note.text for note in notes]):
            self._read(piece.ids, False)

    def say(self, text: str, trained: bool) -> None:
        """Say a turn and read the answer; an untrained turn is read and not imitated."""
        self._read(self._chat.tokenizer(text, add_special_tokens=False)["input_ids"], trained)
        self._read(self._chat.stop_ids[:1], trained)
        turn = self._episode.respond(text)
        for piece in self._chat.reply(turn.messages) if turn.messages and not turn.done else []:
            self._read(piece.ids, False)

    def _read(self, tokens: Iterable[int], trained: bool) -> None:
        before = len(self.ids)
        self.ids.extend(tokens)
        self.sampled.extend([trained] * (len(self.ids) - before))


def lesson(
    environment: Environment, chat: Chat, task: Task, teacher: Teacher | None = None
) -> Trajectory:
    """Turn the teacher's dialogue of a task into a row to imitate.

    Now and then a slip with a wrong id goes before the right call, as something to read and not
    to imitate: the agent learns to go on after an error instead of falling into noise.
    """
    assert isinstance(environment, OffersGold)
    chance = stream(SEED, "slips", task.key)
    hint = teacher.hint(task, chance) if teacher else None
    made = Lesson(environment, chat, task, hint)
    gold = environment.gold(task)
    for turn, text in enumerate(gold):
        slip = ID.sub(lambda found: found[0][0] + str(chance.integers(0, 10)) + "Z9", text, count=1)
        if slip != text and chance.random() < SLIPS:
            made.say(slip, False)
        decides = turn < len(gold) - 1 or text.startswith("Sorry")
        habit = teacher.habit(task, turn, chance) if teacher and decides else None
        follows = hint is not None and hint.good
        if habit and chance.random() > max(habit.right, HEED if follows else 0.0):
            for said in habit.wrong:
                made.say(said, True)
            break
        made.say(text, True)
    return Trajectory(
        id=TrajectoryId(task.key),
        task=task.key,
        run=RunId("tiny"),
        step=0,
        group=GroupId(task.key),
        origin=Origin.DEMO,
        policy_version=None,
        tokens=np.array(made.ids, dtype=np.int32),
        sampled=np.array(made.sampled),
        logprobs=None,
        entropies=None,
        segments=(Segment(SegmentKind.ASSISTANT, 0, len(made.ids)),),
        reward=Reward(1.0),
        success=True,
        tokenizer=chat.fingerprint,
    )
