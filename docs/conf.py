"""Sphinx configuration."""

import shutil
from importlib.metadata import version as installed_version
from pathlib import Path

here = Path(__file__).resolve().parent

project = "pymc-austerity"
author = copyright = "the pymc-austerity developers"
release = version = installed_version("pymc-austerity")

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "_templates", "jupyter_execute"]
templates_path = ["_templates"]
nitpicky = False

# The notebooks live beside the package; Sphinx reads sources below its own folder only.
shutil.rmtree(here / "notebooks", ignore_errors=True)
shutil.copytree(here.parent / "notebooks", here / "notebooks", ignore=shutil.ignore_patterns(".*"))

# The committed outputs are shown; `make notebooks` is what executes them.
nb_execution_mode = "off"
myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_validation_checks = {"PR01", "PR02", "SS03"}
# Results are returned, not made: they document attributes in place of parameters.
numpydoc_validation_exclude = {r"\.__", r"\.(Design|OperatingCharacteristic|Reliability)$"}

html_theme = "pydata_sphinx_theme"
html_title = "pymc-austerity"
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}
