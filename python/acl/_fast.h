/*
 * Shared code of the extension's functions: converting arguments and results, waiting.
 *
 * Only the stable ABI of Python 3.9 is used, so one build serves that version and all later ones. The interpreter lock is
 * released around every call: a callback in a stream needs it, so a thread that waits for the stream with the lock
 * held would wait for ever, and any call may wait.
 */
#define _GNU_SOURCE /* RTLD_DEFAULT, in headers of glibc before 2.35 */

#include "_python.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "acl/acl_rt_memory_soma.h"
#include "entry.h"

#include "_frames.h"

/* libascendcl.so; see capi/shim/shim.c. */
extern aclError ropeway_wait(int32_t what, void *handle, int32_t milliseconds, int32_t *over);

/* Milliseconds of a wait after which Python's signals are checked. */
#define SLICE 50

typedef enum { ADDRESS, HANDLE, UINT64, INT64, UINT32, INT32, UINT16, FLOAT } type;

typedef struct {
	const char *name;
	type type;
} param;

/* Sets the exception for an argument i of the wrong type. */
static void wrong_type(const char *function, const param *p, int i, PyObject *given)
{
	PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(given), "__name__");
	if (!name)
		return;
	const char *hint = "";
	if (PyBytes_Check(given))
		hint = "; use acl.util.bytes_to_ptr";
	else if (PyUnicode_CompareWithASCIIString(name, "ndarray") == 0)
		hint = "; use acl.util.numpy_contiguous_to_ptr";
	else if (given == Py_None && p->type <= HANDLE)
		hint = "; NULL is 0";
	PyErr_Format(PyExc_TypeError, "%s: argument %d (%s) must be %s, not %U%s", function, i + 1, p->name,
		     p->type == FLOAT ? "float" : "int", name, p->type <= HANDLE ? hint : "");
	Py_DECREF(name);
}

/* Sets the exception for an argument i that is too large. */
static void too_large(const char *function, const param *p, int i, int bits)
{
	PyErr_Format(PyExc_OverflowError, "%s: argument %d (%s) does not fit %d bits", function, i + 1, p->name, bits);
}

static int take_float(const char *function, const param *p, int i, PyObject *given, uint64_t *slot)
{
	double d = PyFloat_AsDouble(given);
	if (d == -1.0 && PyErr_Occurred()) {
		if (PyErr_ExceptionMatches(PyExc_TypeError))
			wrong_type(function, p, i, given);
		else if (PyErr_ExceptionMatches(PyExc_OverflowError))
			too_large(function, p, i, 32);
		return 0;
	}
	float f = (float)d;
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	*slot = bits;
	return 1;
}

static inline float float_of(uint64_t slot)
{
	uint32_t bits = (uint32_t)slot;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/*
 * Converts an integer to the type as C does: unsigned types accept negative numbers too, as their complement. Numbers
 * with more bits than the type are refused.
 */
static int take_integer(const char *function, const param *p, int i, PyObject *given, uint64_t *slot)
{
	PyObject *held = NULL;
	if (!PyLong_Check(given)) {
		held = PyNumber_Index(given);
		if (!held) {
			if (PyErr_ExceptionMatches(PyExc_TypeError))
				wrong_type(function, p, i, given);
			return 0;
		}
		given = held;
	}
	int overflow;
	long long v = PyLong_AsLongLongAndOverflow(given, &overflow);
	unsigned long long u = (unsigned long long)v;
	if (overflow > 0 && p->type <= UINT64) {
		u = PyLong_AsUnsignedLongLong(given);
		overflow = u == (unsigned long long)-1 && PyErr_Occurred();
		PyErr_Clear();
	}
	Py_XDECREF(held);
	int bits = 64;
	switch (p->type) {
	case INT32:
		bits = 32;
		overflow = overflow || v < INT32_MIN || v > INT32_MAX;
		break;
	case UINT32:
		bits = 32;
		overflow = overflow || v < INT32_MIN || v > UINT32_MAX;
		break;
	case UINT16:
		bits = 16;
		overflow = overflow || v < INT16_MIN || v > UINT16_MAX;
		break;
	default:
		break;
	}
	if (overflow) {
		too_large(function, p, i, bits);
		return 0;
	}
	*slot = u;
	return 1;
}

/* Converts count arguments to slots. Returns 0, with an exception set, if one is invalid. */
static int take(const char *function, const param *params, int count, PyObject *args, uint64_t *slots)
{
	Py_ssize_t given = PyTuple_Size(args);
	if (given != count) {
		char names[200] = "";
		size_t used = 0;
		for (int i = 0; i < count && used < sizeof names; i++)
			used += (size_t)snprintf(names + used, sizeof names - used, i ? ", %s" : "%s", params[i].name);
		PyErr_Format(PyExc_TypeError, "%s: takes %d argument%s (%s), not %zd", function, count, count == 1 ? "" : "s",
			     count ? names : "none", given);
		return 0;
	}
	for (int i = 0; i < count; i++) {
		PyObject *arg = PyTuple_GetItem(args, i);
		if (params[i].type == FLOAT ? !take_float(function, &params[i], i, arg, &slots[i])
					    : !take_integer(function, &params[i], i, arg, &slots[i]))
			return 0;
	}
	return 1;
}

/* A tuple of count objects, whose references it takes. If one is NULL, with an exception set, the result is NULL. */
static PyObject *pack(int count, ...)
{
	PyObject *tuple = PyTuple_New(count);
	int whole = tuple != NULL;
	va_list items;
	va_start(items, count);
	for (int i = 0; i < count; i++) {
		PyObject *item = va_arg(items, PyObject *);
		if (!item || !tuple) {
			whole = 0;
			Py_XDECREF(item);
		} else {
			PyTuple_SetItem(tuple, i, item);
		}
	}
	va_end(items);
	if (!whole) {
		Py_XDECREF(tuple);
		return NULL;
	}
	return tuple;
}

/*
 * Called by the runtime for functions of the program, with their number. It checks for signals, so that an exception
 * of a signal handler can be kept for the main thread's current call: inside the function it would be treated as the
 * function's exception.
 */
static PyObject *runner;			/* takes a number and calls the function; of acl._callbacks */
static PyObject *kept_type, *kept, *kept_trace; /* the exception of a handler; guarded by the interpreter lock */

static void run_function(void *number)
{
	PyGILState_STATE state = PyGILState_Ensure();
	if (PyErr_CheckSignals() < 0) {
		if (kept_type)
			PyErr_Clear(); /* one is enough */
		else
			PyErr_Fetch(&kept_type, &kept, &kept_trace);
	}
	PyObject *result = PyObject_CallFunction(runner, "K", (unsigned long long)(uintptr_t)number);
	if (!result)
		PyErr_WriteUnraisable(runner);
	Py_XDECREF(result);
	PyGILState_Release(state);
}

/* Raises the exception kept during a call. Returns 0, or -1 with the exception set. Only the main thread keeps
 * exceptions. */
static int raise_kept(void)
{
	if (!kept_type)
		return 0;
	PyErr_Restore(kept_type, kept, kept_trace);
	kept_type = kept = kept_trace = NULL;
	return -1;
}

/* set_runner(function) -> int: the address of run_function, which will call function. */
static PyObject *set_runner(PyObject *self, PyObject *function)
{
	(void)self;
	Py_INCREF(function);
	Py_XDECREF(runner);
	runner = function;
	return PyLong_FromVoidPtr((void *)(uintptr_t)run_function);
}

/* Whether functions of the program run in the thread that waits. */
static int runs_functions(int32_t what)
{
	return what == ROPEWAY_WAIT_REPORT;
}

/* Waits one slice. Returns 1 when the wait is over, 0 when it is not, -1 when a signal handler raised. */
static int wait_slice(int32_t what, void *handle, aclError *ret)
{
	int32_t over;
	BEGIN_CALL
	*ret = ropeway_wait(what, handle, SLICE, &over);
	END_CALL
	if (runs_functions(what) && raise_kept() < 0)
		return -1;
	if (over)
		return 1;
	return PyErr_CheckSignals();
}

/* Waits without a limit. */
static PyObject *wait_for(int32_t what, void *handle)
{
	aclError ret;
	int over;
	while (!(over = wait_slice(what, handle, &ret)))
		;
	return over < 0 ? NULL : PyLong_FromLong(ret);
}

static int64_t now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* The number of milliseconds until end, at least 1. */
static int64_t left_to(int64_t end)
{
	int64_t left = (end - now_us() + 999) / 1000;
	return left < 1 ? 1 : left;
}

/*
 * Waits for at most timeout milliseconds; -1 is for ever. The last slice is the real call, so that a timeout, and an
 * invalid timeout value, give the code and message of the C library.
 */
static PyObject *wait_until(int32_t what, void *handle, int32_t timeout, aclError (*real)(const uint64_t *a, int32_t timeout),
			    const uint64_t *a)
{
	if (timeout == -1)
		return wait_for(what, handle);
	aclError ret;
	int64_t end = now_us() + (int64_t)timeout * 1000;
	int64_t left = timeout;
	for (; left > SLICE; left = left_to(end)) {
		int over = wait_slice(what, handle, &ret);
		if (over)
			return over < 0 ? NULL : PyLong_FromLong(ret);
	}
	BEGIN_CALL
	ret = real(a, (int32_t)left);
	END_CALL
	if (runs_functions(what) && raise_kept() < 0)
		return NULL;
	return PyLong_FromLong(ret);
}

/* The result of a void function. */
static PyObject *none(void)
{
	Py_RETURN_NONE;
}

/* Adds a name space with the functions of one module. */
static int add_functions(PyObject *module, const char *attribute, const char *name, PyMethodDef *functions)
{
	PyObject *space = PyModule_New(name);
	if (!space)
		return 0;
	if (PyModule_AddFunctions(space, functions) < 0 || PyModule_AddObject(module, attribute, space) < 0) {
		Py_DECREF(space);
		return 0;
	}
	return 1;
}

/* The extension: acl, rt and prof hold the functions of those modules, TABLE is the fingerprint of its table. */
static PyObject *make_module(PyMethodDef *of_acl, PyMethodDef *of_rt, PyMethodDef *of_prof, unsigned long table)
{
	static PyMethodDef own[] = {
		{"set_runner", set_runner, METH_O, "Says what runs functions that were given to streams."},
		{"watch_frames", watch_frames, METH_VARARGS, "Begins to report to the checker, or the recorder, where the program is."},
		{"note_frames", note_frames_now, METH_NOARGS, "Notes where the program is, before a call."},
		{"forget_frames", forget_frames_now, METH_NOARGS, "After the call."},
		{NULL, NULL, 0, NULL},
	};
	static PyModuleDef definition = {
		PyModuleDef_HEAD_INIT, .m_name = "acl._fast", .m_doc = "The plain functions of acl, acl.rt and acl.prof.", .m_size = -1,
		.m_methods = own};
	PyObject *module = PyModule_Create(&definition);
	if (!module)
		return NULL;
	PyObject *number = PyLong_FromUnsignedLong(table);
	if (!number || PyModule_AddObject(module, "TABLE", number) < 0) {
		Py_XDECREF(number);
		Py_DECREF(module);
		return NULL;
	}
	if (!add_functions(module, "acl", "acl", of_acl) || !add_functions(module, "rt", "acl.rt", of_rt) ||
	    !add_functions(module, "prof", "acl.prof", of_prof)) {
		Py_DECREF(module);
		return NULL;
	}
	return module;
}
