"""verifiers' saved rollouts: results.jsonl of version 0, and traces.jsonl of version 1.

Version 0 has `prompt`, `completion`, `reward`, and, where it was asked to save them, a
`trajectory` of model calls with their tokens. Version 1 has `nodes`, messages that each know their
tokens, in a tree of which the branch that the last node ends is one trajectory. Log-probs are kept
where the file has them and somebody says who sampled them; else the rows are demos.
"""

from __future__ import annotations

from typing import Any

from recollect.errors import InvalidRecord
from recollect.store.fields import Fields, kind_of
from recollect.store.foreign.sampler import SampledBy


def row_of_verifiers(fields: Fields, sampled: SampledBy | None, environment: str) -> dict[str, Any]:
    """Put one line into our spelling; `environment` stands above the name that a result has."""
    nodes = fields.optional_items("nodes")
    if nodes is not None:
        return _trace(fields, nodes, sampled)
    return _result(fields, sampled, environment)


# -- version 1 ------------------------------------------------------------------------------


def _trace(fields: Fields, nodes: list[Any], sampled: SampledBy | None) -> dict[str, Any]:
    branch = [Fields(node, "nodes") for node in _last_branch(nodes)]
    if not any(node.has("token_ids") for node in branch):
        sampled = None  # nothing of the tokens was saved: there is only the text to read
    rewards = fields.take("rewards", {})
    parts = {
        name: Fields(entry, f"rewards.{name}")
        for name, entry in (rewards.items() if isinstance(rewards, dict) else ())
        if entry is not None
    }
    values = {n: part.number("score") * part.number("weight", 1.0) for n, part in parts.items()}
    if not values:
        raise InvalidRecord("rewards", "are missing: the trace was not scored")
    task = Fields(fields.take("task"), "task")
    row: dict[str, Any] = {
        "messages": [_node(node, sampled) for node in branch],
        "reward": sum(values.values()),
        "reward_parts": values,
        "task": str(task.take("key", None) or task.take("hash")),
    }
    if (own := fields.take("id", None)) is not None:
        row["id"] = own
    return {**row, **sampled.members()} if sampled is not None else row


def _last_branch(nodes: list[Any]) -> list[Any]:
    """Follow the last node back to the root; without parents, nodes follow each other."""
    branch: list[Any] = []
    at: Any = len(nodes) - 1
    while isinstance(at, int) and 0 <= at < len(nodes) and len(branch) < len(nodes):
        branch.append(nodes[at])
        node = nodes[at]
        at = node.get("parent", at - 1) if isinstance(node, dict) else None
    return branch[::-1]


def _node(node: Fields, sampled: SampledBy | None) -> dict[str, Any]:
    message = _plain_message(node.take("message"))
    if sampled is None:
        return message
    message["token_ids"] = node.items("token_ids", [])
    if message.get("role") == "assistant":
        message["logprobs"] = _logprobs(node.items("mask", []), node.items("logprobs", []))
    return message


def _logprobs(mask: list[Any], values: list[Any]) -> list[Any]:
    """Give each token its log-prob, None where it was not sampled.

    There is one for every token, or one for every sampled token; which of the two, the count tells.
    """
    trained = [bool(flag) for flag in mask]
    if len(values) == len(trained):
        return [value if flag else None for value, flag in zip(values, trained, strict=True)]
    if len(values) == sum(trained):
        rest = iter(values)
        return [next(rest) if flag else None for flag in trained]
    counts = f"{len(values)} for {len(trained)} tokens, of which {sum(trained)} were sampled"
    raise InvalidRecord("nodes.logprobs", counts)


# -- version 0 ------------------------------------------------------------------------------


def _result(fields: Fields, sampled: SampledBy | None, environment: str) -> dict[str, Any]:
    prompt = _messages(fields, "prompt", "user")
    completion = _messages(fields, "completion", "assistant")
    metrics = fields.take("metrics", {})
    steps = fields.optional_items("trajectory")
    domain = str(fields.take("task", "verifiers"))
    row: dict[str, Any] = {
        "messages": [*prompt, *completion],
        "reward": fields.number("reward"),
        "task": {
            "environment": domain if environment == "imported" else environment,
            "id": str(fields.take("example_id")),
            "domain": domain,
        },
    }
    if isinstance(metrics, dict):
        numbers = {n: v for n, v in metrics.items() if isinstance(v, int | float)}
        row["reward_parts"] = {n: int(v) if isinstance(v, bool) else v for n, v in numbers.items()}
    if sampled is not None and steps:
        _add_tokens(row["messages"], len(prompt), steps)
        row |= sampled.members()
    return row


def _add_tokens(messages: list[dict[str, Any]], prompt: int, steps: list[Any]) -> None:
    """Give each message its tokens: a call's prompt goes on where the last call ended.

    Tokens before an answer belong to the message before it; where exactly one message ends and
    the next begins within them is not recorded, and nothing depends on it.
    """
    for message in messages:
        message["token_ids"] = []
        if message.get("role") == "assistant":  # of examples in the prompt nothing was sampled
            message["logprobs"] = []
    so_far: list[int] = []
    places = [n for n, m in enumerate(messages) if n >= prompt and m.get("role") == "assistant"]
    if len(places) != len(steps):
        raise InvalidRecord("trajectory", f"has {len(steps)} calls for {len(places)} answers")
    if places and places[0] == 0:
        raise InvalidRecord("prompt", "is empty: nothing stands before the first answer")
    for step, place in zip(steps, places, strict=True):
        tokens = Fields(Fields(step, "trajectory").take("tokens"), "trajectory.tokens")
        read, written = tokens.items("prompt_ids"), tokens.items("completion_ids")
        values, mask = tokens.items("completion_logprobs"), tokens.items("completion_mask", [])
        if read[: len(so_far)] != so_far:
            raise InvalidRecord("trajectory", "a call does not go on where the last one ended")
        before, answer = messages[place - 1], messages[place]
        before["token_ids"] = [*before["token_ids"], *read[len(so_far) :]]
        if before.get("role") == "assistant":  # what stands between two answers was not sampled
            before["logprobs"] = [*before["logprobs"], *[None] * (len(read) - len(so_far))]
        answer["token_ids"] = written
        flags = mask or [1] * len(written)
        if not len(written) == len(values) == len(flags):
            counts = f"{len(values)} log-probs and {len(flags)} flags for {len(written)} tokens"
            raise InvalidRecord("trajectory.tokens", counts)
        answer["logprobs"] = [
            value if flag else None for value, flag in zip(values, flags, strict=True)
        ]
        so_far = [*read, *written]


def _messages(fields: Fields, member: str, role: str) -> list[dict[str, Any]]:
    value = fields.take(member)
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if not isinstance(value, list):
        raise InvalidRecord(member, f"expected text or messages, got {kind_of(value)}")
    return [_plain_message(item) for item in value]


def _plain_message(value: object) -> dict[str, Any]:
    """Keep of a message what OpenAI knows; calls may stand as `{id, name, arguments}`."""
    fields = Fields(value, "messages")
    message: dict[str, Any] = {"role": fields.take("role"), "content": fields.take("content", "")}
    calls = []
    for call in fields.optional_items("tool_calls") or []:
        entry = Fields(call, "tool_calls")
        inner = entry.take("function", None)
        function = Fields(inner, "function") if inner is not None else entry
        named = {"name": function.take("name"), "arguments": function.take("arguments", "{}")}
        calls.append({"id": entry.take("id", ""), "type": "function", "function": named})
    if calls:
        message["tool_calls"] = calls
    if (call_id := fields.take("tool_call_id", None)) is not None:
        message["tool_call_id"] = call_id
    return message
