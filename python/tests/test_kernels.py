"""Kernels: loading, arguments and launches from Python."""

import ctypes
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

import acl
import session
from acl import rt, util
from support import D2H, H2D, HANG, DeviceCase, need_compiler, need_numpy, run_program

# The C functions whose forms are tried here.
MINE = re.compile("aclmdlRIKernelTask.*|aclrt(.*Binary|Binary.*|Kernel.*|Launch.*Kernel.*|.*Func(tion.*|BySymbol)?$|GetHardwareSyncAddr|CheckArchCompatibility)")
FORMS = {path for path, form in session.FORMS.items() if MINE.match(form.c) and "HostFunc" not in form.c}

# Forms that no program in Python can use, and why.
NEVER = {"acl.rt.get_func_by_symbol": "compiled stubs register symbols"}

HEADERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "capi", "include")
N = 1000

SOURCE = """
#include <ropeway/kernel.h>

uint32_t counter = 5;

void add(const float *x, const float *y, float *z, uint64_t n)
{
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num())
		z[i] = x[i] + y[i];
}

void follow_7(uint32_t *out, const uint32_t *in) { out[0] = in[0] + in[1] + counter; }

void trap(void) { __builtin_trap(); }

void endless(void) { for (;;) ; }

void cell(uint32_t *out)
{
	uint32_t i = ropeway_grid_idx(0) * ropeway_thread_num(0) + ropeway_thread_idx(0);
	out[i] = 100 * ropeway_grid_num(0) + ropeway_thread_num(0) + 10 * ropeway_grid_num(1);
}

/* Meta data: one parameter of 8 bytes for cell, two for follow_7; cell is a SIMT kernel. */
#define PARAMETER(i) 17, 36, i, 0, i, 0, 8 * i, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
__attribute__((section(".ascend.meta.cell"), used)) static const uint16_t meta_cell[] =
	{12, 4, 3, 0, 16, 12, 1, 0, 8, 0, 0, 0, PARAMETER(0)};
__attribute__((section(".ascend.meta.follow_7"), used)) static const uint16_t meta_follow[] =
	{16, 12, 2, 0, 16, 0, 0, 0, PARAMETER(0), PARAMETER(1)};
"""


def compile_kernels(folder, source=SOURCE):
    """Compiles kernels; returns the path of the shared object."""
    path, made = os.path.join(folder, "kernels.c"), os.path.join(folder, "kernels.so")
    with open(path, "w") as file:
        file.write(source)
    subprocess.run(
        [need_compiler(), "-O1", "-shared", "-fPIC", "-I", HEADERS, "-o", made, path], check=True, timeout=HANG
    )
    return made


class KernelCase(DeviceCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = compile_kernels(folder.name)

    def setUp(self):
        super().setUp()
        self.binary = self.ok(rt.binary_load_from_file(self.path, []))
        self.addCleanup(rt.binary_unload, self.binary)
        self.queue = self.stream()

    def function(self, name):
        return self.ok(rt.binary_get_function(self.binary, name))

    def on_device(self, data):
        """Device memory with data in it."""
        ptr = self.device_memory(len(data))
        self.ok(rt.memcpy(ptr, len(data), util.bytes_to_ptr(data), len(data), H2D))
        return ptr

    def read(self, ptr, size):
        back = bytes(bytearray(size))
        self.ok(rt.memcpy(util.bytes_to_ptr(back), size, ptr, size, D2H))
        return back

    def numbers(self, ptr, count):
        return struct.unpack(f"{count}I", self.read(ptr, 4 * count))

    def synchronized(self):
        self.ok(rt.synchronize_stream(self.queue))


class TestForms(unittest.TestCase):
    def test_every_form_is_tried(self):
        """A form that is new is to be called in this file."""
        with open(__file__, encoding="utf-8") as file:
            text = file.read()
        self.assertGreater(len(FORMS), 30)
        missing = [path for path in sorted(FORMS - set(NEVER)) if f"{path.removeprefix('acl.')}(" not in text]
        self.assertEqual([], missing)


class TestBinaries(KernelCase):
    def test_load(self):
        """From a file, from memory and in the older way; each is a binary of its own."""
        with open(self.path, "rb") as file:
            image = file.read()
        data = util.bytes_to_ptr(image)
        loaded = self.ok(rt.binary_load_from_data(data, len(image), [{"type": 2, "value": {"magic": 0x43554245}}]))
        plain = self.ok(rt.binary_load_from_data(data, len(image), [{"type": 2, "value": 0x43554245}]))
        description = rt.create_binary(data, len(image))
        older = self.ok(rt.binary_load(description))
        self.assertEqual(0, rt.destroy_binary(description))
        self.assertEqual(4, len({self.binary, loaded, plain, older}))
        for binary in (loaded, plain, older):
            self.assertEqual(self.binary != 0, self.ok(rt.binary_get_function(binary, "add")) != 0)
            self.assertEqual(0, rt.binary_unload(binary))
            self.assertEqual(107017, rt.binary_unload(binary))

    def test_options(self):
        """Options are a list of dictionaries; [] is none; wrong ones are refused with the codes of C."""
        lazy = self.ok(rt.binary_load_from_file(self.path, [{"type": 1, "value": {"isLazyLoad": 1}}]))
        self.assertEqual(0, rt.binary_unload(lazy))
        for options in (
            [{"type": 1, "value": {"isLazyLoad": 2}}],
            [{"type": 9}],
            [{"type": 2, "value": {"magic": 0}}],
            [{"type": 3, "value": {"cpuKernelMode": 1}}],  # it reads a list of functions, and this is a shared object
        ):
            with self.subTest(options):
                self.assertEqual((0, 107000), rt.binary_load_from_file(self.path, options))
        lazy = self.ok(rt.binary_load_from_file(self.path, [{"type": 1, "value": 1}]))
        self.assertEqual(0, rt.binary_unload(lazy))
        self.assertEqual((0, 107000), rt.binary_load_from_file(self.path, [{"value": 2, "type": 1}]))
        self.assertEqual((0, 107000), rt.binary_load_from_file(self.path, [{"type": 3, "value": 1}]))
        self.assertEqual((0, 107000), rt.binary_load_from_file(self.path, [{"type": 9, "value": 1}]))
        with self.assertRaisesRegex(TypeError, r"argument 2 \(options_list\) \[0\].value must be int or dict, not str"):
            rt.binary_load_from_file(self.path, [{"type": 1, "value": "1"}])
        with self.assertRaisesRegex(TypeError, r"argument 2 \(options_list\) \[0\].type must be int, not str"):
            rt.binary_load_from_file(self.path, [{"value": 1, "type": "1"}])
        with self.assertRaisesRegex(OverflowError, r"\[0\].value does not fit 32 bits"):
            rt.binary_load_from_file(self.path, [{"type": 1, "value": 1 << 32}])
        with self.assertRaisesRegex(TypeError, r"argument 2 \(options_list\) must be list, not dict"):
            rt.binary_load_from_file(self.path, {})
        with self.assertRaisesRegex(ValueError, "has no entry 'lazy'"):
            rt.binary_load_from_file(self.path, [{"type": 1, "value": {"lazy": 1}}])
        with self.assertRaisesRegex(TypeError, r"argument 1 \(bin_path\) must be str, not int"):
            rt.binary_load_from_file(0, [])
        self.assertEqual((0, 107000), rt.binary_load_from_file(self.path + ".none", []))

    def test_functions(self):
        """Names, numbers, attributes and parameters of kernels."""
        follow = self.function("follow_7")
        self.assertEqual(follow, self.ok(rt.binary_get_function_by_entry(self.binary, 7)))
        self.assertEqual((0, 107000), rt.binary_get_function(self.binary, "none"))
        self.assertEqual("follow_7", self.ok(rt.get_function_name(follow, 100)))
        self.assertEqual(107000, rt.get_function_name(follow, 3)[1])
        self.assertEqual(self.binary, self.ok(rt.function_get_binary(follow)))
        self.assertEqual(2, self.ok(rt.function_get_param_count(follow)))
        self.assertEqual((8, 8), self.ok(rt.function_get_param_info(follow, 1)))
        self.assertEqual(107000, rt.function_get_param_count(self.function("add"))[1])
        self.assertTrue(any(self.ok(rt.get_function_addr(follow))))
        self.assertTrue(any(self.ok(rt.get_function_size(follow))))
        self.assertIsInstance(self.ok(rt.get_function_attribute(follow, 1)), int)
        address, size = self.ok(rt.binary_get_dev_address(self.binary))
        self.assertTrue(address and size)
        self.assertEqual(1, self.ok(rt.check_arch_compatibility(acl.get_soc_name())))
        self.assertEqual((0, 107000), rt.register_cpu_func(self.binary, "add", "add"))
        address = self.ok(rt.get_hardware_sync_addr())
        self.assertTrue(address)
        self.assertEqual(address, self.ok(rt.get_hardware_sync_addr()))
        self.assertEqual(0, self.ok(rt.function_get_avail_dyn_ubuf_per_block(follow, 0)))  # no meta data says more

    def test_global(self):
        """A variable of the binary is device memory, which copies reach and kernels read."""
        address, size = self.ok(rt.binary_get_global(self.binary, "counter"))
        self.assertEqual((4, (5,)), (size, self.numbers(address, 1)))
        self.ok(rt.memcpy(address, 4, util.bytes_to_ptr(b"\x0a\0\0\0"), 4, H2D))
        source, target = self.on_device(struct.pack("2I", 1, 2)), self.device_memory(4)
        args = struct.pack("2Q", target, source)
        self.ok(rt.launch_kernel_with_host_args(
            self.function("follow_7"), 1, self.queue, [], util.bytes_to_ptr(args), len(args), [], 0))  # fmt: skip
        self.synchronized()
        self.assertEqual((13,), self.numbers(target, 1))
        self.assertEqual((0, 0, acl.ACL_ERROR_RT_SYMBOL_NOT_FOUND), rt.binary_get_global(self.binary, "none"))


class TestLaunches(KernelCase):
    def setUp(self):
        super().setUp()
        self.x = self.on_device(struct.pack(f"{N}f", *range(N)))
        self.y = self.on_device(struct.pack(f"{N}f", *range(0, 2 * N, 2)))
        self.z = self.device_memory(4 * N)
        self.args = struct.pack("4Q", self.x, self.y, self.z, N)

    def added(self):
        self.synchronized()
        got = struct.unpack(f"{N}f", self.read(self.z, 4 * N))
        self.assertEqual(tuple(3.0 * i for i in range(N)), got)
        self.ok(rt.memset(self.z, 4 * N, 0, 4 * N))

    def test_device_arguments(self):
        args = self.on_device(self.args)
        self.ok(rt.launch_kernel(self.function("add"), 8, args, len(self.args), self.queue))
        self.added()
        self.ok(rt.launch_kernel_v2(self.function("add"), 8, args, len(self.args), [], self.queue))
        self.added()
        batch = [{"id": 1, "value": {"schemMode": 1}}, {"id": 8, "value": {"timeoutUs": {"timeoutLow": 60000000}}}]
        self.ok(rt.launch_kernel_v2(self.function("add"), 8, args, len(self.args), batch, self.queue))
        self.added()

    def test_attributes(self):
        """A value is an integer or a dictionary; both reach C as the same, and a number that C does not know is refused there."""
        self.ok(rt.mdl_ri_capture_begin(self.queue, acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED))
        values = [(1, {"schemMode": 1}, 1), (7, {"timeout": 5}, 5),
                  (8, {"timeoutUs": {"timeoutLow": 7, "timeoutHigh": 1}}, 1 << 32 | 7)]  # fmt: skip
        for number, *forms in values:
            for value in forms:
                self.ok(rt.launch_kernel_with_host_args(
                    self.function("add"), 8, self.queue, [{"value": value, "id": number}],
                    util.bytes_to_ptr(self.args), len(self.args), [], 0))  # fmt: skip
        model = self.ok(rt.mdl_ri_capture_end(self.queue))
        self.addCleanup(rt.mdl_ri_destroy, model)
        ((*tasks,),) = [self.ok(rt.mdl_ri_get_tasks_by_stream(s)) for s in self.ok(rt.mdl_ri_get_streams(model))]
        for (number, want, _), *two in zip(values, tasks[::2], tasks[1::2]):
            self.assertEqual([(want, 0)] * 2, [rt.mdl_ri_kernel_task_get_attribute(task, number) for task in two])

        def launch(attribute):
            return rt.launch_kernel_v2(self.function("add"), 8, self.on_device(self.args), len(self.args), [attribute], self.queue)

        self.assertEqual(0, launch({"id": 7, "value": 5}))
        self.added()
        self.assertEqual(107000, launch({"id": 99, "value": 1}))
        self.assertEqual(107000, launch({"id": 1, "value": 2}))
        for attribute, error, what in (
            ({"id": 7, "value": 1 << 16}, OverflowError, "does not fit 16 bits"),
            ({"id": 1, "value": 256}, OverflowError, "does not fit 8 bits"),
            ({"id": 8, "value": 1 << 64}, OverflowError, "does not fit 64 bits"),
            ({"id": 7, "value": None}, TypeError, "must be int or dict, not NoneType"),
        ):
            with self.subTest(attribute), self.assertRaisesRegex(error, rf"argument 5 \(cfg_list\) \[0\].value {what}"):
                launch(attribute)

    def test_host_arguments(self):
        """With a placeholder, whose address C writes into the buffer."""
        self.ok(rt.launch_kernel_with_host_args(
            self.function("add"), 8, self.queue, [], util.bytes_to_ptr(self.args), len(self.args), [], 0))  # fmt: skip
        self.added()
        args = ctypes.create_string_buffer(struct.pack("2Q2I", self.z, 0, 20, 30), 24)
        self.ok(rt.launch_kernel_with_host_args(
            self.function("follow_7"), 1, self.queue, [], ctypes.addressof(args), 24,
            [{"addrOffset": 8, "dataOffset": 16}], 1))  # fmt: skip
        self.synchronized()
        self.assertEqual((55,), self.numbers(self.z, 1))
        self.assertNotEqual(0, struct.unpack_from("Q", args, 8)[0])
        with self.assertRaisesRegex(ValueError, "place_holder_num is 2, but place_holder_list has 1 elements"):
            rt.launch_kernel_with_host_args(
                self.function("follow_7"), 1, self.queue, [], ctypes.addressof(args), 24, [{"addrOffset": 8}], 2)  # fmt: skip
        self.assertEqual(107000, rt.launch_kernel_with_host_args(
            self.function("follow_7"), 1, self.queue, [], ctypes.addressof(args), 24, [{"addrOffset": 24}], 1))  # fmt: skip

    def builder(self, function, handle):
        words = [struct.pack("Q", word) for word in (self.x, self.y, self.z, N)]
        params = [self.ok(rt.kernel_args_append(handle, util.bytes_to_ptr(word), 8)) for word in words]
        self.ok(rt.kernel_args_finalize(handle))
        self.ok(rt.launch_kernel_with_config(function, 8, self.queue, [], handle, 0))
        self.added()
        none = bytes(8)
        self.ok(rt.kernel_args_para_update(handle, params[3], util.bytes_to_ptr(none), 8))
        self.assertEqual(107000, rt.launch_kernel_with_config(function, 8, self.queue, [], handle, 0))
        self.ok(rt.kernel_args_finalize(handle))
        self.ok(rt.launch_kernel_with_config(function, 8, self.queue, [], handle, 0))
        self.synchronized()
        self.assertEqual((0,) * N, self.numbers(self.z, N))

    def test_builder(self):
        """The builder of the thread, and one in memory of the program."""
        function = self.function("add")
        self.builder(function, self.ok(rt.kernel_args_init(function)))
        handle = ctypes.create_string_buffer(self.ok(rt.kernel_args_get_handle_mem_size(function)))
        size = self.ok(rt.kernel_args_get_mem_size(function, 32))
        memory = ctypes.create_string_buffer(size)
        self.ok(rt.kernel_args_init_by_user_mem(function, ctypes.addressof(handle), ctypes.addressof(memory), size))
        self.builder(function, ctypes.addressof(handle))

    def test_builder_place_holder(self):
        function = self.function("follow_7")
        handle = self.ok(rt.kernel_args_init(function))
        target = struct.pack("Q", self.z)
        self.ok(rt.kernel_args_append(handle, util.bytes_to_ptr(target), 8))
        place = self.ok(rt.kernel_args_append_place_holder(handle))
        buffer = self.ok(rt.kernel_args_get_place_holder_buffer(handle, place, 8))
        ctypes.memmove(buffer, struct.pack("2I", 1, 2), 8)
        self.ok(rt.kernel_args_finalize(handle))
        self.ok(rt.launch_kernel_with_config(function, 1, self.queue, [], handle, 0))
        self.synchronized()
        self.assertEqual((8,), self.numbers(self.z, 1))

    def test_args_array(self):
        source = self.on_device(struct.pack("2I", 10, 20))
        values = [ctypes.c_uint64(self.z), ctypes.c_uint64(source)]
        args = [ctypes.addressof(value) for value in values]
        self.ok(rt.launch_kernel_with_args_array(self.function("follow_7"), 1, self.queue, [], args))
        self.synchronized()
        self.assertEqual((35,), self.numbers(self.z, 1))
        self.assertEqual(107000, rt.launch_kernel_with_args_array(self.function("follow_7"), 1, self.queue, [], []))
        with self.assertRaisesRegex(ValueError, "args has 1 elements, and the kernel 2 parameters"):
            rt.launch_kernel_with_args_array(self.function("follow_7"), 1, self.queue, [], args[:1])

    def test_simt(self):
        """Only the 950 has SIMT kernels; elsewhere the forms reach the rule that says so."""
        value = ctypes.c_uint64(self.z)
        cell, args, dims = self.function("cell"), [ctypes.addressof(value)], ({"x": 3}, {"x": 4})
        want = 0 if acl.get_soc_name().startswith("Ascend950") else 107000
        self.assertEqual(want, rt.launch_simt_kernel_with_args_array(cell, *dims, 0, self.queue, [], args))
        self.assertEqual(want, rt.launch_simt_kernel_with_host_args(cell, *dims, 0, self.queue, [], args[0], 8, [], 0))
        if not want:
            self.synchronized()
            self.assertEqual((314,) * 12 + (0,), self.numbers(self.z, 13))
        self.assertEqual(107000, rt.launch_simt_kernel_with_args_array(cell, {"x": 0}, {}, 0, self.queue, [], args))
        with self.assertRaisesRegex(ValueError, "has no entry 'w'"):
            rt.launch_simt_kernel_with_args_array(cell, {"w": 3}, {}, 0, self.queue, [], args)

    def test_failure(self):
        """A kernel that fails does so at the next wait, and the callback of its binary is called."""
        called, infos = threading.Event(), []

        def failed(info, data):
            infos.append((rt.get_stream_id_from_exception_info(info), data))
            called.set()

        self.ok(rt.binary_set_exception_callback(self.binary, failed, "mine"))
        self.ok(rt.launch_kernel_with_host_args(
            self.function("trap"), 1, self.queue, [], util.bytes_to_ptr(self.args), 8, [], 0))  # fmt: skip
        self.assertEqual(507016, rt.synchronize_stream(self.queue))
        self.assertTrue(called.wait(HANG))
        self.assertEqual([(self.ok(rt.stream_get_id(self.queue)), "mine")], infos)

    def test_timeout(self):
        self.ok(rt.launch_kernel_with_host_args(
            self.function("endless"), 1, self.queue, [{"id": 8, "value": {"timeoutUs": {"timeoutLow": 1000}}}],
            util.bytes_to_ptr(self.args), 8, [], 0))  # fmt: skip
        self.assertEqual(507014, rt.synchronize_stream(self.queue))


    def test_captured(self):
        """Parameters of a kernel in a model are read, and changed with new attributes; its attributes are read."""
        add = self.function("add")
        limit = [{"id": 8, "value": {"timeoutUs": {"timeoutLow": 60000000}}}]
        self.ok(rt.mdl_ri_capture_begin(self.queue, acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED))
        self.ok(rt.launch_kernel_with_host_args(
            add, 8, self.queue, limit, util.bytes_to_ptr(self.args), len(self.args), [], 0))  # fmt: skip
        model = self.ok(rt.mdl_ri_capture_end(self.queue))
        ((task,),) = [self.ok(rt.mdl_ri_get_tasks_by_stream(s)) for s in self.ok(rt.mdl_ri_get_streams(model))]
        params = self.ok(rt.mdl_ri_task_get_params(task))
        kernel = params["kernelTaskParams"]
        self.assertEqual((acl.ACL_MODEL_RI_TASK_KERNEL, add, 8), (params["type"], kernel["funcHandle"], kernel["numBlocks"]))
        block = bytes(bytearray(kernel["argsSize"]))
        self.ok(rt.memcpy(util.bytes_to_ptr(block), len(block), kernel["args"], len(block), acl.ACL_MEMCPY_DEFAULT))
        self.assertEqual((self.args, [], 0), (block, kernel["cfg"], kernel["isHostArgs"]))
        self.assertEqual(({"timeoutUs": {"timeoutLow": 60000000, "timeoutHigh": 0}}, 0), rt.mdl_ri_kernel_task_get_attribute(task, 8))
        self.assertEqual(({"timeout": 60}, 0), rt.mdl_ri_kernel_task_get_attribute(task, 7))
        self.assertEqual(({"schemMode": 0}, 0), rt.mdl_ri_kernel_task_get_attribute(task, 1))
        self.assertEqual(({"engineType": 0}, 107000), rt.mdl_ri_kernel_task_get_attribute(task, 3))
        self.assertEqual(({"rsv": [0] * 4}, 107000), rt.mdl_ri_kernel_task_get_attribute(task, 99))

        other = self.device_memory(4 * N)
        args = struct.pack("4Q", self.x, self.y, other, N)
        batch = [{"id": 1, "value": {"schemMode": 1}}]
        change = {"funcHandle": add, "args": util.bytes_to_ptr(args), "isHostArgs": 1, "argsSize": len(args), "numBlocks": 2}
        kind = acl.ACL_MODEL_RI_TASK_KERNEL
        self.ok(rt.mdl_ri_task_set_params(task, {"type": kind, "kernelTaskParams": {**change, "cfg": batch}}))
        self.assertEqual(({"schemMode": 1}, 0), rt.mdl_ri_kernel_task_get_attribute(task, 1))
        self.ok(rt.mdl_ri_update(model))
        self.ok(rt.memset(self.z, 4 * N, 0, 4 * N))
        self.ok(rt.mdl_ri_execute_async(model, self.queue))
        self.synchronized()
        self.assertEqual(tuple(3.0 * i for i in range(N)), struct.unpack(f"{N}f", self.read(other, 4 * N)))
        self.assertEqual(bytes(4 * N), self.read(self.z, 4 * N))
        self.ok(rt.mdl_ri_destroy(model))


class TestFunctions(DeviceCase):
    """acl.util.load_kernels: Python functions as kernels."""

    def load(self, **functions):
        binary = self.ok(util.load_kernels(functions))
        self.addCleanup(rt.binary_unload, binary)
        return [self.ok(rt.binary_get_function(binary, name)) for name in functions]

    def launch(self, function, blocks, stream, *words):
        args = struct.pack(f"{len(words)}Q", *words)
        return rt.launch_kernel_with_host_args(function, blocks, stream, [], util.bytes_to_ptr(args), len(args), [], 0)

    def test_numpy(self):
        """A NumPy function is a kernel: it reads and writes device memory, in the order of its stream."""
        numpy = need_numpy()

        def add(block, x, y, z, n):
            x, y, z = (util.ptr_to_numpy(p, (n,), numpy.dtype(numpy.float32).num) for p in (x, y, z))
            z[block.idx :: block.num] = x[block.idx :: block.num] + y[block.idx :: block.num]

        (function,) = self.load(add=add)
        stream, host = self.stream(), self.host_memory(4 * N)
        numbers = util.ptr_to_numpy(host, (N,), 11)
        numbers[:] = numpy.arange(N)
        x, y, z = (self.device_memory(4 * N) for _ in range(3))
        self.ok(rt.memcpy_async(x, 4 * N, host, 4 * N, H2D, stream))
        self.ok(rt.memcpy_async(y, 4 * N, host, 4 * N, H2D, stream))
        self.ok(self.launch(function, 3, stream, x, y, z, N))
        self.ok(rt.memcpy_async(host, 4 * N, z, 4 * N, D2H, stream))
        self.ok(rt.synchronize_stream(stream))
        self.assertEqual([2.0 * i for i in range(N)], numbers.tolist())

    def test_arguments(self):
        """A function gets as many words as it takes, and each block is one call."""
        calls = []
        few, all_, none = self.load(
            few=lambda block, a, b: calls.append((block.idx, block.num, a, b)),
            all=lambda block, *words: calls.append(words),
            none=lambda block: calls.append(block.args),
        )
        stream = self.stream()
        self.ok(self.launch(few, 3, stream, 1, 2**64 - 1, 3))
        self.ok(rt.synchronize_stream(stream))
        self.assertEqual([(i, 3, 1, 2**64 - 1) for i in range(3)], sorted(calls))
        calls.clear()
        self.ok(self.launch(all_, 1, stream, 1, 2, 3))
        self.ok(self.launch(none, 1, stream, 7))
        self.ok(rt.synchronize_stream(stream))
        self.assertEqual([(1, 2, 3), struct.pack("Q", 7)], calls)

    def test_failure(self):
        """What a function raises goes to sys.unraisablehook, and its launch fails; the stream goes on."""
        fails, works = self.load(fails=lambda block: [][1], works=lambda block: None)
        stream, seen = self.stream(), []
        hook, sys.unraisablehook = sys.unraisablehook, seen.append
        self.addCleanup(setattr, sys, "unraisablehook", hook)
        self.ok(self.launch(fails, 1, stream, 0))
        self.assertEqual(507016, rt.synchronize_stream(stream))
        self.assertEqual([IndexError], [raised.exc_type for raised in seen])
        self.assertIn("kernel fails, failed: block 0 of the kernel failed: IndexError: list index out of range", acl.get_recent_err_msg())
        self.ok(self.launch(works, 1, stream, 0))
        self.ok(rt.synchronize_stream(stream))

    def test_wrong(self):
        for functions, error in (({}, TypeError), ([], TypeError), ({1: print}, TypeError), ({"a": 1}, TypeError)):
            with self.subTest(functions), self.assertRaisesRegex(error, "acl.util.load_kernels: argument 1"):
                util.load_kernels(functions)
        with self.assertRaisesRegex(TypeError, r"argument 1 \(functions\['f'\]\) must be callable, not int"):
            util.load_kernels({"f": 1})
        with self.assertRaisesRegex(TypeError, r"argument 1 \(functions: the name 3\) must be str, not int"):
            util.load_kernels({3: print})

    def test_long_failure(self):
        """The end of a text that is too long is left out, of an exception that cannot be printed all of it."""

        def long(block):
            raise ValueError("a" * 1000)

        class Unprintable(Exception):
            def __str__(self):
                raise self

        def unprintable(block):
            raise Unprintable

        for function, want in zip(self.load(long=long, unprintable=unprintable), ("ValueError: " + 400 * "a", "Unprintable")):
            hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
            self.addCleanup(setattr, sys, "unraisablehook", hook)
            stream = self.stream()
            self.ok(self.launch(function, 1, stream, 0))
            self.assertEqual(507016, rt.synchronize_stream(stream))
            self.assertIn(want, acl.get_recent_err_msg())

    def test_printed(self):
        """Without a hook of the program the traceback is printed, and does not say that it is ignored."""
        done = run_program(
            "import acl\n"
            "acl.rt.set_device(0)\n"
            "def fails(block): raise ValueError('boom')\n"
            "binary, ret = acl.util.load_kernels({'f': fails})\n"
            "function, ret = acl.rt.binary_get_function(binary, 'f')\n"
            "assert acl.rt.launch_kernel_with_host_args(function, 1, 0, [], acl.util.bytes_to_ptr(bytes(8)), 8, [], 0) == 0\n"
            "print(acl.rt.synchronize_stream(0))\n"
        )
        self.assertEqual((0, "507016\n"), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, r"(?s)^Exception in a kernel, whose launch fails: <function fails .*ValueError: boom\n$")

    def test_exit(self):
        """A launch that is queued when the interpreter ends does not hang or crash it."""
        done = run_program(
            "import acl\n"
            "acl.rt.set_device(0)\n"
            "binary, ret = acl.util.load_kernels({'f': lambda block: print('ran', flush=True)})\n"
            "function, ret = acl.rt.binary_get_function(binary, 'f')\n"
            "assert acl.rt.launch_kernel_with_host_args(function, 1, 0, [], acl.util.bytes_to_ptr(bytes(8)), 8, [], 0) == 0\n"
        )
        self.assertEqual((0, "ran\n", ""), (done.returncode, done.stdout, done.stderr))


if __name__ == "__main__":
    unittest.main()
