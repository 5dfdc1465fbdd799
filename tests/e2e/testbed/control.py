"""The world outside the cluster: control server, relay, management API and ACME server, all on the machine `wan`."""

import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

from tests.e2e.testbed.commands import Word, run
from tests.e2e.testbed.daemons import Daemons
from tests.e2e.testbed.isolation import Isolation
from tests.e2e.testbed.parts import program
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.pki import Pki

DOMAIN = "tail1234.ts.net"
# A private address: tailscaled calls a control server elsewhere by HTTPS as soon as a connection breaks.
ADDRESS = "10.255.0.1"
URL = f"http://{ADDRESS}:8080"  # the control server's, for tailscaled and for the operator
ACME_URL = f"https://{ADDRESS}:14000/dir"
ACME = "acme"  # the name of the ACME server's certificate
ACME_ROOT_URL = f"https://{ADDRESS}:15000/roots/0"

_TREE = Path(__file__).parents[3]
_TAILNET_PORT = 8001
_PEBBLE = "127.0.0.1:14001"
_PATIENCE = 20.0  # seconds
# Challenges are met without a look, since no DNS server knows the names; nonces are never refused for exercise.
_EASY_PEBBLE = {"PEBBLE_VA_ALWAYS_VALID": "1", "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0"}

# What any tailscaled of the bed needs: its relay speaks no TLS, and nothing may be sent to the real log server.
TAILSCALED_ENV = {"TS_DEBUG_USE_DERP_HTTP": "true", "TS_NO_LOGS_NO_SUPPORT": "true"}
# What it needs besides to get certificates. SSL_CERT_FILE is to name a file with the authority's root in it.
ACME_ENV = {"TS_DEBUG_ACME_DIRECTORY_URL": ACME_URL}


class Listening(NamedTuple):
    """Where the programs of a tailnet listen: the control server, what leads ACME clients on, and the keeper's port."""

    control: str
    acme: str
    keeper: int


def acme_authority(paths: Paths) -> Pki:
    """Return the CA that the ACME server's certificate chains to; it is kept as long as the images that trust it."""
    trusted = Pki(paths.cache / "acme-ca", days=3650)
    if not trusted.certificate(ACME).exists():
        trusted.make_ca()
        trusted.issue(ACME, f"/CN={ADDRESS}", [f"IP:{ADDRESS}"])
    return trusted


def start(paths: Paths, daemons: Daemons, wan: Isolation, folder: Path) -> None:
    """Start everything, with files in *folder*, and wait until it answers.

    Raises:
        BedError: something does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    trusted = acme_authority(paths)
    wan.run(["ip", "address", "replace", f"{ADDRESS}/32", "dev", "lo"])  # the others have their default route there
    daemons.start("pebble", [program(paths, "pebble"), "-config", _pebble_config(folder, trusted)], wan, _EASY_PEBBLE)
    start_tailnet(paths, daemons, Listening(URL.removeprefix("http://"), f"{ADDRESS}:14000", _TAILNET_PORT), wan)
    _wait(daemons, wan, "pebble", ACME_URL, trusted)


def start_tailnet(paths: Paths, daemons: Daemons, at: Listening, inside: Isolation | None = None) -> None:
    """Start the control server, and the keeper of its auth keys and devices; both answer when this returns.

    Raises:
        BedError: something does not start; the STUN port 3478 can't be chosen.
    """
    daemons.start(
        "tailnet",
        [sys.executable, "-m", "tests.e2e.testbed.tailnet", "--domain", DOMAIN, "--port", str(at.keeper)],
        inside,
        # The folder that the program starts in is the machine's root; what it simulates is this tree's.
        {"PYTHONPATH": os.pathsep.join([str(_TREE), str(_TREE / "loadtest")])},
    )
    trusted = acme_authority(paths)
    flags = {
        "listen": at.control,
        "keeper": f"http://127.0.0.1:{at.keeper}",
        "domain": DOMAIN,
        "acme-listen": at.acme,
        "acme": f"https://{_PEBBLE}",
        "certificate": str(trusted.certificate(ACME)),
        "key": str(trusted.key(ACME)),
    }
    argv: list[Word] = [program(paths, "control"), *(f"-{name}={value}" for name, value in flags.items())]
    daemons.start("control", argv, inside)
    # Nothing but 404 is at the root: it is an answer.
    _wait(daemons, inside, "tailnet", f"http://127.0.0.1:{at.keeper}/")
    _wait(daemons, inside, "control", f"http://{at.control}/key")


def acme_root(paths: Paths, machine: Isolation) -> str:
    """Return the root that leaf certificates chain to, as PEM: a new one with each start of the ACME server."""
    return machine.run(["curl", "-fsS", "--cacert", acme_authority(paths).ca, ACME_ROOT_URL])


def _pebble_config(folder: Path, trusted: Pki) -> Path:
    config = {
        "listenAddress": _PEBBLE,
        "managementListenAddress": f"{ADDRESS}:15000",
        "certificate": str(trusted.certificate(ACME)),
        "privateKey": str(trusted.key(ACME)),
        "httpPort": 80,
        "tlsPort": 443,
        "retryAfter": {"authz": 1, "order": 1},
        "keyAlgorithm": "ecdsa",
        "profiles": {"default": {"description": "90 days", "validityPeriod": 90 * 24 * 3600}},
    }
    file = folder / "pebble.json"
    file.write_text(json.dumps({"pebble": config}))
    return file


def _wait(daemons: Daemons, inside: Isolation | None, name: str, url: str, trusted: Pki | None = None) -> None:
    trust = ["--cacert", str(trusted.ca)] if trusted else []
    curl = ["curl", "-sS", "--max-time", "2", "--output", "/dev/null", *trust, url]
    daemons.wait_for(
        name, lambda: (inside.run if inside else run)(curl) is not None, _PATIENCE, f"an answer from {url}"
    )
