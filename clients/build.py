"""Builds the partners' clients from this folder and the API's schema: `python -m clients.build [FOLDER]`, by default
`var/clients`. Needs no network. Unchanged sources are not built again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "clients"
DEFAULT_FOLDER = ROOT / "var" / "clients"
#: From `make deps-node`.
TSC = ROOT / "var" / "node" / "node_modules" / "typescript" / "bin" / "tsc"
#: They do not touch the schema.
_APART = {"var", "tests", "bench", "simulator"}


def build(folder: Path = DEFAULT_FOLDER) -> bool:
    """Build the packages in `folder`. Returns False if they were up to date.

    Raises subprocess.CalledProcessError if a tool fails.
    """
    digest = _digest()
    stamp = folder.parent / f"{folder.name}.sha256"
    if folder.exists() and stamp.exists() and stamp.read_text() == digest:
        return False
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".clients-") as workspace:
        built = Path(workspace) / "built"
        built.mkdir()
        with_types(Path(workspace))
        _pack_typescript(Path(workspace) / "typescript", built)
        _run("-m", "uv", "build", "-q", "--offline", "--wheel", "--out-dir", str(built), f"{workspace}/python")
        (built / ".gitignore").unlink()
        shutil.rmtree(folder, ignore_errors=True)
        built.rename(folder)
        stamp.write_text(digest)
    return True


def with_types(folder: Path) -> None:
    """Copy the clients' sources to `folder`, with the types that the schema gives."""
    schema = folder / "openapi.json"
    _run("manage.py", "spectacular", "--format", "openapi-json", "--file", str(schema))
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for language, file in (("python", "python/src/origination/types.py"), ("typescript", "typescript/src/types.ts")):
        with schema.open() as document, (folder / file).open("w") as types:
            _run("clients/generate.py", language, stdin=document, stdout=types)


def _pack_typescript(package: Path, target: Path) -> None:
    """Write the npm tarball, if the compiler is there. npm itself is not needed: a tarball is a folder `package`."""
    node = shutil.which("node")
    if node is None or not TSC.exists():
        sys.stdout.write("- the TypeScript client is not made: `make deps-node` found no Node 20 and npm\n")
        return
    subprocess.run([node, str(TSC), "-p", str(package)], check=True)
    about = json.loads((package / "package.json").read_text())
    with tarfile.open(target / f"origination-client-{about['version']}.tgz", "w:gz") as archive:
        for name in ("package.json", "README.md", *about["files"]):
            archive.add(package / name, f"package/{name}", filter=_plain)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """An entry without the builder's name, ids and time."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def _digest() -> str:
    """The digest of everything that the packages are made from."""
    code = (file for package in ROOT.iterdir() if _is_code(package) for file in package.rglob("*.py"))
    clients = (file for file in SOURCES.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    digest = hashlib.sha256(f"{sys.version} {TSC.exists()}".encode())
    for file in sorted({*code, *clients}):
        digest.update(f"{file.relative_to(ROOT)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _is_code(folder: Path) -> bool:
    return folder.is_dir() and not folder.name.startswith(".") and folder.name not in _APART


def _run(*arguments: str, stdin: IO[str] | None = None, stdout: IO[str] | None = None) -> None:
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdin=stdin, stdout=stdout)


if __name__ == "__main__":
    built = build(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else DEFAULT_FOLDER)
    sys.stdout.write("- the partners' clients are made\n" if built else "")
