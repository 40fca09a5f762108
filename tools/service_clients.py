"""Install the clients that `make test-services` runs against a server and that need environments of their own.

`python tools/service_clients.py` makes `.services/node` (packages of npm) and `.services/weblate` (Weblate, which is
GPL software and pins other versions than nearmt). What is installed already stays.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import venv
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".services"
NODE, WEBLATE = FOLDER / "node", FOLDER / "weblate"
#: Weblate 2026 needs Python 3.12.
WEBLATE_VERSION = "5.14.3"
NODE_PACKAGES = ("deepl-node@1.28.0",)
#: Requirements that need C libraries of the system. Weblate draws and backs up with them; its clients do not.
_WITHOUT = re.compile(r"(borgbackup|pycairo|pygobject|tesserocr)\b", re.IGNORECASE)


def run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command[:4]))} ...: {(done.stderr or done.stdout).strip()[-2000:]}")


def install_node() -> None:
    """Install the packages of npm."""
    stamp = NODE / "installed.json"
    if stamp.is_file() and json.loads(stamp.read_text(encoding="utf-8")) == list(NODE_PACKAGES):
        return
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm is not installed: the tests of JavaScript clients need Node.js 18 or newer")
    NODE.mkdir(parents=True, exist_ok=True)
    run([npm, "install", "--prefix", NODE, "--no-audit", "--no-fund", "--loglevel=error", *NODE_PACKAGES])
    stamp.write_text(json.dumps(list(NODE_PACKAGES)), encoding="utf-8")


def install_weblate() -> None:
    """Install Weblate into a virtual environment."""
    stamp = WEBLATE / "installed.txt"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == WEBLATE_VERSION:
        return
    shutil.rmtree(WEBLATE, ignore_errors=True)
    venv.create(WEBLATE, with_pip=True)
    pip: list[str | Path] = [weblate_python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--no-deps", f"weblate=={WEBLATE_VERSION}"])
    run([*pip, *_requirements()])
    stamp.write_text(WEBLATE_VERSION, encoding="utf-8")


def weblate_python() -> Path:
    return WEBLATE / "bin" / "python"


def _requirements() -> list[str]:
    """What the installed Weblate requires, without extras."""
    (libraries,) = (WEBLATE / "lib").glob("python*/site-packages")
    (weblate,) = (found for found in distributions(path=[str(libraries)]) if found.name.lower() == "weblate")
    required = [line for line in weblate.requires or () if "extra ==" not in line]
    return [line for line in required if not _WITHOUT.match(line)]


def main() -> None:
    install_node()
    install_weblate()


if __name__ == "__main__":
    main()
