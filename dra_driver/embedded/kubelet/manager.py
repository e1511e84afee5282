"""Claims of Pods: preparing them before a Pod's containers, unpreparing them after its end.

This follows kubelet 1.36 (cm/dra/manager.go), texts included. First everything is checked without remembering
anything, so that a Pod that cannot be prepared can still be deleted. Then the claims are noted with the Pod, and
each driver is called once with all claims of the Pod that are not prepared yet. Any failure ends the attempt; it
is made again later, by the Pod's worker, and drivers have to cope with that.

Two things differ. A Pod that never got to the point of being noted does not unprepare a claim that another Pod
uses. And while a claim is unprepared for its last Pod, no other Pod joins it: it tries again later, where the real
kubelet can take the claim for prepared and then forget it, so that the other Pod never gets its devices.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from dra_driver.embedded.claims import Object, is_for, is_reserved_for, template_status
from dra_driver.embedded.kubelet.claims import ClaimCache, ClaimInfo
from dra_driver.embedded.kubelet.errors import KubeletError
from dra_driver.embedded.kubelet.plugins import Answer, Plugin, PluginStore
from dra_driver.errors import DriverError
from dra_driver.prepare.claim import ClaimRef


class ClaimManager:
    """The kubelet's side of Dynamic Resource Allocation.

    `get_claim` returns the ResourceClaim of a namespace and name, or raises a DriverError whose text is shown.
    """

    def __init__(
        self, cache: ClaimCache, plugins: PluginStore, get_claim: Callable[[str, str], Object]
    ) -> None:
        self._cache = cache
        self._plugins = plugins
        self._get_claim = get_claim

    def prepare(self, pod: Object) -> None:
        """Have all claims of `pod` prepared; KubeletError says why not."""
        try:
            self._prepare(pod)
        except KubeletError as error:
            raise KubeletError(f"prepare dynamic resources: {error}") from error

    def unprepare(self, pod_uid: str) -> None:
        """Have the claims unprepared of which the Pod is the last user; KubeletError says why not.

        What counts is what was noted at prepare: neither the Pod nor its claims need exist any more.
        """
        names: dict[str, list[str]] = {}
        for info in self._cache.all():
            if pod_uid in info.pod_uids:
                names.setdefault(info.namespace, []).append(info.name)
        for namespace, claim_names in names.items():
            try:
                self._unprepare(pod_uid, namespace, claim_names)
            except KubeletError as error:
                raise KubeletError(f"unprepare dynamic resources: {error}") from error

    def pods(self) -> set[str]:
        """The UIDs of all Pods that are noted with a claim."""
        with self._cache.lock:  # so that no Pod joins a claim meanwhile
            return {uid for info in self._cache.all() for uid in info.pod_uids}

    def cdi_ids(self, pod: Object, container: Object) -> list[str]:
        """The CDI ids for a container, doubles included."""
        return [
            cdi_id
            for name, requests in _container_requests(pod, container)
            for request in requests
            for cdi_id in self._known(pod, name).cdi_ids(request)
        ]

    def _known(self, pod: Object, name: str) -> ClaimInfo:
        namespace = pod["metadata"]["namespace"]
        with self._cache.lock:
            info = self._cache.get(namespace, name)
        if info is None:
            raise KubeletError(
                f"internal error: unable to get claim info for ResourceClaim {name} in namespace {namespace}"
            )
        return info

    def _prepare(self, pod: Object) -> None:
        checked = [
            self._check(pod, name, must_check_owner=owned) for name, owned in _claims(pod) if name is not None
        ]
        batches: dict[str, tuple[Plugin, list[ClaimRef]]] = {}
        infos: dict[str, ClaimInfo] = {}  # by claim uid: those to be prepared
        with self._cache.saving("ResourceClaim cache"):
            for fresh, plugins in checked:
                info = self._cache.get(fresh.namespace, fresh.name)
                if info is None:
                    info = fresh
                    self._cache.add(info)
                elif info.uid != fresh.uid:
                    raise KubeletError(
                        f"old ResourceClaim with same name {info.name} and different UID {info.uid} still exists "
                        "(previous pod force-deleted?!)"
                    )
                if info.leaving:
                    raise KubeletError(f"ResourceClaim {info.name} is being unprepared for another Pod")
                info.pod_uids.add(pod["metadata"]["uid"])
                if info.prepared or info.uid in infos:
                    continue
                infos[info.uid] = info
                for driver in info.drivers:
                    ref = ClaimRef(info.namespace, info.name, info.uid)
                    batches.setdefault(driver, (plugins[driver], []))[1].append(ref)
        for driver, (plugin, refs) in batches.items():
            for uid, answer in _judged("NodePrepareResources", refs, plugin.prepare(refs)):
                with self._cache.lock:
                    infos[uid].drivers[driver] += answer.devices
        with self._cache.saving("ResourceClaim state"):
            for info in infos.values():
                info.prepared = True

    def _check(
        self, pod: Object, name: str, *, must_check_owner: bool
    ) -> tuple[ClaimInfo, dict[str, Plugin]]:
        metadata = pod["metadata"]
        try:
            claim = self._get_claim(metadata["namespace"], name)
        except DriverError as error:
            raise KubeletError(f"fetch ResourceClaim {name}: {error}") from error
        uid = claim["metadata"]["uid"]
        if must_check_owner and not is_for(claim, pod):
            namespace = metadata["namespace"]
            raise KubeletError(
                f"ResourceClaim {namespace}/{name} was not created for Pod {namespace}/{metadata['name']} "
                "(Pod is not owner)"
            )
        if not is_reserved_for(claim, pod):
            raise KubeletError(
                f"pod {metadata['name']} ({metadata['uid']}) is not allowed to use ResourceClaim {name} ({uid})"
            )
        allocation = claim["status"].get("allocation")
        if not allocation:
            raise KubeletError(f"ResourceClaim {name}: not allocated")
        results = (allocation.get("devices") or {}).get("results") or ()
        drivers = list(dict.fromkeys(result["driver"] for result in results))
        plugins = {driver: self._plugins.get(driver) for driver in drivers}
        return ClaimInfo(metadata["namespace"], name, uid, {driver: [] for driver in drivers}), plugins

    def _unprepare(self, pod_uid: str, namespace: str, claim_names: Sequence[str]) -> None:
        batches: dict[str, list[ClaimRef]] = {}
        last: list[ClaimInfo] = []
        with self._cache.lock:
            infos = [self._cache.get(namespace, name) for name in claim_names]
            used = [info for info in infos if info is not None and pod_uid in info.pod_uids]
            for info in used:
                if info.leaving:
                    raise KubeletError(f"ResourceClaim {info.name} is being unprepared already")
            for info in used:
                if len(info.pod_uids) > 1:
                    info.pod_uids.discard(pod_uid)
                    continue
                last.append(info)
                info.leaving = True
                info.prepared = False  # whatever comes of the call
                for driver in info.drivers:
                    batches.setdefault(driver, []).append(ClaimRef(namespace, info.name, info.uid))
        try:
            for driver, refs in batches.items():
                list(_judged("NodeUnprepareResources", refs, self._plugins.get(driver).unprepare(refs)))
            with self._cache.saving("ResourceClaim state"):
                for info in last:
                    self._cache.delete(namespace, info.name)
        finally:
            with self._cache.lock:
                for info in last:
                    info.leaving = False


def _judged(
    method: str, refs: Sequence[ClaimRef], answers: Mapping[str, Answer]
) -> Iterator[tuple[str, Answer]]:
    """The answers one by one; KubeletError at the first that is none or failed, and at the end if some are missing."""
    names = {ref.uid: ref.name for ref in refs}
    for uid, answer in answers.items():
        if uid not in names:
            raise KubeletError(f"{method} returned result for unknown claim UID {uid}")
        if answer.error:
            raise KubeletError(f"{method} failed for ResourceClaim {names[uid]}: {answer.error}")
        yield uid, answer
    if skipped := len(refs) - len(answers):
        raise KubeletError(f"{method} skipped {skipped} ResourceClaims")


def _claims(pod: Object) -> list[tuple[str | None, bool]]:
    """Per claim of the Pod: its name (None: none is needed), and whether the Pod must own it."""
    found = [_claim_name(pod, claim) for claim in pod["spec"].get("resourceClaims") or ()]
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus")
    if extended:
        found.append((extended["resourceClaimName"], False))
    return found


def _claim_name(pod: Object, claim: Object) -> tuple[str | None, bool]:
    metadata = pod["metadata"]
    place = f'pod "{metadata["namespace"]}/{metadata["name"]}"'
    if claim.get("resourceClaimName"):
        return claim["resourceClaimName"], False
    if not claim.get("resourceClaimTemplateName"):
        raise KubeletError(
            f'{place}, spec.resourceClaim "{claim["name"]}": none of the supported fields are set'
        )
    status = template_status(pod, claim)
    if status is None:
        raise KubeletError(f"{place}: ResourceClaim not created yet")
    return status.get("resourceClaimName"), True


def _container_requests(pod: Object, container: Object) -> list[tuple[str, list[str]]]:
    """Per claim that a container uses: the claim's name, and the requests ("": all of them)."""
    resources = container.get("resources") or {}
    wanted: dict[str, list[str]] = {}
    for use in resources.get("claims") or ():
        wanted.setdefault(use["name"], []).append(use.get("request") or "")
    found: dict[str, list[str]] = {}
    for claim in pod["spec"].get("resourceClaims") or ():
        if claim["name"] in wanted:
            name, _ = _claim_name(pod, claim)
            if name is not None:
                found.setdefault(name, []).extend(wanted[claim["name"]])
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus")
    if extended:
        amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for mapping in extended.get("requestMappings") or ():
            wanted_here = mapping["containerName"] == container["name"]
            if wanted_here and amounts.get(mapping["resourceName"], "0") != "0":
                found.setdefault(extended["resourceClaimName"], []).append(mapping["requestName"])
    return list(found.items())
