"""Encryption of what is kept at rest, with a key that the service's manager hands over (systemd.exec, LoadCredential).

A sealed file is `MAGIC`, a nonce of 12 bytes and AES-256-GCM's output; the file's own name is authenticated with it, so
that one file cannot be put in the place of another. The key is the SHA-256 of the credential: that is meant to be
random bytes, of which no slow derivation makes more, and a passphrase has no place there.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CREDENTIAL: Final = "tooldispatchd-token-key"
MAGIC: Final = b"tooldispatchd sealed 1\n"
# Under 256 bits a key is weaker than the cipher; over 64 KiB it is not a key.
MIN_KEY_BYTES: Final = 32
MAX_KEY_BYTES: Final = 65_536

_NONCE_BYTES: Final = 12


class SealError(Exception):
    """A key that cannot be used, or a file that cannot be opened with it; the text says which, and shows neither."""


class Seal:
    """What closes and opens files; equal seals have equal keys, and no repr shows one."""

    __slots__ = ("_key",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) < MIN_KEY_BYTES:
            raise SealError(f"the credential {CREDENTIAL} is shorter than {MIN_KEY_BYTES} bytes")
        self._key = hashlib.sha256(secret).digest()

    def __repr__(self) -> str:
        """Nothing of the key."""
        return "Seal(…)"

    def close(self, content: bytes, name: str) -> bytes:
        """`content` sealed for the file `name`."""
        # cryptography comes with the extra, and costs 30 ms that only who has a key pays.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        nonce = os.urandom(_NONCE_BYTES)
        return MAGIC + nonce + AESGCM(self._key).encrypt(nonce, content, name.encode())

    def open(self, sealed: bytes, name: str) -> bytes:
        """What was sealed for the file `name`. Raises `SealError` where it was changed, moved or sealed by another."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        start = len(MAGIC) + _NONCE_BYTES
        nonce, rest = sealed[len(MAGIC) : start], sealed[start:]
        try:
            return AESGCM(self._key).decrypt(nonce, rest, name.encode())
        except (InvalidTag, ValueError):
            raise SealError(f"it was sealed with another key than the credential {CREDENTIAL}, or changed") from None


def is_sealed(content: bytes) -> bool:
    """Whether a file's content is sealed."""
    return content.startswith(MAGIC)


def find_seal(environ: Mapping[str, str]) -> Seal | None:
    """The seal of the credential in `$CREDENTIALS_DIRECTORY`; None where there is none. Raises `SealError`."""
    directory = environ.get("CREDENTIALS_DIRECTORY")
    if not directory:
        return None
    try:
        with (Path(directory) / CREDENTIAL).open("rb") as file:
            secret = file.read(MAX_KEY_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file can have this name"
        raise SealError(f"cannot read the credential {CREDENTIAL}: {why}") from None
    if len(secret) > MAX_KEY_BYTES:
        raise SealError(f"the credential {CREDENTIAL} is longer than {MAX_KEY_BYTES} bytes")
    return Seal(secret)
