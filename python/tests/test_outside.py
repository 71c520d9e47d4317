"""What is not the runtime says so, whichever way a program asks for it."""

import importlib
import unittest

import acl
from acl import _outside

NAMES = ("mdl", "op", "media", "blas", "himpi", "fv")


class TestOutside(unittest.TestCase):
    def test_the_modules_of_pyacl(self):
        self.assertEqual(set(NAMES), set(_outside.MODULES))

    def test_attribute(self):
        for name in NAMES:
            with self.subTest(name), self.assertRaisesRegex(AttributeError, f"acl.{name} is not part of ropeway"):
                getattr(acl, name)
            self.assertFalse(hasattr(acl, name))

    def test_import(self):
        for name in NAMES:
            with self.subTest(name), self.assertRaisesRegex(ImportError, f"acl.{name} is not part of ropeway"):
                importlib.import_module(f"acl.{name}")

    def test_profiling(self):
        with self.assertRaisesRegex(AttributeError, "'start'. Of profiling only marks and ranges are built; ropeway trace"):
            acl.prof.start(0)

    def test_import_from(self):
        with self.assertRaisesRegex(ImportError, "acl.mdl is not part of ropeway. It belongs to the model layer"):
            from acl import mdl  # noqa: F401

    def test_other_names(self):
        with self.assertRaisesRegex(AttributeError, "module 'acl' has no attribute 'nothing'"):
            acl.nothing
        with self.assertRaisesRegex(ModuleNotFoundError, "No module named 'acl.nothing'"):
            importlib.import_module("acl.nothing")
        with self.assertRaisesRegex(ImportError, "cannot import name 'nothing'"):
            from acl import nothing  # noqa: F401
