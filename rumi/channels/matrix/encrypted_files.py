"""Encrypted files: AES-256 in counter mode, and a digest of the encrypted bytes. Messages carry the keys."""

import hashlib
import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import Any, Final

_REFERENCE: Final = re.compile(r"(mxc://[^#]+)#([A-Za-z0-9_-]{107}=)")


@dataclass(frozen=True, slots=True)
class FileKey:
    """What reads an encrypted file: its key, its first counter, and the digest of its encrypted bytes."""

    key: bytes = field(repr=False)
    iv: bytes
    digest: bytes


def file_key_of(file: Mapping[str, Any]) -> FileKey | None:
    """Return the key in an encrypted file's description; None if it cannot be used."""
    try:
        key = _bytes(file["key"]["k"])
        found = FileKey(key, _bytes(file["iv"]), _bytes(file["hashes"]["sha256"]))
        fits = file["key"]["alg"] == "A256CTR" and file.get("v") == "v2"
    except (KeyError, TypeError, ValueError):
        return None
    return found if fits and [len(found.key), len(found.iv), len(found.digest)] == [32, 16, 32] else None


def with_key(address: str, key: FileKey) -> str:
    """Return the reference to an encrypted file: its address and its key."""
    return f"{address}#{urlsafe_b64encode(key.key + key.iv + key.digest).decode()}"


def split_reference(reference: str) -> tuple[str, FileKey | None]:
    """Return the address in a reference to a file, and its key; None if the file is not encrypted."""
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        return reference, None
    whole = urlsafe_b64decode(found[2])
    return found[1], FileKey(whole[:32], whole[32:48], whole[48:])


class FileReader:
    """Decrypts a file part by part. At the end, `is_whole` says if it is what was sent."""

    def __init__(self, key: FileKey) -> None:
        from Crypto.Cipher import AES

        counter = int.from_bytes(key.iv[8:], "big")
        self._cipher = AES.new(key.key, AES.MODE_CTR, nonce=key.iv[:8], initial_value=counter)
        self._digest = hashlib.sha256()
        self._key = key

    def read(self, part: bytes) -> bytes:
        """Return the plaintext of the next part."""
        self._digest.update(part)
        return self._cipher.decrypt(part)

    @property
    def is_whole(self) -> bool:
        """True if the digest of all parts is the right one."""
        return self._digest.digest() == self._key.digest


def encrypt_file(content: bytes) -> tuple[bytes, dict[str, Any]]:
    """Return a file's encrypted bytes, and its description without the address. Each file has its own key."""
    from Crypto.Cipher import AES

    key, start = token_bytes(32), token_bytes(8)
    sealed = AES.new(key, AES.MODE_CTR, nonce=start, initial_value=0).encrypt(content)
    web_key = {"kty": "oct", "alg": "A256CTR", "ext": True, "key_ops": ["encrypt", "decrypt"]}
    return sealed, {
        "v": "v2",
        "key": {**web_key, "k": urlsafe_b64encode(key).decode().rstrip("=")},
        "iv": b64encode(start + bytes(8)).decode().rstrip("="),
        "hashes": {"sha256": b64encode(hashlib.sha256(sealed).digest()).decode().rstrip("=")},
    }


def _bytes(text: str) -> bytes:
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    return b64decode(plain + "=" * (-len(plain) % 4), validate=True)
