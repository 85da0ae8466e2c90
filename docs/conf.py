"""How Sphinx makes the guide's web pages (config/local/guide.py runs it)."""

project = "Origination"
language = "pt_BR"  # of the buttons and of the search; each page is in its readers' language
root_doc = "index"
exclude_patterns = ["_*"]
templates_path = ["_templates"]

extensions = ["myst_parser"]
myst_heading_anchors = 3
# Decisions and banks' manuals are reached from the tables of their README pages.
suppress_warnings = ["toc.not_included", "misc.highlighting_failure"]

html_theme = "furo"
html_title = "Origination"
html_static_path = ["_static"]
# At /docs/guia/consulta.json and /docs/guia/enviar.py, as partners fetch them.
html_extra_path = ["consulta.json", "proposta.json", "samples"]
html_favicon = "_static/favicon.svg"
html_css_files = ["guide.css"]
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
