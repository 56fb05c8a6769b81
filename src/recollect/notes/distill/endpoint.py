"""A writer behind a server that speaks OpenAI's chat interface."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass

from recollect.notes.distill.asking import draft_from, prompt_for
from recollect.notes.distill.study import Study
from recollect.notes.distill.writer import Question, WritingFailed
from recollect.notes.note import Draft
from recollect.wire.secret import secret

_MOST_BYTES = 1_000_000  # of an answer
_SYSTEM = "You write short, exact lessons for an agent that calls tools."


@dataclass(frozen=True)
class EndpointWriter:
    """Asks `url`/chat/completions for notes. The key is read from an environment variable.

    BadSecret, as soon as it is made, where that variable holds what cannot be a key.
    Its temperature is 0, and what it answered is kept by the distillery, so nothing depends on
    being answered the same twice.
    """

    url: str
    model: str
    key_variable: str = "OPENAI_API_KEY"
    seconds: float = 60.0
    max_tokens: int = 256
    inline: bool = False

    def __post_init__(self) -> None:
        secret(self.key_variable)

    @property
    def name(self) -> str:
        """Who is asked: another model is another writer."""
        return f"endpoint {self.model}".strip()

    def prompt(self, study: Study) -> str:
        """Put a study as a question."""
        return prompt_for(study)

    def write(self, question: Question) -> Draft:
        """Ask once."""
        return draft_from(question, self._answer(question.prompt), self.name)

    def _answer(self, prompt: str) -> str:
        body = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": _SYSTEM},
                {"role": "user", "content": prompt},
            ],
            "max_tokens": self.max_tokens,
            "temperature": 0,
        }
        headers = {"Content-Type": "application/json"}
        key = secret(self.key_variable)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        if not self.url.startswith(("http://", "https://")):
            raise WritingFailed(f"{self.url} is not an http address")
        request = urllib.request.Request(  # noqa: S310 - the scheme was just looked at
            f"{self.url.rstrip('/')}/chat/completions", json.dumps(body).encode(), headers
        )
        try:
            with urllib.request.urlopen(request, timeout=self.seconds) as answer:  # noqa: S310
                data = answer.read(_MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()  # it is the answer, and holds the connection
            busy = error.code == 429 or error.code >= 500
            raise WritingFailed(f"the endpoint answered {error.code}", retry=busy) from error
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            raise WritingFailed(f"the endpoint cannot be reached ({why})", retry=True) from error
        except ValueError:  # its text may quote a header, and with it the key
            raise WritingFailed("the request to the endpoint cannot be made") from None
        return _text(data)


def _text(data: bytes) -> str:
    if len(data) > _MOST_BYTES:
        raise WritingFailed(f"the endpoint answered with more than {_MOST_BYTES:,} bytes")
    try:
        found = json.loads(data)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise WritingFailed("the endpoint's answer is not a chat completion", retry=True) from error
    if not isinstance(found, str):
        raise WritingFailed("the endpoint's answer holds no text", retry=True)
    return found
