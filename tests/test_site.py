"""The documentation as a browser shows it: links that lead somewhere, no errors, and pages as wide as the screen."""

import html
import json
import re
import shutil
import subprocess
import threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(__file__).resolve().parents[1] / "docs" / "_build" / "html"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PAGES = [
    "index", "quickstart", "which_step", "recipes", "proxies", "after_the_run", "trust", "adding_a_test", "groups",
    "log", "choices", "api", "reference/results", "generated/pymc_austerity.PenaltyMH", "notebooks/quickstart",
]  # fmt: skip
WIDTHS = [1400, 390]

if not all((SITE / f"{page}.html").exists() for page in PAGES):
    pytest.skip(f"needs the site in {SITE}, as it is now: make docs", allow_module_level=True)

#: Loads pages into a frame, one after the other, and writes down how wide each is and how high its header.
PROBE = """<body><script>
const found = [], frame = document.createElement("iframe"), due = PAGES.flatMap(p => WIDTHS.map(w => [p, w]));
document.body.append(frame);
frame.style.height = "900px";
frame.onload = () => setTimeout(() => {
  const root = frame.contentDocument.documentElement, header = root.querySelector(".bd-header");
  const cut = [...root.querySelectorAll("pre")].filter(code => code.scrollWidth > code.clientWidth + 1);
  found.push([...due.shift(), root.scrollWidth, header ? header.offsetHeight : 0, cut.length]);
  next();
}, 100);
function next() {
  if (!due.length) { document.body.innerText = "FOUND" + JSON.stringify(found) + "END"; return; }
  frame.style.width = due[0][1] + "px";
  frame.src = due[0][0] + ".html?" + due.length;
}
next();
</script></body>"""


class Served(SimpleHTTPRequestHandler):
    """Serves a folder, and the probe as one of its files."""

    def __init__(self, *args, probe, **kwargs):
        self.probe = probe
        super().__init__(*args, **kwargs)

    def do_GET(self):
        if self.path != "/_probe.html":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        return self.wfile.write(self.probe.encode())

    def log_message(self, *args):
        pass


def look_at(folder, pages):
    """Return (page, width, width of its content, height of its header, blocks of code that are cut) and errors."""
    probe = PROBE.replace("PAGES", json.dumps(pages)).replace("WIDTHS", json.dumps(WIDTHS))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Served, directory=str(folder), probe=probe))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1500,1000", "--enable-logging=stderr",
        "--virtual-time-budget=120000", "--dump-dom", f"http://127.0.0.1:{server.server_port}/_probe.html",
    ]  # fmt: skip
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    finally:
        server.shutdown()
        server.server_close()
    found = json.loads(html.unescape(re.search("FOUND(.*)END", ran.stdout, re.DOTALL)[1]))
    said = [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
    return found, [line for line in said if "Uncaught" in line or "Failed to load" in line or "Error" in line]


def too_wide(found):
    return [(page, width, content) for page, width, content, *_ in found if content > width]


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs chromium or Google Chrome")
def test_pages_fit_the_screen_and_have_no_errors(tmp_path):
    found, errors = look_at(SITE, PAGES)
    assert len(found) == len(PAGES) * len(WIDTHS)
    assert too_wide(found) == []
    assert {page for page, _, _, header, _ in found if not 0 < header < 90} == set()  # one row
    assert [(page, cut) for page, width, _, _, cut in found if width == max(WIDTHS) and cut] == []
    assert errors == []
    # Negative control: a wide page and an error are seen.
    wide = f"<p style='width:800px'>wide</p><pre style='overflow-x:auto'>{300 * 'x'}</pre>"
    (tmp_path / "bad.html").write_text(f"{wide}<script>nothing.here</script>")
    found, errors = look_at(tmp_path, ["bad"])
    assert [(page, width) for page, width, _ in too_wide(found)] == [("bad", 390)]
    assert [cut for *_, cut in found] == [1, 1]
    assert len(errors) == 2
    assert "nothing is not defined" in errors[0]


class Links(HTMLParser):
    """The links of a page, and where others can lead in it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.places = [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.places.add(attrs.get("id"))
        self.links += [attrs[name] for name in ("href", "src") if attrs.get(name)]


def follow(start):
    """Return the pages that links lead to from one, by path, and the links that lead nowhere within the site."""
    read, due, led = {}, [start], []
    while due:
        path = due.pop()
        if path not in read:
            read[path] = Links(path.read_text())
            inside = [urlsplit(link) for link in read[path].links if urlsplit(link)[:2] == ("", "")]
            targets = [(path.parent / unquote(url.path)).resolve() if url.path else path for url in inside]
            due += [target for target in targets if target.suffix == ".html" and target.exists()]
            led += [(path, target, unquote(url.fragment)) for url, target in zip(inside, targets)]
    gone = [
        (path.name, target.name, place)
        for path, target, place in led
        if not target.exists() or (target in read and place not in read[target].places)
    ]
    return read, gone


def test_links_lead_somewhere_and_broken_ones_are_found(tmp_path):
    read, gone = follow(SITE / "index.html")
    assert len(read) > 100
    assert gone == []
    page = tmp_path / "page.html"
    page.write_text("<a href='gone.html'></a><a href='#gone'></a><a href='#here' id='here'></a>")
    assert follow(page)[1] == [("page.html", "gone.html", ""), ("page.html", "page.html", "gone")]
