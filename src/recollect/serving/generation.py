"""Many agents, one model: requests that wait are answered together, by one thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue

from recollect.errors import BadRequest
from recollect.rollout.sampler import Row, Sampler
from recollect.types import Sampling


@dataclass(slots=True, eq=False)
class _Job:
    """Rows that want a turn each, and who waits for them."""

    rows: Sequence[Row]
    sampling: Sampling
    ready: threading.Event = field(default_factory=threading.Event)
    problem: BaseException | None = None


class Generation:
    """Samples turns for anybody, from any thread; only its own thread touches the model."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="recollect-policy", daemon=True)
        self._thread.start()

    def sample(self, rows: Sequence[Row], sampling: Sampling) -> None:
        """Sample one turn of each row; returns when all are done."""
        # How long a turn may get is each row's own business, and need not keep rows apart.
        job = _Job(rows, replace(sampling, max_tokens=0))
        self._jobs.put(job)
        job.ready.wait()
        if job.problem is not None:
            raise BadRequest("policy", f"failed ({job.problem})", status=500) from job.problem

    def close(self) -> None:
        """End the thread once it has answered who waits."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        going = True
        while going:
            waiting = [self._jobs.get()]
            while not self._jobs.empty():
                waiting.append(self._jobs.get())
            jobs = [job for job in waiting if job is not None]
            going = len(jobs) == len(waiting)
            for sampling in dict.fromkeys(job.sampling for job in jobs):
                self._answer([job for job in jobs if job.sampling == sampling], sampling)

    def _answer(self, jobs: Sequence[_Job], sampling: Sampling) -> None:
        rows = [row for job in jobs for row in job.rows]
        try:
            self._sampler.run(rows, sampling, _end)
        except Exception as error:  # a request's boundary: the next one must still be answered
            for job in jobs:
                job.problem = error
        finally:
            for row in rows:
                row.done = False
            for job in jobs:
                job.ready.set()


def _end(rows: Sequence[Row]) -> None:
    for row in rows:
        row.done = True
