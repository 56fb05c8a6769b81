"""The service on a loopback port, as OpenAI's chat completions.

    POST /v1/chat/completions   an answer, with prompt_token_ids and token_ids besides
    POST /v1/trajectories/ID    {"reward": 1.0}: keep the conversation that answer ID ended
    GET  /v1/models             what is served

Only requests to this machine by its own name are answered: a web page in a browser must not reach
the policy by a name that somebody points at the loopback address.
"""

from __future__ import annotations

import time

from recollect.canonical import Json
from recollect.errors import BadRequest
from recollect.serving.asking import Asked, read_request
from recollect.serving.service import Answer, PolicyService, read_score
from recollect.wire.guard import Guard
from recollect.wire.server import Call, Document, JsonServer

_SCORES = "/v1/trajectories/"


class PolicyServer(JsonServer):
    """Serves one policy on 127.0.0.1; port 0 takes a free one."""

    def __init__(
        self, service: PolicyService, port: int, turn_tokens: int, threshold: float = 1.0
    ) -> None:
        super().__init__(("127.0.0.1", port), Guard())
        self.service = service
        self.turn_tokens = turn_tokens
        self.threshold = threshold

    @property
    def url(self) -> str:
        """The base URL to give to a client."""
        return f"{super().url}/v1"

    def answer(self, call: Call) -> Document:
        """Find out what is asked for, and answer it."""
        path = call.path
        if call.method == "GET" and path.rstrip("/") == "/v1/models":
            name = self.service.origin.name
            entry: dict[str, Json] = {"id": name, "object": "model", "owned_by": "recollect"}
            return {"object": "list", "data": [entry]}
        if call.method == "POST" and path == "/v1/chat/completions":
            asked = read_request(call.body, self.turn_tokens)
            return completion(self.service, asked, self.service.answer(asked))
        if call.method == "POST" and path.startswith(_SCORES):
            if not isinstance(call.body, dict):
                raise BadRequest("body", "is not a JSON object")
            id_ = path.removeprefix(_SCORES).removeprefix("chatcmpl-")
            kept = self.service.score(id_, read_score(call.body, self.threshold))
            return {"id": kept.id, "task": kept.task, "tokens": int(kept.tokens.size)}
        raise BadRequest("path", f"there is nothing at {path[:80]}", 404)

    def problem(self, what: str, member: str) -> Document:
        """Spell a failure as OpenAI does."""
        error: dict[str, Json] = {"message": what, "type": "invalid_request_error"}
        return {"error": {**error, "param": member or None, "code": None}}


def completion(service: PolicyService, asked: Asked, answers: list[Answer]) -> dict[str, Json]:
    """Spell answers as a chat completion. Its id is that of its first answer."""
    tokens = sum(len(answer.tokens) for answer in answers)
    prompt = len(answers[0].prompt)
    return {
        "id": f"chatcmpl-{answers[0].id}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": service.origin.name,
        "policy_version": service.origin.policy_version,
        "prompt_token_ids": list(answers[0].prompt),
        "choices": [_choice(service, asked, n, answer) for n, answer in enumerate(answers)],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": tokens,
            "total_tokens": prompt + tokens,
        },
    }


def _choice(service: PolicyService, asked: Asked, number: int, answer: Answer) -> dict[str, Json]:
    message: dict[str, Json] = {"role": "assistant", "content": answer.text}
    finish = "stop" if answer.is_whole else "length"
    if answer.call is not None:
        call = answer.call.record()
        message["content"] = None
        function: dict[str, Json] = {"name": call.name, "arguments": call.arguments}
        message["tool_calls"] = [
            {"id": f"call_{answer.id[:24]}", "type": "function", "function": function}
        ]
        finish = "tool_calls" if answer.is_whole else "length"
    choice: dict[str, Json] = {
        "index": number,
        "message": message,
        "finish_reason": finish,
        "logprobs": None,
        "trajectory": answer.id,
        "token_ids": list(answer.tokens),
    }
    if asked.wants_logprobs:
        pairs = zip(answer.tokens, answer.logprobs, strict=True)
        choice["logprobs"] = {
            "content": [_token(service.chat.decode([token]), value) for token, value in pairs]
        }
    return choice


def _token(text: str, logprob: float) -> dict[str, Json]:
    return {
        "token": text,
        "logprob": logprob,
        "bytes": list(text.encode("utf-8", "replace")),
        "top_logprobs": [],
    }
