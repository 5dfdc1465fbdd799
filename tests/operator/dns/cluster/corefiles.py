"""Strategies by which Hypothesis generates Corefiles."""

from hypothesis import strategies as st
from tsoperator.dns.cluster.serverblock import BEGIN, END

_ZONES = st.lists(
    st.sampled_from([".", ".:53", "example.org", "dns://example.com:53", "10.0.0.0/8", "{$ZONE}.org:53", '"quoted"']),
    min_size=1,
    max_size=3,
).map(" ".join)
_PLUGINS = st.sampled_from(
    ["errors", "cache 30 {NL    denial 9984 5NL  }", "forward . /etc/resolv.conf", "# reload", "reload # 10s", "",
     'log . "{remote} # \\" }"', "import s", "import custom/*.override", "health { lameduck 5s }"]
)  # fmt: skip
_BLOCKS = st.builds(
    "{}{}{{NL{}NL}}".format, _ZONES, st.sampled_from([" ", "\t", "NL"]), st.lists(_PLUGINS).map("NL\t".join)
)
_PARTS = _BLOCKS | st.sampled_from(["import custom/*.server", "# a comment", "", " \t ", "# BEGIN something"])


@st.composite
def corefiles(draw: st.DrawFn) -> str:
    """Return a Corefile that CoreDNS accepts, with newlines of Unix or Windows, and with or without a final newline."""
    parts = ["(s) {NL  errorsNL}", *draw(st.lists(_PARTS, max_size=5))] if draw(st.booleans()) else [""]
    newlines = draw(st.sampled_from(["\n", "\r\n"]))
    text = "NL".join(parts) + draw(st.sampled_from(["", "NL", "NLNL", " ", "\r", " # no newline"]))
    return draw(st.sampled_from(["", "\ufeff"])) + text.replace("NL", newlines)


_PIECES = [
    *'{}\n \r\t"\\#,:.a', "import", "(s)", "s", "{$", "{%", "%}", "\ufeff", "\xa0", "\ud800", ".:53 {\n}\n", BEGIN, END,
]  # fmt: skip


def texts() -> st.SearchStrategy[str]:
    """Return a strategy for texts of which only some are Corefiles; some have the markers of our block."""
    return st.lists(st.sampled_from(_PIECES) | st.text(max_size=3)).map("".join)
