"""The extension for Jupyter and IPython. Each notebook is a process with IPython's shell and no server."""

import base64
import gzip
import html
import importlib.util
import json
import os
import re
import sys
import tempfile
import unittest

import acl
from support import missing, run_program

# Runs the cells that are in the arguments, and prints what they displayed, as JSON, and how each ended.
NOTEBOOK = """
import io, json, sys, contextlib
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.displaypub import CapturingDisplayPublisher

shell = InteractiveShell.instance()
shell.display_pub = CapturingDisplayPublisher()
shown, ended, said = [], [], io.StringIO()
with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
    for cell in sys.argv[1:]:
        del shell.display_pub.outputs[:]
        ended.append(shell.run_cell(cell).success)
        shown.append([output["data"].get("text/html", "") for output in shell.display_pub.outputs])
print(json.dumps({"shown": shown, "ended": ended, "said": said.getvalue()}))
"""
COPY = """
stream, _ = acl.rt.create_stream()
host, _ = acl.rt.malloc_host(1 << 20)
device, _ = acl.rt.malloc(1 << 20, 0)
for _ in range(3):
    acl.rt.memcpy_async(device, 1 << 20, host, 1 << 20, acl.ACL_MEMCPY_HOST_TO_DEVICE, stream)
acl.rt.synchronize_stream(stream)
"""
START = "import acl\nacl.init()\nacl.rt.set_device(0)\n"


def notebook(*cells):
    done = run_program(NOTEBOOK, *cells, IPYTHONDIR=tempfile.gettempdir() + "/ropeway-ipython", ROPEWAY_TRACE="")
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def page_of(shown):
    """The page in the frame that a cell showed."""
    form = r'<iframe title="ropeway report" sandbox="allow-scripts" srcdoc="(.*?)" style=.*'
    return html.unescape(re.fullmatch(form, shown, re.DOTALL).group(1))


class TestJupyter(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec("IPython") is None:
            missing("IPython (Debian: apt-get install python3-ipython)")
        packages = os.path.dirname(os.path.dirname(os.path.abspath(acl.__file__)))
        if not os.path.exists(os.path.join(packages, "..", "..", "bin", "ropeway")):
            missing("the command ropeway beside acl")
        sys.path.insert(0, packages)

    def run_of(self, shown):
        import ropeway_jupyter

        page = page_of(shown)
        return page, ropeway_jupyter.data_of(page)

    def test_a_cell_shows_the_report(self):
        """The report of a cell has its copies, looks at its time, and variables stay in the notebook."""
        got = notebook("%load_ext ropeway_jupyter", START, "%%ropeway_trace\n" + COPY + "done = 7", "assert done == 7")
        self.assertEqual([True] * 4, got["ended"], got["said"])
        self.assertEqual([0, 0, 1, 0], list(map(len, got["shown"])), got["said"])
        page, run = self.run_of(got["shown"][2][0])
        self.assertEqual(3, [run["functions"][i] for i in run["calls"]["function"]].count("aclrtMemcpyAsync"))
        first, last = map(int, re.search(r'<meta name="ropeway-view" content="t=(\d+),(\d+)">', page).groups())
        self.assertTrue(0 <= first < last <= run["duration"], (first, last, run["duration"]))
        slack = 2 * 10**9  # the recorder reads the time of day and its own clock one after the other
        for start, function in zip(run["calls"]["start"], run["calls"]["function"]):
            if run["functions"][function] == "aclrtMemcpyAsync":
                self.assertTrue(first - slack <= start <= last + slack, (first, last, start))

    def test_a_process_of_its_own(self):
        """With --process the cell knows nothing of the notebook, and its report has nothing else."""
        cell = "%%ropeway_trace --process --height 300\n" + START + COPY + "print('from the cell')"
        got = notebook("%load_ext ropeway_jupyter", "import acl", cell)
        self.assertEqual([True] * 3, got["ended"], got["said"])
        self.assertIn("from the cell", got["said"])
        self.assertIn("height: 300px", got["shown"][2][0])
        _, run = self.run_of(got["shown"][2][0])
        self.assertEqual(3, len([i for i in run["calls"]["function"] if run["functions"][i] == "aclrtMemcpyAsync"]))
        self.assertEqual(1, len(run["processes"]))

    def test_a_cell_that_fails(self):
        """A cell that raises shows its error and its report."""
        got = notebook("%load_ext ropeway_jupyter", START, "%%ropeway_trace\n" + COPY + "\n1 / 0")
        self.assertIn("ZeroDivisionError", got["said"])
        self.assertEqual(1, len(got["shown"][2]), got["said"])

    def test_a_link(self):
        """--link writes a file."""
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "a report.html")
            got = notebook("%load_ext ropeway_jupyter", START, f"%%ropeway_trace --link '{path}'\n" + COPY)
            self.assertIn("a report.html</a>", got["shown"][2][0], got["said"])
            with open(path, encoding="utf-8") as file:
                self.assertIn("ropeway-view", file.read())

    def test_too_late(self):
        """acl was imported first: the magic says what to do."""
        got = notebook(START, "%load_ext ropeway_jupyter", "%%ropeway_trace\n" + COPY)
        self.assertIn("Restart the kernel", got["said"])
        self.assertEqual([], got["shown"][2])

    def test_nothing_called(self):
        """A notebook that has not called AscendCL has no report, and the page says so."""
        got = notebook("%load_ext ropeway_jupyter", "%%ropeway_trace\nx = 1")
        self.assertEqual([True, True], got["ended"], got["said"])
        self.assertIn("nothing has called AscendCL yet", got["said"])

    def test_page(self):
        """The cells of docs/howto-jupyter.md work, and those with the magic show a report."""
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "..", "..", "docs", "howto-jupyter.md"), encoding="utf-8") as file:
            cells = re.findall(r"^```python\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE)
        got = notebook(*cells)
        self.assertEqual([True] * 4, got["ended"], got["said"])
        self.assertEqual([0, 0, 1, 1], list(map(len, got["shown"])), got["said"])

    def test_view(self):
        """The view is the cell's time, as far as the run was there; without one the page stays as it is."""
        import ropeway_jupyter

        data = json.dumps({"started": "1970-01-01T00:00:10Z", "duration": 5 * 10**9})
        packed = base64.b64encode(gzip.compress(data.encode())).decode()
        for kind, text in (("application/json", data), ("application/gzip;base64", packed)):
            page = f'<html><head></head><script type="{kind}" id="data">{text}</script></html>'
            for begin, end, want in ((11, 12, "t=1000000000,2000000000"), (9, 30, "t=0,5000000000"), (1, 2, None)):
                got = ropeway_jupyter.looking_at(page, begin * 10**9, end * 10**9)
                meta = f'<head>\n<meta name="ropeway-view" content="{want}">'
                self.assertEqual(page if want is None else page.replace("<head>", meta), got)

    def test_times(self):
        import ropeway_jupyter

        for text, want in (
            ("1970-01-01T00:00:01Z", 10**9),
            ("1970-01-01T00:00:01.000000007Z", 10**9 + 7),
            ("1970-01-01T01:00:01.5+01:00", 15 * 10**8),
        ):
            self.assertEqual(want, ropeway_jupyter.nanoseconds(text))


if __name__ == "__main__":
    unittest.main()
