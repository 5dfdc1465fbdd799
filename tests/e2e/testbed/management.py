"""The tailnet's management API, which tests call with curl from one of the machines."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.e2e.testbed.control import FIRST, Tailnet
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.isolation import Isolation

CLIENT_ID, CLIENT_SECRET = FIRST.client_id, FIRST.client_secret

Device = dict[str, Any]
Service = dict[str, Any]
Grant = dict[str, Any]


@dataclass(slots=True)
class Management:
    """A client of the management API.

    Its access token is valid for an hour. If the control server refuses the token, the client gets another one. A
    device is a dict as in the API's JSON, and so is a Tailscale Service.
    """

    machine: Isolation
    token: str
    tailnet: Tailnet = FIRST

    @classmethod
    def log_in(cls, machine: Isolation, tailnet: Tailnet = FIRST) -> "Management":
        """Return a client with an access token, which it gets by the OAuth client of *tailnet*."""
        return cls(machine, _new_token(machine, tailnet), tailnet)

    def create_key(self, tags: Sequence[str]) -> str:
        """Create an auth key for one device, and return its secret."""
        create = {"reusable": False, "ephemeral": False, "preauthorized": True, "tags": list(tags)}
        answer = self._call("POST", "tailnet/-/keys", {"capabilities": {"devices": {"create": create}}})
        return str(answer["key"])

    def keys(self) -> list[dict[str, Any]]:
        """Return all auth keys, used ones too, without their secrets."""
        found: list[dict[str, Any]] = self._call("GET", "tailnet/-/keys")["keys"]
        return found

    def devices(self) -> list[Device]:
        """Return all devices."""
        found: list[Device] = self._call("GET", "tailnet/-/devices")["devices"]
        return found

    def device(self, hostname: str) -> Device | None:
        """Return the device whose MagicDNS name has *hostname* as its first label, or None."""
        return next(
            (device for device in self.devices() if device["name"] == f"{hostname}.{self.tailnet.domain}"), None
        )

    def delete(self, node_id: str) -> None:
        """Delete a device."""
        self._call("DELETE", f"device/{node_id}")

    def services(self) -> list[Service]:
        """Return all Tailscale Services."""
        found: list[Service] = self._call("GET", "tailnet/-/vip-services")["vipServices"]
        return found

    def service(self, name: str) -> Service | None:
        """Return the Tailscale Service called *name*, or None if it doesn't exist."""
        return next((service for service in self.services() if service["name"] == name), None)

    def put_service(self, name: str, ports: Sequence[str], tags: Sequence[str] = ()) -> Service:
        """Create or replace a Tailscale Service, and return it with its addresses."""
        body = {"name": name, "ports": list(ports), "tags": list(tags)}
        answer: Service = self._call("PUT", f"tailnet/-/vip-services/{name}", body)
        return answer

    def delete_service(self, name: str) -> None:
        """Delete a Tailscale Service."""
        self._call("DELETE", f"tailnet/-/vip-services/{name}")

    def hosts(self, service: str) -> dict[str, str]:
        """Return the approval level of each device that hosts the Tailscale Service called *service*, by node ID."""
        found = self._call("GET", f"tailnet/-/services/{service}/devices")["hosts"]
        return {each["nodeId"]: each["approvalLevel"] for each in found}

    def hold_hosts(self, approvers: Mapping[str, Sequence[str]]) -> None:
        """Make hosts of Tailscale Services wait for approval, unless the policy's table approves their tags.

        *approvers* is that table, `autoApprovers.services`: the tags of devices by the name or the tag of a Service.
        """
        self._post("approvers", approvers)

    def release_hosts(self) -> None:
        """Approve every host of Tailscale Services from now on, as at the start of the bed."""
        self._post("approvers", None)

    def approve(self, service: str, node_id: str) -> None:
        """Approve a device as a host of a Tailscale Service, as an admin does."""
        self._post("approve", {"service": service, "nodeId": node_id})

    def create_user_key(self, login: str) -> str:
        """Create an auth key for one device of a user, and return its secret. The device has no tags."""
        return str(json.loads(self._post("user-key", login)))

    def replace_grants(self, *grants: Grant) -> None:
        """Replace the grants of application capabilities in the policy.

        A grant is ``{"src": […], "dst": […], "app": {…}}`` as in the policy. Sources and destinations are tags, login
        names of users, or ``*``. If a rule has ``recorder``, a list of tags, the keeper adds the addresses of the
        recorders with these tags.
        """
        self._post("grants", grants)

    def set_https(self, enabled: bool) -> None:
        """Turn certificates on or off for all devices of the tailnet, as an admin does."""
        self._post("https", enabled)

    def _post(self, path: str, body: Any) -> str:
        """Send a request that the real API doesn't have, and return the answer."""
        url = f"{self.tailnet.url}/testbed/{path}"
        return self.machine.run(["curl", "-fsS", "--max-time", "10", "--json", json.dumps(body), url])

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request, and return the JSON of the answer.

        Raises: BedError: the status isn't 200, or no answer came.
        """
        text, status = self.send(method, path, body)
        if status == "401":
            self.token = _new_token(self.machine, self.tailnet)
            text, status = self.send(method, path, body)
        if status != "200":
            raise BedError(f"{method} {path}: {status} {text}")
        return json.loads(text)

    def send(self, method: str, path: str, body: Any = None) -> tuple[str, str]:
        """Send a request with the present token, and return the text and the status of the answer."""
        curl = ["curl", "-sS", "--max-time", "10", "-X", method, "-H", f"Authorization: Bearer {self.token}"]
        data = [] if body is None else ["--json", json.dumps(body)]
        answer = self.machine.run([*curl, *data, "-w", "\n%{http_code}", f"{self.tailnet.url}/api/v2/{path}"])
        text, _, status = answer.rpartition("\n")
        return text, status


def _new_token(machine: Isolation, tailnet: Tailnet) -> str:
    form = f"grant_type=client_credentials&client_id={tailnet.client_id}&client_secret={tailnet.client_secret}"
    answer = machine.run(["curl", "-fsS", "--max-time", "10", "--data", form, f"{tailnet.url}/api/v2/oauth/token"])
    return str(json.loads(answer)["access_token"])


def replace_client(machine: Isolation, tailnet: Tailnet) -> None:
    """Make the OAuth client of *tailnet* the only one on its control server, which then refuses older access tokens."""
    client = json.dumps({"id": tailnet.client_id, "secret": tailnet.client_secret})
    machine.run(["curl", "-fsS", "--max-time", "10", "--json", client, f"{tailnet.keeper_url}/testbed/client"])


def replace_tags(machine: Isolation, tailnet: Tailnet, tags: Sequence[str]) -> None:
    """Give the OAuth client of *tailnet* other *tags*, for the access tokens that are issued from now on."""
    url = f"{tailnet.keeper_url}/testbed/tags"
    machine.run(["curl", "-fsS", "--max-time", "10", "--json", json.dumps([*tags]), url])


def real_nodes(machine: Isolation) -> list[dict[str, Any]]:
    """Return the devices of the real control server, as `tailcfg.Node` in JSON. Deleted ones remain as ``Expired``."""
    found: list[dict[str, Any]] = json.loads(machine.run(["curl", "-fsS", f"{FIRST.url}/testbed/nodes"]))
    return found
