"""Sphinx configuration."""

import base64
import inspect
import shutil
from importlib.metadata import version as installed_version
from pathlib import Path

import nbformat
from docutils import nodes

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
    "sphinx-mathjax-offline",  # formulas without a network
    "sphinx_design",
]
exclude_patterns = ["_build", "_templates", "jupyter_execute", "numbers"]  # pages include the numbers
templates_path = ["_templates"]
nitpicky = False

# The notebooks live beside the package; Sphinx reads sources below its own folder only.
shutil.rmtree(here / "notebooks", ignore_errors=True)
shutil.copytree(here.parent / "notebooks", here / "notebooks", ignore=shutil.ignore_patterns(".*"))


def write_figures(notebooks):
    """Write the figures that notebooks hold to files for the gallery: figure 2 of quickstart to quickstart-2.png."""
    for path in notebooks.glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
        figures = [data["image/png"] for data in outputs if "image/png" in data]
        for k, figure in enumerate(figures, start=1):
            (notebooks / f"{path.stem}-{k}.png").write_bytes(base64.b64decode(figure))


write_figures(here / "notebooks")

# The committed outputs are shown; `make notebooks` is what executes them.
nb_execution_mode = "off"
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_validation_checks = {"PR01", "PR02", "SS03"}
# Results are returned, not made: they document attributes in place of parameters.
numpydoc_validation_exclude = {r"\.__", r"\.(Comparison|Design|OperatingCharacteristic|Recommendation|Reliability)$"}


def signature_of_init(app, what, name, obj, options, signature, return_annotation):
    """Show the signature that Python shows, not that of ``__new__``, which PyMC's base class has for pickling."""
    if what != "class":
        return None
    bare = inspect.signature(obj)
    parameters = [parameter.replace(annotation=parameter.empty) for parameter in bare.parameters.values()]
    return str(bare.replace(parameters=parameters, return_annotation=bare.empty)), None


def trim_code(app, document):
    """Take off the blank line with which an example ends, as doctest needs one after what is printed."""
    for block in document.findall(nodes.literal_block):
        block.rawsource = block.astext().rstrip("\n")
        block[:] = [nodes.Text(block.rawsource)]


def setup(app):
    app.connect("autodoc-process-signature", signature_of_init)
    app.connect("doctree-read", trim_code)


html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_title = "pymc-austerity"
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
# Pages without others below them need no side bar.
alone = ("index", "quickstart", "which_step", "recipes", "choices", "gallery", "notebooks/*")
html_sidebars = {page: [] for page in alone}
