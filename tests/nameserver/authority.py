"""An authority that a test makes, and what it certifies."""

import ssl
import subprocess
from pathlib import Path


def certified(folder: Path) -> ssl.SSLContext:
    """Return how a server at 127.0.0.1 speaks https; its certificate, which nobody else signed, is ``ca.crt``."""
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=api"
    key, crt = folder / "server.key", folder / "ca.crt"
    files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(crt)]
    subprocess.run(["openssl", *words.split(), *files], check=True, capture_output=True)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(crt, key)
    return tls
