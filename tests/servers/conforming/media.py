"""The smallest image and the smallest sound, as content blocks have them."""

import base64
import zlib


def png() -> str:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = (1).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0\xff\0\0")), (b"IEND", b"")]
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)).decode()


def wav() -> str:
    """One silent sample, at 8 kHz."""
    form = b"fmt " + (16).to_bytes(4, "little") + bytes([1, 0, 1, 0, 64, 31, 0, 0, 64, 31, 0, 0, 1, 0, 8, 0])
    body = b"WAVE" + form + b"data" + (1).to_bytes(4, "little") + b"\x80"
    return base64.b64encode(b"RIFF" + len(body).to_bytes(4, "little") + body).decode()
