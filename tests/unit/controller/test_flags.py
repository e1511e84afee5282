"""What the controller is told by flags and environment."""

import pytest

from dra_driver.controller.flags import parse
from dra_driver.errors import UsageError

POD = {"POD_NAMESPACE": "dra-driver", "POD_NAME": "controller-0"}


def test_a_pod_needs_no_flags() -> None:
    settings = parse([], POD)

    assert ("gpu.nvidia.com", "dra-driver", "controller-0") == (
        settings.driver_name,
        settings.namespace,
        settings.identity,
    )


def test_the_command_line_wins_over_the_environment() -> None:
    assert "other" == parse(["--namespace", "other"], POD).namespace


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--namespace", "a.b"], "--namespace: 'a.b' is no name"),
        (["--webhook-name", "A"], "--webhook-name: 'A' is no name"),
        (["--webhook-address", "8443"], "--webhook-address: '8443' is not host:port"),
        (["--driver-name", "a" * 64], "is longer than 63 characters"),
        (["--log-level", "loud"], "'loud' is none of"),
        (["--webhook-port", "1"], "unrecognized arguments"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_wrong_flag_is_named(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(arguments, POD)


def test_what_is_required_is_asked_for() -> None:
    with pytest.raises(UsageError, match=r"--namespace \(or NAMESPACE\) is required"):
        parse([], {})
