"""The pytest plugin."""

import importlib.util
import os
import sys
import unittest

from checked import BEGINNING, CheckedCase
from support import missing

TESTS = (
    BEGINNING
    + '''
import pytest

def load():
    ok(rt.memcpy_async(host, SIZE, device, SIZE, D2H, stream))

@pytest.fixture
def loaded():
    load()
    yield
    ok(rt.synchronize_stream(stream))

def test_wrong(acl_check):
    load()
    ctypes.string_at(host, 1)
    ok(rt.synchronize_stream(stream))

def test_wrong_again(acl_check):
    load()
    ctypes.string_at(host, 1)
    ok(rt.synchronize_stream(stream))

def test_right(acl_check):
    load()
    ok(rt.synchronize_stream(stream))
    ctypes.string_at(host, SIZE)
    assert acl_check.findings() == []

def test_a_fixture_is_wrong(acl_check, loaded):
    ctypes.string_at(host, 1)

@pytest.mark.acl_ignore("host-read-in-flight")
def test_marked(acl_check, loaded):
    ctypes.string_at(host, 1)

def test_ignores(acl_check, loaded):
    ctypes.string_at(host, 1)
    assert [finding["rule"] for finding in acl_check.findings()] == ["host-read-in-flight"]
    acl_check.ignore("host-read-in-flight")

def test_looks_at_a_code(acl_check):
    assert rt.memset(0, SIZE, 0, SIZE) != 0

def test_drops_a_code(acl_check):
    rt.memset(0, SIZE, 0, SIZE)

def test_unwatched(loaded):
    ctypes.string_at(host, 1)
'''
)


class TestPlugin(CheckedCase):
    def setUp(self):
        super().setUp()
        if importlib.util.find_spec("pytest") is None:
            missing("pytest (Debian: apt-get install python3-pytest)")
        with open(os.path.join(self.directory, "test_it.py"), "w") as file:
            file.write(TESTS)

    def pytest(self, *arguments, **environment):
        """Runs the tests; returns the outcome by name, and the output."""
        done = self.run_checked("-m", "pytest", "-p", "ropeway_pytest", "-p", "no:cacheprovider", "-v", "-rs", *arguments, **environment)
        outcomes = {}
        for line in done.stdout.splitlines():
            words = line.split()
            if len(words) >= 2 and words[0].startswith("test_it.py::"):
                outcomes.setdefault(words[0].partition("::")[2], []).append(words[1])
        self.assertTrue(outcomes, done.stdout + done.stderr)
        return {name: outcome[-1] for name, outcome in outcomes.items()}, done.stdout

    def test_outcomes(self):
        """A test fails for what it did itself, also when another did the same before, and not for an error it looks at."""
        outcomes, output = self.pytest()
        failed = {name for name, outcome in outcomes.items() if outcome in ("ERROR", "FAILED")}
        self.assertEqual({"test_wrong", "test_wrong_again", "test_a_fixture_is_wrong", "test_drops_a_code"}, failed, output)
        self.assertEqual(9, len(outcomes), output)
        self.assertIn("1 finding of the checker during the test", output)
        self.assertEqual(3, output.count("error: host-read-in-flight: "), output)  # once for each test, and nowhere else
        self.assertNotIn("Captured stderr", output)
        self.assertIn("       | ctypes.string_at(host, 1)\n", output)
        self.assertIn("test_it.py:", output)
        for machinery in ("/_pytest/", "/pluggy/"):
            self.assertNotIn(machinery, output)

    def test_ignored_by_option(self):
        outcomes, output = self.pytest("--acl-ignore", "host-read-in-flight", "-k", "wrong or right or marked")
        self.assertEqual({"PASSED"}, set(outcomes.values()), output)

    def test_ignored_by_configuration(self):
        with open(os.path.join(self.directory, "pytest.ini"), "w") as file:
            file.write("[pytest]\nacl_ignore = host-read-in-flight leak\n")
        outcomes, output = self.pytest("-k", "wrong or right or marked")
        self.assertEqual({"PASSED"}, set(outcomes.values()), output)

    def test_suppressed(self):
        """A finding that a suppression file describes fails no test; the same rule elsewhere does."""
        known = os.path.join(self.directory, "known")
        with open(known, "w") as file:
            file.write("[known]\nrule: host-read-in-flight\noffence:\n    ...\n    test_wrong at test_it.py\n")
        outcomes, output = self.pytest("-k", "wrong or right", ROPEWAY_SUPPRESS=known)
        failed = {name for name, outcome in outcomes.items() if outcome in ("ERROR", "FAILED")}
        self.assertEqual({"test_wrong_again", "test_a_fixture_is_wrong"}, failed, output)

    def test_all_tests(self):
        outcomes, output = self.pytest("--acl-check", "-k", "unwatched")
        self.assertEqual({"test_unwatched": "ERROR"}, outcomes, output)

    def test_off(self):
        """Tests are skipped and say why; asking for the check on all of them is an error."""
        outcomes, output = self.pytest("-k", "wrong", preload=False, ROPEWAY_CHECK="")
        self.assertEqual({"SKIPPED"}, set(outcomes.values()), output)
        self.assertIn("acl is not checked in this process: run the tests under 'ropeway check -- pytest'", output)
        outcomes, output = self.pytest("--acl-check", "-k", "unwatched", preload=False, ROPEWAY_CHECK="0")
        self.assertEqual({"test_unwatched": "ERROR"}, outcomes, output)
        self.assertIn("acl is not checked in this process", output)

    def test_acl_is_not_imported_for_nothing(self):
        with open(os.path.join(self.directory, "test_other.py"), "w") as file:
            file.write("import sys\ndef test_other():\n    assert 'acl' not in sys.modules\n")
        done = self.run_checked("-m", "pytest", "-q", "-p", "ropeway_pytest", "-p", "no:cacheprovider", "test_other.py")
        self.assertEqual(0, done.returncode, done.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
