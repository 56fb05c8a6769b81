"""Telling a service what happened, so that it can learn: attempts with their scores, as text.

It goes on beside the training, which never waits for it and depends on nothing that it comes to:
what the service has learnt shows only in what it answers later, and answers are recorded.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence

from recollect.canonical import Json
from recollect.notes.remote.client import MemoryClient
from recollect.trajectory import Trajectory
from recollect.types import SegmentKind

_CALL = "summary_task_memory"
_WAITING = 4  # steps whose attempts wait to be sent; more are dropped, and counted
_LAST_SECONDS = 10.0  # that the end of a run waits for what is still to be sent


class Reporter:
    """Sends attempts in a thread of its own. A step that is run again is sent again.

    `sent` and `lost` count attempts so far; `reasons` are why some were lost. A success is scored
    1 and everything else less, because a service of this kind takes 1 for success.
    """

    def __init__(self, client: MemoryClient, workspace: str) -> None:
        self._client = client
        self._workspace = workspace
        self._waiting: queue.Queue[list[Json] | None] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None
        self.sent = 0
        self.lost = 0
        self.reasons: list[str] = []

    def submit(self, rows: Sequence[Trajectory]) -> None:
        """Have the attempts of a step sent."""
        if not rows:
            return
        if self._thread is None:
            # A daemon: a service that does not answer must not keep a finished run from ending.
            name = "recollect-note-reporter"
            self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait([_attempt(row) for row in rows])
        except queue.Full:
            self._lose(len(rows), "the service takes longer than the steps do")

    def close(self) -> None:
        """Wait a little for what is still to be sent."""
        if self._thread is not None:
            try:
                self._waiting.put(None, timeout=_LAST_SECONDS)
            except queue.Full:
                return  # whoever is being waited for has had its time
            self._thread.join(_LAST_SECONDS)

    def _loop(self) -> None:
        while (attempts := self._waiting.get()) is not None:
            document: dict[str, Json] = {"trajectories": attempts, "workspace_id": self._workspace}
            reply = self._client.call(_CALL, document)
            if reply.failed:
                self._lose(len(attempts), reply.failed)
            else:
                self.sent += len(attempts)

    def _lose(self, count: int, reason: str) -> None:
        self.lost += count
        self.reasons.append(reason)


def _attempt(row: Trajectory) -> Json:
    """Spell an attempt as messages, without the notes it had: those are the service's own words."""
    messages: list[Json] = [
        {"role": segment.kind.value, "content": segment.text}
        for segment in row.segments
        if segment.kind is not SegmentKind.NOTE and segment.text
    ]
    score = 1.0 if row.success else min(0.99, row.reward.value)
    return {"messages": messages, "score": score, "metadata": {"task": row.task}}
