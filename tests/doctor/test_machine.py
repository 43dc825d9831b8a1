from pathlib import Path

from tooldispatchd.config.configuration import load
from tooldispatchd.doctor.machine import wanted_extras


def test_a_clock_needs_no_extra_and_the_web_does(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text('[tools.today]\nbuiltin = "current_date"\nsandbox = "best-effort"\n')
    assert wanted_extras(load(file, {})) == {}
    file.write_text('[tools.page]\nbuiltin = "fetch"\nsandbox = "best-effort"\n')
    assert wanted_extras(load(file, {})) == {"toolbox": "tools.page"}
