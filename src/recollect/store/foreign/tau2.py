"""tau2-bench's results.json: one document with tasks and simulations.

The agent's conversation is kept: what the user does with tools of its own, and what those answer,
is not seen by the agent and is left out. No tokens are recorded, so the rows are demos.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recollect.errors import InvalidRecord
from recollect.store.fields import Fields

_STOPS = {
    "user_stop": "done",
    "agent_stop": "done",
    "max_steps": "turn_limit",
    "timeout": "time_limit",
}


def simulations_of(document: Any) -> Iterator[dict[str, Any]]:
    """Yield the simulations of a document, each with the name of its domain."""
    fields = Fields(document)
    info = fields.take("info", {})
    about = info.get("environment_info", {}) if isinstance(info, dict) else {}
    domain = about.get("domain_name", "") if isinstance(about, dict) else ""
    for entry in fields.items("simulations"):
        if not isinstance(entry, dict):
            raise InvalidRecord("simulations", "must be objects")
        yield {"domain": domain, **entry}


def row_of_tau2(fields: Fields, environment: str) -> dict[str, Any]:
    """Put one simulation into our spelling."""
    domain, id_ = fields.take("domain", ""), fields.take("task_id")
    judged = Fields(fields.take("reward_info"), "reward_info")
    messages = [
        message
        for index, entry in enumerate(fields.items("messages"))
        for message in _messages(Fields(entry, fields.item("messages", index)))
    ]
    name = f"tau2:{domain}" if domain and environment == "imported" else environment
    row: dict[str, Any] = {
        "messages": messages,
        "reward": judged.number("reward"),
        "task": {"environment": name, "id": str(id_), "domain": domain or name},
        "stop": _STOPS.get(str(fields.take("termination_reason", "")), "unknown"),
        "extra": {"tau2": {k: fields.take(k, None) for k in ("trial", "seed", "duration")}},
    }
    if (own := fields.take("id", None)) is not None:
        row["id"] = own
    return row


def _messages(fields: Fields, role: str | None = None) -> list[dict[str, Any]]:
    role = fields.take("role") if role is None else role
    if role == "tool":
        together = fields.optional_items("tool_messages")
        if together is not None:  # several answers in one message
            parts = (
                Fields(part, fields.item("tool_messages", n)) for n, part in enumerate(together)
            )
            return [message for part in parts for message in _messages(part, "tool")]
        if fields.take("requestor", "assistant") != "assistant":
            return []
        text = fields.take("content", "")
        return [{"role": "tool", "content": text, "tool_call_id": fields.take("id", "")}]
    calls = fields.optional_items("tool_calls") or []
    if role == "user":
        text = fields.take("content", "")
        return [{"role": "user", "content": text}] if text else []
    message: dict[str, Any] = {"role": role, "content": fields.take("content", "")}
    if calls:
        message["tool_calls"] = [_call(Fields(call, "tool_calls")) for call in calls]
    return [message]


def _call(fields: Fields) -> dict[str, Any]:
    function = {"name": fields.take("name"), "arguments": fields.take("arguments", {})}
    return {"id": fields.take("id", ""), "type": "function", "function": function}
