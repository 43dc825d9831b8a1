"""The text of a PDF, page by page."""

import zlib
from typing import IO, Final

from tooldispatchd.forked.python.context import ToolContext

# A page takes 10 to 100 ms.
MAX_PAGES: Final = 20
# Parts of the file are held in memory, and what they unpack to.
MAX_PDF_BYTES: Final = 64 * 1024 * 1024
# What pypdf raises for a broken file beside its own error; `tests/toolbox/test_pdf.py` breaks some.
_BROKEN: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError),
    *(RecursionError, TypeError, ValueError, zlib.error),
)


def pages_of(ctx: ToolContext, path: str, file: IO[bytes], *, offset: int, limit: int, max_bytes: int) -> str:
    """At most `limit` pages from `offset` on, MAX_PAGES and `max_bytes`, below a line that says which."""
    # Few calls need it, and its import takes 70 ms.
    from pypdf.errors import DependencyError, DeprecationError, FileNotDecryptedError, PyPdfError  # noqa: PLC0415

    if file.seek(0, 2) > MAX_PDF_BYTES:
        raise ctx.failed(f"cannot read {path}: it is a PDF of more than {MAX_PDF_BYTES // 1024**2} MiB")
    try:
        texts, total = _texts(file, first=offset, most=min(limit, MAX_PAGES), max_bytes=max_bytes)
    except (DependencyError, FileNotDecryptedError) as error:
        raise ctx.failed(f"cannot read {path}: it is a PDF that is encrypted") from error
    except (PyPdfError, DeprecationError, *_BROKEN) as error:
        raise ctx.failed(f"cannot read {path}: it is a PDF that is broken, or of an unknown form") from error
    if not texts:
        raise ctx.invalid("offset", f"{path} has {total:,} page{'s' * (total != 1)}")
    last = offset + len(texts) - 1
    more = f"; go on with offset={last + 1}" if last < total else ""
    return "\n".join([f"[pages {offset:,}-{last:,} of {total:,}{more}]", *texts])


def _texts(file: IO[bytes], *, first: int, most: int, max_bytes: int) -> tuple[list[str], int]:
    """The texts of pages, and how many pages there are. Raises what pypdf raises."""
    from pypdf import PdfReader  # noqa: PLC0415  # as above

    pages = PdfReader(file).pages
    texts: list[str] = []
    left = max_bytes
    for number in range(first, min(first + most, len(pages) + 1)):
        # Broken tables of characters give halves of surrogate pairs, which no JSON can hold.
        said = pages[number - 1].extract_text().strip().encode(errors="replace")
        if texts and len(said) > left:
            break
        left -= len(said)
        texts.append(f"--- page {number} ---\n{_cut(said, max_bytes) or '(no text: it may be a picture)'}")
    return texts, len(pages)


def _cut(said: bytes, most: int) -> str:
    text = said[:most].decode(errors="ignore")
    left_out = len(said.decode()) - len(text)
    return f"{text}… {left_out:,} characters left out …" if left_out else text
