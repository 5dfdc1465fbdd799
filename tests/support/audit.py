"""What a user asked of a real API server, read from its audit log."""

import json
from collections import Counter
from os import SEEK_CUR, SEEK_END
from pathlib import Path

from clustersim.traffic import MUTATING, Request


class AuditLog:
    """The requests of one user since the log was opened, refused ones too."""

    def __init__(self, path: Path, user: str) -> None:
        self._file = path.open("rb")
        self._file.seek(0, SEEK_END)
        self._user = user
        self._requests: Counter[Request] = Counter()

    def requests(self) -> Counter[Request]:
        """Return all of them by user agent, verb and plural."""
        while (line := self._file.readline()).endswith(b"\n"):
            entry = json.loads(line)
            if entry["user"]["username"] == self._user:
                plural = entry.get("objectRef", {}).get("resource", "-")
                self._requests[entry.get("userAgent", "-"), entry["verb"], plural] += 1
        self._file.seek(-len(line), SEEK_CUR)  # what is only half written
        return Counter(self._requests)

    def writes(self) -> Counter[tuple[str, str]]:
        """Return the mutating ones by verb and plural."""
        counts = ((verb, plural, count) for (_, verb, plural), count in self.requests().items())
        return Counter({(verb, plural): count for verb, plural, count in counts if verb in MUTATING})

    def close(self) -> None:
        """Close the file."""
        self._file.close()
