"""Every function of acl and acl.rt: that it is there, what it takes, what it gives."""

import ast
import ctypes
import inspect
import os
import re
import subprocess
import sys
import unittest

import acl
from acl import _forms

PLAIN = [form for form in _forms.FORMS if form.kind == "plain"]
SPECIAL = [form for form in _forms.FORMS if form.kind == "special"]
MODULES = {"acl": acl, "acl.rt": acl.rt, "acl.prof": acl.prof}
NOT_BUILT = 207000
PACKAGE = os.path.dirname(acl.__file__)

BITS = {"address": 64, "handle": 64, "uint64": 64, "int64": 64, "uint32": 32, "int32": 32, "uint16": 16}


def each_plain():
    for form in PLAIN:
        yield form, getattr(MODULES[form.module], form.name)


def zeros(form):
    return [0] * len(form.params)


class TestPresence(unittest.TestCase):
    def test_counts(self):
        """pyACL has 220 functions here."""
        self.assertEqual(221, sum(not form.extra for form in _forms.FORMS))
        self.assertEqual(len(_forms.FORMS), len({form.path for form in _forms.FORMS}))

    def test_every_function_is_in_its_module(self):
        for form in _forms.FORMS:
            with self.subTest(form.path):
                function = getattr(MODULES[form.module], form.name)
                self.assertTrue(callable(function))
                self.assertEqual((form.module, form.name), (function.__module__, function.__name__))
                self.assertTrue(function.__doc__)
                if form.kind == "plain":
                    self.assertEqual(form.doc, function.__doc__)

    def test_nothing_else_is_public(self):
        names = {form.name for form in _forms.FORMS if form.module == "acl.rt"}
        self.assertEqual(names, {name for name in vars(acl.rt) if not name.startswith("_")})
        self.assertEqual(names, set(acl.rt.__all__))

    def test_import_from(self):
        from acl.rt import memcpy
        from acl.util import bytes_to_ptr

        self.assertIs(memcpy, acl.rt.memcpy)
        self.assertIs(bytes_to_ptr, acl.util.bytes_to_ptr)

    def test_signature_of_the_extension(self):
        for form, function in each_plain():
            with self.subTest(form.path):
                params = inspect.signature(function).parameters.values()
                self.assertEqual([name for name, _ in form.params], [p.name for p in params])
                self.assertTrue(all(p.kind is p.POSITIONAL_ONLY for p in params))

    def test_constants(self):
        values = {name: value for name, value in vars(acl).items() if name.startswith("ACL_")}
        self.assertGreater(len(values), 700)
        self.assertTrue(all(type(value) is int for value in values.values()))
        self.assertEqual((0, 1, 3), (acl.ACL_SUCCESS, acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.ACL_MEMCPY_DEVICE_TO_DEVICE))
        self.assertEqual(107000, acl.ACL_ERROR_RT_PARAM_INVALID)
        self.assertEqual(268435456, acl.ACL_HOST_REG_PINNED)


class TestPage(unittest.TestCase):
    def test_how_many_functions(self):
        """docs/python.md says how many functions there are."""
        count = sum(not form.extra and form.module != "acl.prof" for form in _forms.FORMS)
        page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "python.md")
        with open(page, encoding="utf-8") as file:
            self.assertIn(f"All {count} functions of `acl` and `acl.rt`", file.read())


class TestArguments(unittest.TestCase):
    def refused(self, kind, pattern, function, args):
        with self.assertRaisesRegex(kind, "^" + pattern):
            function(*args)

    def test_wrong_number(self):
        for form, function in each_plain():
            count = len(form.params)
            names = ", ".join(name for name, _ in form.params) or "none"
            for given in {0, count - 1, count + 1, count + 9} - {count, -1}:
                with self.subTest(form.path, given=given):
                    pattern = re.escape(f"{form.path}: takes {count} argument")
                    self.refused(TypeError, pattern + f"s? \\({names}\\), not {given}$", function, [0] * given)

    def test_wrong_number_of_special_forms(self):
        for form in SPECIAL:
            function = getattr(MODULES[form.module], form.name)
            with self.subTest(form.path):
                self.refused(TypeError, re.escape(form.path) + ": takes ", function, [0] * (len(form.params) + 1))
                if form.params and form.params[-1][1] != "optional str":
                    self.refused(TypeError, re.escape(form.path) + ": takes ", function, [])

    def test_no_keywords(self):
        for form, function in each_plain():
            with self.subTest(form.path), self.assertRaises(TypeError):
                function(**{param: 0 for param, _ in form.params} or {"x": 0})

    def test_wrong_type(self):
        for form, function in each_plain():
            for i, (param, typ) in enumerate(form.params):
                want = "float" if typ == "float" else "int"
                for wrong in (object(), "7", [1], *([] if typ == "float" else [1.0])):
                    args = zeros(form)
                    args[i] = wrong
                    with self.subTest(form.path, param=param, wrong=wrong):
                        text = f"{form.path}: argument {i + 1} ({param}) must be {want}, not {type(wrong).__name__}"
                        self.refused(TypeError, re.escape(text) + "$", function, args)

    def test_what_to_use_instead(self):
        free = acl.rt.free
        text = r"acl\.rt\.free: argument 1 \(ptr\) must be int, not "
        self.refused(TypeError, text + r"bytes; use acl\.util\.bytes_to_ptr$", free, [b"x"])
        self.refused(TypeError, text + r"NoneType; NULL is 0$", free, [None])
        self.refused(TypeError, text + r"ndarray; use acl\.util\.numpy_contiguous_to_ptr$", free, [ndarray()])
        memset = acl.rt.memset
        self.refused(TypeError, r"acl\.rt\.memset: argument 3 \(value\) must be int, not bytes$", memset, [0, 0, b"", 0])

    def test_too_large(self):
        for form, function in each_plain():
            for i, (param, typ) in enumerate(form.params):
                if typ == "float":
                    continue
                bits = BITS[typ]
                most = 1 << (bits - 1 if typ in ("int32", "int64") else bits)
                for wrong in (most, -(1 << (bits - 1)) - 1, 1 << 200, -(1 << 20000)):
                    args = zeros(form)
                    args[i] = wrong
                    with self.subTest(form.path, param=param, digits=wrong.bit_length()):
                        text = f"{form.path}: argument {i + 1} ({param}) does not fit {bits} bits"
                        self.refused(OverflowError, re.escape(text), function, args)

    def test_integers_of_all_kinds(self):
        """A bool is an int, and what has __index__ (as NumPy's integers have) serves as one. Errors of __index__ pass."""
        size = acl.data_type_size
        self.assertEqual(size(1), size(True))
        self.assertEqual(size(1), size(Index(1)))
        self.refused(ZeroDivisionError, "", size, [Index(None)])

    def test_float(self):
        half, single = acl.float_to_float16, acl.float16_to_float
        self.assertEqual([0x3C00, 0x3C00, 0x3C00], [half(1.0), half(1), half(True)])
        self.assertEqual(1.0, single(0x3C00))
        self.assertEqual(-2.0, single(0xC000 - 0x10000))
        self.refused(OverflowError, r"acl\.float_to_float16: argument 1 \(value\) does not fit 32 bits", half, [10**400])


class ndarray:
    """Has the name of NumPy's arrays, and refuses to be an integer as they do."""

    def __index__(self):
        raise TypeError("only integer scalar arrays can be converted to a scalar index")


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value if self.value is not None else 1 // 0


class TestShape(unittest.TestCase):
    def test_results(self):
        """Every function gives as many results as it says, of the type it says; what is not built yet returns 207000."""
        for form, function in each_plain():
            with self.subTest(form.path):
                self.check(form, function(*zeros(form)))

    def check(self, form, got):
        if form.ret == "none":
            self.assertIsNone(got)
            return
        values = got if form.results else (got,)
        self.assertIs(type(values), tuple)
        types = [typ for _, typ in form.results] + [form.ret]
        self.assertEqual([float if typ == "float" else int for typ in types], [type(value) for value in values])
        if not form.built:
            self.assertEqual([0] * len(form.results) + [NOT_BUILT if form.ret == "code" else 0], list(values))


class TestResults(unittest.TestCase):
    """Each result is the argument of C that it should be."""

    def setUp(self):
        self.assertEqual(0, acl.rt.set_device(0))
        self.addCleanup(acl.rt.reset_device, 0)

    def test_in_the_order_of_c(self):
        rt = acl.rt
        free, total, ret = rt.get_mem_info(acl.ACL_HBM_MEM)
        self.assertEqual((True, 0), (0 < free <= total, ret))
        self.assertEqual((acl.ACL_MAJOR_VERSION, acl.ACL_MINOR_VERSION, 0, 0), acl.get_version())
        least, greatest, ret = rt.device_get_stream_priority_range()
        self.assertEqual((True, 0), (greatest < least, ret))

    def test_against_the_order_of_c(self):
        """get_primary_ctx_state: active comes first. C takes NULL for the flags."""
        self.assertEqual((1, 0, 0), acl.rt.get_primary_ctx_state(0))

    def test_handed_back(self):
        """set_memcpy_desc: the descriptor's address, also when the call fails."""
        set_desc = acl.rt.set_memcpy_desc
        self.assertEqual((4096, 100000), set_desc(4096, 99, 0, 0, 1, 0))
        self.assertEqual((2**64 - 1, 100000), set_desc(-1, 99, 0, 0, 1, 0))

    def test_whole_values(self):
        """get_device_info: a value of more than 32 bits is not cut."""
        _, total, _ = acl.rt.get_mem_info(acl.ACL_HBM_MEM)
        value, ret = acl.rt.get_device_info(0, acl.ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE)
        self.assertEqual(0, ret)
        self.assertGreater(value, 2**32)
        self.assertGreaterEqual(value, total)

    def test_copies(self):
        rt = acl.rt
        stream, ret = rt.create_stream()
        host, host_ret = rt.malloc_host(256)
        device, device_ret = rt.malloc(256, acl.ACL_MEM_MALLOC_HUGE_FIRST)
        self.assertEqual((0, 0, 0), (ret, host_ret, device_ret))
        there = (ctypes.c_uint8 * 256).from_address(host)
        there[:] = range(256)
        self.assertEqual(0, rt.memcpy_async(device, 256, host, 256, acl.ACL_MEMCPY_HOST_TO_DEVICE, stream))
        self.assertEqual(0, rt.memset_d32_async(device, 8, 0x04030201, 2, stream))
        self.assertEqual(0, rt.synchronize_stream(stream))
        there[:] = [0] * 256
        self.assertEqual(0, rt.memcpy(host, 256, device, 256, acl.ACL_MEMCPY_DEVICE_TO_HOST))
        self.assertEqual([1, 2, 3, 4, 1, 2, 3, 4, *range(8, 256)], list(there))
        self.assertEqual([0, 0, 0], [rt.free(device), rt.free_host(host), rt.destroy_stream(stream)])

    def test_elapsed_time(self):
        rt = acl.rt
        (start, _), (end, _) = rt.create_event(), rt.create_event()
        self.assertEqual([0, 0], [rt.record_event(start, 0), rt.record_event(end, 0)])
        self.assertEqual(0, rt.synchronize_device())
        ms, ret = rt.event_elapsed_time(start, end)
        self.assertEqual((float, True, 0), (type(ms), 0 <= ms < 1e6, ret))
        self.assertEqual([0, 0], [rt.destroy_event(start), rt.destroy_event(end)])


# Calls every plain function with integers that are no addresses, no handles and no sizes.
HOSTILE = """
import acl
from acl import _forms
acl.init()
modules = {"acl": acl, "acl.rt": acl.rt, "acl.prof": acl.prof}
for number in (1, -1, 8, 4096, 2**31 - 1, 2**47, 2**63 - 1, -2**63, 2**64 - 8):
    for form in _forms.FORMS:
        if form.kind == "plain" and form.name not in ("finalize", "finalize_reference"):
            args = [number if typ in ("address", "handle", "uint64") else abs(number) % 3 for _, typ in form.params]
            acl.rt.set_device(0)
            getattr(modules[form.module], form.name)(*args)
print("alive")
"""


class TestHostile(unittest.TestCase):
    def test_no_integer_crashes_the_interpreter(self):
        done = python(HOSTILE)
        self.assertEqual("alive", done.stdout.strip(), done.stderr)


def python(program):
    """Runs a program in a Python of its own that finds the same package."""
    path = os.path.dirname(PACKAGE)
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=300,
    )


class TestLayouts(unittest.TestCase):
    def test_structs_are_those_of_the_table(self):
        """capi/test proves the same numbers against the headers, with the C compiler."""
        from acl import _structs

        found = 0
        for name, kind in vars(_structs).items():
            if isinstance(kind, type) and issubclass(kind, (ctypes.Structure, ctypes.Union)):
                with self.subTest(name):
                    size, align, members = _forms.LAYOUTS[name]
                    self.assertEqual((size, align), (ctypes.sizeof(kind), ctypes.alignment(kind)))
                    have = {field: getattr(kind, field) for field, _ in _structs.members(kind)}
                    self.assertEqual(members, {field: (at.offset, at.size) for field, at in have.items()})
                    found += 1
        self.assertGreater(found, 5)


class TestStubs(unittest.TestCase):
    def test_stubs_have_every_function(self):
        for module, file in (("acl", "__init__.pyi"), ("acl.rt", "rt.pyi"), ("acl.prof", "prof.pyi")):
            with open(os.path.join(PACKAGE, file), encoding="utf-8") as f:
                tree = ast.parse(f.read(), file)
            found = {node.name: node.args for node in tree.body if isinstance(node, ast.FunctionDef)}
            forms = {form.name: form for form in _forms.FORMS if form.module == module}
            self.assertEqual(set(forms), set(found))
            for name, args in found.items():
                self.assertEqual([param for param, _ in forms[name].params], [arg.arg for arg in args.posonlyargs], name)
                self.assertEqual(([], [], None), (args.args, args.kwonlyargs, args.vararg), name)
        self.assertTrue(os.path.exists(os.path.join(PACKAGE, "py.typed")))
