"""The Markdown reference of all settings, written from the schema (docs/config.md)."""

from __future__ import annotations

from recollect.config.presets import list_presets
from recollect.config.scalars import spell
from recollect.config.settings import Setting, all_sections, all_settings

_INTRODUCTION = """\
# Configuration

*Written by `scripts/write_config_docs.py` from the schema; change the descriptions there.*

Defaults are in the code. A YAML file holds only what differs from them, and flags go on top:

```sh
recollect train demo                                  # a preset, by name
recollect train mine.yaml train.learning_rate=3e-4    # your file, one value changed
recollect train mine.yaml --dry-run                   # every value, and where it came from
recollect config diff demo mine.yaml                  # what yours changes
recollect config schema > recollect.schema.json       # for editors that check and complete YAML
```

A file is a mapping of sections. `preset: demo` as its first line makes it start from a preset
(a list of presets is possible; the last one wins):

```yaml
preset: demo
run:
  steps: 100
train:
  learning_rate: 3e-4
```

Layers, the last one winning: defaults, presets, the file, flags. Sections merge setting by
setting; a list, or `environment.options`, is replaced as a whole.

| flag | meaning |
|---|---|
| `run.steps=100` | set a value: a number, `true`, `false`, `none`, or text as it stands |
| `environment.levels=[1, 2]` | set a list (or a mapping, in braces); quote it for your shell |
| `telemetry.sinks+=wandb` | append to a list |
| `environment.options.size=200` | set one option, keep the others |
| `run.name='"42"'` | text that looks like a number needs quotes of its own |
| `preset=one_gpu`, `preset+=one_gpu` | replace the presets, or put one on top |

YAML here is YAML 1.2 without anchors, tags and repeated keys: `1e-3` is a number, `yes`, `on` and
`off` are text, and `none` is the same as `null`. Unknown settings and wrong types are errors that
name the file and the line.
"""


def config_reference() -> str:
    """Write the whole page."""
    lines = [_INTRODUCTION, "## Presets", "", "| preset | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(summary)} |" for name, summary in list_presets().items()]
    for section, about in all_sections().items():
        lines += ["", f"## `{section}`", "", about, ""]
        lines += ["| setting | default | accepts | meaning |", "|---|---|---|---|"]
        own = (s for key, s in all_settings().items() if key.rpartition(".")[0] == section)
        lines += [_row(setting) for setting in own]
    return "\n".join(lines) + "\n"


def _row(setting: Setting) -> str:
    default = f"`{_cell(spell(setting.default))}`"
    cells = [f"`{setting.key}`", default, _cell(setting.kind), _cell(setting.description)]
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
