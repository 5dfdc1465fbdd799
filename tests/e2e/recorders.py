"""Recorders on the bed: sets their faults, and reads the recordings and events that they have got."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.e2e.testbed.peer import Peer


@dataclass(frozen=True, slots=True)
class Cast:
    """A recording: its header, and the time, the kind and the text of each event."""

    header: dict[str, Any]
    events: Sequence[tuple[float, str, str]]

    @classmethod
    def of(cls, text: str) -> "Cast":
        """Read a recording."""
        header, *events = map(json.loads, text.removesuffix("\n").split("\n"))
        return cls(header, [(seconds, kind, data) for seconds, kind, data in events])

    @property
    def output(self) -> str:
        """All output in the recording."""
        return "".join(data for _, kind, data in self.events if kind == "o")

    @property
    def sizes(self) -> list[str]:
        """The sizes of the terminal in their order, beginning with the size in the header."""
        return [
            f"{self.header['width']}x{self.header['height']}",
            *(data for _, kind, data in self.events if kind == "r"),
        ]


@dataclass(frozen=True, slots=True)
class RecorderDevice:
    """A recorder in the tailnet, called *name*, and the device *outside* that reads its recordings."""

    outside: Peer
    name: str

    @contextmanager
    def faulty(self, **faults: Any) -> Iterator[None]:
        """Give the recorder these *faults* during the block, and none afterwards.

        They are ``hangs``, ``silent`` (it acknowledges nothing), ``failure`` (an error with these words), ``first`` (it
        knows only the first version of the protocol), ``noEvents`` (it takes no events) and ``drops`` (it stores
        nothing).
        """
        self.replace_faults(**faults)
        try:
            yield
        finally:
            self.replace_faults()

    @property
    def address(self) -> str:
        """The IPv4 address and the port of the recorder, as grants name it."""
        return f"{self.outside.tailscale('ip', '-4', self.name).strip()}:80"

    def replace_faults(self, **faults: Any) -> None:
        """Replace the recorder's faults by these *faults* (see `faulty`).

        A restart of the recorder removes all faults.
        """
        self.outside.curl("--request", "PUT", "--json", json.dumps(faults), self._url("faults"))

    def files(self, end: str = ".cast") -> list[str]:
        """Return the names of the recorder's files that end with *end*, in the order of time."""
        names: list[str] = json.loads(self.outside.curl(self._url("recordings")))
        return [name for name in names if name.endswith(end)]

    def cast(self, file: str) -> Cast:
        """Return the recording in *file*. If it is incomplete, an incomplete last line is left out."""
        text = self.outside.curl(self._url(f"recordings/{file}"))
        return Cast.of(text[: text.rfind("\n") + 1])

    def events(self) -> list[dict[str, Any]]:
        """Return the events that the recorder has stored, in the order of time."""
        files = self.files(".json")
        said = self.outside.curl(*(self._url(f"recordings/{file}") for file in files)) if files else ""
        return [json.loads(line) for line in said.split("\n") if line]

    def forget(self) -> None:
        """Make the recorder delete its events and its complete recordings."""
        self.outside.curl("--request", "DELETE", self._url("recordings"))

    def _url(self, path: str) -> str:
        return f"http://{self.name}/testbed/{path}"
