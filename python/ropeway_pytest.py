"""A pytest plugin: the fixture acl_check fails a test in which the checker of ropeway found something, and prints it there.

    def test_load(acl_check):
        ...

    ropeway check -- pytest tests
    ROPEWAY_CHECK=1 pytest tests

The package installs it; from a toolkit it is "-p ropeway_pytest". A test that names acl_check first is judged together with what
its other fixtures do at their end. What runs when the process ends (leaks, work never synchronised) belongs to no test:
the summary of "ropeway check" has it.

A rule is ignored by "--acl-ignore RULE", by acl_ignore in the configuration, by @pytest.mark.acl_ignore("rule") on a test, or by
acl_check.ignore("rule") in it. "--acl-check" gives the fixture to all tests. acl is not imported before a test needs it.
"""

import os

import pytest

OFF = (
    "acl is not checked in this process: run the tests under 'ropeway check -- pytest', or set ROPEWAY_CHECK=1 before acl "
    "is imported"
)


def pytest_addoption(parser):
    group = parser.getgroup("acl", "AscendCL programs (ropeway)")
    group.addoption("--acl-check", action="store_true", help="every test uses acl_check; it is an error if checking is off")
    group.addoption("--acl-ignore", action="append", default=[], metavar="RULE", help="a rule that acl_check does not fail for")
    parser.addini("acl_ignore", "rules that acl_check does not fail for", type="args", default=[])


def pytest_configure(config):
    config.addinivalue_line("markers", "acl_ignore(*rules): rules of the checker that acl_check does not fail this test for")


class Check:
    """What the checker finds during one test."""

    def __init__(self, findings, ignored):
        self._findings, self._ignored = findings, set(ignored)
        self._before = [finding["count"] for finding in findings()]

    def ignore(self, *rules):
        """The test does not fail for these rules."""
        self._ignored.update(rules)

    def findings(self):
        """What was found since the test began, as dictionaries like those of 'ropeway check --format json', without notes."""
        found = []
        for i, finding in enumerate(self._findings()):
            times = finding["count"] - (self._before[i] if i < len(self._before) else 0)
            if times > 0 and finding["severity"] != "note" and finding["rule"] not in self._ignored:
                found.append({**finding, "count": times})
        return found


@pytest.fixture
def acl_check(request):
    """Fails the test at its end if the checker found something during it. Is a Check. Skips the test if checking is off."""
    checking = _checking()
    if checking is None:
        (pytest.fail if request.config.getoption("--acl-check") else pytest.skip)(OFF)
    ignored = [*request.config.getoption("--acl-ignore"), *request.config.getini("acl_ignore")]
    for mark in request.node.iter_markers("acl_ignore"):
        ignored.extend(mark.args)
    check = Check(checking.findings, ignored)
    with checking.told():
        yield check
    found = check.findings()
    if found:
        count = "1 finding" if len(found) == 1 else f"{len(found)} findings"
        texts = "\n".join(finding["text"] for finding in found)
        pytest.fail(f"{count} of the checker during the test\n\n{texts}", pytrace=False)


@pytest.fixture(autouse=True)
def _acl_check_all(request):
    if request.config.getoption("--acl-check"):
        request.getfixturevalue("acl_check")


def _checking():
    """What knows of the checker, None if checking is off."""
    if os.environ.get("ROPEWAY_CHECK", "") in ("", "0"):
        return None
    from acl import _checking

    return _checking if _checking.on() else None
