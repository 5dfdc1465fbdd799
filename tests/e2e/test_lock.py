"""Two commands can't work on one bed at once."""

from pathlib import Path

import pytest

from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.lock import locked


def test_the_second_is_told_who_is_first(tmp_path: Path) -> None:
    with locked(tmp_path, "up"), pytest.raises(BedError, match="up, pid"), locked(tmp_path, "down"):
        pass


def test_the_lock_is_free_afterwards(tmp_path: Path) -> None:
    with locked(tmp_path, "up"):
        pass
    with locked(tmp_path, "down"):
        assert "down" in (tmp_path / "lock").read_text()
