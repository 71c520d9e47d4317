"""docs/python.md: all of its blocks are run, in their order.

A block of Python with a name is a file; sh blocks run in one shell; the lines of a text block must have been printed by the sh
block before it; pycon blocks are one interactive session; yaml is a CI job whose steps are run.
"""

import doctest
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import acl
from acl import _forms
from support import HANG, missing, need_numpy, run_program

REPOSITORY = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TOOLKIT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(acl.__file__)), "..", "..", ".."))
PAGE = os.path.join(REPOSITORY, "docs", "python.md")

# What the page says, and what is run instead: the toolkit is there already.
INSTEAD = {
    "make dist\n": "",
    'make -C "$clone" wheel\n': 'python3 "$clone/python/backend.py" wheel --toolkit "$clone/dist" --out "$clone/dist"\n',
}

# Drives a generator fixture as pytest does, for machines that have no pytest.
WITHOUT_PYTEST = """
import sys, types
sys.modules["pytest"] = types.SimpleNamespace(fixture=lambda function: function)
import conftest, test_with_pytest
tests = [value for name, value in vars(test_with_pytest).items() if name.startswith("test_")]
for test in tests:
    names = test.__code__.co_varnames[:test.__code__.co_argcount]
    fixtures = [getattr(conftest, name)() for name in names]
    test(*[next(fixture) for fixture in fixtures])
    for fixture in reversed(fixtures):
        assert next(fixture, "over") == "over"
print(len(tests), "passed")
"""


class Block:
    def __init__(self, language, name, text):
        self.language, self.name, self.text = language, name, text


def blocks():
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    found = [Block(*match) for match in re.findall(r"^```([a-z]+)(?: ([\w.]+))?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    assert 2 * len(found) == len(re.findall("^```", text, re.MULTILINE)), "a block of the page is not understood"
    return found


class TestPage(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(os.path.join(TOOLKIT, "set_env.sh")):
            self.skipTest("acl is not part of a toolkit")
        self.blocks = blocks()

    def checkout(self):
        """A directory that looks like a clone of the repository after make dist, as far as the page goes."""
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        os.mkdir(os.path.join(directory, "dist"))
        for name in os.listdir(TOOLKIT):
            os.symlink(os.path.join(TOOLKIT, name), os.path.join(directory, "dist", name))
        for name in ("examples", "python", "LICENSE"):
            os.symlink(os.path.join(REPOSITORY, name), os.path.join(directory, name))
        os.mkdir(os.path.join(directory, "bin"))
        python = os.path.join(directory, "bin", "python3")
        with open(python, "w") as file:
            file.write(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        os.chmod(python, 0o755)
        return directory

    def save(self, directory):
        """Saves the files of the page in a directory."""
        for block in self.blocks:
            if block.name:
                with open(os.path.join(directory, block.name), "w", encoding="utf-8") as file:
                    file.write(block.text)

    def home(self):
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        return directory

    def shell(self, directory, script):
        """Runs a script that has to succeed. What the page needs, it has to set itself."""
        ours = ("PYTHONPATH", "LD_LIBRARY_PATH", "ASCEND_", "ROPEWAY_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        environment.update(
            HOME=self.home(),
            PATH=os.path.join(directory, "bin") + os.pathsep + os.environ["PATH"],
            PYTHONDONTWRITEBYTECODE="1",
            PIP_NO_INDEX="1",
            PIP_DISABLE_PIP_VERSION_CHECK="1",
        )
        done = subprocess.run(
            ["sh", "-c", "set -eu\n" + script],
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            timeout=4 * HANG,
        )
        self.assertEqual(0, done.returncode, done.stdout)
        return done.stdout

    def test_top_to_bottom(self):
        if importlib.util.find_spec("ensurepip") is None:
            missing("ensurepip (Debian: apt-get install python3-venv)")
        left_out = self.without_numpy()
        script, expected, last = "", {}, None
        for i, block in enumerate(self.blocks):
            if block.name:  # saved where the reader is by then
                script += f"cat >{block.name} <<'END-OF-THE-FILE'\n{block.text}END-OF-THE-FILE\n"
            elif block.language == "sh" and left_out in block.text:
                last = None
            elif block.language == "sh":
                last, text = i, block.text
                for line, instead in INSTEAD.items():
                    text = text.replace(line, instead)
                script += f"echo '### block {i}'\n{text}"
            elif block.language == "text" and last is not None:
                expected[last] = block.text.splitlines()
        directory = self.checkout()
        before = os.listdir(directory)
        printed = self.shell(directory, script)
        self.assertCountEqual(before, os.listdir(directory), "the page leaves files in the clone")
        parts = dict(re.findall(r"^### block (\d+)\n(.*?)(?=^### block|\Z)", printed, re.MULTILINE | re.DOTALL))
        for i, lines in expected.items():
            rest = iter(parts[str(i)].splitlines())
            for line in lines:
                self.assertIn(line, rest, f"\n{self.blocks[i].text}prints\n{parts[str(i)]}")
        self.assertGreater(len(expected), 4)

    def without_numpy(self):
        """What blocks that need NumPy have in them, where it is missing."""
        try:
            need_numpy()
        except unittest.SkipTest:
            return "numpy"
        return "no block has this"

    def test_the_session(self):
        session = "".join(block.text for block in self.blocks if block.language == "pycon")
        program = "import doctest, sys\nflags = doctest.ELLIPSIS | doctest.REPORT_NDIFF\n"
        program += "test = doctest.DocTestParser().get_doctest(sys.argv[1], {}, 'page', 'docs/python.md', 0)\n"
        program += "print(doctest.DocTestRunner(optionflags=flags).run(test))\n"
        done = run_program(program, session)
        count = len(doctest.DocTestParser().get_examples(session))
        self.assertIn(f"failed=0, attempted={count})", done.stdout, done.stderr)
        self.assertGreater(count, 20)

    def test_the_fixture(self):
        directory = self.checkout()
        self.save(directory)
        self.assertEqual(
            "1 passed\n", self.shell(directory, f". dist/set_env.sh\npython3 - <<'END'\n{WITHOUT_PYTEST}\nEND\n")
        )
        if importlib.util.find_spec("pytest"):
            self.assertIn("1 passed", self.shell(directory, ". dist/set_env.sh\npython3 -m pytest test_with_pytest.py"))

    def test_the_ci_job(self):
        """Its steps, but for those that the checkout has done, in a project that has the page's tests."""
        (job,) = [block for block in self.blocks if block.language == "yaml"]
        steps = re.findall(r"^ *- run: (.*)$", job.text, re.MULTILINE)
        directory = self.checkout()
        self.save(directory)
        os.symlink(".", os.path.join(directory, "ropeway"))
        os.remove(os.path.join(directory, "test_with_pytest.py"))
        left = [step for step in steps if not step.startswith(("git ", "make "))]
        self.assertEqual(1, len(left))
        self.assertRegex(self.shell(directory, "\n".join(left)), r"Ran 2 tests[^$]*OK")

    def test_how_many_functions(self):
        count = sum(not form.extra and form.module != "acl.prof" for form in _forms.FORMS)
        with open(PAGE, encoding="utf-8") as file:
            self.assertIn(f"All {count} functions of `acl` and `acl.rt`", file.read())

    def test_no_block_is_left_out(self):
        for block in self.blocks:
            self.assertIn(block.language, ("sh", "text", "python", "pycon", "yaml"))
            self.assertEqual(block.language == "python", bool(block.name), block.text)
            if block.name:
                compile(block.text, block.name, "exec")


if __name__ == "__main__":
    unittest.main()
