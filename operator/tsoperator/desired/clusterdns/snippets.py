"""What to paste where, for people who tell the cluster's DNS of the nameserver by hand."""

from tsoperator.desired.clusterdns.platforms import Platform
from tsoperator.desired.clusterdns.results import StubDomain
from tsoperator.desired.clusterdns.serverblock import server_block


def snippet(platform: Platform, stub: StubDomain) -> str:
    """Return the stub domain as *platform* takes it; the first line is a comment that says where it belongs."""
    return f"# Add this at the end of {platform.where}.\n{server_block(stub)}\n"
