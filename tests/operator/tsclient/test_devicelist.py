import asyncio
import json
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from tsoperator.api.device import Device
from tsoperator.tsclient.devicelist import DeviceListReader
from tsoperator.tsclient.errors import ControlError, UnexpectedAnswer
from tsoperator.tsclient.models import DeviceList
from tsoperator.tsclient.transport import Answer

DEVICES = "/api/v2/tailnet/-/devices"
Wire = dict[str, Any]


def device(number: int, **fields: Any) -> Wire:
    return {"addresses": [f"100.64.0.{number}"], "id": str(number), "nodeId": f"n{number}", "name": "db", **fields}


def headscales(number: int) -> Wire:
    return {"id": str(number), "nodeId": str(number), "name": f"db-{number}", "addresses": None, "tags": ["tag:k8s"]}


def compact(*devices: Any) -> str:
    return json.dumps({"devices": devices}, separators=(",", ":"))


def spaced(*devices: Any) -> str:
    return json.dumps({"devices": devices})


def indented(*devices: Any) -> str:
    return json.dumps({"devices": devices}, indent="\t") + "\n"


def answer(body: str | bytes, block: int = 1 << 17) -> Answer:
    """Return an HTTP answer whose *body* arrives in blocks of *block* bytes. The first block has at least 256 bytes."""
    raw = body.encode() if isinstance(body, str) else body
    cuts = [0, *range(max(block, 256), len(raw), block), len(raw)]
    return Answer(f"GET {DEVICES}", 200, [raw[a:b] for a, b in pairwise(cuts)], SecretStr("sesame"))


def plainly(body: str | bytes) -> dict[str, Device] | str:
    """Return the devices that a plain JSON parser finds in *body*, or the words of its error."""
    try:
        return {each.node_id: each for each in answer(body).read(DeviceList).devices}
    except ControlError as error:
        return str(error)


async def sliced(reader: DeviceListReader, body: str | bytes, block: int = 1 << 17) -> dict[str, Device] | str:
    try:
        return await reader.read(answer(body, block))
    except ControlError as error:
        return str(error)


ONE, TWO, THREE = device(1), device(2), device(3)
NESTED = device(4, routes=[{"addresses": []}, {"addresses": ["x"]}, {"name": "},{"}], hostname='a"},{"b')
FOREIGN = dict(reversed(device(5).items()))


APART = compact(ONE, TWO, THREE).replace("},", "} ,", 1)


class Change(NamedTuple):
    before: str
    after: str
    decoded: int
    """The number of devices in the second list that are other Python objects than in the first list."""


CHANGES = {
    "nothing": Change(compact(ONE, TWO), compact(ONE, TWO), 0),
    "of Headscale, nothing": Change(compact(*map(headscales, (1, 2))), compact(*map(headscales, (1, 2))), 0),
    "spaced, nothing": Change(spaced(ONE, TWO, THREE), spaced(ONE, TWO, THREE), 0),
    "indented, nothing": Change(indented(ONE, NESTED, THREE), indented(ONE, NESTED, THREE), 0),
    "came": Change(compact(ONE, TWO), compact(ONE, THREE, TWO), 1),
    "went": Change(compact(ONE, TWO, THREE), compact(ONE, THREE), 0),
    "the last went": Change(compact(ONE, TWO, THREE), compact(ONE, TWO), 0),
    "all went": Change(compact(ONE, TWO), compact(), 0),
    "changed": Change(compact(ONE, TWO, THREE), compact(ONE, device(2, name="web"), THREE), 1),
    "in another order": Change(compact(ONE, TWO, THREE), compact(THREE, ONE, TWO), 0),
    "twice": Change(compact(ONE, TWO, device(1, name="web")), compact(ONE, TWO, device(1, name="web")), 0),
    "twice, then once": Change(compact(ONE, TWO, device(1, name="web")), compact(ONE, TWO), 1),
    "nested, nothing": Change(compact(NESTED, ONE, NESTED, TWO), compact(NESTED, ONE, NESTED, TWO), 0),
    "the first fields differ": Change(compact(FOREIGN, ONE, TWO), compact(FOREIGN, ONE, TWO), 0),
    "space": Change(compact(ONE, TWO), spaced(ONE, TWO), 2),
    "space in one place, nothing": Change(APART, APART, 2),
    "space in one place": Change(compact(ONE, TWO, THREE), APART, 2),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("block", [1, 50, 1 << 17])
async def test_only_devices_that_differ_from_the_previous_list_are_decoded(change: Change, block: int) -> None:
    reader = DeviceListReader()
    before = await reader.read(answer(change.before, block))
    after = await reader.read(answer(change.after, block))
    assert before == plainly(change.before)
    assert after == plainly(change.after)
    kept = {id(each) for each in before.values()}
    assert sum(id(each) not in kept for each in after.values()) == change.decoded


async def test_the_reader_of_device_lists_forgets_a_device_that_the_most_recent_list_lacks() -> None:
    reader = DeviceListReader()
    before, _, after = [await reader.read(answer(compact(*devices))) for devices in ([ONE, TWO], [TWO], [ONE, TWO])]
    assert after == before
    assert after["n1"] is not before["n1"]


BAD = {
    "a web page": ("<html>Please log in</html>", "but '<html>Please log in</html>'"),
    "nothing": ("", "but ''"),
    "another answer": ('{"message": "hello"}', "(devices: Field required)"),
    "a list of names": ('{"devices": ["db"]}', "(devices.0: "),
    "a device without a name": (compact(ONE, TWO, {"id": "3"}, TWO), "(devices.2.name: Field required)"),
    "a device of another shape": (compact(NESTED, device(2, addresses=7)), "(devices.1.addresses: "),
    "two lists": (compact(ONE)[:-1] + ",[" + compact(TWO)[12:], "but broken JSON"),
    "an open list": (compact(ONE, TWO)[:-2], "but broken JSON"),
    "an open name": (compact(ONE, TWO)[:-2] + ',{"}]}', "but broken JSON"),
    "an open string": (compact(ONE, TWO).replace('db"', "db", 1), "but broken JSON"),
    "much after an open string": (compact(ONE, *[TWO] * 5000).replace('db"', "db", 1), "but broken JSON"),
    "no UTF-8": (compact(ONE, TWO).encode().replace(b"db", b"\xff"), "but broken JSON"),
    "a form feed": (compact(ONE, TWO).replace("},", "}\f,", 1), "but broken JSON"),
}


@pytest.mark.parametrize(("body", "words"), BAD.values(), ids=BAD)
async def test_the_error_for_an_answer_that_is_no_list_has_the_same_words_as_with_a_plain_json_parser(
    body: str | bytes, words: str
) -> None:
    reader = DeviceListReader()
    before = await reader.read(answer(compact(ONE)))
    with pytest.raises(UnexpectedAnswer) as error:
        await reader.read(answer(body))
    assert words in str(error.value)
    assert str(error.value) == plainly(body)
    assert (await reader.read(answer(compact(ONE))))["n1"] is before["n1"]


@pytest.mark.parametrize(
    "body",
    [
        '{"devices": null}',
        compact(),
        f'{{"page": 1, {compact(ONE)[1:]}',
        f'{compact(ONE)[:-1]}, "page": 1}}',
        compact(device(1, note="x" * 300_000), TWO, *[NESTED] * 3),
        compact(device(1, note=["},{"] * 100_000), TWO),
    ],
)
async def test_a_list_of_devices_in_an_unusual_form_is_also_read(body: str) -> None:
    assert await sliced(DeviceListReader(), body) == plainly(body)


_TEXT = st.text(max_size=4) | st.sampled_from(['},{"', "},{", '{"', '"},', "\\", '"'])
_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXT,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(_TEXT, values, max_size=3),
    max_leaves=6,
)
_FIELDS = st.fixed_dictionaries(
    {"id": st.integers(0, 5), "name": _TEXT},
    optional={"nodeId": _TEXT, "tags": st.none() | st.lists(_TEXT, max_size=2), "hostname": _TEXT, "x": _VALUES},
)
_BODIES = st.builds(
    lambda form, devices: form(*devices),
    st.sampled_from([compact, spaced, indented]),
    st.lists(st.builds(lambda fields, order: dict(sorted(fields.items(), reverse=order)), _FIELDS, st.booleans())),
)


def broken(body: str, at: int, cut: int, put: str) -> str:
    return body[: at % len(body)] + put + body[at % len(body) + cut :]


_BROKEN = st.builds(broken, _BODIES, st.integers(0, 999), st.integers(0, 3), st.sampled_from(["", "}", ",", '"', "]"]))


@given(st.lists(_BODIES | _BROKEN, max_size=4), st.integers(1, 300))
def test_the_reader_finds_the_same_devices_in_a_list_as_a_plain_json_parser(bodies: list[str], block: int) -> None:
    async def read() -> list[dict[str, Device] | str]:
        reader = DeviceListReader()
        return [await sliced(reader, body, block) for body in bodies]

    for found, wanted in zip(asyncio.run(read()), map(plainly, bodies), strict=True):
        # If there are several mistakes, the two errors may name different mistakes.
        assert found == wanted or (isinstance(found, str) and isinstance(wanted, str))


async def test_other_tasks_run_while_a_list_of_devices_is_read() -> None:
    reading = asyncio.create_task(DeviceListReader(time_slice=0).read(answer(compact(*map(device, range(100))))))
    turns = 0
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 100
