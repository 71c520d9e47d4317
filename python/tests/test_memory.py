"""Memory that is mapped, shared, managed, pooled or waited for, and groups of cores: every form succeeds once, in programs on the products that have
it, and forms with dictionaries and lists take and give what they say. It is the programs, too.
"""

import ctypes
import multiprocessing
import os
import re
import struct
import sys
import threading
import unittest

import acl
import session
import test_kernels
from acl import _library, _structs, rt, util
from session import Session, same
from support import HANG, DeviceCase, run_program

# The C functions whose forms are tried here.
MINE = re.compile(
    "aclrt(Mem(Pool|Managed|AllocManaged|P2P|Map|Export|SetPid|Import|GetAllocation|SetAccess|GetAccess|Retain|GetAddress)"
    "|ReserveMem|ReleaseMem|MallocPhysical|FreePhysical|MapMem|UnmapMem|Ipc|Value|Reduce|Random|Allocator"
    "|.*Group(Count|Info)?$|GetAllGroupInfo|GetGroupInfoDetail|Notify|CntNotify|(Create|Destroy|Record|WaitAndReset|Get)Notify|.*Symbol)"
)
FORMS = {path for path, form in session.FORMS.items() if MINE.match(form.c)} - test_kernels.FORMS

# Forms that never succeed, and why.
NEVER = {"acl.rt.notify_set_import_pid_inter_server": "there is one server"}

PIECE, KEY = 2 * 1024 * 1024, 65
H2D, D2H = acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.ACL_MEMCPY_DEVICE_TO_HOST
HERE = {"id": 0, "type": acl.ACL_MEM_LOCATION_TYPE_DEVICE}
PHYSICAL = {"handleType": 0, "allocationType": 0, "memAttr": acl.ACL_HBM_MEM_HUGE, "location": HERE, "reserve": 0}


def write(device, data):
    same(rt.memcpy(device, len(data), util.bytes_to_ptr(data), len(data), H2D), 0)


def read(device, size):
    data = bytes(size)
    same(rt.memcpy(util.bytes_to_ptr(data), size, device, size, D2H), 0)
    return data


def waits(stream):
    return rt.stream_query(stream)[0] == acl.ACL_STREAM_STATUS_NOT_READY


def mapping(call):
    unit = call("acl.rt.mem_get_allocation_granularity", PHYSICAL, acl.ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM)
    same(unit, PIECE)
    at = call("acl.rt.reserve_mem_address", 4 * PIECE, 0, 0, 0)
    handle = call("acl.rt.malloc_physical", PIECE, PHYSICAL, 0)
    same(call("acl.rt.mem_get_allocation_properties_from_handle", handle), PHYSICAL)
    call("acl.rt.map_mem", at, PIECE, 0, handle, 0)
    write(at, b"mapped")
    same(call("acl.rt.mem_get_address_range", at + 5)[0], at)
    again = call("acl.rt.mem_retain_allocation_handle", at)
    call("acl.rt.mem_map_no_access", at + PIECE, PIECE, 0, again, 0)
    same(call("acl.rt.mem_get_access", at + PIECE, HERE), acl.ACL_RT_MEM_ACCESS_FLAGS_NONE)
    access = [{"flags": acl.ACL_RT_MEM_ACCESS_FLAGS_READWRITE, "location": HERE}]
    call("acl.rt.mem_set_access", at + PIECE, PIECE, access)
    same(call("acl.rt.mem_get_access", at + PIECE, HERE), acl.ACL_RT_MEM_ACCESS_FLAGS_READWRITE)
    same(read(at + PIECE, 6), b"mapped")
    for place in (at, at + PIECE):
        call("acl.rt.unmap_mem", place)
        call("acl.rt.free_physical", handle if place == at else again)
    call("acl.rt.release_mem_address", at)
    far = call("acl.rt.reserve_mem_address_no_uc_memory", 1 << 30, 0, 50 << 40, 0)
    call("acl.rt.release_mem_address", far)


def pools(call, s):
    pool = call("acl.rt.mem_pool_create", {"allocType": 0, "handleType": 0, "location": HERE, "maxSize": 4 * PIECE})
    call("acl.rt.mem_pool_set_attr", pool, acl.ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, PIECE)
    same(call("acl.rt.mem_pool_get_attr", pool, acl.ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD), PIECE)
    ptr = call("acl.rt.mem_pool_malloc_async", 100, pool, s)
    same(rt.synchronize_stream(s), 0)  # the memory is there in the order of the stream
    write(ptr, b"pooled")
    same(read(ptr, 6), b"pooled")
    same(rt.device_enable_peer_access(1, 0), 0)
    call("acl.rt.mem_p2p_map", ptr, 100, 1, 0)
    same(rt.device_disable_peer_access(1), 0)
    same(call("acl.rt.mem_pool_get_attr", pool, acl.ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT), PIECE)
    call("acl.rt.mem_pool_free_async", ptr, s)
    same(rt.synchronize_stream(s), 0)
    call("acl.rt.mem_pool_trim_to", pool, 0)
    same(call("acl.rt.mem_pool_get_attr", pool, acl.ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT), 0)
    call("acl.rt.mem_pool_destroy", pool)


def managed(call, s):
    ptr = call("acl.rt.mem_alloc_managed", PIECE, acl.ACL_RT_MEM_ATTACH_GLOBAL)
    ctypes.memset(ptr, 7, PIECE)  # the host's, too
    same(read(ptr, 3), b"\7\7\7")
    device, host = {"type": acl.ACL_MEM_LOCATIONTYPE_DEVICE, "id": 0}, {"type": acl.ACL_MEM_LOCATIONTYPE_HOST, "id": 0}
    call("acl.rt.mem_managed_advise", ptr, PIECE, acl.ACL_MEM_ADVISE_SET_READ_MOSTLY, device)
    read_mostly, last = acl.ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, acl.ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE
    same(call("acl.rt.mem_managed_get_attr", read_mostly, ptr, PIECE, 4), [1])
    call("acl.rt.mem_managed_prefetch_async", ptr, PIECE, device, 0, s)
    call("acl.rt.mem_managed_prefetch_batch_async", [ptr], [PIECE], [host], [0], 0, s)
    same(rt.synchronize_stream(s), 0)
    same(call("acl.rt.mem_managed_get_attrs", [read_mostly, last], ptr, PIECE, [4, 4]), [[1], [host["type"]]])
    same(rt.free(ptr), 0)


def signals(call, s, other):
    notify = call("acl.rt.create_notify", 0)
    call("acl.rt.get_notify_id", notify)
    call("acl.rt.wait_and_reset_notify", notify, s, 60)
    same(waits(s), True)
    call("acl.rt.record_notify", notify, other)
    same(rt.synchronize_stream(s), 0)
    call("acl.rt.notify_batch_reset", [notify])
    call("acl.rt.destroy_notify", notify)
    word, ret = rt.malloc(8, 0)
    same((ret, rt.memset(word, 8, 0, 8)), (0, 0))
    call("acl.rt.value_wait", word, 9, acl.ACL_STREAM_WAIT_VALUE_EQ, s)
    same(waits(s), True)
    call("acl.rt.value_write", word, 9, 0, other)
    same(rt.synchronize_stream(s), 0)
    same(read(word, 8), b"\x09" + bytes(7))
    same(rt.free(word), 0)


def counting(call, s, other):
    """On a 950."""
    notify = call("acl.rt.cnt_notify_create", 0)
    call("acl.rt.cnt_notify_get_id", notify)
    wait = {"mode": acl.ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, "value": 5, "timeout": 60, "isClear": 1}
    call("acl.rt.cnt_notify_wait_with_timeout", notify, s, wait)
    same(waits(s), True)
    call("acl.rt.cnt_notify_record", notify, other, {"mode": acl.ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, "value": 5})
    same(rt.synchronize_stream(s), 0)
    call("acl.rt.cnt_notify_reset", notify, s)
    same(rt.synchronize_stream(s), 0)
    call("acl.rt.cnt_notify_destroy", notify)


def groups(call):
    """On a 310P in RC form."""
    same(call("acl.rt.get_group_count"), 1)
    call("acl.rt.set_group", 0)
    info = call("acl.rt.create_group_info")
    same(info != 0, True)
    call("acl.rt.get_all_group_info", info)
    same([call("acl.rt.get_group_info_detail", info, 0, attr) for attr in range(6)], [[n] for n in (8, 7, 7, 1, 1024, 0)])
    for wrong in ((0, 0, 0), (info, 1, 0), (info, -1, 0), (info, 0, 6)):
        try:
            accepted = rt.get_group_info_detail(*wrong)
        except RuntimeError as error:
            same(str(error), "acl.rt.get_group_info_detail: aclrtGetGroupInfoDetail returned 100000")
        else:
            raise AssertionError(f"{wrong} gives {accepted}")
    call("acl.rt.destroy_group_info", info)
    same(rt.get_all_group_info(info), acl.ACL_ERROR_RT_INVALID_HANDLE)


def symbols(call, s):
    register = _library.c_function("ropeway_register_symbol", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    symbol = 0x1234  # never followed
    same(register(symbol, 6, b"symbol"), 0)
    same(call("acl.rt.get_symbol_size", symbol), 6)
    device = call("acl.rt.get_symbol_address", symbol)
    same(read(device, 6), b"symbol")
    host, ret = rt.malloc_host(6)
    same(ret, 0)
    call("acl.rt.memcpy_from_symbol", host, 6, symbol, 4, 2, D2H)
    same(util.ptr_to_bytes(host, 4), b"mbol")
    call("acl.rt.memcpy_to_symbol", symbol, host, 4, 0, H2D)
    same(read(device, 6), b"mbolol")
    call("acl.rt.memcpy_to_symbol_async", symbol, host, 1, 5, H2D, s)
    call("acl.rt.memcpy_from_symbol_async", host, 6, symbol, 6, 0, D2H, s)
    same(rt.synchronize_stream(s), 0)
    same(util.ptr_to_bytes(host, 6), b"mbolom")
    same(rt.free_host(host), 0)


def allocators(call, s):
    asked = []
    desc = call("acl.rt.allocator_create_desc")
    call("acl.rt.allocator_set_obj_to_desc", desc, 77)
    call("acl.rt.allocator_set_alloc_func_to_desc", desc, lambda *what: asked.append(what) or 4096)
    call("acl.rt.allocator_set_free_func_to_desc", desc, lambda *what: asked.append(what))
    call("acl.rt.allocator_set_alloc_advise_func_to_desc", desc, lambda *what: asked.append(what))
    call("acl.rt.allocator_set_get_addr_from_block_func_to_desc", desc, lambda block: block + 1)
    call("acl.rt.allocator_register", s, desc)
    found, allocator, alloc, free, advise, get_address = call("acl.rt.allocator_get_by_stream", s)
    same((found, allocator), (desc, 77))
    number = ctypes.c_uint64
    same(ctypes.CFUNCTYPE(number, number, number)(alloc)(77, 10), 4096)
    ctypes.CFUNCTYPE(None, number, number)(free)(77, 4096)
    same(ctypes.CFUNCTYPE(number, number, number, number)(advise)(77, 10, 4096), 0)
    same(ctypes.CFUNCTYPE(number, number)(get_address)(4096), 4097)
    same(asked, [(77, 10), (77, 4096), (77, 10, 4096)])
    call("acl.rt.allocator_unregister", s)
    call("acl.rt.allocator_destroy_desc", desc)


def computing(call, s):
    dst, src = rt.malloc(4096, 0)[0], rt.malloc(4096, 0)[0]
    write(dst, struct.pack("<2f", 1, 2))
    write(src, struct.pack("<2f", 10, 20))
    call("acl.rt.reduce_async", dst, src, 8, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, acl.ACL_FLOAT, s, 0)
    same(rt.synchronize_stream(s), 0)
    same(struct.unpack("<2f", read(dst, 8)), (11.0, 22.0))

    def number(form, value):
        bits = struct.pack(form, value)
        return {"isAddr": 0, "valueOrAddr": int.from_bytes(bits, "little"), "size": len(bits)}

    same(rt.memset(src, 16, 0, 16), 0)
    uniform = {"min": number("<f", 2), "max": number("<f", 3)}
    task = {
        "dataType": acl.ACL_FLOAT,
        "randomNumFuncParaInfo": {
            "funcType": acl.ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS,
            "paramInfo": {"uniformDisInfo": uniform},
        },
        "randomResultAddr": dst,
        "randomCounterAddr": src,
        "randomSeed": number("<Q", 42),
        "randomNum": number("<Q", 100),
    }
    call("acl.rt.random_num_async", task, s, 0)
    same(rt.synchronize_stream(s), 0)
    numbers = struct.unpack("<100f", read(dst, 400))
    same(all(2 <= number <= 3 for number in numbers) and len(set(numbers)) > 50, True)
    same((rt.free(dst), rt.free(src)), (0, 0))


def links(call):
    """On an A3."""
    at = call("acl.rt.reserve_mem_address", 2 * PIECE, 0, 0, 0)
    handle = call("acl.rt.malloc_physical", PIECE, PHYSICAL, 0)
    call("acl.rt.mem_map_set_link", handle, acl.ACL_RT_MEM_ACCESS_LINK_HCCS)
    call("acl.rt.map_mem", at, PIECE, 0, handle, 0)
    call("acl.rt.mem_map_selected_link", at + PIECE, PIECE, at, acl.ACL_RT_MEM_LINK_IDX_1)
    write(at, b"linked")
    same(read(at + PIECE, 6), b"linked")
    fabric = call("acl.rt.mem_export_to_shareable_handle_v2", handle, 0, acl.ACL_MEM_SHARE_HANDLE_TYPE_FABRIC)
    same((type(fabric), len(fabric)), (bytes, 128))
    call("acl.rt.mem_set_pid_to_shareable_handle_v2", fabric, acl.ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, [os.getpid()])
    ptr, ret = rt.malloc(PIECE, 0)
    same(ret, 0)
    key = call("acl.rt.ipc_mem_get_export_key", ptr, PIECE, KEY, 0)
    call("acl.rt.ipc_mem_set_attr", key, acl.ACL_RT_IPC_MEM_ATTR_ACCESS_LINK, acl.ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_HCCS)
    call("acl.rt.ipc_mem_import_pid_inter_server", key, [{"sdid": 0, "pid": [os.getpid()]}])
    call("acl.rt.ipc_mem_close", key)
    same(rt.free(ptr), 0)


def visit(connection):
    """The other process of sharing: it imports what it is sent, looks, writes, records, and reports which forms succeeded."""
    key, bell, event_handle, first, second = connection.recv()
    call = Session()
    same((acl.init(), rt.set_device(0)), (0, 0))
    s, ret = rt.create_stream()
    same(ret, 0)
    ptr = call("acl.rt.ipc_mem_import_by_key", key, 0)
    same(read(ptr, 8), b"exported")
    notify = call("acl.rt.notify_import_by_key", bell, 0)
    same(rt.memset_async(ptr, 8, ord("x"), 8, s), 0)
    same((rt.record_notify(notify, s), rt.synchronize_stream(s)), (0, 0))
    event = call("acl.rt.ipc_open_event_handle", event_handle)
    same((rt.synchronize_event(event), rt.destroy_event(event)), (0, 0))
    at, ret = rt.reserve_mem_address(PIECE, 0, 0, 0)
    same(ret, 0)
    for handle in (
        call("acl.rt.mem_import_from_shareable_handle", first, 0),
        call("acl.rt.mem_import_from_shareable_handle_v2", second, acl.ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, 0),
    ):
        same(rt.map_mem(at, PIECE, 0, handle, 0), 0)
        same(read(at, 8), b"physical")
        same((rt.unmap_mem(at), rt.free_physical(handle)), (0, 0))
    call("acl.rt.ipc_mem_close", key)
    same(rt.destroy_notify(notify), 0)
    connection.send(call.succeeded)


def physical(data):
    """Memory without an address that holds data."""
    at, handle = rt.reserve_mem_address(PIECE, 0, 0, 0)[0], rt.malloc_physical(PIECE, PHYSICAL, 0)[0]
    same(rt.map_mem(at, PIECE, 0, handle, 0), 0)
    write(at, data)
    same((rt.unmap_mem(at), rt.release_mem_address(at)), (0, 0))
    return handle


def sharing(call, s):
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    other = spawn.Process(target=visit, args=(there,))
    other.start()
    there.close()
    ptr, ret = rt.malloc(PIECE, 0)
    same(ret, 0)
    write(ptr, b"exported")
    key = call("acl.rt.ipc_mem_get_export_key", ptr, PIECE, KEY, 0)
    call("acl.rt.ipc_mem_set_import_pid", key, [other.pid])
    notify = call("acl.rt.create_notify", 0)
    bell = call("acl.rt.notify_get_export_key", notify, KEY, 0)
    call("acl.rt.notify_set_import_pid", notify, [other.pid])
    event, ret = rt.create_event_ex_with_flag(acl.ACL_EVENT_IPC)
    same((ret, rt.record_event(event, s), rt.synchronize_stream(s)), (0, 0, 0))
    event_handle = call("acl.rt.ipc_get_event_handle", event)
    same(len(event_handle), 64)
    handles = physical(b"physical"), physical(b"physical")
    first = call("acl.rt.mem_export_to_shareable_handle", handles[0], 0, 0)
    call("acl.rt.mem_set_pid_to_shareable_handle", first, [other.pid])
    kind = acl.ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT
    second = call("acl.rt.mem_export_to_shareable_handle_v2", handles[1], 0, kind)
    call("acl.rt.mem_set_pid_to_shareable_handle_v2", second, kind, [other.pid])
    call("acl.rt.wait_and_reset_notify", notify, s, 60)
    here.send((key, bell, event_handle, first, second))
    same(rt.synchronize_stream(s), 0)
    same(read(ptr, 8), b"xxxxxxxx")
    call.succeeded |= here.recv()
    other.join(HANG)
    same(other.exitcode, 0)
    call("acl.rt.ipc_mem_close", key)
    for done in (rt.destroy_event(event), rt.destroy_notify(notify), rt.free(ptr), *map(rt.free_physical, handles)):
        same(done, 0)


def program(product):
    call = Session()
    same((acl.init(), rt.set_device(0)), (0, 0))
    s, other = rt.create_stream()[0], rt.create_stream()[0]
    if product == "A2":
        mapping(call)
        pools(call, s)
        managed(call, s)
        signals(call, s, other)
        symbols(call, s)
        allocators(call, s)
        computing(call, s)
        sharing(call, s)
    elif product == "A3":
        links(call)
    elif product == "310P":
        groups(call)
    else:
        counting(call, s, other)
    same((rt.destroy_stream(s), rt.destroy_stream(other), rt.reset_device(0), acl.finalize()), (0, 0, 0, 0))
    print(*sorted(call.succeeded & FORMS))
    return 0


class TestSuccess(unittest.TestCase):
    def test_every_form_succeeds(self):
        succeeded = set()
        for product, form in (("A2", "EP"), ("A3", "EP"), ("950", "EP"), ("310P", "RC")):
            done = run_program(os.path.abspath(__file__), "program", product, ROPEWAY_PRODUCT=product, ROPEWAY_FORM=form)
            self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
            succeeded.update(done.stdout.split())
        self.assertEqual(sorted(FORMS - set(NEVER)), sorted(succeeded))


class TestArguments(DeviceCase):
    """What the forms written by hand take and refuse."""

    def test_wrong_types(self):
        for call, error, text in (
            (lambda: rt.mem_set_access(1, 1, {}), TypeError, r"argument 3 \(desc\) must be list, not dict"),
            (lambda: rt.mem_set_access(1, 1, [{"flag": 1}]), ValueError, r"\(desc\) \[0\] has no entry 'flag'"),
            (lambda: rt.mem_get_access(1, 5), TypeError, r"argument 2 \(location_dict\) must be dict, not int"),
            (lambda: rt.mem_pool_create({"location": {"id": "0"}}), TypeError, r"\(pool_props_dict\) location.id must be int"),
            (lambda: rt.mem_pool_set_attr(1, 1, 1 << 64), OverflowError, r"argument 3 \(value\) does not fit 64 bits"),
            (lambda: rt.mem_managed_advise(1, 1, 1, {"kind": 1}), ValueError, "has no entry 'kind'; those of .* are type, id"),
            (lambda: rt.mem_managed_get_attr(1, 1, 1, 1 << 20), ValueError, r"is 1048576; an attribute has 65536"),
            (lambda: rt.mem_managed_get_attrs([1, 2], 1, 1, [4]), ValueError, "they have: attributes 2, data_sizes 1"),
            (lambda: rt.mem_managed_prefetch_batch_async([1], [], [], [], 0, 0), ValueError, "they have: ptrs 1, sizes 0"),
            (lambda: rt.mem_managed_prefetch_batch_async([], [], [{}], [], 0, 0), ValueError, "prefetch_locs 1, prefetch_l.*0"),
            (lambda: rt.ipc_open_event_handle(5), TypeError, r"argument 1 \(ipc_handle\) must be bytes, not int"),
            (lambda: rt.ipc_open_event_handle(b"short"), ValueError, "must have 64 bytes, not 5"),
            (lambda: rt.mem_import_from_shareable_handle_v2(b"short", 2, 0), ValueError, "must have 128 bytes, not 5"),
            (lambda: rt.mem_import_from_shareable_handle_v2("1", 1, 0), TypeError, "must be int, not str"),
            (lambda: rt.ipc_mem_import_pid_inter_server("k", [{"pid": 5}]), TypeError, r"\[0\].pid must be list, not int"),
            (lambda: rt.ipc_mem_import_pid_inter_server("k", [{"num": 1}]), ValueError, r"num is 1, but pid has 0 elements"),
            (lambda: rt.notify_set_import_pid_inter_server(1, [{"id": 1}]), ValueError, r"\[0\] has no entry 'id'"),
            (lambda: rt.cnt_notify_record(1, 1, None), TypeError, r"argument 3 \(info_dict\) must be dict, not NoneType"),
            (lambda: rt.random_num_async({"randomSeed": {"size": 256}}, 0, 0), OverflowError, "randomSeed.size does not fit"),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()

    def test_servers_reach_c(self):
        servers = _structs.server_pids([{"sdid": 3, "pid": [7, -1]}, {"pid": [5, 6], "num": 1}])
        self.assertEqual([(3, 2, [7, -1]), (0, 1, [5, 6])], [(s.sdid, s.num, s.pid[:2]) for s in servers])

    def test_keys(self):
        """Whatever length is asked for, a key that does not fit is refused, and memory around it is safe."""
        ptr = self.device_memory(PIECE)
        for length in (0, 1, 32, 1 << 32):  # the low 32 bits count
            self.assertEqual(("", 107000), rt.ipc_mem_get_export_key(ptr, PIECE, length, 0), length)
        key = self.ok(rt.ipc_mem_get_export_key(ptr, PIECE, -1, 0))
        self.assertLess(len(key), KEY)
        self.ok(rt.ipc_mem_close(key))
        self.assertEqual(107000, rt.ipc_mem_close(key))
        self.assertEqual((0, 107000), rt.ipc_mem_import_by_key("no key", 0))
        self.assertEqual(507899, rt.ipc_mem_set_import_pid(key, [os.getpid()]))
        self.assertEqual(107000, rt.notify_batch_reset([]))

    def test_a_function_of_an_allocator_that_is_replaced(self):
        """The descriptor has the new one; the old one is let go."""
        desc = rt.allocator_create_desc()
        self.assertEqual(100000, rt.allocator_set_alloc_func_to_desc(0, print))
        for result in (16, 32):
            self.ok(rt.allocator_set_alloc_func_to_desc(desc, lambda *_, result=result: result))
        self.ok(rt.allocator_set_obj_to_desc(desc, 1))
        self.ok(rt.allocator_set_free_func_to_desc(desc, print))
        self.ok(rt.allocator_set_get_addr_from_block_func_to_desc(desc, print))
        stream = self.stream()
        self.ok(rt.allocator_register(stream, desc))
        alloc = self.ok(rt.allocator_get_by_stream(stream))[2]
        self.assertEqual(32, ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)(alloc)(1, 1))
        self.ok(rt.allocator_unregister(stream))
        self.ok(rt.allocator_destroy_desc(desc))

    def test_a_wait_leaves_python_free(self):
        """A stream that waits for a notify stops no other thread of Python."""
        stream, notify = self.stream(), self.ok(rt.create_notify(0))
        self.addCleanup(rt.destroy_notify, notify)
        context = self.ok(rt.get_context())
        self.ok(rt.wait_and_reset_notify(notify, stream, 60))

        def record():
            rt.set_context(context)
            other = rt.create_stream()[0]
            rt.record_notify(notify, other)
            rt.destroy_stream(other)

        thread = threading.Thread(target=record)
        thread.start()
        self.ok(rt.synchronize_stream(stream))
        thread.join(HANG)


if __name__ == "__main__":
    sys.exit(program(sys.argv[2]) if sys.argv[1:2] == ["program"] else unittest.main())
