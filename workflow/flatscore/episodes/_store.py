"""Finished episodes, each in a file of its own from the moment it ends."""

import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flatscore.files import digest


class Store:
    """A folder of episodes outside the workflow's outputs.

    An episode's key is the digest of everything that determines it, so a changed setting finds
    nothing, and an unchanged one finds what any earlier run, killed or not, has finished.

    Parameters
    ----------
    folder
        Where the episodes lie; it is created.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def key(determinants: Mapping[str, Any]) -> str:
        """The key of an episode from what determines it."""
        return digest(dict(determinants))

    def get(self, key: str) -> dict[str, Any] | None:
        """An episode, or None where there is none or its file is torn."""
        try:
            text = gzip.decompress(self._path(key).read_bytes())
            found = json.loads(text)
        except (OSError, EOFError, ValueError, zlib.error):
            return None
        return found if isinstance(found, dict) and found.get("key") == key else None

    def put(self, key: str, episode: Mapping[str, Any]) -> None:
        """Write an episode; whoever reads sees the whole file or none.

        The bytes are not forced to the disk: an episode is lost at most when the machine loses
        power, is then found torn, and is run again.
        """
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"key": key, **episode}, ensure_ascii=False, separators=(",", ":"))
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
        with os.fdopen(handle, "wb") as file:
            file.write(gzip.compress(text.encode(), 4, mtime=0))
        Path(name).replace(path)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key[2:]}.json.gz"
