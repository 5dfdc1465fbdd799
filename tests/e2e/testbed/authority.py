"""The certificate authority of the testbed's ACME server: proxies trust it before they are given certificates."""

from dataclasses import dataclass
from pathlib import Path

from tests.e2e.testbed.commands import run

_DAYS = "3650"
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")


@dataclass(frozen=True, slots=True)
class Authority:
    """The files of the authority, and of the one certificate that it has given: the ACME server's."""

    folder: Path

    @property
    def root(self) -> Path:
        """The authority's certificate."""
        return self.folder / "root.pem"

    @property
    def certificate(self) -> Path:
        """The ACME server's certificate."""
        return self.folder / "acme.pem"

    @property
    def key(self) -> Path:
        """The ACME server's key."""
        return self.folder / "acme.key"


def authority(folder: Path, address: str) -> Authority:
    """Return the authority in *folder*, made if it isn't there, with a certificate for the ACME server at *address*.

    Images hold its root: keep the folder as long as they are kept.

    Raises:
        BedError: openssl fails.
    """
    made = Authority(folder)
    if made.certificate.exists():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    root_key = folder / "root.key"
    request = ("openssl", "req", "-x509", "-days", _DAYS, *_KEY)
    run([*request, "-subj", "/CN=testbed authority", "-keyout", root_key, "-out", made.root])
    signer = ("-CA", made.root, "-CAkey", root_key)
    usage = ("-addext", f"subjectAltName=IP:{address}", "-addext", "basicConstraints=critical,CA:FALSE")
    unsigned = made.certificate.with_suffix(".unfinished")
    run([*request, *signer, *usage, "-subj", f"/CN={address}", "-keyout", made.key, "-out", unsigned])
    unsigned.rename(made.certificate)
    return made
