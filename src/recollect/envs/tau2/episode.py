"""One attempt at a task of tau2: the agent calls a tool or speaks, turn by turn."""

from __future__ import annotations

from recollect.envs.base import Limits, Opening, Score, Turn, tool, user
from recollect.envs.tau2.judging import Attempt, Judge, Said
from recollect.envs.tau2.prompt import DONE
from recollect.envs.tau2.users import User
from recollect.envs.tau2.world import Answer, World
from recollect.envs.tools import Call, MalformedCall, parse_call
from recollect.errors import EpisodeOver
from recollect.types import StopReason

# Calls that may fail before tau2 ends an attempt.
MOST_ERRORS = 10
_CUT = "... (cut)"


class Tau2Episode:
    """An attempt with a state of its own. Without a user, the agent has to call tools and `done`.

    An attempt ends well when the user leaves or the agent calls `done`; tau2 gives nothing for one
    that a limit, ten failed calls, or a message to nobody ended.
    """

    def __init__(
        self, id: str, world: World, user: User | None, opening: Opening, judge: Judge,
        limits: Limits, said: list[Said],
    ) -> None:  # fmt: skip
        """Take a fresh world. `said` is what happened so far, on the user's phone perhaps."""
        self.opening = opening
        self._id = id
        self._world = world
        self._user = user
        self._judge = judge
        self._limits = limits
        self._said = said
        self._turns = 0
        self._errors = 0
        self._ended = False
        self._over = False

    def respond(self, text: str) -> Turn:
        """Run the tool call in the text, or pass the text to the user if it has none."""
        if self._over:
            raise EpisodeOver(self._id)
        self._turns += 1
        parsed = parse_call(text)
        turn = self._talk(text) if parsed is None else self._use(parsed)
        if not turn.done and self._errors >= MOST_ERRORS:
            turn = Turn(turn.messages, StopReason.DONE)
        elif not turn.done and self._turns >= self._limits.turns:
            turn = Turn(turn.messages, StopReason.TURN_LIMIT)
        self._over = turn.done
        return turn

    def _use(self, parsed: Call | MalformedCall) -> Turn:
        if isinstance(parsed, MalformedCall):
            self._errors += 1
            return Turn((tool(f"Error: {parsed.problem}"),))
        if self._user is None and parsed.name == DONE:
            self._ended = True
            return Turn((), StopReason.DONE)
        answer = self._world.call(parsed.name, parsed.arguments)
        self._said.append(
            Said("assistant", "", parsed.name, parsed.arguments, answer.text, answer.worked)
        )
        self._errors += not answer.worked
        return Turn((tool(self._cut(answer.text), parsed.name),))

    def _talk(self, text: str) -> Turn:
        # A lone surrogate is a text to nobody else.
        heard = text[: self._limits.chars].encode("utf-8", "replace").decode("utf-8")
        self._said.append(Said("assistant", heard))
        if self._user is None:
            return Turn((), StopReason.DONE)
        answer = self._user.answer(heard, self._phone)
        if answer is None:
            self._ended = True
            return Turn((), StopReason.DONE)
        return Turn((user(self._cut(answer)),))

    def _phone(self, call: Call) -> Answer:
        answer = on_the_phone(self._world, self._said, call)
        self._errors += not answer.worked
        return answer

    def _cut(self, text: str) -> str:
        if len(text) <= self._limits.chars:
            return text
        return text[: self._limits.chars - len(_CUT)] + _CUT

    def score(self) -> Score:
        """Judge the state and what was said by the task's criteria."""
        return self._judge.score(self._id, Attempt(self._world, tuple(self._said), self._ended))

    def attempt(self) -> Attempt:
        """What happened so far, for those who judge it in another way."""
        return Attempt(self._world, tuple(self._said), self._ended)

    def close(self) -> None:
        """Refuse further turns; the state is let go of with the attempt."""
        self._over = True


def on_the_phone(world: World, said: list[Said], call: Call) -> Answer:
    """Let the user run a tool, and write it down."""
    answer = world.call(call.name, call.arguments, "user")
    said.append(Said("user", "", call.name, call.arguments, answer.text, answer.worked))
    return answer
