"""Generates two sites of web pages from `docs/`: `python -m config.local.guide [FOLDER]`, by default `var/guide`.

`partners` has the pages of `docs/guia/` and nothing else, `team` has all the others. Sphinx writes the pages. Inline
scripts and styles are moved into files, because the pages are served under a policy without inline code
(config/documents.py). Unchanged sources are not built again.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "docs" / "guia"
DEFAULT_FOLDER = ROOT / "var" / "guide"
STAMP = "sources.sha256"
PARTNERS, TEAM = "partners", "team"
#: Pages of the team in Portuguese. The others are in English.
PORTUGUESE = {"index", "operator-guide", "search", "genindex"}
#: What the theme says in English, and its Portuguese.
CHROME: dict[str, str] = json.loads((SOURCES / "_templates" / "furo.json").read_text("utf-8"))

_SCRIPT = re.compile(r"<script>\s*(.*?)\s*</script>", re.DOTALL)
_STYLE = re.compile(r"<style>\s*(.*?)\s*</style>", re.DOTALL)
_STYLE_ATTRIBUTE = re.compile(r' style="([^"]*)"')


def build(folder: Path = DEFAULT_FOLDER) -> bool:
    """Build the pages in `folder`. Returns False if they were up to date.

    Raises subprocess.CalledProcessError if Sphinx warns, for example of a dead link.
    """
    digest = _digest()
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text() == digest:
        return False
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".guide-") as workspace:
        sites = Path(workspace) / "html"
        _make(SOURCES, sites / PARTNERS)
        _make(SOURCES.parent, sites / TEAM, "-t", TEAM)
        (sites / STAMP).write_text(digest)
        shutil.rmtree(folder, ignore_errors=True)
        sites.rename(folder)
    return True


def _make(sources: Path, pages: Path, *options: str) -> None:
    with tempfile.TemporaryDirectory() as doctrees:
        command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", doctrees, "-c", str(SOURCES)]
        subprocess.run([*command, *options, str(sources), str(pages)], check=True)
    _move_code_into_files(pages)


def _digest() -> str:
    """The digest of everything that the pages are generated from."""
    files = [*SOURCES.parent.rglob("*"), ROOT / "requirements-docs.txt", Path(__file__)]
    digest = hashlib.sha256(sys.version.encode())
    for file in sorted(file for file in files if file.is_file() and "__pycache__" not in file.parts):
        digest.update(f"{file.relative_to(ROOT)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _move_code_into_files(pages: Path) -> None:
    """Remove inline scripts, styles and style attributes from the pages, and scripts that evaluate text."""
    files: dict[str, str] = {}
    for page in pages.rglob("*.html"):
        static = "../" * (len(page.relative_to(pages).parts) - 1) + "_static/"

        def moved(text: str, ending: str, element: str, static: str = static) -> str:
            name = f"moved-{hashlib.sha256(text.encode()).hexdigest()[:12]}.{ending}"
            files[name] = text
            return element.format(static + name)

        text = page.read_text()
        text = _SCRIPT.sub(lambda match: moved(match[1], "js", '<script src="{}"></script>'), text)
        text = _STYLE.sub(lambda match: moved(match[1], "css", '<link rel="stylesheet" href="{}">'), text)
        for english, portuguese in CHROME.items():
            text = re.sub(rf'([">]\s*){re.escape(english)}(\s*["<])', rf"\g<1>{portuguese}\2", text)
        text = _STYLE_ATTRIBUTE.sub(lambda match: f' data-style="{match[1]}"', text)
        for rule in set(re.findall(r'data-style="([^"]*)"', text)):
            files["attributes.css"] = files.get("attributes.css", "") + f'[data-style="{rule}"] {{ {rule} }}\n'
        link = f'<link rel="stylesheet" href="{static}attributes.css"></head>'
        text = text.replace("</head>", link, 1)
        if pages.name == TEAM and page.relative_to(pages).with_suffix("").as_posix() not in PORTUGUESE:
            text = text.replace('lang="pt-BR"', 'lang="en"', 1)
        page.write_text(text)
    files["attributes.css"] = "".join(sorted(set(files.get("attributes.css", "").splitlines(keepends=True))))
    for name, text in files.items():
        (pages / "_static" / name).write_text(text)
    _state_the_plural(pages / "_static" / "translations.js")
    for name in ("searchtools.js", "sphinx_highlight.js"):
        _fold_words(pages / "_static" / name)


def _state_the_plural(file: Path) -> None:
    """Replace the translation's plural formula, a text that Sphinx's script evaluates, by a function."""
    catalog = json.loads(file.read_text().partition("(")[2].rpartition(")")[0])
    file.write_text(
        f"Object.assign(Documentation.TRANSLATIONS, {json.dumps(catalog['messages'])});\n"
        f"Documentation.LOCALE = {json.dumps(catalog['locale'])};\n"
        f"Documentation.PLURAL_EXPR = (n) => ({catalog['plural_expr']});\n"
    )


def _fold_words(script: Path) -> None:
    """Have Sphinx's search compare words without accents, as the index has them (docs/guia/conf.py)."""
    folded = '.normalize("NFD").replace(/\\p{M}/gu, "").toLowerCase()'
    script.write_text(script.read_text().replace(".toLowerCase()", folded))


if __name__ == "__main__":
    built = build(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else DEFAULT_FOLDER)
    sys.stdout.write("- the guide's pages are made\n" if built else "")
