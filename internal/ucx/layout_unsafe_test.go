package ucx

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"ropeway/internal/testenv"
)

// TestLayout proves that structs and constants are those of the installed headers.
func TestLayout(t *testing.T) {
	testenv.Need(t, "gcc")
	if _, err := os.Stat("/usr/include/ucp/api/ucp.h"); err != nil {
		testenv.Missing(t, "ucp.h is missing: apt-get install libucx-dev")
	}
	want := map[string]uint64{ // an offset, a size or a constant, by its expression in C
		"UCP_PARAM_FIELD_MT_WORKERS_SHARED": paramShared,
		"UCP_PARAM_FIELD_FEATURES":          paramFeatures,
		"UCP_FEATURE_WAKEUP":                featureWakeup, "UCP_FEATURE_AM": featureAM,
		"UCP_WORKER_PARAM_FIELD_THREAD_MODE": workerThreadMode, "UCP_WORKER_PARAM_FIELD_EVENTS": workerEvents,
		"UCS_THREAD_MODE_SERIALIZED": threadSerialized, "UCP_WAKEUP_TX": wakeupTX, "UCP_WAKEUP_RX": wakeupRX,
		"UCP_EP_PARAM_FIELD_REMOTE_ADDRESS":    epRemoteAddress,
		"UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE": epErrMode, "UCP_EP_PARAM_FIELD_ERR_HANDLER": epErrHandler,
		"UCP_ERR_HANDLING_MODE_PEER": errModePeer, "UCP_EP_CLOSE_FLAG_FORCE": closeForce,
		"UCP_OP_ATTR_FIELD_CALLBACK": opCallback, "UCP_OP_ATTR_FIELD_USER_DATA": opUserData,
		"UCP_OP_ATTR_FIELD_FLAGS":       opFlags,
		"UCP_OP_ATTR_FIELD_MEMORY_TYPE": opMemoryType,
		"UCS_MEMORY_TYPE_HOST":          memoryHost,
		"UCP_AM_SEND_FLAG_EAGER":        amEager, "UCP_AM_RECV_ATTR_FLAG_RNDV": recvRndv,
		"UCP_AM_HANDLER_PARAM_FIELD_ID": handlerID, "UCP_AM_HANDLER_PARAM_FIELD_FLAGS": handlerFlag,
		"UCP_AM_HANDLER_PARAM_FIELD_CB": handlerCB, "UCP_AM_HANDLER_PARAM_FIELD_ARG": handlerArg,
		"UCP_AM_FLAG_WHOLE_MSG": wholeMsg,
		"UCS_OK":                statusOK, "UCS_INPROGRESS": statusInProgress,
		"-UCS_ERR_BUSY":     -statusBusy,
		"-UCS_ERR_CANCELED": -statusCanceled,
		"-UCS_ERR_LAST":     -statusLast, "UCP_API_MAJOR": apiMajor,
		"sizeof(ucs_status_t)": 1, "(ucs_status_t)-1 < 0": 1,
	}
	size := func(c string, size uintptr) { want["sizeof("+c+")"] = uint64(size) }
	field := func(c, field string, offset, size uintptr) {
		want["offsetof("+c+","+field+")"] = uint64(offset)
		want["sizeof((("+c+"*)0)->"+field+")"] = uint64(size)
	}
	var p params
	size("ucp_params_t", unsafe.Sizeof(p))
	field("ucp_params_t", "field_mask", unsafe.Offsetof(p.mask), unsafe.Sizeof(p.mask))
	field("ucp_params_t", "features", unsafe.Offsetof(p.features), unsafe.Sizeof(p.features))
	field("ucp_params_t", "mt_workers_shared", unsafe.Offsetof(p.mtWorkersShared), unsafe.Sizeof(p.mtWorkersShared))
	field("ucp_params_t", "name", unsafe.Offsetof(p.name), unsafe.Sizeof(p.name))
	var w workerParams
	size("ucp_worker_params_t", unsafe.Sizeof(w))
	field("ucp_worker_params_t", "field_mask", unsafe.Offsetof(w.mask), unsafe.Sizeof(w.mask))
	field("ucp_worker_params_t", "thread_mode", unsafe.Offsetof(w.threadMode), unsafe.Sizeof(w.threadMode))
	field("ucp_worker_params_t", "cpu_mask", unsafe.Offsetof(w.cpuMask), unsafe.Sizeof(w.cpuMask))
	field("ucp_worker_params_t", "events", unsafe.Offsetof(w.events), unsafe.Sizeof(w.events))
	field("ucp_worker_params_t", "event_fd", unsafe.Offsetof(w.eventFD), unsafe.Sizeof(w.eventFD))
	field("ucp_worker_params_t", "client_id", unsafe.Offsetof(w.clientID), unsafe.Sizeof(w.clientID))
	var e epParams
	size("ucp_ep_params_t", unsafe.Sizeof(e))
	field("ucp_ep_params_t", "field_mask", unsafe.Offsetof(e.mask), unsafe.Sizeof(e.mask))
	field("ucp_ep_params_t", "address", unsafe.Offsetof(e.address), unsafe.Sizeof(e.address))
	field("ucp_ep_params_t", "err_mode", unsafe.Offsetof(e.errMode), unsafe.Sizeof(e.errMode))
	field("ucp_ep_params_t", "err_handler.cb", unsafe.Offsetof(e.errHandler), unsafe.Sizeof(e.errHandler))
	field("ucp_ep_params_t", "err_handler.arg", unsafe.Offsetof(e.errArg), unsafe.Sizeof(e.errArg))
	field("ucp_ep_params_t", "flags", unsafe.Offsetof(e.flags), unsafe.Sizeof(e.flags))
	var h handlerParam
	size("ucp_am_handler_param_t", unsafe.Sizeof(h))
	field("ucp_am_handler_param_t", "field_mask", unsafe.Offsetof(h.mask), unsafe.Sizeof(h.mask))
	field("ucp_am_handler_param_t", "id", unsafe.Offsetof(h.id), unsafe.Sizeof(h.id))
	field("ucp_am_handler_param_t", "flags", unsafe.Offsetof(h.flags), unsafe.Sizeof(h.flags))
	field("ucp_am_handler_param_t", "cb", unsafe.Offsetof(h.cb), unsafe.Sizeof(h.cb))
	field("ucp_am_handler_param_t", "arg", unsafe.Offsetof(h.arg), unsafe.Sizeof(h.arg))
	var r recvParam
	size("ucp_am_recv_param_t", unsafe.Sizeof(r))
	field("ucp_am_recv_param_t", "recv_attr", unsafe.Offsetof(r.attr), unsafe.Sizeof(r.attr))
	var q requestParam
	size("ucp_request_param_t", unsafe.Sizeof(q))
	field("ucp_request_param_t", "op_attr_mask", unsafe.Offsetof(q.mask), unsafe.Sizeof(q.mask))
	field("ucp_request_param_t", "flags", unsafe.Offsetof(q.flags), unsafe.Sizeof(q.flags))
	field("ucp_request_param_t", "cb", unsafe.Offsetof(q.cb), unsafe.Sizeof(q.cb))
	field("ucp_request_param_t", "datatype", unsafe.Offsetof(q.datatype), unsafe.Sizeof(q.datatype))
	field("ucp_request_param_t", "user_data", unsafe.Offsetof(q.userData), unsafe.Sizeof(q.userData))
	field("ucp_request_param_t", "memory_type", unsafe.Offsetof(q.memoryType), unsafe.Sizeof(q.memoryType))
	field("ucp_request_param_t", "recv_info", unsafe.Offsetof(q.recvInfo), unsafe.Sizeof(q.recvInfo))

	got := evaluate(t, want)
	newer := got["UCP_API_MINOR"] > apiMinor // structs may have grown: masks say what counts
	for c, v := range want {
		if got[c] != v && !(newer && strings.HasPrefix(c, "sizeof(ucp_") && got[c] > v) {
			t.Errorf("%s is %d in C, %d here", c, got[c], v)
		}
	}
}

// evaluate is what C makes of expressions, and of UCP_API_MINOR.
func evaluate(t *testing.T, of map[string]uint64) map[string]uint64 {
	t.Helper()
	var c strings.Builder
	c.WriteString("#include <stdio.h>\n#include <stddef.h>\n#include <ucp/api/ucp.h>\nint main(void) {\n")
	line := func(e string) { fmt.Fprintf(&c, "printf(\"%%llu %s\\n\", (unsigned long long)(%s));\n", e, e) }
	for e := range of {
		line(e)
	}
	line("UCP_API_MINOR")
	c.WriteString("}\n")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(source, []byte(c.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(ctx, "gcc", source, "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.CommandContext(ctx, program).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		var v uint64
		n, e, _ := strings.Cut(s.Text(), " ")
		fmt.Sscan(n, &v)
		got[e] = v
	}
	return got
}
