"""One sink that is many, and that never raises into the run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol, runtime_checkable

from recollect.errors import RecollectError
from recollect.redaction import redact_text
from recollect.telemetry.events import Event, Sink, StepFinished, Warned
from recollect.telemetry.names import find_metric

_LOGGER = logging.getLogger(__name__)


@runtime_checkable
class Lingering(Protocol):
    """A sink that works in the background: it can be behind, and it needs time to end."""

    @property
    def drops(self) -> int:
        """Events that were given up."""

    def finish(self) -> None:
        """Begin to end, without waiting; `close` then waits a bounded time."""


class Fanout:
    """Sends every event to every sink, in order.

    Promises: `emit` and `close` never raise an Exception. A sink that raises is closed and
    switched off for good, with one Warned to the others; the run goes on. A metric that nobody
    documented is passed on and warned of once. StepFinished leaves with `health/sink_drops`
    and `health/sink_failures` filled in. Any thread may emit.
    """

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        self._sinks = dict(sinks)
        self._off: dict[str, Sink] = {}
        self._closed: list[Sink] = []
        self._warned_names: set[str] = set()
        self._lock = threading.RLock()

    @property
    def drops(self) -> int:
        """Events that sinks were too slow for."""
        everyone = [*self._sinks.values(), *self._off.values(), *self._closed]
        return sum(sink.drops for sink in everyone if isinstance(sink, Lingering))

    @property
    def failures(self) -> tuple[str, ...]:
        """Names of the sinks that were switched off because they failed."""
        return tuple(self._off)

    def emit(self, event: Event) -> None:
        """Tell everyone who still listens."""
        with self._lock:
            if isinstance(event, StepFinished):
                self._warn_of_unknown(event.metrics)
                event = self._with_health(event)
            for name, sink in list(self._sinks.items()):
                if name in self._sinks:  # a warning on the way may have cost it its place
                    self._tell(name, sink, event)

    def close(self) -> None:
        """Close every sink; those that linger end side by side, and what they lost is said."""
        with self._lock:
            slow = {k: sink for k, sink in self._sinks.items() if isinstance(sink, Lingering)}
            for sink in slow.values():
                sink.finish()
            for name in slow:
                self._close(name)
            for name, sink in slow.items():
                if sink.drops and name not in self._off:
                    self.emit(
                        Warned(
                            f"{name} was too slow: {sink.drops:,} events did not reach it. "
                            "metrics.jsonl has them all."
                        )
                    )
            for name in list(self._sinks):
                self._close(name)

    def _tell(self, name: str, sink: Sink, event: Event) -> None:
        try:
            sink.emit(event)
        except Exception as error:
            self._switch_off(name, error)

    def _close(self, name: str) -> None:
        sink = self._sinks.get(name)
        if sink is None:
            return
        try:
            sink.close()
        except Exception as error:
            self._switch_off(name, error)
        else:
            self._closed.append(self._sinks.pop(name))

    def _switch_off(self, name: str, error: Exception) -> None:
        sink = self._sinks.pop(name, None)
        if sink is None:
            return
        self._off[name] = sink
        why = (
            str(error) if isinstance(error, RecollectError) else f"{type(error).__name__}: {error}"
        )
        text = f"{name} is switched off for the rest of the run: {redact_text(why, most=300)}"
        if self._sinks:
            self.emit(Warned(text))
        else:
            _LOGGER.warning("%s", text)
        try:
            sink.close()
        except Exception as second:
            _LOGGER.debug("%s did not close either: %s", name, redact_text(str(second)))

    def _warn_of_unknown(self, metrics: Mapping[str, float]) -> None:
        unknown = [
            name for name in metrics if name not in self._warned_names and find_metric(name) is None
        ]
        if unknown:
            self._warned_names.update(unknown)
            named = redact_text(", ".join(unknown), most=200)
            self.emit(Warned(f"Undocumented metrics are logged: {named}."))

    def _with_health(self, event: StepFinished) -> StepFinished:
        health = {
            "health/sink_drops": float(self.drops),
            "health/sink_failures": float(len(self._off)),
        }
        return replace(event, metrics={**event.metrics, **health})
