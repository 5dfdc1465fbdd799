"""The image references that container runtimes accept."""

import pytest
from tsoperator.api.images import image_error, image_name, image_tag

DIGEST = "sha256:" + "0a" * 32
NO_IMAGES = [
    "tailscale:", "tailscale:-v1", "tailscale:" + "x" * 129, "tailscale@sha256:abc", "a" * 256, "0a" * 32,
    "example.org//a", "-example.org/a", "https://example.org/a",
]  # fmt: skip


@pytest.mark.parametrize(
    "image",
    [
        "tailscale", "tailscale/tailscale", "tailscale/tailscale:stable", "ghcr.my-repo/tailscale:v0.01testsomething",
        "example.org:5000/a/b/c__d--e.f:V1", f"example.org/tailscale@{DIGEST}", f"example.org/tailscale:v1@{DIGEST}",
        "localhost/tailscale", "localhost:5000/tailscale", "[2001:db8::1]:5000/tailscale", "Registry/tailscale",
        "docker.io/library/tailscale",
    ],
)  # fmt: skip
def test_a_valid_image_reference_is_accepted(image: str) -> None:
    assert image_error(image) is None


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("FOO bär", '"FOO bär": only the registry and the tag of an image may have upper case letters'),
        ("example.org/Tailscale", "may have upper case letters"),
        (
            "tail\nscäle",
            '"tail\\nscäle": this is not the name of an image: write one such as tailscale/tailscale:stable',
        ),
        *((image, "write one such as") for image in NO_IMAGES),
    ],
)
def test_the_error_for_an_invalid_image_reference_has_one_line(image: str, words: str) -> None:
    error = image_error(image)
    assert error is not None
    assert words in error
    assert "\n" not in error


NAMED = ["k8s-proxy", "k8s-proxy:v1", f"example.org:5000/k8s-proxy@{DIGEST}", f"example.org/a/k8s-proxy:v1@{DIGEST}"]


@pytest.mark.parametrize("image", NAMED)
def test_the_name_of_an_image_is_found_in_its_reference(image: str) -> None:
    assert image_name(image) == "k8s-proxy"


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("tailscale/tailscale:v1.102.5", "v1.102.5"),
        (f"example.org:5000/a/tailscale:v1@{DIGEST}", "v1"),
        ("example.org:5000/tailscale", ""),
        (f"tailscale@{DIGEST}", ""),
    ],
)
def test_the_tag_of_an_image_is_found_in_its_reference(image: str, tag: str) -> None:
    assert image_tag(image) == tag
