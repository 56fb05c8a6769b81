"""What the agent reads before its first word: tau2's own prompt, or a short one of ours.

tau2's policy and tools take 5,000 to 10,000 tokens. The short prompt is for models that have no
room for them; its scores are not tau2's, so the environment then has another name.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, cast

from recollect.canonical import Json
from recollect.envs.base import Opening, Parameter, ParameterType, ToolSpec, system, user
from recollect.envs.tau2.criteria import TRANSFER
from recollect.envs.tau2.domain import Domain

PROMPTS = ("official", "brief")
DONE = "done"
_TYPES = ("string", "integer", "number", "boolean")
_TICKET = "The ticket is the next message."
_BRIEF = "You are the {domain} service desk. Help with one tool call or one message at a time."
_BRIEF_SOLO = (
    "You are the {domain} service desk. Solve the ticket with tool calls only. Call {transfer} if "
    "you cannot. Then call {done}."
)
_DONE_SPEC = ToolSpec(DONE, "End the work on the ticket.")


class Prompts:
    """Openings for the tasks of one domain."""

    def __init__(self, domain: Domain, brief: bool) -> None:
        self._domain = domain
        self._brief = brief
        self.tools = (*self._specs(), *((_DONE_SPEC,) if domain.solo else ()))
        self._system = self._system_text()
        self.opening = lru_cache(maxsize=512)(self._opening)

    def _opening(self, first: str) -> Opening:
        """Make the opening before the first thing that a user says, or a ticket."""
        return Opening((system(self._system), user(first)), self.tools)

    def _system_text(self) -> str:
        domain, prompts = self._domain, self._domain.package.prompts
        if self._brief:
            text = _BRIEF_SOLO if domain.solo else _BRIEF
            return text.format(domain=domain.name, transfer=TRANSFER, done=DONE)
        if not domain.solo:
            filled = prompts.SYSTEM_PROMPT.format(
                domain_policy=domain.policy, agent_instruction=prompts.AGENT_INSTRUCTION
            )
            return str(filled)
        instruction = prompts.AGENT_SOLO_INSTRUCTION.format(
            stop_function_name=DONE, stop_token=prompts.LLMSoloAgent.STOP_TOKEN
        )
        filled = prompts.SYSTEM_PROMPT_SOLO.format(
            agent_instruction=instruction, domain_policy=domain.policy, ticket=_TICKET
        )
        return str(filled)

    def _specs(self) -> tuple[ToolSpec, ...]:
        """Describe the tools. A short prompt has only those of the user's that gold ever needs."""
        phone = {tool.name for tool in self._domain.user_tools}
        rare = phone - self._domain.common_tools if self._brief else set()
        return tuple(
            _spec(tool, self._brief) for tool in self._domain.agent_tools if tool.name not in rare
        )


def _spec(tool: Any, brief: bool) -> ToolSpec:
    schema = tool.openai_schema
    if brief:
        schema = _bare(schema)
    function = schema["function"]
    fields = function["parameters"].get("properties", {})
    required = function["parameters"].get("required", [])
    parameters = tuple(
        Parameter(
            name,
            _type(about),
            str(about.get("description", "")),
            tuple(str(choice) for choice in about.get("enum", ())),
            name in required,
        )
        for name, about in fields.items()
    )
    given = json.dumps(schema, ensure_ascii=False)
    return ToolSpec(tool.name, str(function.get("description", "")), parameters, given)


def _type(about: dict[str, Any]) -> ParameterType:
    named = about.get("type")
    return cast(ParameterType, named) if named in _TYPES else "string"


def _bare(schema: Json) -> Any:
    """Leave out what describes, and keep what constrains."""
    if isinstance(schema, list):
        return [_bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _bare(value)
        for key, value in schema.items()
        if not (key in ("description", "title") and isinstance(value, str))
    }
