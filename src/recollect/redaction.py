"""Blotting out secrets before anything leaves the process or reaches a disk.

Two nets: values that look like a key whatever they are called, and values whose name says
that they are one. `redact_text` also makes the text safe for one line of a terminal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from recollect.canonical import Json

BLOT = "[redacted]"

# One alternative for each shape that keys come in; \b keeps words inside longer words safe.
_SHAPES = re.compile(
    r"""(?x)
      \bsk-[A-Za-z0-9_\-]{16,}                                 # OpenAI, Anthropic, DeepSeek
    | \bhf_[A-Za-z0-9]{16,}                                    # Hugging Face
    | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,}      # GitHub
    | \bglpat-[\w\-]{16,}                                      # GitLab
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                            # AWS
    | \bAIza[\w\-]{30,}                                        # Google
    | \bxox[abeoprs]-[A-Za-z0-9\-]{10,}                        # Slack
    | \bwandb_v\d_\w{16,} | \blocal-[0-9a-f]{40}\b             # Weights & Biases
    | \bpypi-[\w\-]{16,} | \bnpm_[A-Za-z0-9]{20,}              # package registries
    | \beyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*                     # JSON web token
    | -----BEGIN[ A-Z]*PRIVATE\ KEY-----.*?(?:-----END[ A-Z]*PRIVATE\ KEY-----|\Z)
    | (?i:\bbearer\s+)[\w\-.~+/=]{8,}                          # Authorization headers
    | (?<=postgres://)[^\n]*:[^\n]*(?=@)                       # a password that is not escaped
    | (?<=postgresql://)[^\n]*:[^\n]*(?=@)                     # ends at the last @
    | (?<=://)[^/\s:@]*:[^/\s@]+(?=@)                          # user:password@ in an address
    """,
    re.DOTALL,
)
_SAYS_SECRET = (
    r"api_?key|secret|passw(?:or)?d|credential|private_?key"
    r"|(?:access|auth|api|bearer|hf|write|refresh)_token"
)
_SECRET_NAME = re.compile(rf"(?i){_SAYS_SECRET}|^token$")
# api_key=x, "WANDB_API_KEY": "x", ?token=x; and --password x, where only a space divides. Names
# begin where a word does and have an end: else a long word would take its length squared.
_NAMED = re.compile(
    rf"""(?ix)
    (?<![\w\-])
    ( (?: [\w\-]{{0,80}}(?:{_SAYS_SECRET})[\w\-]{{0,80}} | token ) ["']?\s*[=:]\s*["']?
    | --(?: [\w\-]{{0,80}}(?:{_SAYS_SECRET})[\w\-]{{0,80}} | token ) \s+ )
    [^\s"'&,;}}\]]{{4,}}
    """
)


def redact(text: str) -> str:
    """Replace everything that looks like a secret."""
    return _NAMED.sub(rf"\1{BLOT}", _SHAPES.sub(BLOT, text))


def redact_text(text: str, most: int = 500) -> str:
    """Make foreign text fit for one line: no secrets, no control characters, not too long."""
    line = re.sub(r"[\t\n\v\f\r]+", " ", redact(text)).rstrip()
    line = "".join(char if char.isprintable() else "?" for char in line)
    return line if len(line) <= most else line[: most - 3] + "..."


def redact_config(value: object) -> Json:
    """Turn a configuration into plain JSON without secrets, for others to keep."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {
            redact(str(key)): BLOT if _names_a_secret(key, item) else redact_config(item)
            for key, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [redact_config(item) for item in value]
    return redact(str(value))


def _names_a_secret(key: object, value: object) -> bool:
    empty = value is None or value == "" or isinstance(value, bool)
    return not empty and bool(_SECRET_NAME.search(str(key)))
