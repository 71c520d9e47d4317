/*
 * Makes the calls of cases.h that are for the machine that the arguments name: product, form ("EP" or "RC") and strictness ("0" or "1"). Each
 * call must return the code of its rule, leave the last error that the table says, and a message that names the function. Prints
 * "rule aclrtRecordEvent event-null" for each. Without arguments it prints "machine A2 EP 0" for each call instead.
 *
 * An argument is NULL, a number, self (this process), function, unmade (a handle that nothing has), room (for results), device or pinned (4 KiB),
 * an object below, one that was destroyed ("stream.dead"), or memory with arguments in it: "memory 8:4:7" has 7 in four bytes at offset 8.
 */
#include <acl/acl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include "check.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma GCC diagnostic ignored "-Wcast-function-type"
#include "cases.h"

/* --- Objects --- */

static aclrtContext home;

static void *event_with(uint32_t flag)
{
	aclrtEvent e;
	OK(aclrtCreateEventWithFlag(&e, flag));
	return e;
}

static void *event_ex(uint32_t flag)
{
	aclrtEvent e;
	OK(aclrtCreateEventExWithFlag(&e, flag));
	return e;
}

static void *event(void) { return event_with(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE); }
static void *event_device_only(void) { return event_with(ACL_EVENT_DEVICE_USE_ONLY); }
static void *event_external(void) { return event_with(ACL_EVENT_EXTERNAL); }
static void *event_unwaitable(void) { return event_with(ACL_EVENT_TIME_LINE); }
static void *event_ipc(void) { return event_ex(ACL_EVENT_IPC); }
static void *event_of_ex(void) { return event_ex(ACL_EVENT_SYNC); }

static void *stream(void)
{
	aclrtStream s;
	OK(aclrtCreateStream(&s));
	return s;
}

static void *stream_elsewhere(void)
{
	aclrtContext other;
	OK(aclrtCreateContext(&other, 0));
	void *s = stream();
	OK(aclrtSetCurrentContext(home));
	return s;
}

static void *stream_unwaited(void)
{
	aclrtStream s;
	OK(aclrtCreateStreamWithConfig(&s, 0, ACL_STREAM_PERSISTENT));
	return s;
}

static void *stream_captured(void)
{
	void *s = stream();
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	return s;
}

static void *stream_captured_elsewhere(void)
{
	aclrtContext other;
	OK(aclrtCreateContext(&other, 0));
	void *s = stream_captured();
	OK(aclrtSetCurrentContext(home));
	return s;
}

static aclError end_capture(void *s)
{
	aclmdlRI m;
	aclError e = aclmdlRICaptureEnd(s, &m);
	if (e == ACL_SUCCESS)
		e = aclmdlRIDestroy(m);
	return e == ACL_SUCCESS ? aclrtDestroyStreamForce(s) : e;
}

static void *model(void)
{
	void *s = stream_captured();
	aclmdlRI m;
	OK(aclmdlRICaptureEnd(s, &m));
	OK(aclrtDestroyStream(s));
	return m;
}

static void *open_stream; /* whose capture has what was made last of the next three */

static void *model_captured(void)
{
	aclmdlRI m;
	open_stream = stream_captured();
	OK(aclmdlRICaptureGetInfo(open_stream, NULL, &m));
	return m;
}

static void *condition(void)
{
	aclmdlRICondHandle c;
	OK(aclmdlRICondHandleCreate(model_captured(), 0, (aclmdlRICondHandleFlag)0, &c));
	return c;
}

static void *model_sub(void)
{
	aclmdlRI m;
	aclmdlRICondTaskParams params = {condition(), ACL_MODEL_RI_COND_TYPE_IF, 1, &m};
	OK(aclmdlRIAddCondTask(params, open_stream, 0));
	return m;
}

static aclError end_open(void *made) /* also where a sub-model is missing; the model goes */
{
	aclmdlRI m;
	(void)made;
	if (aclmdlRICaptureEnd(open_stream, &m) == ACL_SUCCESS)
		aclmdlRIDestroy(m);
	return aclrtDestroyStreamForce(open_stream);
}

static void *model_built(void)
{
	aclmdlRI m;
	OK(aclmdlRIBuildBegin(&m, 0));
	return m;
}

static void *stream_bound(void)
{
	aclmdlRI m = model_built();
	void *s = stream_unwaited();
	OK(aclmdlRIBindStream(m, s, 0));
	return s;
}

static void *stream_bound_elsewhere(void)
{
	aclrtContext other;
	OK(aclrtCreateContext(&other, 0));
	void *s = stream_bound();
	OK(aclrtSetCurrentContext(home));
	return s;
}

static void *label(void)
{
	aclrtLabel l;
	OK(aclrtCreateLabel(&l));
	return l;
}

static void *event_captured(void) /* goes with the capture, when the process ends */
{
	void *e = event_ex(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
	OK(aclrtRecordEvent(e, stream_captured()));
	return e;
}

static void *event_recorded(void)
{
	void *e = event();
	OK(aclrtRecordEvent(e, NULL));
	OK(aclrtSynchronizeStream(NULL));
	return e;
}

static void *context(void)
{
	aclrtContext c;
	OK(aclrtCreateContext(&c, 0));
	OK(aclrtSetCurrentContext(home));
	return c;
}

static void *notify(void)
{
	aclrtNotify n;
	OK(aclrtCreateNotify(&n, 0));
	return n;
}

static void *cnt_notify(void)
{
	aclrtCntNotify n;
	OK(aclrtCntNotifyCreate(&n, 0));
	return n;
}

static const struct maker {
	const char *name;
	void *(*make)(void);
	aclError (*destroy)(void *);
} makers[] = {
	{"stream", stream, aclrtDestroyStreamForce},
	{"stream.elsewhere", stream_elsewhere, NULL}, /* goes with its context */
	{"stream.unwaited", stream_unwaited, aclrtDestroyStreamForce},
	{"stream.captured", stream_captured, end_capture},
	{"stream.captured.elsewhere", stream_captured_elsewhere, NULL},
	{"stream.bound", stream_bound, NULL}, /* stays with its model */
	{"stream.bound.elsewhere", stream_bound_elsewhere, NULL},
	{"label", label, aclrtDestroyLabel},
	{"model", model, aclmdlRIDestroy},
	{"model.built", model_built, aclmdlRIDestroy},
	{"model.captured", model_captured, end_open},
	{"model.sub", model_sub, end_open},
	{"condition", condition, end_open},
	{"event", event, aclrtDestroyEvent},
	{"event.deviceOnly", event_device_only, aclrtDestroyEvent},
	{"event.external", event_external, aclrtDestroyEvent},
	{"event.unwaitable", event_unwaitable, aclrtDestroyEvent},
	{"event.ipc", event_ipc, aclrtDestroyEvent},
	{"event.ex", event_of_ex, aclrtDestroyEvent},
	{"event.captured", event_captured, aclrtDestroyEvent},
	{"event.recorded", event_recorded, aclrtDestroyEvent},
	{"context", context, aclrtDestroyContext},
	{"notify", notify, aclrtDestroyNotify},
	{"cntNotify", cnt_notify, aclrtCntNotifyDestroy},
};

/* --- Arguments --- */

static uint64_t pages[16][512];
static int pages_used;
static struct { aclError (*destroy)(void *); void *object; } made[32];
static int made_count;

static void function(void) {}

static uint64_t object(const char *name, bool dead)
{
	for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++) {
		const struct maker *m = &makers[i];
		if (strcmp(m->name, name) != 0)
			continue;
		void *o = m->make();
		if (dead)
			OK(m->destroy(o));
		else if (m->destroy != NULL)
			made[made_count].destroy = m->destroy, made[made_count++].object = o;
		return (uint64_t)(uintptr_t)o;
	}
	fprintf(stderr, "nothing makes %s\n", name);
	exit(1);
}

static uint64_t argument(const char *text);

/* A page with what follows "memory" in it. */
static uint64_t memory(const char *fields)
{
	char *page = (char *)pages[pages_used++];
	memset(page, 0, sizeof pages[0]);
	unsigned at, bytes;
	char value[64];
	for (int used; sscanf(fields, " %u:%u:%63s%n", &at, &bytes, value, &used) == 3; fields += used) {
		uint64_t v = argument(value);
		memcpy(page + at, &v, bytes);
	}
	return (uint64_t)(uintptr_t)page;
}

static uint64_t argument(const char *text)
{
	char name[64];
	void *p = NULL;
	size_t length = strlen(text);
	if (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'))
		return (uint64_t)strtoll(text, NULL, 10);
	if (strcmp(text, "NULL") == 0)
		return 0;
	if (strcmp(text, "self") == 0)
		return (uint64_t)getpid();
	if (strcmp(text, "function") == 0)
		return (uint64_t)(uintptr_t)function;
	if (strcmp(text, "unmade") == 0)
		return 0x123456789;
	if (strcmp(text, "room") == 0)
		return memory("");
	if (strncmp(text, "memory", 6) == 0)
		return memory(text + 6);
	if (strcmp(text, "device") == 0 || strcmp(text, "pinned") == 0) {
		if (text[0] == 'd')
			OK(aclrtMalloc(&p, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
		else
			OK(aclrtMallocHost(&p, 4096));
		made[made_count].destroy = text[0] == 'd' ? aclrtFree : aclrtFreeHost, made[made_count++].object = p;
		return (uint64_t)(uintptr_t)p;
	}
	bool dead = length > 5 && strcmp(text + length - 5, ".dead") == 0;
	snprintf(name, sizeof name, "%.*s", (int)(dead ? length - 5 : length), text);
	return object(name, dead);
}

/* --- Calls --- */

static uint64_t slots[16];

static void *make(void *which)
{
	const struct call *c = which;
	uint64_t *s = slots;
	aclGetRecentErrMsg();
	aclrtGetLastError(ACL_RT_THREAD_LEVEL); /* also the one that the question for the message left */
	int code = ((int (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
		uint64_t, uint64_t, uint64_t, uint64_t))c->function)(
		s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13], s[14], s[15]);
	int last = aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), group = code / 1000;
	const char *message = aclGetRecentErrMsg();
	int left = (group == 107 || group == 207 || group == 507) && !c->quiet ? c->code : 0;
	bool named = code == 0 || (message != NULL && strstr(message, c->name) != NULL);
	if (code != c->code || last != left || !named) {
		fprintf(stderr, "%s %s: %d, last error %d; want %d and %d; %s\n", c->name, c->rule, code, last, c->code, left, message ? message : "no message");
		exit(1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 1 && i < sizeof calls / sizeof calls[0]; i++)
		printf("machine %s %s %d\n", calls[i].product, calls[i].form, calls[i].strict);
	if (argc != 4)
		return 0;
	OK(aclrtSetDevice(0));
	OK(aclrtGetCurrentContext(&home));
	for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
		const struct call *c = &calls[i];
		if (strcmp(c->product, argv[1]) != 0 || strcmp(c->form, argv[2]) != 0 || c->strict != atoi(argv[3]))
			continue;
		made_count = pages_used = 0;
		for (int a = 0; a < c->count; a++)
			slots[a] = argument(c->arguments[a]);
		if (c->context) {
			make((void *)(uintptr_t)c);
		} else {
			pthread_t t;
			CHECK(pthread_create(&t, NULL, make, (void *)(uintptr_t)c) == 0 && pthread_join(t, NULL) == 0);
		}
		for (int m = 0; m < made_count; m++)
			made[m].destroy(made[m].object); /* unless the call did */
		printf("rule %s %s\n", c->name, c->rule);
	}
	return 0;
}
