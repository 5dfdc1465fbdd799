"""The requests to a real API server, read from its audit log."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from os import SEEK_CUR, SEEK_END
from pathlib import Path
from typing import Any

from clustersim.traffic import MUTATING, Request

Entry = dict[str, Any]
"""One request in the audit log, in the format of audit.k8s.io/v1."""


def entries(path: Path) -> Iterator[Entry]:
    """Yield every request in the log, one at a time, because the log is long."""
    with path.open("rb") as lines:
        for line in lines:
            with suppress(ValueError):  # the line is incomplete: the API server still writes it, or was killed
                yield json.loads(line)


class AuditLog:
    """The requests of one user since this AuditLog was made, including refused requests."""

    def __init__(self, path: Path, user: str) -> None:
        self._file = path.open("rb")
        self._file.seek(0, SEEK_END)
        self._user = user
        self._requests: Counter[Request] = Counter()
        self.denied: list[str] = []
        """The API server's messages about requests that it forbade to the user. The method `requests` adds to them."""

    def requests(self) -> Counter[Request]:
        """Return the number of requests by user agent, verb and plural."""
        while (line := self._file.readline()).endswith(b"\n"):
            entry = json.loads(line)
            if entry["user"]["username"] == self._user:
                plural = entry.get("objectRef", {}).get("resource", "-")
                self._requests[entry.get("userAgent", "-"), entry["verb"], plural] += 1
                if (entry.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid":
                    self.denied.append(entry["responseStatus"]["message"])
        self._file.seek(-len(line), SEEK_CUR)  # read an incomplete line again next time
        return Counter(self._requests)

    def writes(self) -> Counter[tuple[str, str]]:
        """Return the number of mutating requests by verb and plural."""
        counts = ((verb, plural, count) for (_, verb, plural), count in self.requests().items())
        return Counter({(verb, plural): count for verb, plural, count in counts if verb in MUTATING})

    def close(self) -> None:
        """Close the log file."""
        self._file.close()
