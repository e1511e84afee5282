"""The claims as the API server has them: read for a Prepare, told afterwards what their devices became."""

from typing import Any

from dra_driver import strictjson
from dra_driver.kube.client import APPLY, Client
from dra_driver.kube.resources import RESOURCE_CLAIMS


class ClaimsOfServer:
    """The engine's `ClaimSource`, and where `ClaimStatus` writes. Errors are those of the client."""

    def __init__(self, client: Client, driver_name: str) -> None:
        self._client = client
        self._driver_name = driver_name

    def get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        """The claim; keys that its configuration has twice can be told."""
        return self._client.get(RESOURCE_CLAIMS, name, namespace, loads=strictjson.loads)

    def apply_status(self, namespace: str, name: str, body: dict[str, Any]) -> None:
        """Own the fields of `body`, in the claim's status."""
        self._client.patch(
            RESOURCE_CLAIMS,
            name,
            body,
            namespace=namespace,
            subresource="status",
            content_type=APPLY,
            field_manager=self._driver_name,
            force=True,
        )
