"""The command ``tsoperator check``: says whether an installed operator works, and what to do if it doesn't.

`helm test` runs the command with ``--operator`` in a Pod that has no rights in the cluster. With this option, the
command asks only the operator's Pods and the nameserver. A person runs it with a kubeconfig.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from tsoperator.check.asking import Installation, ask, in_cluster
from tsoperator.check.cluster.installed import not_installed
from tsoperator.check.cluster.look import Subject, look
from tsoperator.check.endpoint import Endpoint
from tsoperator.check.findings import HEALTHY, Finding, Verdict, as_json, as_text, exit_code
from tsoperator.check.leader import NAMESPACE, LeaderReports, NoReport, OperatorPlace
from tsoperator.check.listing import Chosen
from tsoperator.check.report import LeaderReport
from tsoperator.check.reported import check_report, with_looks
from tsoperator.check.terminal import is_coloured, let_go_of_stdout, printable
from tsoperator.settings import resolv_conf

_PAUSE: Final = 1.0  # s between two rounds of checks


def run_check(arguments: argparse.Namespace) -> int:
    """Check whether the operator works, print the findings, and return the exit code."""
    if arguments.operator:
        installation = _installation(arguments)
        seconds = 60.0 if arguments.seconds is None else arguments.seconds
        findings = repeat(lambda: ask(installation), seconds)
    else:
        place = OperatorPlace.of(arguments)
        findings = repeat(lambda: _check(place, arguments.namespace), arguments.seconds or 0)
    text = as_json(findings) if arguments.output == "json" else as_text(findings, coloured=is_coloured(sys.stdout))
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough, such as `head`
        let_go_of_stdout()
    return exit_code(findings)


def repeat(look: Callable[[], list[Finding]], seconds: float) -> list[Finding]:
    """Repeat *look* until all findings are good or *seconds* have passed, and return the findings of the latest look.

    A look that has begun is always completed, even if it takes longer.
    """
    deadline = time.monotonic() + seconds
    while True:
        findings = look()
        if exit_code(findings) == HEALTHY or time.monotonic() >= deadline:
            return findings
        time.sleep(_PAUSE)


def _check(place: OperatorPlace, namespace: str) -> list[Finding]:
    """Return the findings of the leader's report and of our own looks; without a report, only those of our looks."""
    reports = LeaderReports(place)
    try:
        _say("the operator's report")
        report = reports.fetch()
    except NoReport as error:
        _note(f"the operator wasn't asked: {error}")
        return _without_report(place, [error.namespace] if error.namespace else place.namespaces, namespace)
    finally:
        reports.close()
    return _beside(report, place, namespace)


def _without_report(place: OperatorPlace, homes: Sequence[str], namespace: str) -> list[Finding]:
    """Return the findings of our own look at the operator, in the first of the namespaces *homes* that has it."""
    found: list[Finding] = []
    for home in homes:
        found = asyncio.run(look(_subject(place, home, namespace), _say))
        if found != [not_installed(home)]:
            break
    return found


def _beside(report: LeaderReport, place: OperatorPlace, namespace: str) -> list[Finding]:
    """Return the findings of *report*, and those of our own looks at the parts that the report leaves out."""
    home = report.namespace
    subject = _subject(place, home, namespace)
    looked = asyncio.run(look(subject, _say, at_objects=False))
    looked = [each for each in looked if each != not_installed(home)]  # the operator can run outside the cluster
    if unseen := [each for each in looked if each.verdict is Verdict.UNSEEN]:
        _note(f"not looked at beside the operator's report: {'; '.join(each.words for each in unseen)}")
    return with_looks(check_report(report, Chosen(subject.of)), looked)


def _subject(place: OperatorPlace, home: str, namespace: str) -> Subject:
    """Return the subject of a look at the operator in the namespace *home*.

    In earlier versions, ``--namespace`` named the operator's namespace. So if *namespace* is *home*, the look is at all
    objects.
    """
    return Subject(place.kubeconfig, home, place.context, namespace if namespace and namespace != home else None)


def _installation(arguments: argparse.Namespace) -> Installation:
    operator, nameserver = arguments.operator, arguments.nameserver
    namespace = arguments.operator_namespace or arguments.namespace or NAMESPACE
    if not {".", ":"} & {*operator.host}:
        operator = Endpoint(in_cluster(operator.host, namespace, resolv_conf()), operator.port)
    if nameserver is None and (host := os.environ.get("NAMESERVER_SERVICE_HOST")):
        nameserver = Endpoint(host, 53)
    return Installation(namespace, operator, nameserver, arguments.zone)


def _say(words: str) -> None:
    """Show *words*, the present step of the check, to a person at a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"looking at {words} ...\n")


def _note(words: str) -> None:
    """Print *words* about parts that couldn't be looked at, on stderr, for a person."""
    sys.stderr.write(f"{printable(words)}\n")
