"""Models beside a policy must know its tokens: what a row holds are token ids, and no texts."""

from __future__ import annotations

from recollect.errors import BadConfig
from recollect.models.loading import Policy


def check_vocabulary(policy: Policy, other: Policy, setting: str) -> None:
    """Refuse another model that reads the policy's token ids as other tokens, or not at all.

    Of templates it may have another: only ids come to it. BadConfig, which names the setting that
    the other model comes from.
    """
    theirs = other.chat.tokenizer.get_vocab()
    mine = policy.chat.tokenizer.get_vocab()
    differing = [token for token, number in mine.items() if theirs.get(token) != number]
    if not differing:
        return
    token = min(differing, key=mine.__getitem__)
    there = f"is {theirs[token]}" if token in theirs else "is unknown"
    what = (
        f"{setting} has another vocabulary than the policy: {len(differing):,} of its tokens are "
        f"others there, first of all {token!r}, which {there} in {other.source} and "
        f"{mine[token]} in {policy.source}."
    )
    raise BadConfig([(what, f"Set {setting} to a model with the policy's own tokenizer.")])
