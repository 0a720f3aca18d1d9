"""No tracked file names a folder of somebody's machine or the host of a package registry."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import checkout

# Written so that no pattern matches its own line.
FORBIDDEN = {
    "a path of one machine": re.compile(
        r"(?<![\w.$}/-])/(?:work|root|tmp|mnt|Users|home)/[\w.-]|~/[.](?:m2|pyenv)\b"
    ),
    "a registry's host": re.compile(
        r"\b(?:test\.)?pypi[.]org\b|pythonhosted[.]org|repo1?[.]maven|central[.]sonatype|"
        r"registry[.]npmjs|proxy[.]golang|\bghcr[.]io|\bquay[.]io|docker[.]io|\w[.]pkg[.]dev\b|"
        r"jfrog[.]io|artifactory[./]|/artifacts?/(?:pypi|maven)|"
        r"--(?:extra-)?index[-]url|--find[-]links|--trusted[-]host",
        re.IGNORECASE,
    ),
    "a bare address that is not loopback": re.compile(
        r"https?://(?!127\.|0\.0\.0\.0)\d+\.\d+\.\d+\.\d+"
    ),
}


def check(root: Path) -> list[str]:
    """All faults of the checkout at `root`."""
    excused = checkout.exceptions(root, "paths")
    faults = []
    for path in checkout.files(root):
        name = str(path.relative_to(root))
        data = path.read_bytes()
        if name in excused or b"\0" in data:
            continue
        for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
            faults += [
                f"{name}:{number}: {what}: {found.group()}"
                for what, pattern in FORBIDDEN.items()
                if (found := pattern.search(line))
            ]
    return faults


if __name__ == "__main__":
    sys.exit(checkout.conclude("paths", check(checkout.root_argument(sys.argv))))
