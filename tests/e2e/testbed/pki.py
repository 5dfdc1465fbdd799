"""Certificates and keys, made by openssl.

One CA is for the programs of a bed's cluster, another one for the ACME server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.testbed.commands import Word, run

_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_DOMAIN = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")


@dataclass(frozen=True, slots=True)
class Pki:
    """The files in a folder: a CA, and the certificates that it has signed."""

    folder: Path
    days: int = 30

    @property
    def ca(self) -> Path:
        """The file with the certificate of the CA, which has signed all other certificates."""
        return self.certificate("ca")

    @property
    def service_accounts(self) -> Path:
        """The file with the private key that signs ServiceAccount tokens."""
        return self.key("service-accounts")

    def certificate(self, name: str) -> Path:
        """The file with the certificate called *name*."""
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        """The file with the private key of the certificate called *name*."""
        return self.folder / f"{name}.key"

    def make_ca(self) -> None:
        """Make the CA."""
        self.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        self._request("ca", "/CN=testbed-ca")

    def make_cluster(self, addresses: Sequence[str]) -> None:
        """Make all certificates of a control plane. *addresses* are the IP addresses of the API server."""
        self.make_ca()
        names = [f"DNS:{name}" for name in (*_DOMAIN, "localhost")] + [f"IP:{address}" for address in addresses]
        self.issue("apiserver", "/CN=kube-apiserver", names)
        self.issue("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client", ["DNS:kube-apiserver"])
        run(
            [
                "openssl",
                "genpkey",
                "-algorithm",
                "RSA",
                "-pkeyopt",
                "rsa_keygen_bits:2048",
                "-out",
                self.service_accounts,
            ]
        )

    def issue(self, name: str, subject: str, names: Sequence[str]) -> None:
        """Make a key and a certificate for *subject*, valid for *names* (`DNS:…` or `IP:…`), as server and client."""
        given = (f"subjectAltName={','.join(names)}", "extendedKeyUsage=serverAuth,clientAuth")
        added = [
            word for extension in (*given, "basicConstraints=critical,CA:FALSE") for word in ("-addext", extension)
        ]
        self._request(name, subject, *added, "-CA", self.ca, "-CAkey", self.key("ca"))

    def _request(self, name: str, subject: str, *words: Word) -> None:
        files: list[Word] = ["-keyout", self.key(name), "-out", self.certificate(name)]
        run(["openssl", "req", "-x509", *_EC, "-days", str(self.days), "-subj", subject, *words, *files])
