"""One attempt at a desk task: the agent talks to the user or calls a tool, turn by turn."""

from __future__ import annotations

from recollect.envs.base import Opening, Score, Turn, system, tool, user
from recollect.envs.desk.facts import statements
from recollect.envs.desk.level import LEVELS
from recollect.envs.desk.scenario import Scenario
from recollect.envs.desk.scoring import Attempt, judge
from recollect.envs.desk.user import ScriptedUser
from recollect.envs.tools import Call, MalformedCall, parse_call
from recollect.errors import EpisodeOver
from recollect.types import StopReason

# Statements beyond this many characters are not listened to.
_MOST_HEARD = 4000


class DeskEpisode:
    """An attempt with its own copy of the scenario's database."""

    __slots__ = (
        "_calls",
        "_database",
        "_errors",
        "_id",
        "_over",
        "_scenario",
        "_shaped",
        "_stated",
        "_turns",
        "_user",
    )

    def __init__(self, id: str, scenario: Scenario, seed: int, shaped: bool) -> None:
        self._id = id
        self._scenario = scenario
        self._shaped = shaped
        self._database = scenario.database.copy()
        self._user = ScriptedUser(scenario.request, scenario.slots, seed)
        self._calls: list[Call] = []
        self._stated = ""
        self._errors = 0
        self._turns = 0
        self._over = False

    @property
    def opening(self) -> Opening:
        """The policy, the request and the tools; the same for every seed of a task."""
        domain = self._scenario.domain
        messages = (system(domain.policy), user(self._scenario.request))
        return Opening(messages, domain.toolbox.specs)

    def respond(self, text: str) -> Turn:
        """Run the tool call in the text, or pass the text to the user if it has none."""
        if self._over:
            raise EpisodeOver(self._id)
        self._turns += 1
        parsed = parse_call(text)
        turn = self._talk(text) if parsed is None else self._use(parsed)
        if not turn.done and self._turns >= LEVELS[self._scenario.level].turns:
            turn = Turn(turn.messages, StopReason.TURN_LIMIT)
        self._over = turn.done
        return turn

    def _use(self, parsed: Call | MalformedCall) -> Turn:
        if isinstance(parsed, MalformedCall):
            self._errors += 1
            return Turn((tool(f"Error: {parsed.problem}"),))
        answer, worked = self._scenario.domain.toolbox.run(self._database, parsed)
        if worked:
            self._calls.append(parsed)
        else:
            self._errors += 1
        return Turn((tool(answer, parsed.name),))

    def _talk(self, text: str) -> Turn:
        heard = text[:_MOST_HEARD]
        self._stated += statements(heard) + "\n"
        answer = self._user.answer(heard, self._turns)
        return Turn((), StopReason.DONE) if answer is None else Turn((user(answer),))

    def score(self) -> Score:
        """Compare the database and the told facts with the gold."""
        attempt = Attempt(self._database, self._stated, self._calls, self._errors)
        return judge(self._scenario, attempt, self._shaped)

    def close(self) -> None:
        """Refuse further turns; there is nothing else to let go of."""
        self._over = True
