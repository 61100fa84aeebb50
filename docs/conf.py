"""How `make docs` makes the site of the pages. It starts at the root, so that links to every page are checked."""

project = "framework-app"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "*.md", "plugins/*/README.md", "example_app/README.md"]

# Headings get the anchors that GitHub gives them. A link to a page, a file or a heading that is not there is a warning.
myst_heading_anchors = 4
nitpicky = True

html_theme = "furo"
html_title = "framework-app"
html_additional_pages = {"index": "to-the-start.html"}
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_show_search_summary = False  # a page from the disk may not fetch others, and every result would fail
templates_path = ["_templates"]
