"""PDFs for tests, made of their pages' texts."""

from io import BytesIO

from pypdf import PdfReader, PdfWriter


def pdf(*texts: str) -> bytes:
    """One page for each text, which is ASCII and has no brackets; an empty one has none."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(texts)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, text in enumerate(texts):
        drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {5 + 2 * number} 0 R >>"
        )
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    return _written(objects)


def encrypted(data: bytes, password: str) -> bytes:
    """The same with a password."""
    writer = PdfWriter(clone_from=PdfReader(BytesIO(data)))
    writer.encrypt(password, algorithm="RC4-128")
    file = BytesIO()
    writer.write(file)
    return file.getvalue()


def _written(objects: list[str]) -> bytes:
    data, places = b"%PDF-1.7\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{each}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    return data + f"{end}startxref\n{len(data)}\n%%EOF\n".encode()
