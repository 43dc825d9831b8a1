"""A log that keeps all of it."""


class Recording:
    """Keeps each line as its level, event and fields."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, object]]] = []

    def debug(self, event: str, **fields: object) -> None:
        self.lines.append(("debug", event, fields))

    def info(self, event: str, **fields: object) -> None:
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: object) -> None:
        self.lines.append(("warning", event, fields))

    def error(self, event: str, **fields: object) -> None:
        self.lines.append(("error", event, fields))
