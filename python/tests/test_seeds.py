"""The sentences of the documents that the project began with, one test each (_seeds.py); spec/seeds.yaml reports what they say.

Every product in every form runs them, with and without ROPEWAY_STRICT, in a process of its own, for which this file is the program
too: "ROPEWAY_PRODUCT=310P ROPEWAY_FORM=EP ROPEWAY_STRICT=0 python3 test_seeds.py run" prints the sentences that hold.
"""

import os
import subprocess
import sys
import unittest

import acl
from _seeds import SENTENCES
from _seeds_async import Async
from _seeds_batch import Batch
from _seeds_desc import Desc
from _seeds_shared import PRODUCTS, Scene, ok
from acl import rt
from support import HANG

FAMILIES = (Async, Batch, Desc)
COMMON = {"ROPEWAY_DEVICES": "2", "ROPEWAY_DEVICE_MEMORY": "64M"}


def machines():
    """Every product in each of its forms and modes: the environment."""
    for product in PRODUCTS:
        for form in ("EP", "RC") if product in ("310", "310B", "310P") else ("EP",):
            for strict in "01":
                environment = {"ROPEWAY_PRODUCT": product, "ROPEWAY_FORM": form, "ROPEWAY_STRICT": strict, **COMMON}
                yield {**environment, "ROPEWAY_DRIVER": "soft"} if form == "RC" else environment  # no other has it


class TestSeeds(unittest.TestCase):
    def test_every_product_in_both_modes(self):
        package = os.path.dirname(os.path.dirname(os.path.abspath(acl.__file__)))
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        programs = [
            (
                environment,
                subprocess.Popen(
                    [sys.executable, os.path.abspath(__file__), "run"],
                    env={**os.environ, "PYTHONPATH": path, **environment},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    universal_newlines=True,
                ),
            )
            for environment in machines()
        ]
        try:
            for environment, program in programs:
                with self.subTest(environment):
                    output, errors = program.communicate(timeout=HANG)
                    self.assertEqual(0, program.returncode, errors)
                    self.assertEqual([sentence for sentence, _ in SENTENCES], output.split())
        finally:
            for _, program in programs:
                program.kill()
                program.wait()

    def test_every_test_has_a_sentence(self):
        tests = {name for family in FAMILIES for name in vars(family) if name.startswith(f"{family.__name__.lower()}_")}
        self.assertEqual(tests, {test for _, test in SENTENCES})


def run():
    scene = Scene()
    made = {family.__name__.lower(): family(scene) for family in FAMILIES}
    for sentence, test in SENTENCES:
        print(sentence, file=sys.stderr)  # what a failure is about
        getattr(made[test.split("_")[0]], test)()
        ok(rt.synchronize_stream(scene.stream))
        print(sentence)


if __name__ == "__main__":
    if sys.argv[1:] == ["run"]:
        run()
    else:
        unittest.main()
