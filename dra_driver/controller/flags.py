"""Flags and environment of the controller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dra_driver.errors import UsageError
from dra_driver.process.flags import LOGGING, Flag, Values, read
from dra_driver.resource import names
from dra_driver.resource.limits import MAX_DRIVER_NAME


@dataclass(frozen=True, slots=True)
class Settings:
    """What the controller was told."""

    driver_name: str
    namespace: str  # of the Secret and the Lease
    identity: str  # of this replica, in the Lease
    kubeconfig: Path | None  # None: in cluster
    config: Path | None  # the policy; None: all defaults
    webhook_address: str  # "host:port"
    webhook_name: str  # of the ValidatingWebhookConfiguration
    webhook_service: str
    certificate_secret: str
    certificate_dir: Path | None  # None: self-made, in the Secret
    taint_pools_without_driver: bool
    metrics_address: str | None  # "host:port"; None: not served
    log_format: str
    log_level: str


FLAGS = (
    Flag("driver-name", "gpu.nvidia.com", "name of the driver whose claims are looked at"),
    Flag(
        "namespace",
        None,
        "namespace of the controller's own objects (required)",
        variables=("POD_NAMESPACE",),
    ),
    Flag("identity", None, "name of this replica (required)", variables=("POD_NAME", "HOSTNAME")),
    Flag("kubeconfig", None, "credentials for the API server; default: those of the Pod"),
    Flag("config", None, "policy file, see docs/controller.md; default: the default policy"),
    Flag("webhook-address", ":8443", "host:port that the webhook is served on"),
    Flag("webhook-name", "dra-driver", "ValidatingWebhookConfiguration whose caBundle is kept"),
    Flag("webhook-service", "webhook", "Service before the webhook, of our namespace"),
    Flag(
        "certificate-secret", "webhook-certificate", "Secret of the certificates made here, of our namespace"
    ),
    Flag(
        "certificate-dir",
        None,
        "directory of a tls.crt and tls.key that are made elsewhere, such as by cert-manager; default: made here",
    ),
    Flag(
        "taint-pools-without-driver",
        "no",
        "yes: keep Pods off pools that no node plugin stands behind, by a DeviceTaintRule, until one does; no: propose it",
        choices=("yes", "no"),
    ),
    Flag("metrics-address", None, "host:port for /metrics, /healthz and /readyz; default: not served"),
    *LOGGING,
)


def parse(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from the command line and the environment; UsageError says which one is wrong."""
    values = read(
        FLAGS,
        arguments,
        environment,
        command="controller",
        description="Check claims when they are applied, and say why they wait.",
    )
    for key in ("namespace", "webhook_service"):
        _check_name(values, key, names.label(values.text(key)))
    for key in ("driver_name", "webhook_name", "certificate_secret"):
        _check_name(values, key, names.subdomain(values.text(key)))
    driver_name = values.text("driver_name")
    if len(driver_name) > MAX_DRIVER_NAME:
        raise UsageError(f"--driver-name: {driver_name!r} is longer than {MAX_DRIVER_NAME} characters")
    return Settings(
        driver_name=driver_name,
        namespace=values.text("namespace"),
        identity=values.text("identity"),
        kubeconfig=values.path("kubeconfig"),
        config=values.path("config"),
        webhook_address=values.address("webhook_address") or "",
        webhook_name=values.text("webhook_name"),
        webhook_service=values.text("webhook_service"),
        certificate_secret=values.text("certificate_secret"),
        certificate_dir=values.path("certificate_dir"),
        taint_pools_without_driver=values["taint_pools_without_driver"] == "yes",
        metrics_address=values.address("metrics_address"),
        log_format=values.text("log_format"),
        log_level=values.text("log_level"),
    )


def _check_name(values: Values, key: str, problems: object) -> None:
    if problems:
        flag = key.replace("_", "-")
        raise UsageError(f"--{flag}: {values.text(key)!r} is no name that such an object can have")
