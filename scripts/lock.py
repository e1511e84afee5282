"""Pin and hash all dependencies anew: `requirements.lock` for development, `deploy/requirements.lock` for the image.

The files carry no address of any package index: whichever one pip is set up with serves them, and the hashes
say whether it served the right thing. The image's lock is a subset of the first, with the same versions.
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
    full, image = "requirements.lock", "deploy/requirements.lock"
    subprocess.run(
        [uv, *COMMON, "--extra", "cli", "--extra", "dev", "-o", full, *upgrade], cwd=ROOT, check=True
    )
    subprocess.run([uv, *COMMON, "--constraint", full, "-o", image], cwd=ROOT, check=True)
    for lock in (full, image):
        if "://" in (ROOT / lock).read_text():
            sys.exit(f"{lock} names an address; it must name none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
