"""A writer behind a server that speaks OpenAI's chat interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recollect.canonical import Json
from recollect.errors import InvalidRecord
from recollect.notes.distill.asking import draft_from, prompt_for
from recollect.notes.distill.study import Study
from recollect.notes.distill.writer import Question, WritingFailed
from recollect.notes.note import Draft
from recollect.wire.address import Address
from recollect.wire.client import RequestFailed, post_json
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
        body: dict[str, Json] = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": _SYSTEM},
                {"role": "user", "content": prompt},
            ],
            "max_tokens": self.max_tokens,
            "temperature": 0,
        }
        try:
            found = post_json(
                Address.parse(self.url),
                "chat/completions",
                body,
                token=secret(self.key_variable),
                seconds=self.seconds,
                most_bytes=_MOST_BYTES,
            )
        except InvalidRecord as error:
            raise WritingFailed(str(error)) from error
        except RequestFailed as error:
            raise WritingFailed(f"the endpoint: {error.reason}", retry=error.retry) from error
        return _text(found)


def _text(answer: Any) -> str:
    try:
        found = answer["choices"][0]["message"]["content"]
    except (LookupError, TypeError) as error:
        raise WritingFailed("the endpoint's answer is not a chat completion", retry=True) from error
    if not isinstance(found, str):
        raise WritingFailed("the endpoint's answer holds no text", retry=True)
    return found
