"""References of images."""

import pytest
from release.images import pinned


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("docker.io/library/python:3.13-slim", "docker.io/library/python"),
        ("python", "python"),
        ("127.0.0.1:5000/base:1", "127.0.0.1:5000/base"),
        ("127.0.0.1:5000/base", "127.0.0.1:5000/base"),
        ("example.org/base:1@sha256:34", "example.org/base"),
    ],
)
def test_a_base_is_pinned_by_its_digest(given: str, name: str) -> None:
    assert pinned(given, "sha256:12") == f"{name}@sha256:12"
