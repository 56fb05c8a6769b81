import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.redaction import BLOT, redact, redact_config, redact_text

LETTERS = string.ascii_letters + string.digits


def canaries(seed: int) -> dict[str, str]:
    """Twelve shapes of keys, none of them real."""
    draw = random.Random(seed)

    def some(count: int, letters: str = LETTERS) -> str:
        return "".join(draw.choice(letters) for _ in range(count))

    return {
        "openai": "sk-proj-" + some(40),
        "huggingface": "hf_" + some(34),
        "github": "ghp_" + some(36),
        "github fine": "github_pat_" + some(60),
        "gitlab": "glpat-" + some(20),
        "aws": "AKIA" + some(16, string.ascii_uppercase + string.digits),
        "google": "AIza" + some(35),
        "slack": "xoxb-" + some(30),
        "wandb": "wandb_v1_" + some(40),
        "pypi": "pypi-" + some(50),
        "jwt": f"eyJ{some(20)}.eyJ{some(30)}.{some(20)}",
        "bearer": some(32),
    }


@pytest.mark.parametrize("seed", range(20))
def test_planted_keys_are_never_found(seed: int) -> None:
    for shape, secret in canaries(seed).items():
        written = f"Authorization: Bearer {secret}" if shape == "bearer" else secret
        text = f"failed with {written} at https://api.example.com/v1, step 3"
        assert secret not in redact(text), shape
        assert redact(text).endswith("/v1, step 3")
        assert secret not in str(redact_config({"notes": [written, {"deep": written}]})), shape


def test_names_give_secrets_away() -> None:
    for text in (
        "WANDB_API_KEY=hunter22",
        '{"api_key": "hunter22"}',
        "recollect train --hf_token hunter22",
        "--password hunter22",
        "https://x.example/?token=hunter22&a=1",
        "https://me:hunter22@example.com",
        "https://:hunter22@example.com",
        "store.path=postgres://me:a/b?c#hunter22@db/pool",
        "postgresql://me:with space hunter22@db/pool",
        "aws_secret_access_key: hunter22",
    ):
        assert "hunter22" not in redact(text), text


def test_ordinary_words_stay() -> None:
    for text in (
        "the token limit of 512 was reached",
        "eos_token='<|im_end|>'",
        "max_tokens=512, pad_token_id=0",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "runs/sk-ip/metrics.jsonl at 12:30",
        "a secret of the trade",
        "postgres://me@db:5432/pool at 12:30",
    ):
        assert redact(text) == text


def test_config_by_names() -> None:
    config = {
        "api_key": "hunter22",
        "password": 12345,
        "credentials": {"user": "me"},
        "token": "abc",
        "secret": None,
        "max_tokens": 5,
        "eos_token": "</s>",
        "lr": 1e-4,
        "clip": float("inf"),
        "list": (1, "two"),
    }
    assert redact_config(config) == {
        "api_key": BLOT,
        "password": BLOT,
        "credentials": BLOT,
        "token": BLOT,
        "secret": None,
        "max_tokens": 5,
        "eos_token": "</s>",
        "lr": 1e-4,
        "clip": "inf",
        "list": [1, "two"],
    }


@given(st.text())
def test_foreign_text_becomes_one_harmless_line(text: str) -> None:
    line = redact_text(text, most=60)
    assert line.isprintable()
    assert len(line) <= 60


def test_escape_codes_are_shown_not_obeyed() -> None:
    assert redact_text("a\x1b[31mred\nb") == "a?[31mred b"
    assert redact_text("  picture: x.png\n") == "  picture: x.png"


def test_long_words_take_no_time() -> None:
    """Of 100,000 letters each was once the beginning of a name that might say "secret"."""
    for text in ("x" * 100_000, "-" * 100_000, "secret" * 20_000):
        assert redact(text) == text
