"""Certificates and keys of one bed, made by openssl: one CA, the API server's pair, its client pair for the kubelet."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.testbed.commands import Word, run

DAYS = "30"
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Pki:
    """The files in one folder."""

    folder: Path

    @property
    def ca(self) -> Path:
        """The CA that all certificates of the cluster chain to."""
        return self.folder / "ca.crt"

    @property
    def service_accounts(self) -> Path:
        """The private key that signs ServiceAccount tokens."""
        return self.folder / "service-accounts.key"

    def certificate(self, name: str) -> Path:
        """The certificate called *name*."""
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        """The private key of the certificate called *name*."""
        return self.folder / f"{name}.key"

    def make(self, addresses: Sequence[str]) -> None:
        """Make all of them; *addresses* are the IP addresses that the API server is reached at."""
        self.folder.mkdir(parents=True, mode=0o700)
        self._openssl(
            "req", "-x509", *CURVE, "-days", DAYS, "-subj", "/CN=testbed-ca", "-keyout", self.key("ca"), "-out", self.ca
        )
        domain = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
        names = [f"DNS:{name}" for name in (*domain, "localhost")] + [f"IP:{address}" for address in addresses]
        self.issue("apiserver", "/CN=kube-apiserver", names)
        self.issue("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client", ["DNS:kube-apiserver"])
        self._openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self.service_accounts)

    def issue(self, name: str, subject: str, names: Sequence[str]) -> None:
        """Make a key and a certificate for *subject*, valid for *names* (`DNS:…` or `IP:…`), as server and client."""
        extensions = [f"subjectAltName={','.join(names)}", "extendedKeyUsage=serverAuth,clientAuth"]
        added = [word for extension in extensions for word in ("-addext", extension)]
        files: list[Word] = ["-keyout", self.key(name), "-out", self.certificate(name)]
        signed_by: list[Word] = ["-CA", self.ca, "-CAkey", self.key("ca")]
        self._openssl("req", "-x509", *CURVE, "-days", DAYS, "-subj", subject, *added, *signed_by, *files)

    def _openssl(self, *words: Word) -> None:
        run(["openssl", *words])
