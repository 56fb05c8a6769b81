"""The policy in training as the writer of its own notes."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.envs.base import Opening, user
from recollect.errors import UnusableChatTemplate
from recollect.models.chat import Chat
from recollect.notes.distill.asking import draft_from, prompt_for
from recollect.notes.distill.study import Study
from recollect.notes.distill.writer import Question, WritingFailed
from recollect.notes.note import Draft
from recollect.randomness import stream
from recollect.rollout.sampler import Row, Sampler
from recollect.types import Sampling


class PolicyWriter:
    """Asks the model in training, as it is now, at the temperature of its rollouts.

    It is asked at once, in the step that the attempts are from: a moment later it would be another
    model. Chance is a function of seed and question. `most` bounds prompt and answer together, in
    tokens.
    """

    name = "policy"
    inline = True

    def __init__(
        self,
        chat: Chat,
        sampler: Sampler,
        max_tokens: int,
        most: int,
        temperature: float,
        seed: int,
    ) -> None:
        self._temperature = temperature
        self._seed = seed
        self._chat = chat
        self._sampler = sampler
        self._max_tokens = max_tokens
        self._most = most

    def prompt(self, study: Study) -> str:
        """Put a study as a question."""
        return prompt_for(study)

    def write(self, question: Question) -> Draft:
        """Ask once: asked the same again, it would say the same."""
        try:
            pieces = self._chat.opening(Opening((user(question.prompt),)))
        except UnusableChatTemplate as error:
            raise WritingFailed(error.what) from error
        ids = [token for piece in pieces for token in piece.ids]
        room = min(self._max_tokens, self._most - len(ids))
        if room < 1:
            raise WritingFailed(f"the question has {len(ids)} tokens, {self._most} are the limit")
        chance = stream(self._seed, "note", question.key)
        row = Row(ids, chance.random(room), room)

        def end(rows: Sequence[Row]) -> None:
            for each in rows:
                each.done = True

        self._sampler.run([row], Sampling(temperature=self._temperature), end)
        said = row.turn[:-1] if row.turn[-1] in self._chat.stop_ids else row.turn
        try:
            return draft_from(question, self._chat.decode(said), self.name)
        except WritingFailed as error:
            raise WritingFailed(error.reason) from error
