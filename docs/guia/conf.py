"""How Sphinx makes the partners' guide, and with the tag `team` the team's pages (config/local/guide.py runs it)."""

from __future__ import annotations

import re
import unicodedata

from sphinx.application import Sphinx
from sphinx.search.pt import SearchPortuguese

team = tags.has("team")  # noqa: F821  (Sphinx gives the tags of its command line)

project = "Origination"
# Blocks without a language stay as they are: an address in them is found and replaced whole (config/documents.py).
highlight_language = "none"
language = "pt_BR"
root_doc = "index"
exclude_patterns = ["_*", "guia"] if team else ["_*"]
templates_path = ["_templates"]

extensions = ["myst_parser"]
myst_heading_anchors = 3
# Decisions and banks' manuals are reached from the tables of their README pages.
suppress_warnings = ["toc.not_included", "misc.highlighting_failure"] if team else ["misc.highlighting_failure"]

html_theme = "furo"
html_title = "Origination"
html_static_path = ["_static"]
# At /docs/guia/consulta.json and /docs/guia/enviar.py, as partners fetch them.
html_extra_path = [] if team else ["consulta.json", "proposta.json", "samples"]
html_favicon = "_static/favicon.svg"
html_css_files = ["guide.css"]
html_js_files = ["guide.js"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "reference.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}


def fold(text: str) -> str:
    """`text` in lower case and without accents, as most people type in a search."""
    return "".join(each for each in unicodedata.normalize("NFD", text) if not unicodedata.combining(each)).lower()


class FoldedSearch(SearchPortuguese):
    """Finds a word with and without its accents, in any case. The scripts fold what is searched for
    (config/local/guide.py)."""

    stopwords = frozenset(map(fold, SearchPortuguese.stopwords))
    #: Sphinx appends this to its stemmer. It does what `stem` does.
    js_splitter_code = """
window.Stemmer = function () {
  const portuguese = new PortugueseStemmer();
  this.stemWord = (word) => portuguese.stemWord(word.replace(/cao$/, "ção").replace(/coes$/, "ções"));
};
"""

    def split(self, input: str) -> list[str]:
        return [fold(word) for word in super().split(input)]

    def stem(self, word: str) -> str:
        """The stem of a folded word. The stemmer knows "averbação" and "averbações" by their accents."""
        return super().stem(re.sub("coes$", "ções", re.sub("cao$", "ção", word)))


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.add_search_language(FoldedSearch)
