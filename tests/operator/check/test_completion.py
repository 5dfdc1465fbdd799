"""The words that kubectl and shells offer while a user types a command line."""

import sys
from pathlib import Path

import pytest
from tsoperator.__main__ import kubectl_completion

CONFIG = """\
contexts: [{name: home, context: {cluster: c, user: u}}, {name: work, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://c"}}]
users: [{name: u, user: {}}]
current-context: home
"""


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ([""], "list check :4"),
        (["l"], "list :4"),
        (["list", "--all"], "--all-namespaces :4"),
        (["list", "-o", ""], "wide json yaml name :4"),
        (["check", "--context", ""], "home work :4"),
        (["check", "--context", "w"], "work :4"),
        (["list", "--kubeconfig", ""], ":0"),
    ],
)
def test_kubectl_gets_the_words_that_can_come_next_in_a_command_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: list[str],
    offered: str,
) -> None:
    (tmp_path / "config").write_text(CONFIG)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-tailnet", *words])
    with pytest.raises(SystemExit):
        kubectl_completion()
    assert capsys.readouterr().out.split() == offered.split()
