"""Every form whose function is built succeeds once, in one program from initialisation to the end. It is the program, too.

Those that not every driver has are in test_memory, kernels in test_kernels.
"""

import ctypes
import json
import os
import sys
import tempfile
import threading
import unittest

import acl
import session
import test_kernels
import test_memory
from acl import _structs, rt, util
from session import Session, same
from support import run_program

FORMS = {path for path in session.FORMS if not test_memory.MINE.match(session.FORMS[path].c)} - test_kernels.FORMS

SIZE = 4096
H2D, D2H, D2D, INNER = 1, 2, 3, 6


def start(call):
    call("acl.init")
    same(rt.get_device()[1], acl.ACL_ERROR_RT_CONTEXT_NULL)
    call("acl.rt.set_device", 0)
    same(call("acl.rt.get_device"), 0)
    same(call("acl.rt.get_run_mode"), acl.ACL_HOST)
    count = call("acl.rt.get_device_count")
    same(count >= 2, True)
    same(call("acl.get_version"), (1, 17, 0))
    same("Ascend" in call("acl.get_soc_name"), True)
    same(call("acl.get_cann_version", acl.ACL_PKG_NAME_RUNTIME)["version"], "8.0.0")
    same(call("acl.get_version_str", "runtime"), "8.0.0")
    attributes, number = call("acl.get_cann_attribute_list")
    same(len(attributes), number)
    same(call("acl.get_cann_attribute", attributes[0]), 1)
    call("acl.get_device_capability", 0, 0)
    call("acl.app_log", acl.ACL_INFO, "hello")
    same(call("acl.float16_to_float", 0x3C00), 1.0)
    same(call("acl.float_to_float16", 2.0), 0x4000)
    same(call("acl.data_type_size", acl.ACL_FLOAT), 4)


def marks(call):
    """The program is recorded."""
    stamp = call("acl.prof.create_stamp")
    same(stamp > 0, True)
    call("acl.prof.set_stamp_trace_message", stamp, "part", 4)
    call("acl.prof.mark", stamp)
    call("acl.prof.push", stamp)
    call("acl.prof.pop")
    same(acl.prof.pop(), -1)
    call("acl.prof.range_stop", call("acl.prof.range_start", stamp))
    stream = call("acl.rt.create_stream")
    call("acl.prof.mark_ex", "part", stream)
    call("acl.rt.synchronize_stream", stream)
    call("acl.rt.destroy_stream", stream)
    same(call("acl.prof.destroy_stamp", stamp), None)
    same(acl.prof.mark(stamp), -1)


def devices(call):
    call("acl.rt.get_device_utilization_rate", 0)
    call("acl.rt.set_ts_device", 0)
    call("acl.rt.query_device_status", 0)
    same(call("acl.rt.device_get_bare_tgid"), os.getpid())
    same(call("acl.rt.get_device_info", 0, acl.ACL_DEV_ATTR_AICORE_CORE_NUM) > 0, True)
    same(call("acl.rt.device_get_stream_priority_range"), (7, 0))
    call("acl.rt.get_device_capability", 0, 1)
    same(len(call("acl.rt.device_get_uuid", 0)["bytes"]), 16)
    call("acl.rt.device_set_limit", 3, call("acl.rt.device_get_limit", 3))
    call("acl.rt.get_devices_topo", 0, 1)
    for form in ("logic_by_user", "user_by_logic", "logic_by_phy", "phy_by_logic", "user_by_phy", "phy_by_user"):
        same(call(f"acl.rt.get_{form.replace('_', '_dev_id_', 1)}_dev_id", 0), 0)
    same(call("acl.rt.device_can_access_peer", 0, 1), 1)
    call("acl.rt.device_enable_peer_access", 1, 0)
    same(call("acl.rt.device_peer_access_status", 0, 1), 1)
    call("acl.rt.device_disable_peer_access", 1)
    mode = call("acl.rt.get_device_sat_mode")
    call("acl.rt.set_device_sat_mode", mode)
    call("acl.rt.set_sys_param_opt", 0, 1)
    same(call("acl.rt.get_sys_param_opt", 0), 1)
    call("acl.rt.ctx_set_sys_param_opt", 0, 0)
    same(call("acl.rt.ctx_get_sys_param_opt", 0), 0)
    cores = call("acl.rt.get_device_res_limit", 0, 0)
    call("acl.rt.set_device_res_limit", 0, 0, cores - 1)
    same(call("acl.rt.get_device_res_limit", 0, 0), cores - 1)
    call("acl.rt.reset_device_res_limit", 0)
    same(call("acl.rt.get_mem_uce_info", 0), [])
    call("acl.rt.mem_uce_repair", 0, [])
    call("acl.rt.host_mem_map_capabilities", 0, 0)
    call("acl.rt.set_op_wait_timeout", 10)
    call("acl.rt.set_op_execute_time_out", 10)
    call("acl.rt.set_op_execute_time_out_with_ms", 10000)
    call("acl.rt.set_op_execute_timeout_v2", 10000000)
    call("acl.rt.get_op_timeout_interval")
    call("acl.rt.get_op_execute_timeout")


def contexts(call):
    home = call("acl.rt.get_context")
    other = call("acl.rt.create_context", 0)
    same(call("acl.rt.get_context"), other)
    call("acl.rt.set_context", home)
    call("acl.rt.destroy_context", other)
    same(call("acl.rt.get_primary_ctx_state", 0), (1, 0))
    same(call("acl.rt.ctx_get_current_default_stream") != 0, True)
    call("acl.rt.ctx_get_float_overflow_addr")


def memory(call):
    same(len(call("acl.rt.get_mem_info", acl.ACL_HBM_MEM)), 2)
    policy = acl.ACL_MEM_MALLOC_HUGE_FIRST
    dev = call("acl.rt.malloc", SIZE, policy)
    same(call("acl.rt.pointer_get_attributes", dev)["location"], {"id": 0, "type": 1})
    for ptr in (
        call("acl.rt.malloc_align32", SIZE, policy),
        call("acl.rt.malloc_with_cfg", SIZE, policy, {}),
        call("acl.rt.malloc_for_task_scheduler", SIZE, policy, {}),
    ):
        call("acl.rt.free", ptr)
    cached = call("acl.rt.malloc_cached", SIZE, policy)
    call("acl.rt.mem_flush", cached, SIZE)
    call("acl.rt.mem_invalidate", cached, SIZE)
    call("acl.rt.free_with_dev_sync", cached)
    host = call("acl.rt.malloc_host", SIZE)
    call("acl.rt.free_host", call("acl.rt.malloc_host_with_cfg", SIZE, {}))
    call("acl.rt.free_host_with_dev_sync", call("acl.rt.malloc_host", SIZE))

    page = 4096
    libc = ctypes.CDLL(None)
    libc.aligned_alloc.restype, libc.aligned_alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2
    own = libc.aligned_alloc(page, page)
    mapped = call("acl.rt.host_register", own, page, 0)
    same(call("acl.rt.host_get_device_pointer", own, 0), mapped)
    call("acl.rt.host_unregister", own)
    call("acl.rt.host_register_v2", own, page, acl.ACL_HOST_REG_PINNED)
    call("acl.rt.host_unregister", own)

    buffer = call("acl.create_data_buffer", dev, SIZE)
    same(call("acl.get_data_buffer_addr", buffer), dev)
    same(call("acl.get_data_buffer_size", buffer), SIZE)
    call("acl.update_data_buffer", buffer, dev, 64)
    same(call("acl.get_data_buffer_size_v2", buffer), 64)
    call("acl.destroy_data_buffer", buffer)
    return dev, host


def streams(call):
    s = call("acl.rt.create_stream")
    other = call("acl.rt.create_stream_with_config", 3, acl.ACL_STREAM_FAST_SYNC)
    same(call("acl.rt.stream_get_priority", other), 3)
    same(call("acl.rt.stream_get_flags", other), acl.ACL_STREAM_FAST_SYNC)
    call("acl.rt.stream_get_id", s)
    same(call("acl.rt.stream_query", s), 0)
    same(call("acl.rt.mdl_ri_capture_get_info", s), (acl.ACL_MODEL_RI_CAPTURE_STATUS_NONE, 0))
    modes = (acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED, acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)
    same([call("acl.rt.mdl_ri_capture_thread_exchange_mode", mode) for mode in modes], [modes[1], modes[0]])
    call("acl.rt.get_stream_available_num")
    call("acl.rt.set_stream_failure_mode", other, acl.ACL_CONTINUE_ON_FAILURE)
    call("acl.rt.set_stream_overflow_switch", other, 1)
    same(call("acl.rt.get_stream_overflow_switch", other), 1)
    call("acl.rt.set_stream_attribute", other, acl.ACL_STREAM_ATTR_USER_CUSTOM_TAG, {"userCustomTag": 7})
    same(call("acl.rt.get_stream_attribute", other, acl.ACL_STREAM_ATTR_USER_CUSTOM_TAG), {"userCustomTag": 7})
    cores = call("acl.rt.get_stream_res_limit", other, 0)
    call("acl.rt.set_stream_res_limit", other, 0, cores - 1)
    call("acl.rt.use_stream_res_in_current_thread", other)
    same(call("acl.rt.get_res_in_current_thread", 0), cores - 1)
    call("acl.rt.unuse_stream_res_in_current_thread", other)
    call("acl.rt.reset_stream_res_limit", other)
    call("acl.rt.stream_abort", other)
    call("acl.rt.stream_stop", other)
    call("acl.rt.destroy_stream_force", other)
    return s


def copies(call, dev, host, s):
    half = SIZE // 2
    ctypes.memset(host, 5, SIZE)
    call("acl.rt.memcpy", dev, SIZE, host, SIZE, H2D)
    call("acl.rt.memset", dev, SIZE, 0, SIZE)
    for form in ("memcpy_async", "memcpy_async_with_condition"):
        call(f"acl.rt.{form}", dev, half, host, half, H2D, s)
    call("acl.rt.memcpy2d", dev, 64, host, 64, 64, 4, H2D)
    call("acl.rt.memcpy2d_async", dev, 64, host, 64, 64, 4, H2D, s)
    one = [{"dstLoc": {"id": 0, "type": 1}, "srcLoc": {"id": 0, "type": 0}}]
    lists = ([dev, dev + 64], [64, 64], [host, host + 64], [64, 64], one, [0])
    call("acl.rt.memcpy_batch", *lists)
    call("acl.rt.memcpy_batch_v2", *lists)
    call("acl.rt.memcpy_batch_async", *lists, s)
    call("acl.rt.memcpy_batch_async_v2", *lists, s)
    call("acl.rt.memset_async", dev, half, 9, half, s)
    call("acl.rt.memset_d32", dev, half, 1, 4)
    call("acl.rt.memset_d32_async", dev, half, 0x01020304, 4, s)
    call("acl.rt.synchronize_stream", s)
    same(call("acl.rt.get_thread_last_task_id") > 0, True)
    back = call("acl.rt.malloc_host", SIZE)
    call("acl.rt.memcpy", back, SIZE, dev, SIZE, D2H)
    same(util.ptr_to_bytes(back, 17), b"\x04\x03\x02\x01" * 4 + b"\x09")

    size = call("acl.rt.get_memcpy_desc_size", INNER)
    desc = call("acl.rt.malloc", max(size, 64), 0)
    same(call("acl.rt.set_memcpy_desc", desc, INNER, dev, dev + half, 16, 0), desc)
    call("acl.rt.memcpy_async_with_desc", desc, INNER, s)
    cells = call("acl.rt.malloc", 64, 0)
    for i, address in enumerate((dev, dev + half)):
        ctypes.c_uint64.from_address(back + 8 * i).value = address
    call("acl.rt.memcpy", cells, 16, back, 16, H2D)
    call("acl.rt.memcpy_async_with_offset", cells, half, 32, cells + 8, 16, 0, INNER, s)
    call("acl.rt.synchronize_stream_with_timeout", s, 60000)
    call("acl.rt.memcpy", back, SIZE, dev, SIZE, D2H)
    same(util.ptr_to_bytes(back + 32, 16), b"\x04\x03\x02\x01" * 4)
    call("acl.rt.free", cells)
    call("acl.rt.free", desc)
    call("acl.rt.free_host", back)


def events(call, s):
    first, second = call("acl.rt.create_event"), call("acl.rt.create_event")
    call("acl.rt.record_event", first, s)
    call("acl.rt.record_event_with_flag", second, s, 0)
    call("acl.rt.synchronize_event", first)
    call("acl.rt.synchronize_event_with_timeout", second, 60000)
    same(call("acl.rt.event_elapsed_time", first, second) >= 0, True)
    call("acl.rt.event_get_timestamp", first)
    same(call("acl.rt.query_event", first), 0)
    same(call("acl.rt.query_event_status", first), 1)
    call("acl.rt.query_event_wait_status", first)
    call("acl.rt.get_event_id", first)
    call("acl.rt.get_event_avail_num")
    call("acl.rt.stream_wait_event", s, first)
    call("acl.rt.stream_wait_event_with_timeout", s, first, 10)
    call("acl.rt.stream_wait_event_with_flag", s, first, 10, 0)
    call("acl.rt.reset_event", first, s)
    for event in (
        call("acl.rt.create_event_with_flag", acl.ACL_EVENT_SYNC),
        call("acl.rt.create_event_ex_with_flag", acl.ACL_EVENT_SYNC),
        first,
        second,
    ):
        call("acl.rt.synchronize_device")
        call("acl.rt.destroy_event", event)
    call("acl.rt.synchronize_device_with_timeout", 60000)


def models(call, dev, host, s):
    call("acl.rt.mdl_ri_capture_begin", s, acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)
    call("acl.rt.memcpy_async", dev, 64, host, 64, H2D, s)
    event = call("acl.rt.create_event_ex_with_flag", acl.ACL_EVENT_SYNC)
    call("acl.rt.record_event", event, s)
    call("acl.rt.mdl_ri_capture_task_grp_begin", s)
    group = call("acl.rt.mdl_ri_capture_task_grp_end", s)
    model = call("acl.rt.mdl_ri_capture_end", s)
    call("acl.rt.mdl_ri_capture_task_update_begin", s, group)
    call("acl.rt.mdl_ri_capture_task_update_end", s)
    same(call("acl.rt.mdl_ri_get_id", model) > 0, True)
    call("acl.rt.mdl_ri_debug_print", model)
    call("acl.rt.mdl_ri_set_name", model, "step")
    same(call("acl.rt.mdl_ri_get_name", model), "step")
    streams = call("acl.rt.mdl_ri_get_streams", model)
    tasks = call("acl.rt.mdl_ri_get_tasks_by_stream", streams[0])
    same((len(streams), call("acl.rt.mdl_ri_task_get_type", tasks[0])), (1, acl.ACL_MODEL_RI_TASK_DEFAULT))
    same([call("acl.rt.mdl_ri_task_get_seq_id", task) for task in tasks], list(range(len(tasks))))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.json")
        call("acl.rt.mdl_ri_debug_json_print", model, path, 0)
        with open(path) as file:
            same(len(json.load(file)), len(tasks))
    call("acl.rt.mdl_ri_task_disable", tasks[1])
    call("acl.rt.mdl_ri_update", model)
    call("acl.rt.destroy_event", event)
    call("acl.rt.mdl_ri_execute_async", model, s)
    call("acl.rt.synchronize_stream", s)
    call("acl.rt.mdl_ri_abort", model)
    call("acl.rt.mdl_ri_destroy", model)
    changed(call, dev, s)
    conditions(call, dev, s)
    built(call)


def changed(call, dev, s):
    """A task whose parameters are read and changed, and a function for the end of the model."""
    ended, kind = [], acl.ACL_MODEL_RI_TASK_VALUE_WRITE
    call("acl.rt.mdl_ri_capture_begin", s, acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
    call("acl.rt.value_write", dev, 7, 0, s)
    model = call("acl.rt.mdl_ri_capture_end", s)
    (task,) = call("acl.rt.mdl_ri_get_tasks_by_stream", call("acl.rt.mdl_ri_get_streams", model)[0])
    params = call("acl.rt.mdl_ri_task_get_params", task)
    same((params["type"], params["valueWriteTaskParams"]), (kind, {"devAddr": dev, "value": 7}))
    call("acl.rt.mdl_ri_task_set_params", task, {"type": kind, "valueWriteTaskParams": {"devAddr": dev, "value": 8}})
    call("acl.rt.mdl_ri_update", model)
    call("acl.rt.mdl_ri_execute_async", model, s)
    call("acl.rt.synchronize_stream", s)
    got = ctypes.create_string_buffer(8)
    call("acl.rt.memcpy", ctypes.addressof(got), 8, dev, 8, D2H)
    same(got.raw, (8).to_bytes(8, "little"))
    call("acl.rt.mdl_ri_destroy_register_callback", model, ended.append, "end")
    call("acl.rt.mdl_ri_destroy_register_callback", model, print, "never")
    call("acl.rt.mdl_ri_destroy_unregister_callback", model, print)
    call("acl.rt.mdl_ri_destroy", model)
    same(ended, ["end"])


def built(call):
    """A model that is built by hand: a stream that starts another one, a switch that is not taken, and a jump."""
    model, word = call("acl.rt.mdl_ri_build_begin", 0), call("acl.rt.malloc", 64, 0)
    call("acl.rt.memset", word, 64, 0, 64)
    head, other = (call("acl.rt.create_stream_with_config", 0, acl.ACL_STREAM_PERSISTENT) for _ in range(2))
    call("acl.rt.mdl_ri_bind_stream", model, head, 0)
    call("acl.rt.mdl_ri_bind_stream", model, other, 0x7FFFFFFF)
    label = call("acl.rt.create_label")
    labels = call("acl.rt.create_label_list", [label])
    call("acl.rt.switch_stream", word, acl.ACL_RT_NOT_EQUAL, word, acl.ACL_RT_SWITCH_INT32, other, 0, head)
    call("acl.rt.switch_label_by_index", word, 0, labels, head)
    call("acl.rt.memset_async", word, 64, 9, 64, head)
    call("acl.rt.set_label", label, head)
    call("acl.rt.active_stream", other, head)
    call("acl.rt.memset_async", word + 8, 8, 7, 8, other)
    parameters = updated(call, word, other)
    call("acl.rt.mdl_ri_end_task", model, other)
    call("acl.rt.mdl_ri_build_end", model, 0)
    call("acl.rt.mdl_ri_execute", model, 60000)
    got = ctypes.create_string_buffer(16)
    call("acl.rt.memcpy", ctypes.addressof(got), 16, word, 16, D2H)
    same(got.raw, bytes(8) + bytes([7]) * 8)
    call("acl.rt.memcpy", ctypes.addressof(got), 16, word + 16, 16, D2H)
    same((got.raw[:8], got.raw[8:12] < bytes([5, 0, 0, 0])), (bytes(8), True))
    call("acl.rt.free", parameters)
    call("acl.rt.mdl_ri_unbind_stream", model, head)
    call("acl.rt.mdl_ri_destroy", model)
    call("acl.rt.destroy_label_list", labels)
    call("acl.rt.destroy_label", label)
    for stream in (head, other):
        call("acl.rt.destroy_stream", stream)
    call("acl.rt.free", word)


def updated(call, word, stream):
    """A number that is drawn to another place than the task said, which lies in device memory."""

    def number(value, size):
        return {"valueOrAddr": value, "size": size}

    task = {
        "dataType": acl.ACL_UINT32,
        "randomNumFuncParaInfo": {"funcType": 1, "paramInfo": {"uniformDisInfo": {"min": number(0, 4), "max": number(5, 4)}}},
        "randomResultAddr": word + 16,
        "randomCounterAddr": word + 32,
        "randomSeed": number(42, 8),
        "randomNum": number(1, 8),
    }
    same(rt.random_num_async(task, stream, 0), 0)
    task_id = call("acl.rt.get_thread_last_task_id")
    changed_task = _structs.struct_of(_structs.aclrtRandomNumTaskInfo)({**task, "randomResultAddr": word + 24})
    place = call("acl.rt.malloc", 104, 0)
    call("acl.rt.memcpy", place, 104, ctypes.addressof(changed_task), 104, H2D)
    call("acl.rt.memset", word + 24, 4, 9, 4)
    info = {"id": acl.ACL_RT_UPDATE_RANDOM_TASK, "val": {"randomTaskAttr": {"srcAddr": place, "size": 104}}}
    call("acl.rt.task_update_async", stream, task_id, info, 0)
    call("acl.rt.synchronize_stream", 0)
    return place


def conditions(call, dev, s):
    """A branch that is taken, and one that is not."""
    inner, words = call("acl.rt.create_stream"), [call("acl.rt.malloc", 64, 0) for _ in range(2)]
    call("acl.rt.mdl_ri_capture_begin", s, acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
    _, model = call("acl.rt.mdl_ri_capture_get_info", s)
    for value, word in enumerate(words):
        call("acl.rt.memset_async", word, 64, 0, 64, s)
        handle = call("acl.rt.mdl_ri_cond_handle_create", model, value, acl.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT)
        same(call("acl.rt.mdl_ri_cond_handle_get_cond_ptr", handle) > 0, True)
        (sub,) = call("acl.rt.mdl_ri_add_cond_task", handle, acl.ACL_MODEL_RI_COND_TYPE_IF, 1, s, 0)
        call("acl.rt.mdl_ri_capture_to_model_ri_begin", inner, sub, acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
        call("acl.rt.memset_async", word, 64, 7, 64, inner)
        same(call("acl.rt.mdl_ri_capture_end", inner), sub)
    call("acl.rt.mdl_ri_capture_end", s)
    call("acl.rt.mdl_ri_execute_async", model, s)
    call("acl.rt.synchronize_stream", s)
    for word, byte in zip(words, (0, 7)):
        got = ctypes.create_string_buffer(64)
        call("acl.rt.memcpy", ctypes.addressof(got), 64, word, 64, D2H)
        same(got.raw, bytes([byte]) * 64)
        call("acl.rt.free", word)
    call("acl.rt.mdl_ri_destroy", model)
    call("acl.rt.destroy_stream", inner)


def callbacks(call, dev, s):
    ran = []
    context = call("acl.rt.get_context")
    ready, done = threading.Event(), threading.Event()

    def report(arguments):
        rt.set_context(context)
        ready.wait()
        call("acl.rt.process_report", 60000)
        done.wait()

    tid, _ = util.start_thread(report, None)
    call("acl.rt.subscribe_report", tid, s)
    ready.set()
    call("acl.rt.launch_callback", ran.append, 1, acl.ACL_CALLBACK_BLOCK, s)
    call("acl.rt.synchronize_stream", s)
    call("acl.rt.unsubscribe_report", tid, s)
    done.set()
    same(util.stop_thread(tid), 0)
    call("acl.rt.launch_host_func", s, ran.append, 2)
    call("acl.rt.synchronize_stream", s)
    same(ran, [1, 2])

    got = []
    getters = ("task_id", "stream_id", "thread_id", "device_id", "error_code")

    def on_exception(info):
        got.append([call(f"acl.rt.get_{getter}_from_exception_info", info) for getter in getters])

    call("acl.rt.set_exception_info_callback", on_exception)
    same(rt.memcpy_async(dev, 64, 4096, 64, D2D, s), 0)  # no memory: it fails when it runs
    failure = rt.synchronize_stream(s)
    same(failure, acl.ACL_ERROR_RT_SYS_DMA)
    same((got[0][3], got[0][4]), (0, failure))
    same(call("acl.rt.peek_at_last_error", acl.ACL_RT_THREAD_LEVEL), failure)
    same(call("acl.rt.get_last_error", acl.ACL_RT_THREAD_LEVEL), failure)
    same(str(failure) in call("acl.get_recent_err_msg"), True)
    call("acl.rt.set_exception_info_callback", None)


def end(call, dev, host, s):
    call("acl.rt.reset_overflow_status", s)
    call("acl.rt.get_overflow_status", dev, 64, s)
    call("acl.rt.cmo_async", dev, SIZE, acl.ACL_RT_CMO_TYPE_PREFETCH, s)
    same(call("acl.rt.cmo_get_desc_size"), 32)
    call("acl.rt.cmo_set_desc", dev, dev, SIZE)
    call("acl.rt.prof_trace", host, 18, s)
    call("acl.rt.reset_float_overflow_status", s)
    call("acl.rt.get_float_overflow_status", dev, 64, s)
    call("acl.rt.npu_clear_float_over_flow_status", 0, s)
    where = dev.to_bytes(8, "little")  # kept while it is copied
    call("acl.rt.memcpy", dev + 64, 8, util.bytes_to_ptr(where), 8, H2D)
    call("acl.rt.npu_get_float_over_flow_status", dev + 64, 64, 0, s)
    call("acl.rt.synchronize_stream", s)
    call("acl.rt.device_task_abort", 0, 1000)
    call("acl.rt.free", dev)
    call("acl.rt.free_host", host)
    call("acl.rt.destroy_stream", s)
    call("acl.rt.reset_device", 0)
    call("acl.rt.set_device", 1)
    call("acl.rt.reset_device_force", 1)
    call("acl.finalize_reference")
    call("acl.init")
    call("acl.finalize")


def program():
    call = Session()
    start(call)
    marks(call)
    devices(call)
    contexts(call)
    dev, host = memory(call)
    s = streams(call)
    copies(call, dev, host, s)
    events(call, s)
    models(call, dev, host, s)
    callbacks(call, dev, s)
    end(call, dev, host, s)
    missing = sorted(FORMS - call.succeeded)
    print(len(call.succeeded), "succeeded; missing:", *missing)
    return 1 if missing else 0


class TestSuccess(unittest.TestCase):
    def test_every_built_form_succeeds(self):
        with tempfile.TemporaryDirectory() as home:
            os.makedirs(os.path.join(home, "share/info/runtime"))
            with open(os.path.join(home, "share/info/runtime/version.info"), "w") as file:
                file.write("Version=8.0.0\n")
            done = run_program(os.path.abspath(__file__), "program", ASCEND_HOME_PATH=home, ROPEWAY_TRACE=os.path.join(home, "trace"))
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertGreater(len(FORMS), 150)


if __name__ == "__main__":
    sys.exit(program() if sys.argv[1:] == ["program"] else unittest.main())
