"""The daemon's log, as sessions and all that belongs to them use it."""

from typing import Protocol


class Log(Protocol):
    """The daemon's log, as the layers below it see it: a constant event and fields."""

    def bind(self, **fields: object) -> "Log":
        """A log that adds these fields to every line."""

    def debug(self, event: str, **fields: object) -> object:
        """For who looks at one call."""

    def info(self, event: str, **fields: object) -> object:
        """One line for each session and connection."""

    def warning(self, event: str, **fields: object) -> object:
        """Something that the operator may want to mend."""

    def error(self, event: str, **fields: object) -> object:
        """Something that failed for good."""

    def incident(self, event: str, error: BaseException) -> str:
        """A defect, with its traceback; returns the incident's id."""
