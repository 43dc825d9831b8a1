"""The daemon's log, as sessions and all that belongs to them use it."""

from typing import Protocol


class Log(Protocol):
    """A line is a constant event and fields; what `bind` returns adds its fields to each of its lines."""

    @property
    def logs_calls(self) -> bool:
        """Whether anybody hears what is said of single calls, at `debug`; else it need not be said."""

    def bind(self, **fields: object) -> "Log": ...
    def debug(self, event: str, **fields: object) -> object: ...
    def info(self, event: str, **fields: object) -> object: ...
    def warning(self, event: str, **fields: object) -> object: ...
    def error(self, event: str, **fields: object) -> object: ...
    def incident(self, event: str, error: BaseException) -> str:
        """A defect, with its traceback; returns the incident's id."""
