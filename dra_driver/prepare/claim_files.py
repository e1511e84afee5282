"""What containers get of a prepared claim: its CDI spec, and the device metadata that the spec mounts.

A container cannot start without what its spec mounts. So the metadata is written first, and removed last.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from dra_driver.cdi.spec import Spec
from dra_driver.cdi.store import SpecStore
from dra_driver.errors import UnavailableError
from dra_driver.prepare.metadata_store import MetadataStore
from dra_driver.prepare.record import Record

log = structlog.get_logger(__name__)


class ClaimFiles:
    """The files of all claims; safe to use from threads as long as claims differ. Errors are those of the two stores."""

    def __init__(self, specs: SpecStore, metadata: MetadataStore) -> None:
        self._specs = specs
        self._metadata = metadata

    @contextmanager
    def written(self, record: Record, spec: Spec) -> Iterator[None]:
        """Have the files be there; what was not there before goes again where that, or the block, fails.

        What was there before may be in use: of a claim whose record was damaged.
        """
        described = specified = False
        try:
            described = self._metadata.ensure(record)
            specified = self._specs.ensure(record.ref.uid, spec)
            yield
        except Exception:
            try:
                if specified:
                    self._specs.remove(record.ref.uid)
                if described:
                    self._metadata.remove(record.ref.uid, record)
            except UnavailableError as error:
                # It is overwritten by the retry, or removed by Unprepare or the next start.
                log.warning("failed preparation left its files", err=str(error))
            raise

    def ensure(self, record: Record, spec: Spec | None) -> bool:
        """Have the files be there and right, the spec as it is where none is given; False where they were so already."""
        described = self._metadata.ensure(record)
        specified = spec is not None and self._specs.ensure(record.ref.uid, spec)
        return described or specified

    def has_spec(self, claim_uid: str) -> bool:
        return self._specs.read(claim_uid) is not None

    def remove(self, claim_uid: str, record: Record | None) -> None:
        """Delete the claim's files; `record` tells which, without it they are looked for."""
        self._specs.remove(claim_uid)
        self._metadata.remove(claim_uid, record)

    def remove_all_but(self, known: set[str]) -> tuple[str, ...]:
        """Delete the files of claims that are not `known`, and what interrupted writes left; the UIDs of those with a spec.

        What cannot be deleted now stays to the next start.
        """
        orphans = tuple(uid for uid in self._specs.claims() if uid not in known)
        for uid in sorted({*orphans, *(self._metadata.claims() - known)}):
            try:
                self.remove(uid, None)
            except UnavailableError as error:
                log.warning("orphaned files stay", claim_uid=uid, err=str(error))
        self._specs.remove_temporary()
        self._metadata.remove_temporary()
        return orphans
