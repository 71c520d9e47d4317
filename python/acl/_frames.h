/*
 * The frames of a Python program, for the checker (libropeway_check.so) and for recordings. Before each call, and at
 * the checker's request when the program accesses memory, the frames of the calling thread are written to its record:
 * the line, and a number for each function, which is assigned once for each code object. For a program that is only
 * recorded, the innermost frame is enough.
 *
 * All of this runs with the interpreter lock held, which guards the variables of this file. Without checker and
// recorder the cost is one branch.
 */
#include <dlfcn.h>

/* Functions of a checker and of the interpreter. Some of the interpreter's are not in its stable ABI, so they are
 * looked up. */
static struct {
	int on;                        /* frames are reported */
	ropeway_call *(*record)(void); /* of the checker; NULL: the program is only recorded */
	uint32_t (*name)(const char *file, const char *function);
	PyObject *(*code)(PyFrameObject *);      /* PyFrame_GetCode */
	PyFrameObject *(*back)(PyFrameObject *); /* PyFrame_GetBack */
	int (*line)(PyFrameObject *);            /* PyFrame_GetLineNumber */
	int (*lasti)(PyFrameObject *);           /* PyFrame_GetLasti; NULL before Python 3.11 */
} watch;

/* The treatment of the frames of a function: a number, or one of these. */
enum { LEFT_OUT = 0, OUTERMOST = UINT32_MAX };

static PyObject *codes;     /* the treatment of a function, with its code object, by the address of the code object */
static PyObject *left_out;  /* parts of file names: bytes */
static PyObject *outermost; /* functions in those files at which a stack ends: bytes */

static int pop_top = -1; /* the instruction that drops a value; -1 if unknown */

enum { MOST_CODES = 1 << 16, MOST_STEPS = 256, PLACES = 1 << 10 };

/* A cache of places. `codes` keeps the code objects alive. */
static struct place {
	PyObject *code;
	int lasti;
	uint32_t what, line;
} places[PLACES];

/* An attribute with a text, as bytes for C. NULL without an exception if there is none. */
static PyObject *text_of(PyObject *object, const char *attribute)
{
	PyObject *text = PyObject_GetAttrString(object, attribute);
	PyObject *bytes = text && PyUnicode_Check(text) ? PyUnicode_EncodeFSDefault(text) : NULL;
	Py_XDECREF(text);
	if (!bytes)
		PyErr_Clear();
	return bytes;
}

static const char *item_of(PyObject *tuple, Py_ssize_t i)
{
	return PyBytes_AsString(PyTuple_GetItem(tuple, i));
}

/* Determines the treatment of a new function. */
static uint32_t judge_code(PyObject *code)
{
	PyObject *file = text_of(code, "co_filename");
	PyObject *name = text_of(code, "co_name");
	PyObject *whole = text_of(code, "co_qualname"); /* from Python 3.11 on */
	uint32_t what = LEFT_OUT;
	if (file && name) {
		int out = 0;
		for (Py_ssize_t i = 0; i < PyTuple_Size(left_out); i++)
			out = out || strstr(PyBytes_AsString(file), item_of(left_out, i));
		if (!out)
			what = watch.name(PyBytes_AsString(file), PyBytes_AsString(whole ? whole : name));
		for (Py_ssize_t i = 0; out && i < PyTuple_Size(outermost); i++)
			if (strcmp(PyBytes_AsString(name), item_of(outermost, i)) == 0)
				what = OUTERMOST;
	}
	Py_XDECREF(file);
	Py_XDECREF(name);
	Py_XDECREF(whole);
	return what;
}

/* The same for any function, and whether its code object is kept. */
static uint32_t what_of(PyObject *code, int *kept)
{
	uint32_t what = LEFT_OUT;
	*kept = 0;
	PyObject *key = PyLong_FromVoidPtr(code);
	PyObject *known = key ? PyDict_GetItemWithError(codes, key) : NULL;
	if (known) {
		what = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GetItem(known, 0));
		*kept = 1;
	} else if (key && PyDict_Size(codes) < MOST_CODES) {
		what = judge_code(code);
		PyObject *made = Py_BuildValue("(kO)", (unsigned long)what, code);
		*kept = made && PyDict_SetItem(codes, key, made) == 0;
		Py_XDECREF(made);
	}
	Py_XDECREF(key);
	PyErr_Clear();
	return what;
}

/* Looks up the number of an instruction. It leaves no exception set. */
static int opcode_of(const char *name)
{
	PyObject *module = PyImport_ImportModule("opcode");
	PyObject *map = module ? PyObject_GetAttrString(module, "opmap") : NULL;
	PyObject *number = map ? PyMapping_GetItemString(map, name) : NULL;
	int found = number ? (int)PyLong_AsLong(number) : -1;
	Py_XDECREF(number);
	Py_XDECREF(map);
	Py_XDECREF(module);
	PyErr_Clear();
	return found;
}

/* Whether the instruction after the call at lasti drops its value. The inline cache of the interpreter, which is
 * zeros, is between the two. */
static int drops(PyObject *code, int lasti)
{
	PyObject *text = pop_top >= 0 && lasti >= 0 ? PyObject_GetAttrString(code, "co_code") : NULL;
	int found = 0;
	if (text && PyBytes_Check(text)) {
		const unsigned char *bytes = (const unsigned char *)PyBytes_AsString(text);
		Py_ssize_t at = (Py_ssize_t)lasti + 2, n = PyBytes_Size(text);
		while (at < n && bytes[at] == 0)
			at += 2;
		found = at < n && bytes[at] == pop_top;
	}
	Py_XDECREF(text);
	PyErr_Clear();
	return found;
}

/* The current instruction of a frame, or -1. Before Python 3.11 only an attribute has it. */
static int lasti_of(PyFrameObject *frame)
{
	if (watch.lasti)
		return watch.lasti(frame);
	PyObject *number = PyObject_GetAttrString((PyObject *)frame, "f_lasti");
	long lasti = number ? PyLong_AsLong(number) : -1;
	Py_XDECREF(number);
	PyErr_Clear();
	return (int)lasti;
}

/* Returns the place of a frame. */
static struct place place_of(PyFrameObject *frame)
{
	struct place here = {.code = watch.code(frame), .lasti = lasti_of(frame)};
	size_t slot = ((uintptr_t)here.code / 16 + (size_t)here.lasti * 31) % PLACES;
	if (here.lasti >= 0 && places[slot].code == here.code && places[slot].lasti == here.lasti) {
		Py_DECREF(here.code);
		return places[slot];
	}
	int kept, line = watch.line(frame);
	here.what = what_of(here.code, &kept);
	here.line = (line > 0 ? (uint32_t)line : 0) | (drops(here.code, here.lasti) ? ROPEWAY_DROPPED : 0);
	if (kept)
		places[slot] = here;
	Py_DECREF(here.code);
	return here;
}

/* Writes the frames of the calling thread, innermost first. No exception may be set, and it leaves none set. */
static void write_frames(ropeway_call *call)
{
	uint32_t n = 0;
	PyFrameObject *frame = PyEval_GetFrame();
	Py_XINCREF(frame);
	for (int steps = 0; frame && n < ROPEWAY_DEPTH && steps < MOST_STEPS; steps++) {
		struct place here = place_of(frame);
		if (here.what == OUTERMOST)
			break;
		if (here.what != LEFT_OUT) {
			call->names[n].name = here.what;
			call->names[n].line = n == 0 ? here.line : here.line & ~ROPEWAY_DROPPED;
			n++;
		}
		PyFrameObject *outer = watch.back(frame);
		Py_DECREF(frame);
		frame = outer;
	}
	Py_XDECREF(frame);
	call->named = n;
}

/* libascendcl.so; see capi/shim/shim.c. */
extern ropeway_site *ropeway_site_of_thread(void);
extern uint32_t ropeway_name_frame(const char *file, const char *function);

/* Writes the innermost frame of the calling thread. */
static void write_site(ropeway_site *site)
{
	PyFrameObject *frame = PyEval_GetFrame();
	Py_XINCREF(frame);
	for (int steps = 0; frame && steps < MOST_STEPS; steps++) {
		struct place here = place_of(frame);
		PyFrameObject *outer = watch.back(frame);
		Py_DECREF(frame);
		frame = outer;
		if (here.what != OUTERMOST && here.what != LEFT_OUT) {
			site->name = here.what;
			site->line = here.line & ~ROPEWAY_DROPPED;
			break;
		}
	}
	Py_XDECREF(frame);
}

static inline void note_frames(void)
{
	if (__builtin_expect(!watch.on, 1))
		return;
	if (watch.record)
		write_frames(watch.record());
	else
		write_site(ropeway_site_of_thread());
}

/* After a call: the thread's next call may have other frames. */
static inline void forget_frames(void)
{
	if (__builtin_expect(!watch.on, 1))
		return;
	if (watch.record)
		watch.record()->named = 0;
	else
		ropeway_site_of_thread()->name = 0;
}

/* Around a call of the C library. */
#define BEGIN_CALL   \
	note_frames(); \
	Py_BEGIN_ALLOW_THREADS
#define END_CALL             \
	Py_END_ALLOW_THREADS \
	forget_frames();

/*
 * Called by the checker when the program accesses memory: anywhere in C, with or without the interpreter lock,
 * perhaps with an exception set, perhaps in a thread that Python does not know. Without the lock it waits for it: if
 * a thread holds the lock and waits for this thread, both wait for ever.
 */
static void provide_frames(ropeway_call *call)
{
	call->named = 0;
	if (!PyGILState_GetThisThreadState())
		return;
	PyGILState_STATE state = PyGILState_Ensure();
	PyObject *type, *value, *trace;
	PyErr_Fetch(&type, &value, &trace);
	write_frames(call);
	PyErr_Restore(type, value, trace);
	PyGILState_Release(state);
}

/* watch_frames(checked, left_out, outermost) -> bool: starts reporting frames to the checker or else to the recorder.
 * False if it cannot. */
static PyObject *watch_frames(PyObject *self, PyObject *args)
{
	(void)self;
	int checked;
	PyObject *out, *outer;
	if (!PyArg_ParseTuple(args, "pO!O!", &checked, &PyTuple_Type, &out, &PyTuple_Type, &outer))
		return NULL;
	ropeway_call *(*record)(void) = NULL;
	void (*frames_by)(void (*)(ropeway_call *)) = NULL;
	watch.name = ropeway_name_frame;
	if (checked) {
		void *checker = dlopen("libropeway_check.so", RTLD_NOLOAD | RTLD_LAZY);
		if (!checker)
			Py_RETURN_FALSE;
		record = (ropeway_call * (*)(void))(uintptr_t)dlsym(checker, "ropeway_check_record");
		frames_by = (void (*)(void (*)(ropeway_call *)))(uintptr_t)dlsym(checker, "ropeway_check_frames_by");
		watch.name = (uint32_t(*)(const char *, const char *))(uintptr_t)dlsym(checker, "ropeway_check_name_frame");
		if (!record || !frames_by || !watch.name)
			Py_RETURN_FALSE;
	}
	watch.code = (PyObject * (*)(PyFrameObject *))(uintptr_t)dlsym(RTLD_DEFAULT, "PyFrame_GetCode");
	watch.back = (PyFrameObject * (*)(PyFrameObject *))(uintptr_t)dlsym(RTLD_DEFAULT, "PyFrame_GetBack");
	watch.line = (int (*)(PyFrameObject *))(uintptr_t)dlsym(RTLD_DEFAULT, "PyFrame_GetLineNumber");
	pop_top = opcode_of("POP_TOP");
	watch.lasti = (int (*)(PyFrameObject *))(uintptr_t)dlsym(RTLD_DEFAULT, "PyFrame_GetLasti");
	if (!watch.code || !watch.back || !watch.line)
		Py_RETURN_FALSE;
	if (!codes && !(codes = PyDict_New()))
		return NULL;
	Py_INCREF(out);
	Py_INCREF(outer);
	left_out = out;
	outermost = outer;
	watch.record = record;
	watch.on = 1;
	if (frames_by)
		frames_by(provide_frames);
	Py_RETURN_TRUE;
}

/* For calls that are made elsewhere: note_frames() before one, forget_frames() after it. */
static PyObject *note_frames_now(PyObject *self, PyObject *none)
{
	(void)self;
	(void)none;
	note_frames();
	Py_RETURN_NONE;
}

static PyObject *forget_frames_now(PyObject *self, PyObject *none)
{
	(void)self;
	(void)none;
	forget_frames();
	Py_RETURN_NONE;
}
