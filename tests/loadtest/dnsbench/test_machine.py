"""Tests of the description of the machine in a result."""

import os

from dnsbench.machine import command_line, cores


def test_the_command_line_in_a_stored_result_has_no_paths_of_the_machine() -> None:
    words = ["--go-nameserver", "/home/someone/nameserver", "--results", "loadtest/results"]
    assert command_line(words) == "python -m dnsbench --go-nameserver nameserver --results loadtest/results"


def test_the_measured_server_and_the_client_have_different_cpu_cores() -> None:
    usable = os.sched_getaffinity(0)
    if len(usable) > 1:
        server, client = cores()
        assert server != client
        assert {server, client} <= usable
