"""What the commands that serve have in common: an end that owes nobody an answer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from recollect.cli.serving import served
from recollect.wire.address import Address
from recollect.wire.client import post_json
from recollect.wire.guard import Guard
from recollect.wire.server import Call, Document, JsonServer


class Slow(JsonServer):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Guard())
        self.asked, self.told = threading.Event(), threading.Event()

    def answer(self, call: Call) -> Document:
        self.asked.set()
        assert self.told.wait(30)
        return {"path": call.path}


def test_what_is_being_answered_is_answered_before_the_end() -> None:
    server = Slow()
    with ThreadPoolExecutor(1) as pool:
        with served(server, "slow"):
            answer = pool.submit(post_json, Address.parse(server.url), "x", {}, seconds=30)
            assert server.asked.wait(30)
            threading.Timer(0.2, server.told.set).start()
        assert answer.done() or server.told.is_set()  # leaving waited for it
        assert answer.result(30) == {"path": "/x"}
