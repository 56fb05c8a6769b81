"""A model as the user, behind a real server on this machine that answers as it was told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from recollect.envs.tau2.model_user import Endpoint, ModelUser
from recollect.envs.tau2.world import Answer
from recollect.envs.tools import Call
from recollect.errors import BadEnvironment


class Server:
    """Gives prepared messages, or statuses, one after another, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                outer.asked.append(json.loads(self.rfile.read(size)))
                outer.keys.append(self.headers.get("Authorization"))
                answer = outer.answers.pop(0)
                status = answer if isinstance(answer, int) else 200
                body = json.dumps({"choices": [{"message": answer}]}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *about: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def _user(server: Server, **about: Any) -> ModelUser:
    simulator = SimpleNamespace(
        STOP="###STOP###",
        TRANSFER="###TRANSFER###",
        OUT_OF_SCOPE="###OUT-OF-SCOPE###",
        SYSTEM_PROMPT="{global_user_sim_guidelines_with_persona}|{instructions}",
        get_global_user_sim_guidelines=lambda use_tools: f"guidelines tools={use_tools}",
    )
    tools = [SimpleNamespace(name=n, openai_schema={"name": n}) for n in ("reboot", "secret")]
    domain = SimpleNamespace(
        package=SimpleNamespace(simulator=simulator, greeting="Hello"), user_tools=tools
    )
    task = SimpleNamespace(user_tools=["reboot"], user_scenario="the scenario")
    endpoint = Endpoint(server.url, "a-model", **about)
    return ModelUser(endpoint, domain, task, seed=7)  # type: ignore[arg-type]


def _phone(call: Call) -> Answer:
    return Answer(f"{call.name} {dict(call.arguments)}", True)


def test_it_is_told_what_tau2_tells_its_own(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret\r\n")
    server.answers = [{"content": "I need help."}, {"content": "Yes."}]
    user = _user(server, key_variable="MY_KEY")
    assert user.begin(_phone) == "I need help."
    assert user.answer("Are you Emma?", _phone) == "Yes."
    first, second = server.asked
    assert first["model"] == "a-model"
    assert (first["temperature"], first["seed"]) == (0.0, 7)
    assert first["messages"] == [
        {"role": "system", "content": "guidelines tools=True|the scenario"},
        {"role": "user", "content": "Hello"},
    ]
    assert [m["role"] for m in second["messages"]] == ["system", "user", "assistant", "user"]
    assert first["tools"] == [{"name": "reboot"}]  # and not the one that the task forbids
    assert server.keys == ["Bearer s3cret"] * 2


def test_it_uses_the_phone_and_reads_the_result(server: Server) -> None:
    call = {"id": "c1", "function": {"name": "reboot", "arguments": '{"now": true}'}}
    broken = {"id": "c2", "function": {"name": "reboot", "arguments": "{"}}
    server.answers = [{"content": None, "tool_calls": [call, broken]}, {"content": "It is on."}]
    assert _user(server).begin(_phone) == "It is on."
    results = [m for m in server.asked[1]["messages"] if m["role"] == "tool"]
    assert [(m["tool_call_id"], m["content"]) for m in results] == [
        ("c1", "reboot {'now': True}"),
        ("c2", "Error: arguments are not JSON"),
    ]


@pytest.mark.parametrize("word", ["###STOP###", "Thanks ###TRANSFER###", "###OUT-OF-SCOPE###"])
def test_it_leaves_with_tau2s_words(server: Server, word: str) -> None:
    server.answers = [{"content": word}]
    assert _user(server).answer("Done.", _phone) is None


def test_it_asks_again_when_the_server_is_busy(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.envs.tau2.model_user._PAUSE", 0.0)
    server.answers = [503, {"content": "Here."}]
    assert _user(server).begin(_phone) == "Here."
    server.answers = [401]
    with pytest.raises(BadEnvironment, match="401"):
        _user(server).begin(_phone)
    server.answers = [503, 503]
    with pytest.raises(BadEnvironment, match="503"):
        _user(server, tries=2).begin(_phone)


def test_one_that_only_calls_tools_comes_to_an_end(server: Server) -> None:
    call = {"id": "c", "function": {"name": "reboot", "arguments": "{}"}}
    server.answers = [{"tool_calls": [call]}] * 10
    assert _user(server).begin(_phone) == "..."


@pytest.mark.parametrize("url", ["ftp://host", "http://user:pw@host/v1", "nothing"])
def test_addresses_that_cannot_be_asked(url: str) -> None:
    with pytest.raises(BadEnvironment, match="user_url"):
        Endpoint(url, "a-model")
