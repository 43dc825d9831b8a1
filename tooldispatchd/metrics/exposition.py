"""Prometheus' text format, version 0.0.4: metrics and their samples as lines. Pure.

A library would bring a registry with a lock for each number, and hold the loop, or a thread that holds the
interpreter's lock, while it renders a thousand tools; this is written in pieces.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(msgspec.Struct, frozen=True):
    """A metric, its samples told apart by the values of its `labels`."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def head(self) -> str:
        """The lines before its samples."""
        return f"# HELP {self.name} {self.help.translate(_HELP_ESCAPES)}\n# TYPE {self.name} {self.kind}\n"

    def sample(self, value: float, *values: str) -> str:
        """The line of one sample, with the values of the labels in their order."""
        return f"{self.name}{_braces(self._pairs(values))} {_number(value)}\n"

    def histogram(self, bounds: Sequence[float], counts: Sequence[int], total: float, *values: str) -> str:
        """The lines of one histogram: `counts` are those up to each bound, each alone, the last those above all."""
        pairs, name, seen = self._pairs(values), self.name, 0
        lines: list[str] = []
        for bound, count in zip((*bounds, math.inf), counts, strict=True):
            seen += count
            le = f'le="{_number(bound)}"'
            lines.append(f"{name}_bucket{_braces([*pairs, le])} {seen}\n")
        lines += f"{name}_sum{_braces(pairs)} {_number(total)}\n", f"{name}_count{_braces(pairs)} {seen}\n"
        return "".join(lines)

    def _pairs(self, values: Sequence[str]) -> list[str]:
        return [f'{label}="{value.translate(_ESCAPES)}"' for label, value in zip(self.labels, values, strict=True)]


def _braces(pairs: Sequence[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _number(value: float) -> str:
    if value == math.inf:
        return "+Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))
