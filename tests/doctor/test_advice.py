from tooldispatchd.doctor.advice import advice_for


def test_a_module_that_is_missing_is_to_be_installed() -> None:
    said = "it exited with code 1 (/usr/bin/python3: No module named mcp_server_time)"
    assert str(advice_for(said)).startswith("install the package that has this module")
    said = "it exited with code 1 (Error: Cannot find module '/srv/dist/index.js')"
    assert str(advice_for(said)).startswith("install its package (npm ci)")
