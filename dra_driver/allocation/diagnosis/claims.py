"""A claim as it stands: which devices it has, who uses it, and what is odd about it."""

from collections.abc import Iterator

from dra_driver.allocation.diagnosis.model import AllocatedDevice, ClaimState, Remark
from dra_driver.allocation.diagnosis.world import Object, World, is_allocated
from dra_driver.allocation.explanation.scene import holder_of, name_of, results_of
from dra_driver.allocation.model import DeviceId
from dra_driver.selectors.reads import Read

_DRIVER = "gpu.nvidia.com"
MAX_RESERVED_FOR = 256


def state_of(world: World, claim: Object) -> ClaimState:
    """The claim with its devices and users."""
    status = claim.get("status") or {}
    words = ["deleted"] if claim["metadata"].get("deletionTimestamp") else []
    words += ["allocated"] if is_allocated(claim) else ["pending"]
    words += ["reserved"] if status.get("reservedFor") else []
    return ClaimState(
        name_of(claim),
        ",".join(words),
        _place((status.get("allocation") or {}).get("nodeSelector")),
        tuple(_device(world, result, status) for result in results_of(claim)),
        holder_of(claim).pods,
    )


def _device(world: World, result: Object, status: Object) -> AllocatedDevice:
    """A device of a claim; of one that was made for it, the UUID is what its driver reports in the claim's status."""
    driver = str(result["driver"])
    published = world.device.get(DeviceId(driver, result["pool"], result["device"])) or {}
    product, uuid = (
        Read("attributes", driver, name).shown(driver, published) for name in ("productName", "uuid")
    )
    return AllocatedDevice(
        str(result["request"]),
        driver,
        str(result["pool"]),
        str(result["device"]),
        product or "",
        uuid or _reported_uuid(result, status),
    )


def _reported_uuid(result: Object, status: Object) -> str:
    for one in status.get("devices") or ():
        if all(
            one.get(key) == result[key] for key in ("driver", "pool", "device", "shareID") if key in result
        ):
            data = one.get("data")
            return str(data.get("uuid") or "") if isinstance(data, dict) else ""
    return ""


def _place(selector: Object | None) -> str:
    """The nodes of an allocation in words."""
    terms = []
    for term in (selector or {}).get("nodeSelectorTerms") or ():
        names = [
            value
            for field in term.get("matchFields") or ()
            if field.get("key") == "metadata.name" and field.get("operator") == "In"
            for value in field.get("values") or ()
        ]
        labels = [
            f"{one.get('key')} {one.get('operator')} {','.join(one.get('values') or ())}".strip()
            for one in term.get("matchExpressions") or ()
        ]
        terms.append(" and ".join([*names, *labels]))
    return " or ".join(terms)


def remarks_on(world: World, claim: Object) -> Iterator[Remark]:
    """What is odd about a claim, whoever asks."""
    name = name_of(claim)
    if claim["metadata"].get("deletionTimestamp"):
        yield Remark("claim-deleted", "error", f"claim {name} is being deleted, so no further Pod can use it")
    consumers = (claim.get("status") or {}).get("reservedFor") or ()
    if is_allocated(claim):
        if not consumers:
            text = f"claim {name} is allocated and reserved for nobody: it holds its devices, and no Pod uses them"
            yield Remark("not-reserved", "warning", text, f"delete claim {name} if nobody needs it")
        elif len(consumers) >= MAX_RESERVED_FOR:
            yield Remark(
                "claim-full",
                "warning",
                f"claim {name} is reserved for {len(consumers)} Pods, which is the most",
            )
        yield from _vanished_users(world, claim)
        for result in results_of(claim):
            device = DeviceId(result["driver"], result["pool"], result["device"])
            if device not in world.device:
                text = f"device {device} of claim {name} is in no ResourceSlice any more"
                yield Remark(
                    "device-gone", "warning", text, "delete the Pod, so that its claim is allocated anew"
                )
    yield from _unready(claim)
    if _asks_for_shares(claim):
        text = (
            f"claim {name} asks for a part of a device's capacity: the scheduler keeps account of it, and nothing"
            " keeps a container from using more"
        )
        yield Remark("capacity-not-enforced", "info", text)


def _vanished_users(world: World, claim: Object) -> Iterator[Remark]:
    """Pods that the claim is reserved for and that are no more."""
    namespace = claim["metadata"].get("namespace") or "default"
    for consumer in (claim.get("status") or {}).get("reservedFor") or ():
        pod = world.pod.get(f"{namespace}/{consumer.get('name')}")
        same = pod is not None and consumer.get("uid") in {None, "", pod["metadata"].get("uid")}
        if world.all_pods and not same and consumer.get("resource", "pods") == "pods":
            text = (
                f"claim {name_of(claim)} is reserved for Pod {namespace}/{consumer.get('name')}, which is gone: it"
                " holds its devices, and nobody uses them"
            )
            fix = "see that kube-controller-manager runs: it takes such reservations back"
            yield Remark("user-gone", "warning", text, fix)


def _unready(claim: Object) -> Iterator[Remark]:
    """What drivers report in status.devices."""
    for device in (claim.get("status") or {}).get("devices") or ():
        for condition in device.get("conditions") or ():
            if condition.get("type") == "Ready" and condition.get("status") == "False":
                text = (
                    f"driver {device.get('driver')} says of device {device.get('device')} of claim"
                    f" {name_of(claim)}: {condition.get('message') or condition.get('reason')}"
                )
                yield Remark("device-not-ready", "error", text)


def _asks_for_shares(claim: Object) -> bool:
    for entry in (claim["spec"].get("devices") or {}).get("requests") or ():
        for one in entry.get("firstAvailable") or [entry.get("exactly") or {}]:
            if (one.get("capacity") or {}).get("requests"):
                return True
    return False


def without_counters(world: World) -> Iterator[Remark]:
    """MIG devices published beside their whole GPU and without counters: both could be given out at once."""
    parts = {
        key: uuid
        for key, device in world.device.items()
        if not device.get("consumesCounters") and (uuid := _value(device, "parentUUID"))
    }
    if not parts:
        return
    whole = {
        _value(device, "uuid"): key for key, device in world.device.items() if _value(device, "type") == "gpu"
    }
    for key, of in parts.items():
        parent = whole.get(of)
        if key.driver == _DRIVER and parent is not None:
            text = (
                f"pool {key.driver}/{key.pool} has {key.device} beside the GPU that it is a part of, {parent.device},"
                " without counters: the API server has dropped consumesCounters, and both could be given out at once"
            )
            yield Remark(
                "counters-dropped", "error", text, "switch on the feature gate DRAPartitionableDevices"
            )
            return


def _value(device: Object, name: str) -> str | None:
    return Read("attributes", _DRIVER, name).shown(_DRIVER, device)
