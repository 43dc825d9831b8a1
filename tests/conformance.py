"""The conformance runner as tests use it; and this daemon held to every transcript: `python -m tests.conformance`."""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from protocol.conformance.run import LEVELS, UNSAID

ROOT: Final = Path(__file__).parent.parent
RUN: Final = ROOT / "protocol" / "conformance" / "run.py"
SERVE: Final = f"{sys.executable} -m tooldispatchd serve --config {{directory}}/{{name}}.toml --listen"
# Each kind of channel of this daemon, as the runner is told of it.
WAYS: Final = {
    "socket": ("--start", f"{SERVE} unix:{{socket}}"),
    "stdio": ("--stdio", f"{SERVE} stdio"),
    "pair": ("--pair", f"{SERVE} fd:{{read}},{{write}}"),
}
# Nothing of this daemon asks for approval yet; what is slow is asked for by itself.
CAN: Final = sorted(UNSAID - {"approval", "slow"})
ALL: Final = (
    *(word for level in LEVELS for word in ("--level", level)),
    *(word for need in CAN for word in ("--can", need)),
)
PATIENCE_S: Final = 60
MOST_S: Final = 3600


def run(*words: str, jobs: int = 4) -> dict[str, object]:
    """What the runner reports."""
    fixed = ("--report", "json", "--jobs", str(jobs), "--patience", str(PATIENCE_S))
    done = subprocess.run(
        [sys.executable, str(RUN), *fixed, *words], capture_output=True, text=True, timeout=MOST_S, check=False
    )
    assert done.returncode in {0, 1}, done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    return report


def outcomes(report: dict[str, object], outcome: str) -> dict[str, str]:
    """The transcripts with this outcome, and why."""
    found = report["transcripts"]
    assert isinstance(found, list)
    return {one["name"]: one.get("why", "") for one in found if one["outcome"] == outcome}


def main() -> int:
    """Play everything on each kind of channel; 0 where all of it held."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--jobs", type=int, default=4, help="so many transcripts at a time (default: %(default)s)")
    parser.add_argument("way", nargs="*", choices=[*WAYS, []], help="only these kinds of channels")
    asked = parser.parse_args()
    is_right = True
    for way in asked.way or WAYS:
        began = time.monotonic()
        report = run(*ALL, "--slow", *WAYS[way], jobs=asked.jobs)
        failed = outcomes(report, "failed")
        counts = {what: len(outcomes(report, what)) for what in ("passed", "failed", "skipped")}
        told = ", ".join(f"{count} {what}" for what, count in counts.items())
        print(f"{way}: {told}, in {time.monotonic() - began:.0f} s", flush=True)
        for name, why in failed.items():
            print(f"  {name}: {why}", flush=True)
        is_right = is_right and not failed
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
