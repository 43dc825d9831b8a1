"""What is said of metrics elsewhere: the table, the rules and the dashboard name those that there are."""

import json
import re
from pathlib import Path
from shutil import which
from subprocess import run

import pytest

from docs.metrics import DOCUMENT, with_table
from tooldispatchd.metrics.exposition import MetricKind
from tooldispatchd.metrics.families import ALL

RULES = DOCUMENT.with_name("alerts.yml")
DASHBOARD = DOCUMENT.with_name("grafana.json")
SERIES = {
    metric.name + end: metric.labels
    for metric in ALL
    for end in (("_bucket", "_sum", "_count") if metric.kind is MetricKind.HISTOGRAM else ("",))
}


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == with_table(text)


@pytest.mark.parametrize("file", [RULES, DASHBOARD], ids=lambda file: file.name)
def test_rules_and_dashboard_name_metrics_and_labels_that_there_are(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    named = {name for name in re.findall(r"\b(?:tooldispatchd|process)_[a-z_]+", text) if name != "process_type"}
    assert named <= set(SERIES)
    groupings = {label for group in re.findall(r"by \(([^)]*)\)", text) for label in group.split(", ")}
    assert groupings <= {label for labels in SERIES.values() for label in labels} | {"instance", "le"}


def test_the_dashboard_shows_every_metric_that_moves() -> None:
    text = DASHBOARD.read_text(encoding="utf-8")
    shown = {metric.name for metric in ALL if metric.name in text}
    beside = {metric.name for metric in ALL} - shown
    assert beside == {
        "tooldispatchd_cache_entries",
        "tooldispatchd_draining",
        "tooldispatchd_server_opened_total",
        "tooldispatchd_stored_bytes_limit",
        "process_start_time_seconds",
        "process_virtual_memory_bytes",
    }


def test_a_dashboard_has_a_query_in_each_panel() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    queries = [panel["targets"] for panel in panels if panel["type"] != "row"]
    assert all(target["expr"].count("(") == target["expr"].count(")") for targets in queries for target in targets)
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.skipif(which("promtool") is None, reason="there is no promtool: `make build/prometheus/.tried`")
def test_promtool_takes_the_rules_and_the_dashboards_queries(tmp_path: Path) -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    asked = [
        {"record": f"q{number}", "expr": query.replace("$__rate_interval", "5m").replace("$instance", ".*")}
        for number, query in enumerate(queries)
    ]
    file = tmp_path / "queries.json"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": asked}]}))
    checked = run(["promtool", "check", "rules", str(RULES), str(file)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
