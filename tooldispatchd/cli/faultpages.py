"""The pages of the fault codes, for a terminal and for docs/faults.md: what `faults.toml` and the registry say of each.

Standard library alone: `explain` is asked in the middle of something else, and answers at once.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).parent
# A wheel has the protocol in the package; in the project's own directory it lies beside that.
REGISTRIES: Final = (HERE.parent / "protocol" / "registry", HERE.parent.parent / "protocol" / "registry")
READERS: Final = {"model": "the model", "author": "the agent's author", "operator": "the operator"}
_RETRY: Final = {
    "later": "the same call may succeed later",
    "never": "the same call will fail again",
    "unknown": "the same call may fail again",
}
_RAN: Final = {
    "no": "nothing was run",
    "maybe": "the tool may have run",
    "by call": "`ran` says if the tool may have run",
}


class FaultPage(NamedTuple):
    """One code: its row of the registry in words, its cause, and what each of its readers can do."""

    code: str
    category: str
    when: str
    retry: str
    ran: str
    extras: tuple[str, ...]
    cause: str
    remedies: Mapping[str, str]

    @property
    def facts(self) -> str:
        """Its row of the registry, as one sentence."""
        said = [self.category, self.retry, *([self.ran] if self.ran else [])]
        return f"{'; '.join(said)}."


def read_registry() -> list[dict[str, object]]:
    """Every row of the registry, in its order."""
    path = next(place for place in (each / "faults.json" for each in REGISTRIES) if place.exists())
    rows: list[dict[str, object]] = json.loads(path.read_text(encoding="utf-8"))["faults"]
    return rows


def read_texts() -> dict[str, dict[str, str]]:
    """The text of each page, by its code."""
    return tomllib.loads((HERE / "faults.toml").read_text(encoding="utf-8"))


def read_pages() -> dict[str, FaultPage]:
    """Every page by its code, in the registry's order."""
    texts = read_texts()
    return {str(row["code"]): _page(row, texts[str(row["code"])]) for row in read_registry()}


def _page(row: Mapping[str, object], text: Mapping[str, str]) -> FaultPage:
    always, optional = row.get("extras", []), row.get("optional", [])
    assert isinstance(always, list)
    assert isinstance(optional, list)
    return FaultPage(
        code=str(row["code"]),
        category=str(row["category"]),
        when=str(row["when"]),
        retry=_RETRY[str(row["retry"])],
        ran=_RAN.get(str(row.get("ran")), ""),
        extras=(*map(str, always), *(f"{name}?" for name in optional)),
        cause=text["cause"],
        remedies={READERS[reader]: text[reader] for reader in READERS if reader in text},
    )


def markdown(pages: Mapping[str, FaultPage]) -> Iterator[str]:
    """The lines of a document with a heading for each page."""
    for page in pages.values():
        yield from (f"## `{page.code}`", "", f"*{page.facts[0].upper()}{page.facts[1:]}*", "", page.cause, "")
        yield from (f"- **{reader[0].upper()}{reader[1:]}:** {text}" for reader, text in page.remedies.items())
        if page.extras:
            yield from ("", f"Fields: {', '.join(f'`{name}`' for name in page.extras)}.")
        yield ""
