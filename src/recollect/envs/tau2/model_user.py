"""A user played by a model behind a server that speaks OpenAI's chat interface.

It is told what tau2 tells its own: tau2's guidelines, the scenario, and the user's tools.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from recollect.canonical import Json
from recollect.envs.tau2.domain import Domain
from recollect.envs.tau2.users import Phone
from recollect.envs.tools import Call
from recollect.errors import BadEnvironment
from recollect.wire.address import Address, url_problem
from recollect.wire.client import RequestFailed, post_json
from recollect.wire.secret import secret

_MOST_CALLS = 10  # of tools before the user has to say something
_MOST_BYTES = 2**22
_PAUSE = 0.5  # seconds, doubled at each try
_CALL = "chat/completions"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Which model plays the user, and how it is asked."""

    url: str
    model: str
    key_variable: str = "OPENAI_API_KEY"
    temperature: float = 0.0
    seconds: float = 60.0
    tries: int = 3

    def __post_init__(self) -> None:
        problem = url_problem(self.url) if self.url else "is missing"
        if problem or not self.model:
            why = f"user_url {problem}" if problem else "user_model is missing"
            hint = "Like user=endpoint user_url=http://localhost:8000/v1 user_model=NAME"
            raise BadEnvironment("tau2", why, hint)
        secret(self.key_variable)  # refused now, not at the first question

    def ask(self, document: dict[str, Json]) -> dict[str, Any]:
        """Ask for one message. BadEnvironment where there is no answer after all tries."""
        for attempt in range(self.tries):
            try:
                found = post_json(
                    Address.parse(self.url),
                    _CALL,
                    {"model": self.model, "temperature": self.temperature, **document},
                    token=secret(self.key_variable),
                    seconds=self.seconds,
                    most_bytes=_MOST_BYTES,
                )
                return _message(found)
            except RequestFailed as error:
                if not error.retry or attempt + 1 == self.tries:
                    why = f"the user's model gave no answer: {error.reason}"
                    raise BadEnvironment("tau2", why, f"Look at {self.url}.") from error
                time.sleep(_PAUSE * 2**attempt)
        raise AssertionError("unreachable")


class ModelUser:
    """One conversation with the model.

    The same texts get the same answers only if the server can repeat itself, which few promise.
    """

    def __init__(self, endpoint: Endpoint, domain: Domain, task: Any, seed: int) -> None:
        self._endpoint = endpoint
        self._seed = seed
        simulator = domain.package.simulator
        self._greeting = domain.package.greeting
        allowed = None if task.user_tools is None else set(task.user_tools)
        tools = [t for t in domain.user_tools if allowed is None or t.name in allowed]
        self._tools: list[Json] = [tool.openai_schema for tool in tools]
        self._stops = (simulator.STOP, simulator.TRANSFER, simulator.OUT_OF_SCOPE)
        told = simulator.SYSTEM_PROMPT.format(
            global_user_sim_guidelines_with_persona=simulator.get_global_user_sim_guidelines(
                use_tools=bool(tools)
            ),
            instructions=str(task.user_scenario),
        )
        self._messages: list[Json] = [{"role": "system", "content": told}]

    def begin(self, phone: Phone) -> str:
        """Let the model say the first thing, after the greeting that tau2's agents begin with."""
        return self._next(self._greeting, phone) or "..."

    def answer(self, text: str, phone: Phone) -> str | None:
        """Pass a message on; None once the model says that it is done."""
        return self._next(text, phone)

    def _next(self, text: str, phone: Phone) -> str | None:
        self._messages.append({"role": "user", "content": text})
        for _ in range(_MOST_CALLS):
            document: dict[str, Json] = {"messages": self._messages, "seed": self._seed % 2**31}
            if self._tools:
                document["tools"] = self._tools
            message = self._endpoint.ask(document)
            calls = message.get("tool_calls") or []
            if not calls:
                said = str(message.get("content") or "").strip()
                self._messages.append({"role": "assistant", "content": said})
                return None if any(stop in said for stop in self._stops) else said or "..."
            self._messages.append(
                {"role": "assistant", "content": message.get("content") or "", "tool_calls": calls}
            )
            for call in calls:
                answer = _run(call, phone)
                self._messages.append(
                    {"role": "tool", "tool_call_id": str(call.get("id", "")), "content": answer}
                )
        return "..."  # it went on calling tools


def _run(call: dict[str, Any], phone: Phone) -> str:
    function = call.get("function") or {}
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except (ValueError, RecursionError):
        return "Error: arguments are not JSON"
    if not isinstance(arguments, dict):
        return "Error: arguments must be an object"
    return phone(Call(str(function.get("name", "")), arguments)).text


def _message(found: Json) -> dict[str, Any]:
    try:
        message = found["choices"][0]["message"]  # type: ignore[index,call-overload]
    except (LookupError, TypeError) as error:
        raise RequestFailed("the answer is no chat completion", retry=True) from error
    if not isinstance(message, dict):
        raise RequestFailed("the answer holds no message", retry=True)
    return message
