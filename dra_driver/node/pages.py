"""The reference pages of flags and metrics, `docs/reference/flags.md` and `metrics.md`.

Both are made from what the plugin itself runs on: the table that the command line is parsed by, and the metric
families that a scrape of a live registry returns. So a page cannot say less, or more, than the program does.
"""

from collections.abc import Iterable

from prometheus_client import Metric

from dra_driver import errors
from dra_driver.devices.model import NoteReason
from dra_driver.kubelet.dra import PREPARE, UNPREPARE
from dra_driver.node.flags import FLAGS
from dra_driver.node.metrics import Metrics, NodeState
from dra_driver.process.pages import flag_table, made, metric_table

_FLAGS_INTRODUCTION = """\
`dra-driver kubelet-plugin` is told everything by flags. Each can be given as an environment variable instead; the
command line wins, and a variable that is empty counts as not given. Names in the last column are the official driver's
for the same thing; the defaults are ours. A flag that is not on this page is an error (exit code 2), also where the
official driver has it; an environment variable that is not on this page is ignored.

Directories are absolute paths."""

_METRICS_INTRODUCTION = """\
`/metrics` of the address in [`--metrics-address`](flags.md), in the Prometheus text format. No label carries a claim, a
Pod, a namespace or the text of an error, since there is no bound to how many of those there are: which claim failed and
why is in the Pod's events and in the [log](../operations.md#logs). Counters and the histogram have a `_created` series
beside them, the time since when they count."""


def render_flags() -> str:
    """`docs/reference/flags.md`."""
    return "\n".join(
        [
            made("dra_driver/node/flags.py"),
            "# Flags and environment of the node plugin",
            "",
            _FLAGS_INTRODUCTION,
            "",
            *flag_table(FLAGS),
            "",
        ]
    )


def render_metrics() -> str:
    """`docs/reference/metrics.md`."""
    return "\n".join(
        [
            made("dra_driver/node/metrics.py"),
            "# Metrics of the node plugin",
            "",
            _METRICS_INTRODUCTION,
            "",
            *metric_table(_families()),
            "",
        ]
    )


def _families() -> Iterable[Metric]:
    """What a scrape returns once everything that can be counted was."""
    metrics = Metrics()
    causes = [kind() for kind in vars(errors).values() if isinstance(kind, type)]
    for operation in (PREPARE, UNPREPARE):
        for error in (None, *causes, Exception()):
            metrics.observe_claim(operation, error, 0.0)
    for result in ("ok", "failed"):
        metrics.syncs.labels(result)
    metrics.show(_state)
    return metrics.registry.collect()


def _state() -> NodeState:
    return NodeState(
        registered=True,
        hardware_available=True,
        problems=0,
        devices={(kind, tainted): 0 for kind in ("gpu", "mig", "partition") for tainted in (False, True)},
        claims_held=0,
        quarantined_records=0,
        slices_synced=True,
        notes={reason.value: 0 for reason in NoteReason},
    )
