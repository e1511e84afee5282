"""Fetch the container runtimes that tests/runtime drives, into .runtimes/: containerd 1.7 and 2.x, runc, busybox.

They are Debian's packages, unpacked and not installed: nothing of the machine changes, and two releases of containerd
lie side by side. A machine of an older release has no containerd that knows CDI, so these come from other releases of
Debian. Where from is what apt says it uses itself, with another release's name put in; apt works on a state of its
own, and checks every signature against the keyring of package debian-archive-keyring.

Does nothing where all is there; remove .runtimes/ to fetch anew.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = Path(__file__).parent.parent / ".runtimes"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Directory -> packages in it, with the release that they come from; None is the machine's own.
PACKAGES: dict[str, dict[str, str | None]] = {
    "containerd-1.7": {"containerd": "trixie"},
    "containerd-2": {"containerd": "sid"},
    "tools": {"runc": None, "libseccomp2": None, "busybox-static": None},
}
# What must run on this machine afterwards, unpacked as it is.
PROGRAMS = {
    "containerd-1.7/usr/bin/containerd": "--version",
    "containerd-2/usr/bin/containerd": "--version",
    "tools/usr/sbin/runc": "--version",
    "tools/bin/busybox": "--help",
}


def archive(release: str) -> str:
    """The address that apt has `release` from on this machine, without that name."""
    listed = subprocess.run(
        ["apt-get", "update", "--print-uris"], check=True, capture_output=True, text=True
    ).stdout
    match = re.search(rf"^'(\S+)/dists/{re.escape(release)}/InRelease'", listed, re.MULTILINE)
    if match is None:
        raise SystemExit(f"apt is not configured for Debian {release} here; add it to the sources of apt")
    return match[1]


def apt(state: Path, *arguments: str, cwd: Path) -> None:
    """Run apt-get on the configuration and state in `state` alone."""
    options = {
        "Dir::Etc::SourceList": state / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State": state,
        "Dir::State::Status": state / "status",
        "Dir::Cache": state / "cache",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        "APT::Sandbox::User": "",  # it could not write here
        # A source that cannot be had is an error at once, not when a package of it is missing.
        "APT::Update::Error-Mode": "any",
    }
    flags = [flag for name, value in options.items() for flag in ("-o", f"{name}={value}")]
    subprocess.run(["apt-get", "--quiet=2", *flags, *arguments], check=True, cwd=cwd)


def fetch(target: Path, own: str) -> None:
    if not KEYRING.exists():
        raise SystemExit(f"there is no {KEYRING}; install debian-archive-keyring")
    base = archive(own)
    wanted = [
        (package, release or own) for folder in PACKAGES.values() for package, release in folder.items()
    ]
    with tempfile.TemporaryDirectory(prefix="apt-", dir=target.parent) as name:
        state = Path(name)
        for folder in ("lists/partial", "cache/archives/partial"):
            (state / folder).mkdir(parents=True)
        (state / "status").touch()
        sources = [
            f"deb [signed-by={KEYRING}] {base} {release} main\n" for release in sorted({r for _, r in wanted})
        ]
        (state / "sources.list").write_text("".join(sources))
        apt(state, "update", cwd=state)
        for folder, packages in PACKAGES.items():
            debs = state / folder
            debs.mkdir()
            apt(
                state,
                "download",
                *(f"{package}/{release or own}" for package, release in packages.items()),
                cwd=debs,
            )
            for deb in sorted(debs.iterdir()):
                unpack(deb, target / folder)


def unpack(deb: Path, folder: Path) -> None:
    """Into `folder`, where bin/ has its programs: Debian's have moved from there to usr/bin, busybox after bookworm."""
    (folder / "usr/bin").mkdir(parents=True, exist_ok=True)
    if not (folder / "bin").exists():
        (folder / "bin").symlink_to("usr/bin")  # a package with a bin/ of its own puts that in its place
    subprocess.run(["dpkg-deb", "--extract", deb, folder], check=True)


def check(target: Path) -> None:
    for program, argument in PROGRAMS.items():
        done = subprocess.run(
            [target / program, argument], check=False, capture_output=True, text=True, env=environment(target)
        )
        if done.returncode != 0:
            raise SystemExit(f"{program} does not run on this machine: {done.stderr.strip()}")
        print(f"{program}: {done.stdout.splitlines()[0]}")


def environment(target: Path) -> dict[str, str]:
    """For programs that need libraries of the packages."""
    libraries = ":".join(str(path) for path in sorted(target.glob("tools/usr/lib/*-linux-gnu*")))
    return {**os.environ, "LD_LIBRARY_PATH": libraries}


def installed() -> bool:
    return all((TARGET / program).exists() for program in PROGRAMS)


def main() -> int:
    if not installed():
        machine = platform.freedesktop_os_release()
        if machine.get("ID") != "debian":
            raise SystemExit(
                "the runtimes are Debian's packages, and this machine is no Debian; use a container of it"
            )
        shutil.rmtree(TARGET, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=".runtimes-", dir=TARGET.parent) as name:
            partial = Path(name) / TARGET.name
            partial.mkdir()
            fetch(partial, machine["VERSION_CODENAME"])
            partial.rename(TARGET)
    check(TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main())
