"""What became of the claims of an earlier process, or of hardware that changed, as lines of the log."""

import structlog

from dra_driver.prepare.restore import RestoreReport

log = structlog.get_logger(__name__)


def tell(report: RestoreReport) -> None:
    """Log each claim that is not as it was left, or not as it should be."""
    for ref in report.dropped:
        log.info("record dropped: it is of an earlier boot", claim=str(ref), claim_uid=ref.uid)
    for ref in report.undone:
        log.warning("half-done preparation undone", claim=str(ref), claim_uid=ref.uid)
    for ref in report.rewritten:
        log.warning("missing or stale CDI spec written again", claim=str(ref), claim_uid=ref.uid)
    for uid in report.orphans:
        log.warning("CDI spec without a record removed", claim_uid=uid)
    for unresolved in report.unresolved:
        log.warning(
            "claim cannot be checked against the hardware",
            claim=str(unresolved.ref),
            claim_uid=unresolved.ref.uid,
            err=unresolved.reason,
        )
