"""A service that says what it was told to say."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from recollect.wire.guard import Guard
from recollect.wire.server import Call, Document, JsonServer

# The shape in which reme-ai 0.2.0.6 answers /retrieve_task_memory (read from its source).
REME = {
    "answer": "Memory 1:\n When to use: letters\n Content: say abc\n",
    "messages": [],
    "success": True,
    "metadata": {
        "memory_list": [
            {
                "workspace_id": "default",
                "memory_id": "9f0c",
                "memory_type": "task",
                "when_to_use": "letters",
                "content": "say abc",
                "score": 0.7,
                "time_created": "2026-01-01 10:00:00",
                "time_modified": "2026-01-01 10:00:00",
                "author": "qwen3",
                "metadata": {"confidence": 0.8, "tags": ["x"]},
            }
        ]
    },
}


class Canned(JsonServer):
    """Answers by `say`, and remembers what it was asked."""

    def __init__(self, say: Callable[[Call], Any]) -> None:
        super().__init__(("127.0.0.1", 0), Guard())
        self.say = say
        self.calls: list[Call] = []

    def answer(self, call: Call) -> Document:
        self.calls.append(call)
        found = self.say(call)
        assert isinstance(found, dict)
        return found


@contextmanager
def canned(say: Callable[[Call], Any]) -> Iterator[Canned]:
    server = Canned(say)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()
