"""The reference pages of the controller's flags and metrics, `docs/reference/controller-flags.md` and `-metrics.md`.

Made, like the node plugin's, from what the program runs on: the table of flags, and a scrape of a live registry.
"""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric

from dra_driver.controller.explainer.metrics import Metrics, Standing
from dra_driver.controller.flags import FLAGS
from dra_driver.controller.webhook.metrics import WebhookMetrics
from dra_driver.controller.webhook.protocol import Cause, Request, Verdict
from dra_driver.controller.webhook.reviewer import RESOURCES, WORKLOADS
from dra_driver.process.pages import flag_table, made, metric_table

_FLAGS_INTRODUCTION = """\
`dra-driver controller` is told by flags where it is and whom it serves. Each can be given as an environment variable
instead; the command line wins, and a variable that is empty counts as not given. What it does about findings is in the
file of `--config`."""

_METRICS_INTRODUCTION = """\
`/metrics` of the address in [`--metrics-address`](controller-flags.md), in the Prometheus text format. No label carries
a claim, a Pod, a namespace or the text of an error, since there is no bound to how many of those there are. Every
replica counts what its webhook does; what waits is counted by the leader alone, so sum over the replicas. The values of
`rule` are the codes in [lint.md](../lint.md), those of `reason` are told in [pending.md](../pending.md)."""


def render_flags() -> str:
    """`docs/reference/controller-flags.md`."""
    heading = "# Flags and environment of the controller"
    body = [heading, "", _FLAGS_INTRODUCTION, "", *flag_table(FLAGS), ""]
    return "\n".join([made("dra_driver/controller/flags.py"), *body])


def render_metrics() -> str:
    """`docs/reference/controller-metrics.md`."""
    heading = "# Metrics of the controller"
    body = [heading, "", _METRICS_INTRODUCTION, "", *metric_table(_families()), ""]
    return "\n".join([made("dra_driver/controller"), *body])


def _families() -> Iterable[Metric]:
    """What a scrape of the leader returns once everything that can be counted was, but for findings by rule."""
    registry = CollectorRegistry(auto_describe=True)
    explainer, webhook = Metrics(registry, lambda: True), WebhookMetrics(registry, lambda: 0.0)
    explainer.standing = Standing()
    for operation in ("created", "deleted"):
        explainer.taint_rules.labels(operation)
    for kind in sorted({*RESOURCES, *(kind for _, kind in WORKLOADS), "other"}):
        for verdict in (Verdict(), Verdict(warnings=("",)), Verdict((Cause("", ""),))):
            webhook.observe(Request("", kind, "", "CREATE", "", {}, {}), verdict, [], 0.0)
    webhook.failed()
    return registry.collect()
