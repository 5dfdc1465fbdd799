"""The text of the demo's results: the table of names, and the measured delays."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clustersim.tailnet import PARTNER_DEVICE, PARTNER_DOMAIN

GOAL_MS = 100


@dataclass(frozen=True, slots=True)
class Row:
    """The result for one object: its name, its addresses, and the seconds until the demo found them right.

    If the object has a device, *offers* says what the device provides.
    """

    obj: str
    name: str
    addresses: tuple[str, ...]
    seconds: float
    offers: str = ""


def table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table of names that Pods look up: a line for each row, and one for each further address."""
    return _lines(("object", "name", "address", "ready after"), [(row, (row.obj, row.name)) for row in rows])


def device_table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table of devices and Tailscale Services.

    It has a line for each row, and one for each further address.
    """
    head = ("object", "name", "offers", "address", "ready after")
    return _lines(head, [(row, (row.obj, row.name, row.offers)) for row in rows])


def _lines(head: tuple[str, ...], rows: Sequence[tuple[Row, tuple[str, ...]]]) -> list[str]:
    """Return the lines of a table with the headings *head*.

    *rows* are pairs: a Row, and the texts for its first columns. The other columns are the addresses and the seconds.
    """
    cells = [head]
    for row, texts in rows:
        first, *more = row.addresses
        cells.append((*texts, first, f"{row.seconds:.2f} s"))
        cells += [(*("" for _ in texts), address, "") for address in more]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def delays(seconds: Sequence[float]) -> str:
    """Return one line about the *seconds* from each change of an address to the first DNS answer that showed it."""
    ordered = sorted(1000 * value for value in seconds)
    middle = ordered[math.ceil(len(ordered) / 2) - 1]
    verdict = "met" if middle < GOAL_MS else "missed"
    return (
        f"{len(ordered)} changes of an address, from the API server to the DNS answer: "
        f"p50 {middle:.1f} ms, max {ordered[-1]:.1f} ms (goal: p50 < {GOAL_MS} ms, {verdict})"
    )


def commands(kubeconfig: Path, dns_port: int, page: str, rows: Sequence[Row]) -> list[str]:
    """Return commands with which the user can look at the cluster, and change it.

    *page* is the URL of the operator's page for browsers.
    """
    name = next((row.name for row in rows if not row.name.endswith(".local")), "")
    return [
        "Try, in another terminal:",
        "",
        f"  export KUBECONFIG={kubeconfig} PATH=$PWD/.venv/bin:$PATH",
        "",
        "  tsoperator list",
        "  tsoperator check",
        "  kubectl get services,ingresses,connectors,proxygroups,dnsconfigs",
        "  kubectl get pods --namespace tailscale --output wide",
        "  kubectl describe service db",
        "  kubectl explain connector.spec.subnetRouter",
        "  kubectl logs --namespace tailscale deployment/operator --tail 20",
        "  kubectl apply --filename docs/examples/expose.yaml",
        "  kubectl annotate service stock --overwrite tailscale.com/hostname=store",
        *([f"  dig @127.0.0.1 -p {dns_port} {name}"] if name else []),
        "",
        f"A browser shows the list at {page}.",
        "The tailnet has the devices db, directory and printer (100.64.10.10). Write a Service of your own for one.",
        "A Tailnet with the OAuth client in docs/examples/tailnet.yaml leads to another tailnet, which has the device",
        f"{PARTNER_DEVICE}.{PARTNER_DOMAIN}.",
        "The API server is simulated, too: it doesn't know rules in CEL, so that a ProxyGroupPolicy has no effect.",
        "`make demo FAIL=policy KEEP=1` shows a fault, and what to do about it; so do credentials, dns and node.",
    ]
