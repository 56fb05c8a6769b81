"""The service on a loopback port, as OpenAI's chat completions.

    POST /v1/chat/completions   an answer, with prompt_token_ids and token_ids besides
    POST /v1/trajectories/ID    {"reward": 1.0}: keep the conversation that answer ID ended
    GET  /v1/models             what is served

Only requests to this machine by its own name are answered: a web page in a browser must not reach
the policy by a name that somebody points at the loopback address.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from recollect.canonical import Json, strict_json
from recollect.errors import BadRequest, RecollectError
from recollect.serving.asking import Asked, read_request
from recollect.serving.service import Answer, PolicyService, read_score

_MOST_BYTES = 16 * 2**20
_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_SCORES = "/v1/trajectories/"


class PolicyServer(ThreadingHTTPServer):
    """Serves one policy on 127.0.0.1; port 0 takes a free one."""

    daemon_threads = True

    def __init__(
        self, service: PolicyService, port: int, turn_tokens: int, threshold: float = 1.0
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.service = service
        self.turn_tokens = turn_tokens
        self.threshold = threshold

    @property
    def url(self) -> str:
        """The base URL to give to a client."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    """One request; whatever goes wrong in it is told to its sender, and to nobody else."""

    protocol_version = "HTTP/1.1"
    server: PolicyServer

    def do_GET(self) -> None:
        self._reply(self._get)

    def do_POST(self) -> None:
        self._reply(self._post)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal for what matters."""

    def _get(self) -> dict[str, Json]:
        if self.path.rstrip("/") != "/v1/models":
            raise BadRequest("path", f"there is nothing at {self.path[:80]}", 404)
        name = self.server.service.origin.name
        entry: dict[str, Json] = {"id": name, "object": "model", "owned_by": "recollect"}
        return {"object": "list", "data": [entry]}

    def _post(self) -> dict[str, Json]:
        body = self._body()
        service = self.server.service
        if self.path == "/v1/chat/completions":
            asked = read_request(body, self.server.turn_tokens)
            return completion(service, asked, service.answer(asked))
        if self.path.startswith(_SCORES):
            if not isinstance(body, dict):
                raise BadRequest("body", "is not a JSON object")
            id_ = self.path.removeprefix(_SCORES).removeprefix("chatcmpl-")
            kept = service.score(id_, read_score(body, self.server.threshold))
            return {"id": kept.id, "task": kept.task, "tokens": int(kept.tokens.size)}
        raise BadRequest("path", f"there is nothing at {self.path[:80]}", 404)

    def _body(self) -> Any:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > _MOST_BYTES:
            self.close_connection = True  # what it sends is not read
            raise BadRequest("Content-Length", f"must say at most {_MOST_BYTES:,} bytes", 413)
        try:
            return strict_json(self.rfile.read(int(size)))
        except (ValueError, RecursionError) as error:
            raise BadRequest("body", f"is not JSON ({error})") from error

    def _reply(self, work: Any) -> None:
        status, document = 200, {}
        try:
            host = (self.headers.get("Host") or "").rpartition(":")[0] or self.headers.get("Host")
            if host not in _HOSTS:
                self.close_connection = True
                raise BadRequest("Host", "is not this machine's loopback name", 403)
            document = work()
        except BadRequest as error:
            status, document = error.status, _problem(error.what, error.member)
        except RecollectError as error:
            status, document = 500, _problem(f"{error.what} {error.hint}".strip(), "")
        except OSError:  # the client went away while it sent its request
            self.close_connection = True
            return
        except Exception as error:  # a web request: one of the four fault boundaries
            status, document = 500, _problem(f"{type(error).__name__}: {error}", "")
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


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


def _problem(message: str, member: str) -> dict[str, Json]:
    error: Mapping[str, Json] = {"message": message, "type": "invalid_request_error"}
    return {"error": {**error, "param": member or None, "code": None}}
