"""The environment tau2: which tasks there are, in which split, with which user, and their gold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from recollect.canonical import digest
from recollect.envs.base import Limits, Proof
from recollect.envs.rotation import in_turn
from recollect.envs.tau2.criteria import (
    TRANSFER,
    gold_steps,
    kind_of,
    strings_of,
    why_left_out,
)
from recollect.envs.tau2.domain import BASE, EXTRA, Domain, problem_of
from recollect.envs.tau2.episode import Tau2Episode, on_the_phone
from recollect.envs.tau2.judging import Judge, Said
from recollect.envs.tau2.model_user import Endpoint, ModelUser
from recollect.envs.tau2.package import DOMAINS, FAMILY, data_mark, load_package
from recollect.envs.tau2.phone import write_call
from recollect.envs.tau2.prompt import DONE, PROMPTS, Prompts
from recollect.envs.tau2.proofs import proofs_of
from recollect.envs.tau2.users import SCRIPTED, Scenario, User
from recollect.envs.tools import Call
from recollect.errors import BadEnvironment, UnknownTask
from recollect.types import Task

# Raised when our users, prompts or scoring change; tau2's version stands before it.
_REVISION = 1
SOLO, ENDPOINT = "solo", "endpoint"
USERS = (SOLO, *SCRIPTED, ENDPOINT)
TURNS = 50
_SOLO_DOMAINS = ("telecom", "mock")
_ALL = ("airline", "retail", "telecom")  # mock is for trying things out
_CHARS = 100_000  # the longest is telecom's policy; tools answer with a few thousand


class Tau2:
    """Tasks of some domains with one tier of user.

    Narrowing never changes a task: `tau2:airline` has exactly the airline tasks of `tau2`, with
    equal keys, in the same splits.
    """

    def __init__(
        self,
        domains: Sequence[Domain],
        user: str,
        *,
        base: bool = False,
        brief: bool = False,
        unjudged: bool = False,
        shaped: bool = False,
        turns: int = TURNS,
        endpoint: Endpoint | None = None,
    ) -> None:
        """Take made domains, which `make_tau2` chooses by name."""
        self._domains = {domain.name: domain for domain in domains}
        self._user = user
        self._unjudged = unjudged
        self._endpoint = endpoint
        self._judges = {d.name: Judge(d, shaped) for d in domains}
        self._prompts = {d.name: Prompts(d, brief) for d in domains}
        self.name = f"{FAMILY}-brief" if brief else FAMILY
        self.domains = tuple(self._domains)
        self.limits = Limits(turns, _CHARS)
        self.splits = _splits(domains, base)
        asked = endpoint and (endpoint.model, endpoint.temperature)
        ways = digest(str((brief, unjudged, shaped, turns, asked)))[:6]
        version = load_package().version
        self.version = f"{version}-{data_mark()}-{_REVISION}-{user}-{ways}"

    def tasks(self, split: str) -> Iterator[Task]:
        """Yield a split's tasks; those of different domains take turns."""
        if split not in self.splits:
            raise UnknownTask(self.name, "split", split, self.splits)
        yield from in_turn(self._line(domain, split) for domain in self._domains.values())

    def _line(self, domain: Domain, split: str) -> Iterator[Task]:
        for id in domain.splits.get(split, ()):
            if not why_left_out(domain, id, self._unjudged):
                yield self._task(domain, id, split)

    def _task(self, domain: Domain, id: str, split: str) -> Task:
        told = domain.task(id)
        query = told.ticket if domain.solo else str(told.user_scenario.instructions)
        return Task(self.name, f"{domain.name}:{id}", self.version, query, domain.name, split)

    def task(self, id: str) -> Task:
        """Make the task of an id such as `airline:12`."""
        domain, own = self._find(id)
        for split in self.splits:
            if own in domain.splits.get(split, ()):
                return self._task(domain, own, split)
        raise UnknownTask(self.name, "task", id)

    def _find(self, id: str) -> tuple[Domain, str]:
        name, _, own = id.partition(":")
        domain = self._domains.get(name)
        if domain is None or why_left_out(domain, own, self._unjudged):
            raise UnknownTask(self.name, "task", id)
        return domain, own

    def left_out(self) -> dict[str, str]:
        """Name the tasks that are not played, and why."""
        return {
            f"{domain.name}:{id}": why
            for domain in self._domains.values()
            for split in self.splits
            for id in domain.splits.get(split, ())
            if (why := why_left_out(domain, id, self._unjudged))
        }

    def start(self, task: Task, seed: int) -> Tau2Episode:
        """Begin a fresh attempt. Only a model as the user has something left to chance."""
        if task.environment != self.name or task.version != self.version:
            raise UnknownTask(self.name, "task", f"{task.environment} {task.version} {task.id}")
        domain, id = self._find(task.id)
        world = domain.world(id).fork()
        said: list[Said] = []
        user = self._make_user(domain, id, seed)
        told = domain.task(id)
        first = told.ticket if user is None else user.begin(partial(on_the_phone, world, said))
        opening = self._prompts[domain.name].opening(_earlier(told) + first)
        return Tau2Episode(id, world, user, opening, self._judges[domain.name], self.limits, said)

    def _make_user(self, domain: Domain, id: str, seed: int) -> User | None:
        task = domain.task(id)
        if self._user == SOLO:
            return None
        if self._endpoint is not None:
            return ModelUser(self._endpoint, domain, task, seed)
        names = [tool.name for tool in domain.user_tools]
        return SCRIPTED[self._user](Scenario.of(task, names))

    def content(self, task: Task) -> str:
        """Identify a task's problem: telecom has the same one for several personas."""
        domain, id = self._find(task.id)
        return f"{domain.name}:{problem_of(id)}"

    def kinds(self, domain: str, level: int) -> tuple[str, ...]:
        """List the kinds of task of a domain, by what their gold does."""
        found = self._domains[domain]
        ids = (id for split in self.splits for id in found.splits.get(split, ()))
        kept = [id for id in ids if not why_left_out(found, id, self._unjudged)]
        return tuple(sorted({kind_of(found, id) for id in kept})) if level == 0 else ()

    def kind(self, task: Task) -> str:
        """Name the kind of a task: writes, reads, transfers, or unjudged."""
        return kind_of(*self._find(task.id))

    def constants(self, domain: str) -> dict[str, tuple[str, ...]]:
        """Name the agents that always stop, and that always transfer to a human."""
        if domain not in self._domains:
            raise UnknownTask(self.name, "domain", domain, self.domains)
        end = self._end()
        transfer = Call(TRANSFER, {"summary": "The user needs a human agent."}).text()
        return {"stop": (end,), "transfer": (transfer, end)}

    def _end(self) -> str:
        return Call(DONE, {}).text() if self._user == SOLO else "Done."


class Tau2WithGold(Tau2):
    """With users whose answers are known beforehand, an ideal agent's texts are, too."""

    def gold(self, task: Task) -> tuple[str, ...]:
        """Give the texts that make gold's calls, say what is to be said, and end."""
        domain, id = self._find(task.id)
        lines = []
        for step in gold_steps(domain, id):
            on_phone = step.who == "user" and self._user != SOLO
            write = write_call if on_phone else _write
            lines.append(write(step.name, dict(step.arguments)))
        told = ". ".join(strings_of(domain.task(id))).replace("?", "")
        return (*lines, f"Done. {told}".strip() if told and self._user != SOLO else self._end())

    def proofs(self) -> tuple[Proof, ...]:
        """Offer proofs for all tasks: gold's reward, tau2's own verdict, and fresh states."""
        return proofs_of(self, tuple(self._domains.values()))


def _write(name: str, arguments: dict[str, object]) -> str:
    return Call(name, arguments).text()  # type: ignore[arg-type]


def _earlier(task: object) -> str:
    """Tell what was said before the attempt begins, where a task begins in the middle."""
    begin = getattr(task, "initial_state", None)
    history = (begin.message_history if begin else None) or ()
    lines = [f"{m.role}: {m.content}" for m in history if m.content]
    return "Earlier in this conversation:\n" + "\n".join(lines) + "\n\n" if lines else ""


def _splits(domains: Sequence[Domain], base: bool) -> tuple[str, ...]:
    """Name the splits: train, test and extra, or base alone where that is asked for or all."""
    if base or all("train" not in domain.splits for domain in domains):
        return (BASE,)
    found = [split for domain in domains for split in domain.splits]
    return tuple(split for split in ("train", "test", EXTRA) if split in found)


def make_tau2(
    argument: str = "",
    *,
    user: str = "script",
    base: bool = False,
    prompt: str = "official",
    unjudged: bool = False,
    shaped: bool = False,
    turns: int = TURNS,
    user_url: str = "",
    user_model: str = "",
    user_key_variable: str = "OPENAI_API_KEY",
    user_temperature: float = 0.0,
    user_seconds: float = 60.0,
) -> Tau2:
    """Make the environment for a name like `tau2:airline`, `tau2:airline,retail`, or `tau2`.

    `user` is solo (a ticket, no user), script (tells all at once), slots (tells what it is asked
    for) or endpoint (a model at `user_url`). `base` makes one split of train and test, for
    figures to compare with published ones. `prompt` is official or brief. `unjudged` adds the
    tasks that a model would have to judge, without its opinion. `shaped` gives failed attempts
    part of the reward. `turns` bounds an attempt.
    """
    names = [name for name in argument.split(",") if name] or list(_ALL)
    for name in names:
        if name not in DOMAINS:
            raise UnknownTask(FAMILY, "domain", name, DOMAINS)
    _check_choice("user", user, USERS)
    _check_choice("prompt", prompt, PROMPTS)
    refused = [name for name in names if user == SOLO and name not in _SOLO_DOMAINS]
    if refused:
        why = f"{' and '.join(refused)} cannot be played without a user"
        hint = f"Use user=script, or only {' and '.join(_SOLO_DOMAINS)}: tau2:telecom"
        raise BadEnvironment(FAMILY, why, hint)
    if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
        raise BadEnvironment(FAMILY, f"turns must be a whole number from 1, not {turns!r}")
    endpoint = None
    if user == ENDPOINT:
        endpoint = Endpoint(user_url, user_model, user_key_variable, user_temperature, user_seconds)
    package = load_package()
    domains = [Domain(package, name, user == SOLO) for name in DOMAINS if name in names]
    kind: Callable[..., Tau2] = Tau2 if endpoint else Tau2WithGold
    return kind(
        domains, user, base=base, brief=prompt == "brief", unjudged=unjudged, shaped=shaped,
        turns=turns, endpoint=endpoint,
    )  # fmt: skip


def _check_choice(option: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise BadEnvironment(
            FAMILY, f"there is no {option} {given!r}", f"Known: {', '.join(known)}."
        )
