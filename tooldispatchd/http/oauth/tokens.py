"""Tokens on disk: a file for each server, client and grant, read and replaced whole, readable by its owner alone.

    DIRECTORY (0700)/DIGEST.json (0600)   the tokens, sealed where there is a key
    DIRECTORY/DIGEST.lock                 held by the process that is about to change it: a daemon, or a login

Names of files are digests that show no secret. Files are small and local: they are read and written at once, without
a thread.

A sealed file is `MAGIC`, a nonce of 12 bytes and AES-256-GCM's output; the file's own name is authenticated with it, so
that one file cannot be put in the place of another. The key is the SHA-256 of a credential that the service's manager
hands over (systemd.exec, LoadCredential): random bytes, of which no slow derivation makes more. A passphrase has no
place there.
"""

import fcntl
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec
import trio

from tooldispatchd.catalog.statedirectory import find_state_directory
from tooldispatchd.http.oauth.refusals import AuthorizationError
from tooldispatchd.installation import needs
from tooldispatchd.privatefiles import open_private, replace_private

# A registration and two metadata documents of 64 KiB each, which is what the flow reads at most, and the tokens.
MAX_FILE_BYTES: Final = 512 * 1024
# The process that holds the lock is in a flow, which takes 30 s at most.
LOCK_S: Final = 35.0

CREDENTIAL: Final = "tooldispatchd-token-key"
MAGIC: Final = b"tooldispatchd sealed 1\n"
# Under 256 bits a key is weaker than the cipher; over 64 KiB it is not a key.
MIN_KEY_BYTES: Final = 32
MAX_KEY_BYTES: Final = 65_536
_NONCE_BYTES: Final = 12

_LOCK_EVERY_S: Final = 0.05
_PRIVATE_DIRECTORY: Final = 0o700


class TokenStoreError(AuthorizationError):
    """The store cannot be used; the text is a clause that says why, and shows nothing of its content."""


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that an authorization server gave; times are seconds since 1970."""

    access_token: str | None = None
    refresh_token: str | None = None
    scope: str | None = None
    refresh_at: float | None = None
    """When the access token is due to be replaced, a little before it ends; None where its end is not known."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What of it nobody may be shown."""
        return tuple(token for token in (self.access_token, self.refresh_token) if token is not None)

    def __repr__(self) -> str:
        """Name the members that are set, and show no value."""
        held = [name for name in self.__struct_fields__ if getattr(self, name)]
        return f"{type(self).__name__}({', '.join(held)})"


Learn = Callable[[str, Iterable[str]], None]
"""Is told the secrets of an entry, in the place of those that it had before: they are masked from then on."""


def learn_nothing(_entry: str, _secrets: Iterable[str]) -> None:
    """Nobody masks anything."""


_Kept = TypeVar("_Kept", bound=Tokens)


def find_directory(environ: Mapping[str, str]) -> Path:
    """The directory of tokens: below systemd's `$STATE_DIRECTORY`, else below the user's own directory for state.

    Raises `TokenStoreError` where the environment names none.
    """
    state = find_state_directory(environ)
    if state is not None:
        return Path(state) / "oauth"
    raise TokenStoreError("no directory for tokens: neither $STATE_DIRECTORY nor $XDG_STATE_HOME nor $HOME names one")


class TokenStore(Generic[_Kept]):
    """The files of one user, each with a value of `kind`. Making it touches none of them.

    Each method raises `TokenStoreError`.
    """

    __slots__ = ("_directory", "_kind", "_seal", "_why_not")

    def __init__(self, environ: Mapping[str, str], kind: type[_Kept]) -> None:
        self._kind = kind
        self._directory: Path | None = None
        self._seal: Seal | None = None
        self._why_not = ""
        # A server that nobody calls must not keep the daemon from starting: the store complains when it is used.
        try:
            self._directory = find_directory(environ)
            self._seal = find_seal(environ)
        except (TokenStoreError, SealError) as error:
            self._why_not = str(error)

    def __repr__(self) -> str:
        return f"TokenStore({str(self._directory)!r})"

    def path_of(self, name: str) -> Path:
        """The path of the entry `name`, whether it exists or not."""
        if self._directory is None:
            raise TokenStoreError(self._why_not)
        return self._directory / f"{name}.json"

    def read(self, name: str) -> _Kept | None:
        """The entry `name`, None where there is none."""
        path = self.path_of(name)
        self._require_key()
        try:
            _check(path.parent, path.parent.lstat())
            # A link could lead to a file of somebody else's, a pipe would be waited for.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise TokenStoreError(f"cannot read {path}: it is not a regular file")
                _check(path, found)
                content = file.read(MAX_FILE_BYTES + 1)
            if len(content) > MAX_FILE_BYTES:
                raise TokenStoreError(f"cannot read {path}: it is over {MAX_FILE_BYTES // 1024} KiB")
            if content.startswith(MAGIC):
                if self._seal is None:
                    raise TokenStoreError(f"cannot open {path}: it is sealed, and there is no credential {CREDENTIAL}")
                content = self._seal.open(content, path.name)
            return msgspec.json.decode(content, type=self._kind)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TokenStoreError(f"cannot read {path}: {error.strerror}") from None
        except SealError as error:
            raise TokenStoreError(f"cannot open {path}: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # The cause would carry the content along.
            raise TokenStoreError(f"cannot read {path}: it is not a token file") from None

    def write(self, name: str, tokens: _Kept) -> None:
        """Replace the entry `name` by `tokens`. Hold its lock."""
        path = self._made(name)
        self._require_key()
        content = msgspec.json.encode(tokens)
        if self._seal is not None:
            content = self._seal.close(content, path.name)
        if len(content) > MAX_FILE_BYTES:
            raise TokenStoreError(f"cannot write {path}: it would be over {MAX_FILE_BYTES // 1024} KiB")
        try:
            replace_private(path, (content,))
        except OSError as error:
            raise TokenStoreError(f"cannot write {path}: {error.strerror}") from None

    def forget(self, name: str) -> bool:
        """Remove the entry `name`; whether there was one. Hold its lock. It needs no key."""
        path = self._made(name)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise TokenStoreError(f"cannot remove {path}: {error.strerror}") from None
        return True

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncIterator[None]:
        """Hold the entry `name` against other processes; waits for them at most `LOCK_S`."""
        path = self._made(name).with_suffix(".lock")
        try:
            descriptor = open_private(path)
        except OSError as error:
            raise TokenStoreError(f"cannot lock {path}: {error.strerror}") from None
        try:
            with trio.move_on_after(LOCK_S) as waiting:
                # The other process cannot tell us; and to wait in the kernel would stop the loop.
                while True:
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        await trio.sleep(_LOCK_EVERY_S)
                    except OSError as error:  # a file system without locks
                        raise TokenStoreError(f"cannot lock {path}: {error.strerror}") from None
            if waiting.cancelled_caught:
                raise TokenStoreError(f"cannot lock {path}: another process has held it for {LOCK_S:.0f} s")
            yield
        finally:
            os.close(descriptor)

    def _require_key(self) -> None:
        if self._why_not:
            raise TokenStoreError(self._why_not)

    def _made(self, name: str) -> Path:
        """The path of the entry `name`, in a directory that exists and is private."""
        path = self.path_of(name)
        try:
            path.parent.mkdir(_PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            _check(path.parent, path.parent.lstat())
        except OSError as error:
            raise TokenStoreError(f"cannot make {path.parent}: {error.strerror}") from None
        return path


# --- sealing ---------------------------------------------------------------------------------------------------------


class SealError(Exception):
    """A key cannot be used, or a file cannot be opened with it; the text says which, and shows neither."""


class Seal:
    """Encrypts and decrypts files with one key. Raises `SealError` where it is too short, or the extra is missing."""

    __slots__ = ("_cipher",)

    def __init__(self, secret: bytes) -> None:
        try:
            # It costs 30 ms, and without a key nobody needs it.
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
        except ModuleNotFoundError:
            raise SealError(f"the credential {CREDENTIAL} {needs('oauth')}") from None
        if len(secret) < MIN_KEY_BYTES:
            raise SealError(f"the credential {CREDENTIAL} is shorter than {MIN_KEY_BYTES} bytes")
        self._cipher = AESGCM(hashlib.sha256(secret).digest())

    def __repr__(self) -> str:
        return "Seal(…)"

    def close(self, content: bytes, name: str) -> bytes:
        """Seal `content` for the file `name`."""
        nonce = os.urandom(_NONCE_BYTES)
        return MAGIC + nonce + self._cipher.encrypt(nonce, content, name.encode())

    def open(self, sealed: bytes, name: str) -> bytes:
        """Open the content of the file `name`; a `SealError` where it was changed, moved or sealed with another key."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  # as above

        start = len(MAGIC) + _NONCE_BYTES
        nonce, rest = sealed[len(MAGIC) : start], sealed[start:]
        try:
            return self._cipher.decrypt(nonce, rest, name.encode())
        except (InvalidTag, ValueError):
            raise SealError(f"it was sealed with another key than the credential {CREDENTIAL}, or changed") from None


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


# --- files -----------------------------------------------------------------------------------------------------------


def _check(path: Path, found: os.stat_result) -> None:
    """Refuse a file or directory that another user could have written or could read."""
    if found.st_uid != os.geteuid():
        raise TokenStoreError(f"cannot use {path}: it belongs to another user")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise TokenStoreError(f"cannot use {path}: others may get at it (mode {mode:04o})")
