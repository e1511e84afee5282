"""A containerd of our own, which leaves nothing on the machine.

All of it lives in a mount and a PID namespace: /run is an empty tmpfs there, with our CDI directory at /run/cdi, and
when the namespace's first process is killed, the kernel ends everything in it: containerd, shims, containers, mounts.
The first process dies with us too, however we die. What remains are cgroups, which `stop` removes, and `directory`,
which is the caller's.
"""

import io
import json
import os
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from scripts.runtimes import TARGET, environment
from tests.runtime.cri import Cri

IMAGE = "localhost/busybox:test"
_BUSYBOX = TARGET / "tools/bin/busybox"
_SECONDS = 90.0
# No CAP_SYS_RESOURCE and no AppArmor are needed like this; "native" works on any file system.
_CONFIG = """\
version = 2
root = "{directory}/root"
state = "{directory}/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  enable_cdi = true
  cdi_spec_dirs = ["/var/run/cdi"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  sandbox_image = "{image}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
"""
# /etc/cdi is hidden where the machine has one: its devices are none of ours.
_NAMESPACE = """\
mount -t tmpfs tmpfs /run &&
mkdir -p /run/cdi /var/run && mount --bind "$0" /run/cdi &&
if [ -d /etc/cdi ]; then mount -t tmpfs tmpfs /etc/cdi; fi &&
echo ready && exec sleep infinity
"""
_DAEMON = 'echo $$ > "$0/pid" && exec containerd --config "$0/config.toml"'


class Containerd:
    """containerd as unpacked below `release` ("containerd-2"), with socket, root and state below `directory`.

    The path of `directory` has to be short, as those of sockets must.
    """

    def __init__(self, release: str, directory: Path) -> None:
        self.release = release
        self.cdi_dir = directory / "cdi"
        self.socket = directory / "containerd.sock"
        self.group = (
            f"dra-driver-test-{os.getpid()}"  # cgroup, and containerd's namespace of ctr's containers
        )
        self._directory = directory
        path = [TARGET / release / "usr/bin", TARGET / "tools/usr/sbin", os.environ["PATH"]]
        self._environment = environment(TARGET) | {"PATH": ":".join(map(str, path))}
        self._first: subprocess.Popen[str] | None = None
        self._daemon: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self) -> Iterator["Containerd"]:
        self.cdi_dir.mkdir()
        config = _CONFIG.format(directory=self._directory, socket=self.socket, image=IMAGE)
        (self._directory / "config.toml").write_text(config)
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]
        command += ["--mount-proc", "sh", "-c", _NAMESPACE, str(self.cdi_dir)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as self._first:
            try:
                assert self._first.stdout is not None
                assert self._first.stdout.readline() == "ready\n", "no namespace for containerd"
                self._start()
                self._import_image()
                yield self
            finally:
                self._first.kill()
                self._first.wait()
                if self._daemon is not None:
                    self._daemon.wait()
                _remove_cgroups(self.group)

    def restart(self) -> None:
        """End containerd alone, and start it again: containers go on, as on a node."""
        assert self._daemon is not None
        pid = (self._directory / "pid").read_text().strip()
        self._inside("sh", "-c", f"kill {pid}").check_returncode()
        self._daemon.wait(_SECONDS)
        self._start()

    def ctr(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self._inside("ctr", "--address", self.socket, "--namespace", self.group, *arguments)

    def ctr_run(self, name: str, cdi_ids: list[str], script: str) -> subprocess.CompletedProcess[str]:
        """Run a shell in a container that `ctr` makes, with the CDI devices, in a root directory of its own."""
        root = self._directory / "rootfs" / name
        with tarfile.open(fileobj=io.BytesIO(_layer())) as layer:
            layer.extractall(root, filter="tar")
        devices = [flag for name in cdi_ids for flag in ("--device", name)]
        return self.ctr("run", "--rm", "--rootfs", *devices, root, name, "/bin/sh", "-c", script)

    def log(self) -> str:
        return (self._directory / "log").read_text()

    def _start(self) -> None:
        (self._directory / "pid").unlink(missing_ok=True)
        with (self._directory / "log").open("ab") as log:
            self._daemon = subprocess.Popen(
                [*self._enter(), "sh", "-c", _DAEMON, self._directory],
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _SECONDS
        cri = Cri(self.socket)
        try:
            while self.ctr("version").returncode != 0 or not cri.is_ready():
                assert self._daemon.poll() is None, self.log()
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.05)
        finally:
            cri.close()

    def _import_image(self) -> None:
        archive = self._directory / "image.tar"
        archive.write_bytes(_image())
        address = ("--address", self.socket, "--namespace", "k8s.io")
        done = self._inside("ctr", *address, "images", "import", "--no-unpack", archive)
        assert done.returncode == 0, done.stderr

    def _enter(self) -> list[str]:
        assert self._first is not None
        namespaces = f"/proc/{self._first.pid}/ns"
        return ["nsenter", f"--mount={namespaces}/mnt", f"--pid={namespaces}/pid_for_children"]

    def _inside(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._enter(), *command],
            check=False,
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=_SECONDS,
        )


def _image() -> bytes:
    """An image of busybox, as `docker save` writes them."""
    layer = _layer()
    config = {
        "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
        "os": "linux",
        "config": {"Entrypoint": ["/bin/sleep", "100000"], "Env": ["PATH=/bin:/usr/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    members = {
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in members.items():
            _add(tar, name, data)
    return out.getvalue()


def _layer() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("bin", "dev", "etc", "proc", "sys", "tmp", "usr", "usr/bin"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        _add(tar, "bin/busybox", _BUSYBOX.read_bytes(), 0o755)
        names = subprocess.run(
            [_BUSYBOX, "--list"], check=True, capture_output=True, text=True
        ).stdout.split()
        for name in names:
            if name != "busybox":
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
    return out.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), mode
    tar.addfile(member, io.BytesIO(data))


def _remove_cgroups(group: str) -> None:
    """Those of killed containers, in every hierarchy."""
    hierarchies = Path("/sys/fs/cgroup")
    for top in (*hierarchies.glob(group), *hierarchies.glob(f"*/{group}")):
        for folder, _, _ in os.walk(top, topdown=False):
            _remove_cgroup(Path(folder))


def _remove_cgroup(folder: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            return folder.rmdir()
        except OSError:  # the kernel is still ending the processes in it
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
