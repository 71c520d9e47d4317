/*
 * The part of Python's stable ABI (Py_LIMITED_API 0x03090000) that the extension uses. It is declared here, so that the extension is built
 * wherever there is a C compiler, also for another processor, without the headers of a Python. Names and meanings: "C API Stability" and
 * "Python/C API Reference Manual" of Python; an interpreter from 3.9 on keeps all of it.
 */
#ifndef ROPEWAY_PYTHON_H
#define ROPEWAY_PYTHON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

typedef ssize_t Py_ssize_t;
typedef struct _typeobject PyTypeObject;
typedef struct _frame PyFrameObject;
typedef struct _ts PyThreadState;
typedef enum { PyGILState_LOCKED, PyGILState_UNLOCKED } PyGILState_STATE;

typedef struct _object {
	Py_ssize_t ob_refcnt;
	PyTypeObject *ob_type;
} PyObject;

typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);

typedef struct {
	const char *ml_name;
	PyCFunction ml_meth;
	int ml_flags;
	const char *ml_doc;
} PyMethodDef;

enum { METH_VARARGS = 0x0001, METH_NOARGS = 0x0004, METH_O = 0x0008 };

typedef struct {
	struct {
		PyObject ob_base;
		PyObject *(*m_init)(void);
		Py_ssize_t m_index;
		PyObject *m_copy;
	} m_base;
	const char *m_name, *m_doc;
	Py_ssize_t m_size;
	PyMethodDef *m_methods;
	void *m_slots, *m_traverse, *m_clear, *m_free;
} PyModuleDef;

#define PyModuleDef_HEAD_INIT .m_base = {.ob_base = {.ob_refcnt = 1}}
#define PyMODINIT_FUNC __attribute__((visibility("default"))) PyObject *

extern PyTypeObject PyTuple_Type;
extern PyObject _Py_NoneStruct, _Py_TrueStruct, _Py_FalseStruct;
extern PyObject *PyExc_OverflowError, *PyExc_TypeError;

/* Objects */
extern void Py_IncRef(PyObject *), Py_DecRef(PyObject *); /* NULL is left alone */
extern unsigned long PyType_GetFlags(PyTypeObject *);
extern PyObject *PyObject_GetAttrString(PyObject *, const char *);
extern PyObject *PyObject_CallFunction(PyObject *, const char *format, ...);
extern PyObject *PyMapping_GetItemString(PyObject *, const char *);
extern PyObject *PyNumber_Index(PyObject *);
extern PyObject *Py_BuildValue(const char *format, ...);
extern int PyArg_ParseTuple(PyObject *, const char *format, ...);

/* Numbers and texts */
extern PyObject *PyFloat_FromDouble(double), *PyLong_FromLong(long), *PyLong_FromLongLong(long long), *PyLong_FromUnsignedLong(unsigned long),
	*PyLong_FromUnsignedLongLong(unsigned long long), *PyLong_FromVoidPtr(void *);
extern double PyFloat_AsDouble(PyObject *);
extern long PyLong_AsLong(PyObject *);
extern long long PyLong_AsLongLongAndOverflow(PyObject *, int *overflow);
extern unsigned long PyLong_AsUnsignedLong(PyObject *);
extern unsigned long long PyLong_AsUnsignedLongLong(PyObject *);
extern char *PyBytes_AsString(PyObject *);
extern Py_ssize_t PyBytes_Size(PyObject *);
extern int PyUnicode_CompareWithASCIIString(PyObject *, const char *);
extern PyObject *PyUnicode_EncodeFSDefault(PyObject *);

/* Tuples and dictionaries */
extern PyObject *PyTuple_New(Py_ssize_t), *PyTuple_GetItem(PyObject *, Py_ssize_t);
extern Py_ssize_t PyTuple_Size(PyObject *), PyDict_Size(PyObject *);
extern int PyTuple_SetItem(PyObject *, Py_ssize_t, PyObject *);
extern PyObject *PyDict_New(void), *PyDict_GetItemWithError(PyObject *, PyObject *);
extern int PyDict_SetItem(PyObject *, PyObject *, PyObject *);

/* Errors */
extern PyObject *PyErr_Occurred(void), *PyErr_Format(PyObject *, const char *format, ...);
extern int PyErr_ExceptionMatches(PyObject *), PyErr_CheckSignals(void);
extern void PyErr_Clear(void), PyErr_WriteUnraisable(PyObject *);
extern void PyErr_Fetch(PyObject **, PyObject **, PyObject **), PyErr_Restore(PyObject *, PyObject *, PyObject *);

/* Modules, threads, frames */
extern PyObject *PyModule_New(const char *), *PyModule_Create2(PyModuleDef *, int version), *PyImport_ImportModule(const char *);
extern int PyModule_AddFunctions(PyObject *, PyMethodDef *), PyModule_AddObject(PyObject *, const char *, PyObject *);
extern PyGILState_STATE PyGILState_Ensure(void);
extern void PyGILState_Release(PyGILState_STATE), PyEval_RestoreThread(PyThreadState *);
extern PyThreadState *PyGILState_GetThisThreadState(void), *PyEval_SaveThread(void);
extern PyFrameObject *PyEval_GetFrame(void);

#define Py_None (&_Py_NoneStruct)
#define Py_TYPE(object) (((PyObject *)(object))->ob_type)
#define Py_INCREF(object) Py_IncRef((PyObject *)(object))
#define Py_DECREF(object) Py_DecRef((PyObject *)(object))
#define Py_XINCREF Py_INCREF
#define Py_XDECREF Py_DECREF
#define Py_RETURN(object) return Py_IncRef(object), (object)
#define Py_RETURN_NONE Py_RETURN(&_Py_NoneStruct)
#define Py_RETURN_TRUE Py_RETURN(&_Py_TrueStruct)
#define Py_RETURN_FALSE Py_RETURN(&_Py_FalseStruct)
#define PyLong_Check(object) (PyType_GetFlags(Py_TYPE(object)) >> 24 & 1)
#define PyBytes_Check(object) (PyType_GetFlags(Py_TYPE(object)) >> 27 & 1)
#define PyUnicode_Check(object) (PyType_GetFlags(Py_TYPE(object)) >> 28 & 1)
#define PyModule_Create(definition) PyModule_Create2(definition, 3) /* 3: of the stable ABI */

#define Py_BEGIN_ALLOW_THREADS            \
	{                                 \
		PyThreadState *unlocked = \
			PyEval_SaveThread();
#define Py_END_ALLOW_THREADS            \
	PyEval_RestoreThread(unlocked); \
	}

#endif
