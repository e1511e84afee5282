"""The CDI spec as far as this driver writes one, at the oldest version that can say it.

JSON rather than YAML: both are legal, JSON needs no dependency and is ten times faster to write.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dra_driver.cdi.versions import latest, minimum_version, version_of_edits, version_of_names
from dra_driver.strictjson import compact


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node in the container.

    Where type and numbers are not given the runtime takes them from `host_path` (or `path`) on the host when
    it starts the container; where they are, the node need not exist on the host.
    """

    path: str
    host_path: str | None = None  # None: the same as `path`
    type: str | None = None  # b, c, u, p
    major: int | None = None
    minor: int | None = None
    file_mode: int | None = None
    gid: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return _without_none(
            path=self.path,
            hostPath=self.host_path,
            type=self.type,
            major=self.major,
            minor=self.minor,
            fileMode=self.file_mode,
            gid=self.gid,
        )


@dataclass(frozen=True, slots=True)
class Mount:
    """A bind mount of a host path."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return _without_none(
            hostPath=self.host_path,
            containerPath=self.container_path,
            options=list(self.options) or None,
        )


@dataclass(frozen=True, slots=True)
class Hook:
    """An OCI hook; `args` start with the program's own name."""

    name: str  # createContainer and the like
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return _without_none(
            hookName=self.name,
            path=self.path,
            args=list(self.args) or None,
            env=list(self.env) or None,
        )


@dataclass(frozen=True, slots=True)
class ContainerEdits:
    """What a device, or all devices of a spec together, change in a container."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    additional_gids: tuple[int, ...] = ()
    _encoded: "_Encoded | None" = field(default=None, init=False, repr=False, compare=False)

    def __bool__(self) -> bool:
        return bool(self.env or self.device_nodes or self.mounts or self.hooks or self.additional_gids)

    def __add__(self, other: "ContainerEdits") -> "ContainerEdits":
        return ContainerEdits(
            self.env + other.env,
            self.device_nodes + other.device_nodes,
            self.mounts + other.mounts,
            self.hooks + other.hooks,
            self.additional_gids + other.additional_gids,
        )

    def as_dict(self) -> dict[str, Any]:
        return _without_none(
            env=list(self.env) or None,
            deviceNodes=[node.as_dict() for node in self.device_nodes] or None,
            mounts=[mount.as_dict() for mount in self.mounts] or None,
            hooks=[hook.as_dict() for hook in self.hooks] or None,
            additionalGids=list(self.additional_gids) or None,
        )

    def encoded(self) -> "_Encoded":
        """The edits as JSON, made once: those that all claims share are a hundred mounts."""
        if self._encoded is None:
            body = self.as_dict()
            lists = {name: compact(value) for name, value in body.items()}
            encoded = _Encoded(lists, version_of_edits(body))
            object.__setattr__(self, "_encoded", encoded)
        assert self._encoded is not None
        return self._encoded


_LISTS = ("env", "deviceNodes", "mounts", "hooks", "additionalGids")


@dataclass(frozen=True, slots=True)
class _Encoded:
    """Edits as JSON, list by list, so that a claim's own edits can be put to those that it shares."""

    lists: Mapping[str, str]
    minimum_version: str

    def __add__(self, other: "_Encoded") -> "_Encoded":
        lists = dict(self.lists)
        for name, more in other.lists.items():
            lists[name] = f"{lists[name][:-1]},{more[1:]}" if name in lists else more
        return _Encoded(lists, latest((self.minimum_version, other.minimum_version)))

    def json(self) -> str:
        fields = (f'"{name}":{self.lists[name]}' for name in _LISTS if name in self.lists)
        return f"{{{','.join(fields)}}}"


_NO_EDITS = ContainerEdits()


@dataclass(frozen=True, slots=True)
class CdiDevice:
    """A device that a container can be given by its name; its edits must not be empty.

    `own` are the edits of this claim alone. `edits` may be shared by claims, and are then encoded once.
    """

    name: str
    edits: ContainerEdits
    own: ContainerEdits = _NO_EDITS

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "containerEdits": (self.edits + self.own).as_dict()}


@dataclass(frozen=True, slots=True)
class Spec:
    """A spec file. `edits` are applied once to a container that gets any of the devices."""

    kind: str  # vendor/class
    devices: tuple[CdiDevice, ...]
    edits: ContainerEdits = _NO_EDITS

    def as_dict(self) -> dict[str, Any]:
        body = _without_none(
            kind=self.kind,
            devices=[device.as_dict() for device in self.devices],
            containerEdits=self.edits.as_dict() or None,
        )
        return {"cdiVersion": minimum_version(body), **body}

    def to_json(self) -> bytes:
        """The file's content; equal specs give equal bytes, so that a stale file is found by comparing."""
        versions = [version_of_names(self.kind, (device.name for device in self.devices))]
        devices = []
        for device in self.devices:
            edits = device.edits.encoded()
            if device.own:
                edits += device.own.encoded()
            versions.append(edits.minimum_version)
            devices.append(f'{{"name":{compact(device.name)},"containerEdits":{edits.json()}}}')
        common = ""
        if self.edits:
            encoded = self.edits.encoded()
            versions.append(encoded.minimum_version)
            common = f',"containerEdits":{encoded.json()}'
        head = f'{{"cdiVersion":"{latest(versions)}","kind":{compact(self.kind)}'
        return f'{head},"devices":[{",".join(devices)}]{common}}}\n'.encode()


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
