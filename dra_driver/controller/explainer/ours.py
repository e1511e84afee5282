"""Which claims are this driver's business: those whose classes or selectors name it.

By name, not by what the selectors match: a claim for a GPU that does not exist matches nothing, and is just what is to be
explained. A class that is missing counts where its name looks like one of ours.
"""

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any

Object = Mapping[str, Any]


class Ours:
    """The classes of one driver among those of a cluster."""

    def __init__(self, driver_name: str, classes: Iterable[Object]) -> None:
        self._driver = driver_name
        self._domain = driver_name.partition(".")[2]
        known = {str(one["metadata"]["name"]): one for one in classes}
        self._classes = {name for name, one in known.items() if driver_name in json.dumps(one.get("spec"))}
        self._others = known.keys() - self._classes

    def wanted_by(self, claim: Object) -> bool:
        """Whether a request of the claim, or one of its alternatives, is for devices of the driver."""
        for request in (claim["spec"].get("devices") or {}).get("requests") or ():
            for one in request.get("firstAvailable") or [request.get("exactly") or {}]:
                if self._is_ours(str(one.get("deviceClassName") or "")) or self._named(one):
                    return True
        return False

    def is_resource(self, name: str) -> bool:
        """Whether an extended resource that no class stands for has the name of one of ours, as nvidia.com/gpu has."""
        return bool(self._domain) and name.rpartition("/")[0] == self._domain

    def _is_ours(self, name: str) -> bool:
        if name in self._classes:
            return True
        if name in self._others:
            return False
        in_domain = bool(self._domain) and name.partition(".")[2] == self._domain
        return in_domain or bool(difflib.get_close_matches(name, self._classes, n=1))

    def _named(self, request: Object) -> bool:
        selectors = request.get("selectors") or ()
        return any(self._driver in str((one.get("cel") or {}).get("expression")) for one in selectors)
