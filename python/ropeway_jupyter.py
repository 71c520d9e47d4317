"""Jupyter and IPython: the report of what a cell did, below the cell.

    %load_ext ropeway_jupyter        # before acl is imported

    %%ropeway_trace
    acl.rt.memcpy_async(...)
    acl.rt.synchronize_stream(stream)

The extension has the process record itself (ROPEWAY_TRACE), so it has to be loaded before acl is imported. A report has
everything that was recorded since; its view is the time of the cell. With --process the cell is a program of its own, in
a process of its own, and the report has nothing else: it sees no variables of the notebook.

The report is a frame that runs its own script, and can neither read nor change the notebook. It stays in the notebook
when that is saved; --link writes a file instead, and shows a link.
"""

import atexit
import base64
import datetime
import gzip
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import HTML, display

LATE = (
    "acl was imported before ropeway_jupyter was loaded, so this process is not recorded. Restart the kernel and begin "
    "with %load_ext ropeway_jupyter, or use %%ropeway_trace --process"
)


def load_ipython_extension(shell):
    """What %load_ext calls."""
    if "acl" not in sys.modules and not os.environ.get("ROPEWAY_TRACE"):
        directory = tempfile.mkdtemp(prefix="ropeway-jupyter-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        os.environ["ROPEWAY_TRACE"] = os.path.join(directory, "recorded")
    shell.register_magics(TraceMagics)


@magics_class
class TraceMagics(Magics):
    """%%ropeway_trace."""

    @magic_arguments()
    @argument("--height", type=int, default=720, help="of the report, in pixels")
    @argument("--process", action="store_true", help="run the cell as a program of its own")
    @argument("--link", metavar="FILE", help="write the report to FILE and show a link to it")
    @cell_magic
    def ropeway_trace(self, line, cell):
        """Run the cell and show what it did when: the report of 'ropeway trace'."""
        options = parse_argstring(self.ropeway_trace, line)
        command = find_command()
        with tempfile.TemporaryDirectory(prefix="ropeway-jupyter-") as directory:
            page = os.path.join(directory, "report.html")
            if options.process:
                view = self._in_process(command, directory, page, cell)
            else:
                view = self._here(command, page, cell)
            if view is None:
                return
            with open(page, encoding="utf-8") as file:
                text = looking_at(file.read(), *view)
        if options.link:
            path = options.link.strip("'\"")  # IPython splits the line at spaces outside quotes, and leaves these
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            display(HTML(f'<a href="{html.escape(path)}" target="_blank">{html.escape(path)}</a>'))
        else:
            display(HTML(frame(text, options.height)))

    def _here(self, command, page, cell):
        """Runs the cell in this process; returns the time to look at, None if there is no report."""
        recorded = os.environ.get("ROPEWAY_TRACE")
        if not recorded:
            raise UsageError(LATE)
        begin = time.time_ns()
        self.shell.run_cell(cell)
        end = time.time_ns()
        if not os.path.isdir(recorded):
            if "acl" in sys.modules:
                raise UsageError(LATE)
            print("ropeway: nothing has called AscendCL yet, so there is no report", file=sys.stderr)
            return None
        report(command, ["--from", recorded, "-o", page])
        return begin, end

    def _in_process(self, command, directory, page, cell):
        """Runs the cell as a program, under 'ropeway trace'."""
        program = os.path.join(directory, "cell.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(cell)
        begin = time.time_ns()
        environment = {name: value for name, value in os.environ.items() if name != "ROPEWAY_TRACE"}
        done = report(command, ["-o", page, "--", sys.executable, program], check=False, env=environment)
        print(done.stdout, end="")
        print(done.stderr, end="", file=sys.stderr)
        return (begin, time.time_ns()) if os.path.exists(page) else None


def find_command():
    """The ropeway command: of the toolkit that acl is from, or in PATH."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bin", "ropeway")
    if os.access(beside, os.X_OK):
        return os.path.normpath(beside)
    found = shutil.which("ropeway")
    if not found:
        raise UsageError("there is no command ropeway: source the set_env.sh of a toolkit before Jupyter is started")
    return found


def report(command, arguments, check=True, env=None):
    """Runs 'ropeway trace'."""
    pipe = subprocess.PIPE
    done = subprocess.run([command, "trace", *arguments], stdout=pipe, stderr=pipe, text=True, env=env)
    if check and done.returncode:
        raise UsageError(f"ropeway trace: {done.stderr.strip()}")
    return done


def looking_at(page, begin, end):
    """A page whose first view is from begin to end (ns since 1970), as far as the run was there."""
    run = data_of(page)
    started = nanoseconds(run["started"])
    first, last = max(0, begin - started), min(run["duration"], end - started)
    if first >= last:
        return page
    return page.replace("<head>", f'<head>\n<meta name="ropeway-view" content="t={first},{last}">', 1)


def data_of(page):
    """The run that a page shows."""
    kind, text = re.search(r'<script type="([^"]+)" id="data">(.*?)</script>', page, re.DOTALL).groups()
    if "gzip" in kind:
        text = gzip.decompress(base64.b64decode(text)).decode()
    return json.loads(text)


def nanoseconds(moment):
    """A time of RFC 3339, as nanoseconds since 1970; datetime has microseconds alone."""
    whole, fraction, zone = re.fullmatch(r"([^.Z+]+?)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", moment).groups()
    seconds = datetime.datetime.fromisoformat(whole + zone.replace("Z", "+00:00")).timestamp()
    return int(seconds) * 10**9 + int((fraction or "0").ljust(9, "0"))


def frame(page, height):
    """A page in a frame. It may run its script, and nothing else: it is a stranger to the notebook."""
    return (
        f'<iframe title="ropeway report" sandbox="allow-scripts" srcdoc="{html.escape(page)}" '
        f'style="width: 100%; height: {int(height)}px; border: 1px solid #8888"></iframe>'
    )
