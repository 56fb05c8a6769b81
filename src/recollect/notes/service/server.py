"""The service on a port."""

from __future__ import annotations

from recollect.canonical import Json
from recollect.errors import BadRequest, StoreReadOnly
from recollect.notes.service.asked import Asked
from recollect.notes.service.calls import NoteService
from recollect.wire.guard import Guard
from recollect.wire.server import LIMITS, Call, Document, JsonServer, ServerLimits


class NoteServer(JsonServer):
    """Serves a bank: POST /CALL for each call of `NoteService`, GET /health for whoever watches.

    The service may be given after the address is taken, before anything is served.
    """

    def __init__(
        self,
        service: NoteService | None,
        address: tuple[str, int],
        guard: Guard,
        limits: ServerLimits = LIMITS,
    ) -> None:
        super().__init__(address, guard, limits)
        self.service = service

    def answer(self, call: Call) -> Document:
        """Find the call that a path names, and make it."""
        name = call.path.removeprefix("/")
        if name == "health":
            _only("GET", call)
            return {"success": True}
        assert self.service is not None
        handler = self.service.calls.get(name)
        if handler is None:
            raise BadRequest("path", f"there is nothing at {call.path[:80]}", 404)
        _only("POST", call)
        try:
            return handler(Asked(call.body))
        except StoreReadOnly as error:
            raise BadRequest("call", "this server only reads (--read-only)", 403) from error

    def problem(self, what: str, member: str) -> Document:
        """Spell a failure in the shape of an answer, so that ReMe's clients see it, too."""
        error: dict[str, Json] = {"message": what, "member": member or None}
        return {"answer": "", "success": False, "metadata": {}, "error": error}


def _only(method: str, call: Call) -> None:
    if call.method != method:
        raise BadRequest("method", f"{call.path[:80]} answers {method} only", 405)
