"""Pin and hash all dependencies anew: `requirements.lock` for development, two in `deploy/` for the images.

The files carry no address of any package index: whichever one pip is set up with serves them, and the hashes
say whether it served the right thing. The images' locks are subsets of the first, with the same versions.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMON = ["pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
COMMON += ["--no-emit-index-url", "--no-emit-find-links", "--no-annotate", "--no-header", "pyproject.toml"]


def main() -> int:
    uv = Path(sys.executable).parent / "uv"
    upgrade = sys.argv[1:]  # for example: --upgrade, or --upgrade-package ruff
    full, node, controller = "requirements.lock", "deploy/requirements.lock", "deploy/controller.lock"
    subprocess.run(
        [uv, *COMMON, "--extra", "cli", "--extra", "dev", "-o", full, *upgrade], cwd=ROOT, check=True
    )
    subprocess.run([uv, *COMMON, "--constraint", full, "-o", node], cwd=ROOT, check=True)
    subprocess.run(
        [uv, *COMMON, "--extra", "cli", "--constraint", full, "-o", controller], cwd=ROOT, check=True
    )
    for lock in (full, node, controller):
        if "://" in (ROOT / lock).read_text():
            sys.exit(f"{lock} names an address; it must name none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
