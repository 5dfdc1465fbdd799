"""Tests of the notes that Helm prints when the chart has been installed."""

from pathlib import Path

import pytest

from tests.charts.rendered import Render

VOLUME = "oauthSecretVolume.csi.driver=a"
CLIENT = ("oauth.clientId=a", "oauth.clientSecret=b")

UNUSED: list[tuple[tuple[str, ...], list[str], str]] = [  # `--set` flags, values without effect, reason
    ((), [], ""),
    (CLIENT, [], ""),
    (("oauth.existingSecret=a",), [], ""),
    (("oauth.clientId=a", "oauth.audience=b"), [], ""),
    ((VOLUME, *CLIENT), [], ""),
    (("oauth.clientSecret=b",), ["oauth.clientSecret"], "oauth.clientId is empty: set both, or neither."),
    ((*CLIENT, "oauth.audience=b"), ["oauth.clientSecret"], "oauth.audience asks for workload identity"),
    (
        (*CLIENT, "oauth.existingSecret=b"),
        ["oauth.clientId", "oauth.clientSecret"],
        "oauth.existingSecret names a Secret",
    ),
    ((VOLUME, "oauth.existingSecret=b"), ["oauth.existingSecret"], "oauthSecretVolume has the credentials"),
    (
        (*CLIENT, "apiServerProxyConfig.http=true"),
        ["apiServerProxyConfig.http"],
        'apiServerProxyConfig.mode is false: set it to "true" or "noauth"',
    ),
    ((*CLIENT, "apiServerProxyConfig.http=true", "apiServerProxyConfig.mode=noauth"), [], ""),
]


@pytest.mark.parametrize(("sets", "unused", "because"), UNUSED)
def test_the_notes_of_the_chart_warn_about_values_without_effect(
    render: Render, noted: Path, sets: tuple[str, ...], unused: list[str], because: str
) -> None:
    (notes,) = (obj["notes"] for obj in render(*sets, chart=noted) if "notes" in obj)
    told = [line for line in notes.splitlines() if " has no effect" in line]
    assert [line.split()[1] for line in told] == unused
    assert all(f"because {because}" in line for line in told)


@pytest.mark.parametrize(
    ("sets", "command"),
    [
        (("mode=true",), "tailscale configure kubeconfig tailscale-operator"),
        (("mode=noauth", "http=true"), "tailscale configure kubeconfig --http tailscale-operator"),
        (("mode=false",), None),
    ],
)
def test_the_notes_of_the_chart_say_how_kubectl_reaches_the_api_server_proxy(
    render: Render, noted: Path, sets: tuple[str, ...], command: str | None
) -> None:
    given = (f"apiServerProxyConfig.{each}" for each in sets)
    (notes,) = (obj["notes"] for obj in render(*CLIENT, *given, chart=noted) if "notes" in obj)
    found = [line.strip() for line in notes.splitlines() if "configure kubeconfig" in line]
    assert found == ([command] if command else [])


@pytest.mark.parametrize(
    ("sets", "words"),
    [((), "docs/troubleshooting.md helps"), (("docsURL=https://example.org/a/",), "https://example.org/a/dns.md\n")],
)
def test_the_notes_of_the_chart_name_the_address_of_the_docs(
    render: Render, noted: Path, sets: tuple[str, ...], words: str
) -> None:
    given = (f"metrics.prometheusRule.{each}" for each in sets)
    (notes,) = (obj["notes"] for obj in render(*CLIENT, *given, chart=noted) if "notes" in obj)
    assert words in notes
