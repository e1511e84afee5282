"""Good bodies with a few values replaced at random: whatever comes of that, the server answers, and lists stay readable."""

import copy
import http.client
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer

Make = Callable[..., dict[str, Any]]

PODS = "/api/v1/namespaces/team/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"
OLD_CLAIMS = CLAIMS.replace("v1", "v1beta1")
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
EVENTS = "/api/v1/namespaces/team/events"
VALUES: list[Any] = [
    *(None, True, 0, -1, 2**63, 1.5, "", "a", "1Gi", "x" * 300, "\u0000", "2026-01-01T00:00:00Z"),
    *([], {}, [None], [{}], ["a"], [[]], {"a": None}, {"name": "main"}),
    *(
        {"$patch": "delete"},
        {"$patch": "replace"},
        [{"$patch": "delete", "name": "main"}],
        [{"$patch": "replace"}],
    ),
]
KEYS = [
    *(
        "metadata",
        "spec",
        "status",
        "kind",
        "managedFields",
        "ownerReferences",
        "generateName",
        "x",
        "$retainKeys",
    ),
    *("$patch", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers"),
]
KINDS = ["merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml", "json-patch+json", "json"]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container below `value`, with each of its keys."""
    for key in (
        list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    ):
        yield value, key
        yield from places(value[key])


def mutated(body: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    body = copy.deepcopy(body)
    for _ in range(chance.randint(1, 3)):
        holder, key = chance.choice(list(places(body)))
        if isinstance(holder, dict) and chance.random() < 0.4:
            key = chance.choice(KEYS)
        holder[key] = copy.deepcopy(chance.choice(VALUES))
    return body


def operations(body: dict[str, Any], chance: random.Random) -> list[dict[str, Any]]:
    names = ["add", "remove", "replace", "move", "copy", "test"]
    paths = [
        "",
        "/-",
        "/metadata",
        "/metadata/name",
        "/spec/containers/0",
        "/spec/x/y",
        *(f"/{key}" for key in body),
    ]
    return [
        {"op": chance.choice(names), "path": chance.choice(paths), "from": chance.choice(paths)}
        | {"value": chance.choice(VALUES)}
        for _ in range(2)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_no_mutated_body_makes_the_server_fail(
    server: ApiServer, pod: Make, claim: Make, slice_of: Make, seed: int
) -> None:
    chance = random.Random(seed)
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=90)
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"name": "p"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
    }
    objects = {PODS: pod(), CLAIMS: claim(), OLD_CLAIMS: claim(), SLICES: slice_of(), EVENTS: event}
    failed = []

    def ask(method: str, path: str, body: Any, kind: str, accept: str = "*/*") -> None:
        headers = {"Content-Type": f"application/{kind}", "Accept": accept}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 500:
            failed.append((method, path, kind, body, text))

    for _ in range(200):
        path, good = chance.choice(list(objects.items()))
        kind = chance.choice(KINDS)
        body = operations(good, chance) if kind.startswith("json-") else mutated(good, chance)
        target = f"{path}/{good['metadata']['name']}{chance.choice(['', '', '/status'])}?fieldManager=m"
        ask("POST", path, chance.choice([good, mutated(good, chance)]), "json")
        ask("PUT" if kind == "json" else "PATCH", target, body, kind)
        ask("GET", path, None, "json", chance.choice([TABLE, "*/*"]))
    connection.close()

    assert failed == []
