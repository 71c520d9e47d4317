package ucx

// The following structs have the layout of C. Names are those of ucp.h without their prefix.

// apiMajor and apiMinor are the version of the layouts.
const (
	apiMajor = 1
	apiMinor = 13
)

const (
	paramFeatures = 1 << 0 // UCP_PARAM_FIELD_FEATURES
	paramShared   = 1 << 5 // UCP_PARAM_FIELD_MT_WORKERS_SHARED

	featureWakeup = 1 << 4 // UCP_FEATURE_WAKEUP
	featureAM     = 1 << 6 // UCP_FEATURE_AM

	workerThreadMode = 1 << 0  // UCP_WORKER_PARAM_FIELD_THREAD_MODE
	workerEvents     = 1 << 2  // UCP_WORKER_PARAM_FIELD_EVENTS
	threadSerialized = 1       // UCS_THREAD_MODE_SERIALIZED
	wakeupTX         = 1 << 10 // UCP_WAKEUP_TX
	wakeupRX         = 1 << 11 // UCP_WAKEUP_RX

	epRemoteAddress = 1 << 0 // UCP_EP_PARAM_FIELD_REMOTE_ADDRESS
	epErrMode       = 1 << 1 // UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
	epErrHandler    = 1 << 2 // UCP_EP_PARAM_FIELD_ERR_HANDLER
	errModePeer     = 1      // UCP_ERR_HANDLING_MODE_PEER
	closeForce      = 1 << 0 // UCP_EP_CLOSE_FLAG_FORCE

	opCallback   = 1 << 1 // UCP_OP_ATTR_FIELD_CALLBACK
	opUserData   = 1 << 2 // UCP_OP_ATTR_FIELD_USER_DATA
	opFlags      = 1 << 4 // UCP_OP_ATTR_FIELD_FLAGS
	opMemoryType = 1 << 6 // UCP_OP_ATTR_FIELD_MEMORY_TYPE
	memoryHost   = 0      // UCS_MEMORY_TYPE_HOST

	amEager = 1 << 1 // UCP_AM_SEND_FLAG_EAGER

	recvRndv = 1 << 17 // UCP_AM_RECV_ATTR_FLAG_RNDV

	handlerID   = 1 << 0 // UCP_AM_HANDLER_PARAM_FIELD_ID
	handlerFlag = 1 << 1 // UCP_AM_HANDLER_PARAM_FIELD_FLAGS
	handlerCB   = 1 << 2 // UCP_AM_HANDLER_PARAM_FIELD_CB
	handlerArg  = 1 << 3 // UCP_AM_HANDLER_PARAM_FIELD_ARG
	wholeMsg    = 1 << 0 // UCP_AM_FLAG_WHOLE_MSG

	statusOK         = 0
	statusInProgress = 1    // UCS_INPROGRESS
	statusBusy       = -15  // UCS_ERR_BUSY
	statusCanceled   = -16  // UCS_ERR_CANCELED
	statusLast       = -100 // UCS_ERR_LAST
)

// Fields without a name are not used.

// params is ucp_params_t.
type params struct {
	mask, features  uint64
	_               [4]uint64
	mtWorkersShared int32
	_               int32
	_               [2]uint64
	name            uintptr
}

// workerParams is ucp_worker_params_t.
type workerParams struct {
	mask       uint64
	threadMode int32
	_          int32
	cpuMask    [128]byte
	events     uint32
	_          uint32
	_          uintptr
	eventFD    int32
	_          int32
	_          [3]uint64
	clientID   uint64
}

// epParams is ucp_ep_params_t.
type epParams struct {
	mask       uint64
	address    uintptr
	errMode    int32
	_          int32
	errHandler uintptr
	errArg     uintptr
	_          uintptr
	flags      uint32
	_          uint32
	_          [6]uint64
}

// handlerParam is ucp_am_handler_param_t.
type handlerParam struct {
	mask  uint64
	id    uint32
	flags uint32
	cb    uintptr
	arg   uintptr
}

// recvParam is ucp_am_recv_param_t.
type recvParam struct {
	attr uint64
	_    uintptr
}

// requestParam is ucp_request_param_t.
type requestParam struct {
	mask       uint32
	flags      uint32
	_          uintptr
	cb         uintptr
	datatype   uint64
	userData   uintptr
	_          uintptr
	memoryType int32
	_          int32
	recvInfo   uintptr
	_          uintptr
}
