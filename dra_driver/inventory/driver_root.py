"""A fake driver root for simulated GPUs: what an installed NVIDIA driver puts into the file system.

A kubelet and a container runtime consume it like the real thing: libraries and programs as small files,
device nodes, and the parts of /sys and /proc that tell of GPUs. Device nodes have majors of the range for
local and experimental use that no driver of the running kernel has taken, so they lead to no device at all,
least of all to a GPU; where nodes cannot be made (not root, no CAP_MKNOD) they are empty files.

The tree is always made towards its wanted state: what differs is replaced, what is in the way goes, the rest
is not touched, for containers may have it mounted. Only `simulated/` belongs to users (see `faults`). A
directory that is neither empty nor marked as ours is refused, `/` above all.
"""

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from dra_driver.errors import UnavailableError, UsageError
from dra_driver.inventory.driver_files import capabilities_folder, capabilities_of, driver_files
from dra_driver.inventory.faults import faults_file
from dra_driver.inventory.mig_control import GpuInstance
from dra_driver.inventory.profile import Profile
from dra_driver.inventory.root_entries import DEFAULT_LAYOUT, CharDevice, Entry, File, Layout, Symlink

_MARKER = ".simulated-driver-root"
_MAJORS = range(240, 255)  # "local/experimental use" in the kernel's admin-guide/devices.txt


def make_driver_root(
    profile: Profile,
    path: Path,
    *,
    node_name: str,
    device_nodes: bool | None = None,
    layout: Layout = DEFAULT_LAYOUT,
    proc: Path = Path("/proc"),
) -> bool:
    """Make, or bring up to date, the driver root of the node `node_name` of the kind `profile` at `path`.

    `device_nodes` tells whether to make character devices; by default where the process may. The answer is whether
    they were made. `layout` is how the driver was installed, `proc` where the running kernel lists its majors. UsageError where `path` is something else already,
    UnavailableError where the file system refuses.
    """
    try:
        path = path.resolve()
        _claim(path)
        majors = _free_majors(proc)
        if device_nodes is None:
            device_nodes = bool(majors) and _may_make_nodes(path, majors[0])
        gpus = profile.gpus_on(node_name)
        files = driver_files(profile, gpus, majors or list(_MAJORS), layout)
        if not device_nodes:
            files = {
                name: File(b"", entry.mode) if isinstance(entry, CharDevice) else entry
                for name, entry in files.items()
            }
        # What a GPU is cut into is shown by whoever cuts it, and another process may do so right now.
        cut = {path / capabilities_folder(gpu.minor) for gpu in gpus if gpu.mig and gpu.minor is not None}
        kept = frozenset({faults_file(path).parent, path / _MARKER, *cut})
        _make_folder(faults_file(path).parent)
        _sync(path, files, kept)
    except OSError as error:
        raise UnavailableError(f"the simulated driver root {path} cannot be made: {error}") from error
    return device_nodes


def show_instances(path: Path, gpu_minor: int, instances: Iterable[GpuInstance]) -> None:
    """Have the driver root at `path` show these instances of a GPU, as a driver does when they come and go.

    Only /proc: device nodes of new instances are made by programs of the node, if at all.
    UnavailableError where the file system refuses.
    """
    try:
        folder = path / capabilities_folder(gpu_minor)
        files = capabilities_of(gpu_minor, instances)
        if files:
            _sync(folder, {str((path / name).relative_to(folder)): entry for name, entry in files.items()})
        else:
            _remove(folder)
    except OSError as error:
        raise UnavailableError(f"the simulated driver root {path} cannot be changed: {error}") from error


def _claim(path: Path) -> None:
    """Mark `path` as ours, before anything else is written there."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"the driver root {path} is no directory; give another --driver-root")
    path.mkdir(mode=0o755, parents=True, exist_ok=True)
    marker = path / _MARKER
    if marker.is_file():
        return
    if any(path.iterdir()):
        raise UsageError(
            f"the driver root {path} is not empty and was not made for simulated GPUs; "
            "give --driver-root an empty or new directory"
        )
    marker.touch(mode=0o644)


def _free_majors(proc: Path) -> list[int]:
    """Majors of the experimental range that the running kernel has not given to a driver; none if it is silent."""
    try:
        text = (proc / "devices").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []  # not Linux, or hidden: placeholders it is
    characters = text.partition("Block devices:")[0]
    taken = {int(line.split()[0]) for line in characters.splitlines() if line.strip()[:1].isdigit()}
    return [major for major in _MAJORS if major not in taken]


def _may_make_nodes(root: Path, major: int) -> bool:
    """Whether this process may make device nodes: being root is not enough in a user namespace."""
    probe = root / ".probe"
    _remove(probe)
    try:
        os.mknod(probe, stat.S_IFCHR | 0o600, os.makedev(major, 0))
    except PermissionError:
        return False
    _remove(probe)
    return True


def _sync(root: Path, wanted: dict[str, Entry], keep: frozenset[Path] = frozenset()) -> None:
    """Have below `root` what is wanted and nothing else, but for what is in `keep`."""
    folders = {str(parent) for name in wanted for parent in Path(name).parents}
    root.mkdir(parents=True, exist_ok=True)
    for found in _walk(root, keep):
        name = str(found.relative_to(root))
        if name not in folders and name not in wanted and found not in keep:
            _remove(found)
    for folder in sorted(folders):
        _make_folder(root / folder)
    for name, entry in wanted.items():
        _make(root / name, entry)


def _walk(root: Path, skip: frozenset[Path]) -> Iterator[Path]:
    """All that is below `root`, a folder after its content; links are not followed, those in `skip` not entered."""
    for entry in list(os.scandir(root)):
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False) and path not in skip:
            yield from _walk(path, skip)
        yield path


def _make_folder(path: Path) -> None:
    found = _lstat(path)
    if found is None or not stat.S_ISDIR(found.st_mode):
        _remove(path)
        path.mkdir()
        path.chmod(0o755)


def _make(path: Path, entry: Entry) -> None:
    found = _lstat(path)
    if found is not None and _is(path, found, entry):
        return
    _remove(path)
    match entry:
        case Symlink(target):
            path.symlink_to(target)
            return
        case File(content):
            path.write_bytes(content)
        case CharDevice(major, minor):
            os.mknod(path, stat.S_IFCHR | entry.mode, os.makedev(major, minor))
    if isinstance(entry, CharDevice) and entry.gid:
        os.chown(path, 0, entry.gid)
    path.chmod(entry.mode)  # whatever the umask


def _is(path: Path, found: os.stat_result, entry: Entry) -> bool:
    match entry:
        case Symlink(target):
            return stat.S_ISLNK(found.st_mode) and str(path.readlink()) == target
        case File(content):
            return (
                stat.S_ISREG(found.st_mode)
                and stat.S_IMODE(found.st_mode) == entry.mode
                and found.st_size == len(content)
                and path.read_bytes() == content
            )
        case CharDevice(major, minor):
            return (
                stat.S_ISCHR(found.st_mode)
                and stat.S_IMODE(found.st_mode) == entry.mode
                and found.st_gid == entry.gid
                and found.st_rdev == os.makedev(major, minor)
            )


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _remove(path: Path) -> None:
    found = _lstat(path)
    if found is not None and stat.S_ISDIR(found.st_mode):
        shutil.rmtree(path)
    elif found is not None:
        path.unlink()
