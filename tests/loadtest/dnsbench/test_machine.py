"""Tests of what a result says of where it was measured."""

import os

from dnsbench.machine import command_line, cores


def test_the_command_does_not_tell_where_files_lie() -> None:
    words = ["--go-nameserver", "/home/someone/nameserver", "--results", "loadtest/results"]
    assert command_line(words) == "python -m dnsbench --go-nameserver nameserver --results loadtest/results"


def test_server_and_client_have_a_core_each() -> None:
    usable = os.sched_getaffinity(0)
    if len(usable) > 1:
        server, client = cores()
        assert server != client
        assert {server, client} <= usable
