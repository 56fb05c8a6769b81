"""The schema for editors."""

import json
import subprocess
import sys

from recollect.config import json_schema
from recollect.config.settings import all_settings


def test_it_is_json_and_closed() -> None:
    schema = json_schema()
    assert json.loads(json.dumps(schema)) == schema
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert list(properties)[:2] == ["preset", "run"]
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_every_setting_carries_its_description() -> None:
    text = json.dumps(json_schema(), ensure_ascii=False)
    for setting in all_settings().values():
        assert json.dumps(setting.description, ensure_ascii=False) in text


def test_importing_the_room_is_cheap() -> None:
    code = (
        "import sys, recollect.config as c; c.load_config('demo');"
        "heavy = {'torch', 'transformers', 'numpy', 'sqlite3'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
