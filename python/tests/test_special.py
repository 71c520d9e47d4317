"""The forms with dictionaries, lists and strings, and the batch copies."""

import array
import ctypes
import inspect
import os
import subprocess
import tempfile
import unittest

import acl
from acl import _forms, _structs, rt, util
from support import HANG, DeviceCase, need_compiler, need_numpy, run_program

HOST, DEVICE, OTHER_HOST = 0, 1, 2
SIZE_MAX = 2**64 - 1
STRUCTS = [c for _, c in inspect.getmembers(_structs, inspect.isclass) if issubclass(c, (ctypes.Structure, ctypes.Union))]
HEADERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "capi", "include")


class TestLayouts(unittest.TestCase):
    def test_as_the_compiler_has_them(self):
        """Sizes, alignments and offsets of the ctypes classes are those of the headers."""
        lines = []
        for struct in STRUCTS:
            name = struct.__name__
            lines.append(f'printf("{name} %zu %zu\\n", sizeof({name}), _Alignof({name}));')
            for field, _ in _structs.members(struct):
                lines.append(f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
        program = '#include <stdio.h>\n#include <stddef.h>\n#include "acl/acl.h"\n#include "acl/acl_rt_memory_soma.h"\nint main(void)\n{\n%s\n}\n' % "\n".join(lines)
        with tempfile.TemporaryDirectory() as folder:
            source, binary = os.path.join(folder, "layouts.c"), os.path.join(folder, "layouts")
            with open(source, "w") as file:
                file.write(program)
            subprocess.run([need_compiler(), "-I", HEADERS, "-o", binary, source], check=True, timeout=HANG)
            got = subprocess.run([binary], check=True, timeout=HANG, stdout=subprocess.PIPE, universal_newlines=True).stdout
        self.assertEqual(got.splitlines(), list(self.ctypes_lines()))

    def ctypes_lines(self):
        for struct in STRUCTS:
            yield f"{struct.__name__} {ctypes.sizeof(struct)} {ctypes.alignment(struct)}"
            for field, _ in _structs.members(struct):
                place = getattr(struct, field)
                yield f"{struct.__name__}.{field} {place.offset} {place.size}"

    def test_as_the_table_has_them(self):
        """The generated numbers are the same, and no struct of a form is missing."""
        ours = {}
        for struct in STRUCTS:
            fields = {name: (getattr(struct, name).offset, getattr(struct, name).size) for name, _ in _structs.members(struct)}
            ours[struct.__name__] = (ctypes.sizeof(struct), ctypes.alignment(struct), fields)
        self.assertEqual(_forms.LAYOUTS, ours)


class TestMemory(DeviceCase):
    def test_malloc_with_attributes(self):
        good = [
            {},
            {"attrs": [{"attr": 1, "value": {"moduleId": 7}}], "numAttrs": 1},
            {"attrs": [{"attr": 1, "value": {"moduleId": 7}}, {"attr": 2, "value": {"deviceId": 0}}]},
            {"attrs": [{"attr": 0, "value": {"rsv": 0}}], "numAttrs": 1},
            {"attrs": [{"attr": 0, "value": {"rsv": [1, 2, 3]}}]},
            {"attrs": [{"attr": 1}, {"attr": 99}], "numAttrs": 1},
        ]
        for cfg in good:
            for function in (rt.malloc_with_cfg, rt.malloc_for_task_scheduler):
                with self.subTest(function=function.__name__, cfg=cfg):
                    self.assertEqual(0, rt.free(self.ok(function(4096, 0, cfg))))

    def test_malloc_with_wrong_attributes(self):
        for cfg, code in (
            ({"attrs": [], "numAttrs": 0}, 107000),
            ({"attrs": [], "numAttrs": 1}, 100000),
            ({"attrs": [{"attr": 99, "value": {"rsv": 0}}], "numAttrs": 1}, 107000),
            ({"attrs": [{"attr": 2, "value": {"deviceId": 99}}], "numAttrs": 1}, 107000),
        ):
            with self.subTest(cfg):
                self.assertEqual((0, code), rt.malloc_with_cfg(4096, 0, cfg))

    def test_attributes_reach_c(self):
        """An integer fills the reserved bytes from the lowest on, a list one by one."""
        config = _structs.malloc_config({"attrs": [{"attr": 1, "value": {"moduleId": -1}}, {"attr": 0, "value": {"rsv": 0x0201}}]})
        self.assertEqual(2, config.numAttrs)
        self.assertEqual(0xFFFF, config.attrs[0].value.moduleId)
        self.assertEqual([1, 2, 0, 0, 0, 0, 0, 0], list(config.attrs[1].value.rsv))

    def test_malloc_host_with_attributes(self):
        for cfg in ({}, {"attrs": [{"attr": 1, "value": {"moduleId": 3}}]}, {"attrs": [{"attr": 3, "value": {"vaFlag": 0}}]}):
            with self.subTest(cfg):
                self.assertEqual(0, rt.free_host(self.ok(rt.malloc_host_with_cfg(4096, cfg))))
        self.assertEqual((0, 107000), rt.malloc_host_with_cfg(64, {"attrs": [{"attr": 0}]}))

    def test_where_an_address_lives(self):
        data = b"pageable"
        for ptr, place in (
            (self.device_memory(64), DEVICE),
            (self.host_memory(64), HOST),
            (util.bytes_to_ptr(data), OTHER_HOST),
        ):
            attributes = self.ok(rt.pointer_get_attributes(ptr))
            self.assertEqual({"location", "page_size", "rsv"}, set(attributes))
            self.assertEqual((0, place), (attributes["location"]["id"], attributes["location"]["type"]))
            self.assertGreater(attributes["page_size"], 0)
            self.assertEqual([0] * 4, attributes["rsv"])
        self.assertEqual(100000, rt.pointer_get_attributes(0)[1])

    def test_physical_memory(self):
        prop = {"handleType": 0, "allocationType": 0, "memAttr": 4, "location": {"id": 0, "type": 1}, "reserve": 2**63}
        made = _structs.physical_mem_prop(prop)
        self.assertEqual((4, 1, 2**63), (made.memAttr, made.location.type, made.reserve))

    def test_ranges_with_errors(self):
        self.assertEqual([], self.ok(rt.get_mem_uce_info(0)))
        device = self.device_memory(64)
        self.ok(rt.mem_uce_repair(0, []))
        self.ok(rt.mem_uce_repair(0, [{"addr": device, "len": 64}, {"addr": device, "len": 8, "reserved": [0] * 14}]))
        self.assertEqual(100000, rt.mem_uce_repair(0, [{}] * 21))
        self.assertEqual(100000, rt.mem_uce_repair(0, [{"reserved": 1}]))
        self.assertEqual(([], 107001), rt.get_mem_uce_info(99))


class TestDevice(DeviceCase):
    def test_uuid(self):
        uuid = self.ok(rt.device_get_uuid(0))
        self.assertEqual(["bytes"], list(uuid))
        self.assertEqual(16, len(uuid["bytes"]))
        self.assertTrue(all(0 <= byte <= 255 for byte in uuid["bytes"]))
        self.assertEqual(({"bytes": [0] * 16}, 107001), rt.device_get_uuid(99))

    def test_utilization(self):
        names = {"cube_utilization", "vector_utilization", "aicpu_utilization", "memory_utilization"}
        rates = self.ok(rt.get_device_utilization_rate(0))
        self.assertEqual(names, set(rates))
        self.assertTrue(all(-1 <= rate <= 100 for rate in rates.values()))

    def test_stream_attributes(self):
        stream = self.stream()
        for attr, value in ((1, {"failureMode": 1}), (3, {"userCustomTag": 2**32 - 1}), (4, {"cacheOpInfoSwitch": 1})):
            with self.subTest(value):
                self.ok(rt.set_stream_attribute(stream, attr, value))
                self.assertEqual((value, 0), rt.get_stream_attribute(stream, attr))
        self.assertEqual({"overflowSwitch"}, set(rt.get_stream_attribute(stream, 2)[0]))
        self.assertEqual({"streamPriority"}, set(self.ok(rt.get_stream_attribute(stream, 5))))
        self.assertEqual(({"reserved": [0] * 4}, 107000), rt.get_stream_attribute(stream, 99))
        self.assertEqual(107000, rt.set_stream_attribute(stream, 99, {"reserved": [1, 2, 3, 4]}))
        self.assertEqual(107017, rt.set_stream_attribute(12345, 1, {"failureMode": 0}))


class TestTop(DeviceCase):
    def test_error_text(self):
        acl.get_recent_err_msg()
        self.assertIsNone(acl.get_recent_err_msg())
        self.assertEqual(107000, rt.memset(self.device_memory(64), 32, 0, 64))
        message = acl.get_recent_err_msg()
        self.assertIsInstance(message, str)
        self.assertIn("aclrtMemset", message)
        self.assertIsNone(acl.get_recent_err_msg())

    def test_names_and_versions(self):
        self.assertIn("Ascend", acl.get_soc_name())
        attributes, num = self.ok(acl.get_cann_attribute_list())
        self.assertEqual(num, len(attributes))
        self.assertTrue(all(isinstance(attribute, int) for attribute in attributes))
        version, ret = acl.get_version_str("no such package")
        self.assertEqual(("", 100003), (version, ret))
        texts, ret = acl.get_cann_version(9999)
        self.assertEqual(100000, ret)
        parts = ("major", "minor", "release", "patch")
        names = {"version", *[part + "_version" for part in parts], *[part + "Version" for part in parts]}
        self.assertEqual({name: "" for name in names}, texts)

    def test_init(self):
        """With and without a path; the path is text."""
        done = run_program(
            "import acl, tempfile\nprint(acl.init('/no/such/file'), acl.init(), acl.init(), acl.finalize_reference()[1])\n"
            "with tempfile.NamedTemporaryFile('w', suffix='.json') as f:\n"
            "    f.write('{'); f.flush(); print(acl.init(f.name))"
        )
        self.assertEqual("", done.stderr)
        self.assertEqual("100003 0 100002 0", done.stdout.splitlines()[0])

    def test_app_log(self):
        """The caller is named, and what looks like a format is none."""
        done = run_program(
            "import acl\ndef work(): return acl.app_log(3, 'half 50%s %n done')\nprint(work())",
            ASCEND_SLOG_PRINT_TO_STDOUT="1",
            ASCEND_GLOBAL_LOG_LEVEL="0",
        )
        self.assertIn("None", done.stdout)
        self.assertRegex(done.stdout + done.stderr, r"work.*half 50%s %n done|half 50%s %n done.*work")


class TestWrongArguments(DeviceCase):
    def test_numbers_of_arguments(self):
        modules = {"acl": acl, "acl.rt": rt, "acl.prof": acl.prof}
        for form in _forms.FORMS:
            if form.kind != "special":
                continue
            function = getattr(modules[form.module], form.name)
            with self.subTest(form.path):
                s = "" if len(form.params) == 1 else "s"
                with self.assertRaisesRegex(TypeError, f"^{form.path}: takes {len(form.params)} argument{s} \\("):
                    function(*[0] * (len(form.params) + 1))
                with self.assertRaises(TypeError):
                    function(**{"x": 1})

    def test_wrong_types(self):
        stream = 0
        for call, error, text in (
            (lambda: acl.init(5), TypeError, r"^acl\.init: argument 1 \(config_path\) must be str, not int$"),
            (lambda: acl.init("a\0b"), ValueError, r"config_path\) has a null character in it"),
            (lambda: acl.get_version_str("\ud800"), ValueError, r"pkg_name\) is not text"),
            (lambda: rt.malloc_with_cfg("1", 0, {}), TypeError, r"argument 1 \(size\) must be int, not str"),
            (lambda: rt.malloc_with_cfg(1, 2**31, {}), OverflowError, r"argument 2 \(policy\) does not fit 32 bits"),
            (lambda: rt.malloc_with_cfg(2**64, 0, {}), OverflowError, r"argument 1 \(size\) does not fit 64 bits"),
            (lambda: rt.malloc_with_cfg(1, 0, None), TypeError, r"\(cfg_dict\) must be dict, not NoneType"),
            (lambda: rt.malloc_with_cfg(1, 0, {"attr": 1}), ValueError, r"has no entry 'attr'; those of aclrtMallocConfig are"),
            (lambda: rt.malloc_with_cfg(1, 0, {"attrs": 5}), TypeError, r"\(cfg_dict\) attrs must be list, not int"),
            (lambda: rt.malloc_with_cfg(1, 0, {"attrs": [5]}), TypeError, r"attrs\[0\] must be dict, not int"),
            (lambda: rt.malloc_with_cfg(1, 0, {"attrs": [{"value": {"rsv": [0] * 9}}]}), ValueError, r"room for 8"),
            (lambda: rt.malloc_with_cfg(1, 0, {"attrs": [{"value": {"rsv": ["x"]}}]}), TypeError, r"attrs\[0\]\.value\.rsv\[0\] must"),
            (lambda: rt.malloc_with_cfg(1, 0, {"attrs": [{"value": {"moduleId": 65536}}]}), OverflowError, "moduleId does not fit 16"),
            (lambda: rt.malloc_with_cfg(1, 0, {"attrs": [{}], "numAttrs": 2}), ValueError, "numAttrs is 2, but attrs has 1"),
            (lambda: rt.malloc_physical(1, {"location": 5}, 0), TypeError, r"\(prop_dict\) location must be dict, not int"),
            (lambda: rt.set_stream_attribute(stream, 1, {"mode": 1}), ValueError, "has no entry 'mode'.*failureMode"),
            (lambda: rt.pointer_get_attributes(b"x"), TypeError, "must be int, not bytes; use acl.util.bytes_to_ptr"),
            (lambda: rt.pointer_get_attributes(None), TypeError, "must be int, not NoneType; NULL is 0"),
            (lambda: rt.ipc_mem_set_import_pid("k", 5), TypeError, r"argument 2 \(pids\) must be list, not int"),
            (lambda: rt.ipc_mem_set_import_pid("k", [2**31]), OverflowError, r"\(pids\) \[0\] does not fit 32 bits"),
            (lambda: rt.notify_batch_reset(["x"]), TypeError, r"\(notifies\) \[0\] must be int, not str"),
            (lambda: rt.mem_uce_repair(0, [{"x": 1}]), ValueError, r"\[0\] has no entry 'x'"),
            (lambda: acl.app_log(1, 5), TypeError, r"^acl\.app_log: argument 2 \(msg\) must be str, not int$"),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()


class TestBatch(DeviceCase):
    SIZES = [64, 1, 4096, 100]

    def setUp(self):
        super().setUp()
        self.hosts = [self.host_memory(size) for size in self.SIZES]
        self.devices = [self.device_memory(size) for size in self.SIZES]
        for i, (host, size) in enumerate(zip(self.hosts, self.SIZES)):
            ctypes.memset(host, i + 1, size)
        self.up = [{"dstLoc": {"id": 0, "type": DEVICE}, "srcLoc": {"id": 0, "type": HOST}}]
        self.down = [{"dstLoc": {"id": 0, "type": HOST}, "srcLoc": {"id": 0, "type": DEVICE}}]

    def arguments(self, up=True, **other):
        given = {
            "dsts": self.devices if up else self.hosts,
            "dest_maxs": self.SIZES,
            "srcs": self.hosts if up else self.devices,
            "sizes": self.SIZES,
            "attrs": self.up if up else self.down,
            "attrs_indexes": [0],
        }
        return list({**given, **other}.values())

    def check_arrived(self):
        """Brings everything back and looks at it."""
        for host, size in zip(self.hosts, self.SIZES):
            ctypes.memset(host, 0, size)
        self.assertEqual((SIZE_MAX, 0), rt.memcpy_batch(*self.arguments(up=False)))
        for i, (host, size) in enumerate(zip(self.hosts, self.SIZES)):
            self.assertEqual(bytes([i + 1]) * size, util.ptr_to_bytes(host, size))
        for device, size in zip(self.devices, self.SIZES):
            rt.memset(device, size, 0, size)

    def test_all_four_forms(self):
        stream = self.stream()
        for name, more, result in (
            ("memcpy_batch", [], (SIZE_MAX, 0)),
            ("memcpy_batch_v2", [], 0),
            ("memcpy_batch_async", [stream], (SIZE_MAX, 0)),
            ("memcpy_batch_async_v2", [stream], 0),
        ):
            with self.subTest(name):
                self.assertEqual(result, getattr(rt, name)(*self.arguments(), *more))
                self.ok(rt.synchronize_stream(stream))
                self.check_arrived()

    def test_buffers(self):
        kinds = [tuple, lambda v: array.array("Q", v), lambda v: array.array("q", v), lambda v: memoryview(array.array("L", v))]
        kinds.append(lambda v: memoryview(array.array("Q", [n for value in v for n in (value, 0)]))[::2])
        for kind in kinds:
            lists = [kind(values) for values in self.arguments()[:4]]
            self.assertEqual((SIZE_MAX, 0), rt.memcpy_batch(*lists, self.up, kind([0])))
            self.check_arrived()

    def test_numpy_arrays(self):
        numpy = need_numpy()
        for kind in ("uint64", "int64"):
            lists = [numpy.array(values, dtype=kind) for values in self.arguments()[:4]]
            self.assertEqual((SIZE_MAX, 0), rt.memcpy_batch(*lists, self.up, numpy.array([0], dtype=kind)))
            self.check_arrived()

    def test_lists_are_read_at_once(self):
        """They may be changed when an asynchronous call has returned."""
        stream = self.stream()
        let_go = self.blocked(stream)
        lists = [array.array("Q", values) for values in self.arguments()[:4]]
        self.assertEqual((SIZE_MAX, 0), rt.memcpy_batch_async(*lists, self.up, [0], stream))
        for values in lists:
            values[:] = array.array("Q", [0] * len(values))
        let_go()
        self.ok(rt.synchronize_stream(stream))
        self.check_arrived()

    def test_the_segment_that_is_refused(self):
        devices = [self.devices[0], self.devices[1], self.hosts[2], self.devices[3]]
        self.assertEqual((2, 107000), rt.memcpy_batch(*self.arguments(dsts=devices)))
        self.assertEqual(107000, rt.memcpy_batch_v2(*self.arguments(dsts=devices)))
        self.assertEqual((1, 107000), rt.memcpy_batch_async(*self.arguments(sizes=[64, 0, 4096, 100]), self.stream()))

    def test_codes_of_the_call(self):
        for other, code in (
            ({"sizes": None}, 100000),
            ({"dsts": None}, 100000),
            ({"dest_maxs": None}, 100000),
            ({"srcs": None}, 100000),
            ({"attrs": None}, 100000),
            ({"attrs_indexes": None}, 100000),
            ({"dsts": [], "dest_maxs": [], "srcs": [], "sizes": []}, 100000),
            ({"dest_maxs": [1] * 4}, 100000),
            ({"attrs": [{**self.up[0], "rsv": 1}]}, 100000),
            ({"attrs_indexes": [1]}, 107000),
            ({"attrs": self.up * 2, "attrs_indexes": [0, 4]}, 107000),
            ({"sizes": [0] * 4, "dsts": None}, 0),
        ):
            with self.subTest(other):
                self.assertEqual((SIZE_MAX, code), rt.memcpy_batch(*self.arguments(**other)))
                self.assertTrue(code == 0 or "aclrtMemcpyBatch:" in acl.get_recent_err_msg())
        self.assertEqual((SIZE_MAX, 107017), rt.memcpy_batch_async(*self.arguments(), 12345))
        self.assertEqual(107017, rt.get_last_error(0))

    def test_negative_numbers_are_what_c_makes_of_them(self):
        self.assertEqual((SIZE_MAX, 100000), rt.memcpy_batch(*self.arguments(sizes=[-1] * 4)))
        self.assertEqual((SIZE_MAX, 107000), rt.memcpy_batch(*self.arguments(srcs=[-8] + self.hosts[1:])))

    def test_wrong_arguments(self):
        for other, error, text in (
            ({"dsts": 5}, TypeError, r"^acl\.rt\.memcpy_batch: argument 1 \(dsts\) must be a list of int or a buffer"),
            ({"sizes": [1, 2, "3", 4]}, TypeError, r"argument 4 \(sizes\) \[2\] must be int, not str"),
            ({"sizes": [1, 2, 3, 2**64]}, OverflowError, r"argument 4 \(sizes\) \[3\] does not fit 64 bits"),
            ({"srcs": [b"", 2, 3, 4]}, TypeError, r"argument 3 \(srcs\) \[0\] must be int, not bytes; use acl.util.bytes_to_ptr"),
            ({"srcs": [1.0, 2, 3, 4]}, TypeError, r"argument 3 \(srcs\) \[0\] must be int, not float"),
            ({"srcs": b"12345678"}, TypeError, r"64-bit integers; this bytes has 1 of format 'B'"),
            ({"srcs": array.array("d", [1] * 4)}, TypeError, "format 'd'"),
            ({"sizes": [1, 2, 3]}, ValueError, "same length; they have: dsts 4, dest_maxs 4, srcs 4, sizes 3"),
            ({"attrs_indexes": [0, 1]}, ValueError, "same length; they have: attrs 1, attrs_indexes 2"),
            ({"attrs": {}}, TypeError, r"argument 5 \(attrs\) must be list, not dict"),
            ({"attrs": [{"dst": 1}]}, ValueError, r"argument 5 \(attrs\) \[0\] has no entry 'dst'"),
            ({"attrs": [{"dstLoc": {"id": "0"}}]}, TypeError, r"argument 5 \(attrs\) \[0\]\.dstLoc\.id must be int, not str"),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                rt.memcpy_batch(*self.arguments(**other))


if __name__ == "__main__":
    unittest.main()
