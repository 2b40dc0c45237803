"""How Sphinx builds these pages: `make docs`."""

from importlib.metadata import version as installed

project = "Equipoise"
author = "The Equipoise authors"
copyright = "2026, The Equipoise authors"
release = version = installed("equipoise")

extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "alabaster"
html_theme_options = {"description": "Load-balancing policies, compared on your traffic"}
html_title = f"Equipoise {release}"
