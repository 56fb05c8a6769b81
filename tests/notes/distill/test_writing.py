"""Studies and writers: what a group teaches, and how it is written down."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from factories import make_trajectory
from recollect.errors import BadSecret
from recollect.notes.distill.asking import draft_from, prompt_for
from recollect.notes.distill.endpoint import EndpointWriter
from recollect.notes.distill.study import Study, studies
from recollect.notes.distill.writer import RuleWriter, WritingFailed, ask
from recollect.notes.note import MOST_CHARS, NoteKind
from recollect.notes.wording import example, first_difference, warning
from recollect.trajectory import Trajectory
from recollect.types import Reward, SegmentKind, Task, TrajectoryId

TASK = Task("e", "t", query="Seat B4K7 window.")
EVERY = tuple(NoteKind)


def row(name: str, reward: float, *turns: str, task: Task = TASK) -> Trajectory:
    """An attempt in which the agent said these things."""
    base = make_trajectory(3, task=task)
    said = iter([*turns, "", ""])
    segments = tuple(
        replace(s, text=next(said) if s.kind is SegmentKind.ASSISTANT else s.text)
        for s in base.segments
    )
    return replace(
        base,
        id=TrajectoryId(name),
        segments=segments,
        reward=Reward(reward),
        success=reward >= 1,
    )


GOOD, BAD = row("good", 1.0, "<call>", "Done."), row("bad", 0.0, "Done.")


def test_the_best_teaches_by_the_worst() -> None:
    better = row("better", 1.0, "<call>")
    (study,) = studies([TASK], [BAD, GOOD, better, row("bad2", 0.5, "hm")], EVERY, 9)
    assert (study.kind, study.best, study.worst) == (NoteKind.COMPARISON, better, BAD) or (
        study.best is GOOD
    )
    assert study.success == 0.5
    assert study == studies([TASK], [GOOD, BAD, row("bad2", 0.5, "hm"), better], EVERY, 9)[0]


def test_the_most_instructive_groups_come_first() -> None:
    tasks = [Task("e", f"t{n}") for n in range(4)]
    rows = [
        row("a", 1.0, "x", task=tasks[0]),
        row("b", 0.0, "x", task=tasks[1]),
        *(row(f"c{n}", float(n == 0), "x", task=tasks[2]) for n in range(4)),
        *(row(f"d{n}", float(n > 0), "x", task=tasks[3]) for n in range(4)),
    ]
    found = studies(tasks, rows, EVERY, 9)
    assert [study.task.id for study in found] == ["t2", "t3", "t0", "t1"]
    assert [study.kind.value for study in found[2:]] == ["success", "failure"]
    assert len(studies(tasks, rows, EVERY, 2)) == 2
    only = studies(tasks, rows, (NoteKind.SUCCESS,), 9)
    assert [study.task.id for study in only] == ["t0"]


def test_an_example_can_be_copied_from() -> None:
    text = example("Seat B4K7.", ["<call>", "Done."], "Done.")
    assert text == "Request: Seat B4K7.\nNot: Done.\n1: <call>\n2: Done."
    assert warning("r", ["a"]) == "Request: r\nThis failed:\n1: a"


def test_the_longest_example_is_a_note() -> None:
    task = Task("e", "t", query="x" * 9999)
    study = Study(task, row("good", 1.0, "y" * 9999), row("bad", 0.0, "n" * 9999), 0.5)
    assert RuleWriter().write(ask(RuleWriter(), study)).when_to_use == "x" * MOST_CHARS
    turns = ["y" * 9999] * 99
    assert len(example("x" * 9999, turns, "n" * 9999)) <= MOST_CHARS
    assert len(warning("x" * 9999, turns)) <= MOST_CHARS


def test_the_first_difference() -> None:
    assert first_difference(["a", "b"], ["a", "c"]) == "b"
    assert first_difference(["a"], ["a", "c"]) == ""
    assert first_difference([], ["a"]) == ""


def test_rules_write_what_worked_and_what_did_not() -> None:
    writer = RuleWriter()
    draft = writer.write(ask(writer, Study(TASK, GOOD, BAD, 0.5)))
    assert draft.content == "Request: Seat B4K7 window.\nNot: Done.\n1: <call>\n2: Done."
    assert (draft.when_to_use, draft.kind, draft.trust) == (TASK.query, NoteKind.COMPARISON, 1.0)
    assert draft.sources == ("good", "bad")
    assert draft.tasks == (TASK.key,)
    failed = writer.write(ask(writer, Study(TASK, None, BAD, 0.0)))
    assert (failed.kind, failed.trust) == (NoteKind.FAILURE, 0.5)
    with pytest.raises(WritingFailed):
        writer.write(ask(writer, Study(TASK, None, row("mute", 0.0), 0.0)))


def test_a_question_is_known_by_who_is_asked_what() -> None:
    study = Study(TASK, GOOD, BAD, 0.5)
    one, other = EndpointWriter("http://x", "m1"), EndpointWriter("http://x", "m2")
    assert ask(one, study).key == ask(one, study).key
    assert ask(one, study).key != ask(other, study).key
    assert ask(one, study).key != ask(one, Study(TASK, GOOD, None, 1.0)).key


# -- models ------------------------------------------------------------------------------------


def test_the_prompt_tells_both_attempts_and_no_notes() -> None:
    note = replace(GOOD, segments=GOOD.segments)
    text = prompt_for(Study(TASK, note, BAD, 0.5))
    assert "Task: Seat B4K7 window." in text
    assert text.index("Successful attempt") < text.index("Failed attempt")
    assert "JSON only" in text


QUESTION = ask(EndpointWriter("http://x", "m"), Study(TASK, GOOD, BAD, 0.5))


def test_answers_are_read() -> None:
    said = '```json\n{"when_to_use": "seats", "content": "Use <call>."}\n```'
    draft = draft_from(QUESTION, said, "m")
    assert (draft.content, draft.when_to_use) == ("Use <call>.", "seats\nSeat B4K7 window.")
    assert draft_from(QUESTION, "  Just call. ", "m").content == "Just call."
    assert draft_from(QUESTION, "broken {json", "m").content == "broken {json"


@pytest.mark.parametrize(
    "answer", ["", " \n", '{"content": 7}', '{"content": ""}', "x" * 3000, "Done."]
)
def test_answers_that_are_no_notes(answer: str) -> None:
    with pytest.raises(WritingFailed):
        draft_from(QUESTION, answer, "m")


class _Server(HTTPServer):
    replies: list[tuple[int, bytes]]
    seen: list[tuple[str, dict[str, Any], str | None]]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, body, self.headers.get("Authorization")))
        code, data = self.server.replies.pop(0)
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[_Server]:
    made = _Server(("127.0.0.1", 0), _Handler)
    made.replies, made.seen = [], []
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def completion(text: object) -> bytes:
    return json.dumps({"choices": [{"message": {"content": text}}]}).encode()


def test_an_endpoint_is_asked(server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    url = f"http://127.0.0.1:{server.server_port}/v1/"
    server.replies = [(200, completion("Use the call."))]
    draft = EndpointWriter(url, "m", "MY_KEY", 5).write(QUESTION)
    assert (draft.content, draft.author) == ("Use the call.", "endpoint m")
    ((path, body, key),) = server.seen
    assert (path, key, body["model"]) == ("/v1/chat/completions", "Bearer secret", "m")
    assert body["temperature"] == 0


def test_a_key_may_end_in_a_line_break_and_is_never_told(
    server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret\r\n")
    url = f"http://127.0.0.1:{server.server_port}/v1/"
    server.replies = [(200, completion("Use the call."))]
    EndpointWriter(url, "m", "MY_KEY", 5).write(QUESTION)
    assert server.seen[0][2] == "Bearer secret"
    monkeypatch.setenv("MY_KEY", "sec\nret")
    with pytest.raises(BadSecret, match="MY_KEY") as caught:
        EndpointWriter(url, "m", "MY_KEY", 5)
    assert "sec\n" not in str(caught.value)


def test_a_request_that_cannot_be_made_tells_nothing_of_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = EndpointWriter("http://127.0.0.1:1", "m", "MY_KEY", 1)
    monkeypatch.setattr("recollect.notes.distill.endpoint.secret", lambda _: "sk-12\n34")
    with pytest.raises(WritingFailed, match="cannot be made") as told:
        writer.write(QUESTION)
    assert "sk-" not in str(told.value)


@pytest.mark.parametrize(
    ("reply", "retry"),
    [
        ((500, b""), True),
        ((429, b""), True),
        ((401, b""), False),
        ((200, b"not json"), False),
        ((307, b""), False),
        ((200, b"[]"), True),
        ((200, completion(None)), True),
        ((200, b" " * 1_000_001), False),
    ],
)
def test_an_endpoint_fails(server: _Server, reply: tuple[int, bytes], retry: bool) -> None:
    server.replies = [reply]
    with pytest.raises(WritingFailed) as caught:
        EndpointWriter(f"http://127.0.0.1:{server.server_port}", "m", "NO_KEY", 5).write(QUESTION)
    assert caught.value.retry is retry
    assert server.seen[0][2] is None
    assert len(server.seen) == 1  # wherever it was sent


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x", "http://127.0.0.1:1"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(WritingFailed):
        EndpointWriter(url, "m", "NO_KEY", 1).write(QUESTION)
