/* What belongs to a thread, and what threads share. */
#include <pthread.h>
#include "proof.h"

void functions_threads(void);

/* The context, the last error and the message of a thread are its own. */
static void own_state(void *unused)
{
	(void)unused;
	aclrtContext c = NULL;
	int32_t id = -1;
	IS(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetCurrentContext(&c)); /* nothing is inherited */
	CHECK(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) == 0);
	IS(ACL_ERROR_RT_CONTEXT_NULL, aclrtSynchronizeDevice());
	CHECK(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) == ACL_ERROR_RT_CONTEXT_NULL);
	OK(aclrtSetDevice(1));
	OK(aclrtGetDevice(&id));
	CHECK(id == 1);
	OK(aclrtSetCurrentContext(scene.other)); /* made by another thread */
	OK(aclrtSynchronizeStream(scene.foreign));
	OK(aclrtResetDevice(1));
}

static void contexts(void)
{
	int32_t id = -1;
	aclrtContext c = NULL;
	proof_forget();
	IS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(GARBAGE));
	on_stranger(own_state, NULL);
	CHECK(aclrtGetLastError(ACL_RT_THREAD_LEVEL) == ACL_ERROR_RT_INVALID_HANDLE);
	const char *text = aclGetRecentErrMsg();
	CHECK(text != NULL && strstr(text, "aclrtSynchronizeStream") != NULL && strstr(text, "aclrtSynchronizeDevice") == NULL);
	OK(aclrtGetDevice(&id));
	OK(aclrtGetCurrentContext(&c));
	CHECK(id == 0 && c == scene.home);
}

enum { LOOPS = 200, BYTES = 4096 };

/* A thread that copies there and back on a stream of its own. */
struct copier {
	unsigned seed;
	unsigned char *up, *down, *dev[2];
};

static void copy(void *p)
{
	struct copier *c = p;
	aclrtStream stream;
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
	for (unsigned loop = 0; loop < LOOPS; loop++) {
		for (unsigned i = 0; i < BYTES; i++)
			c->up[i] = (unsigned char)(c->seed + loop + i);
		memset(c->down, 0, BYTES);
		OK(aclrtMemcpyAsync(c->dev[0], BYTES, c->up, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, stream));
		OK(aclrtMemcpyAsync(c->dev[1], BYTES, c->dev[0], BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
		OK(aclrtMemcpyAsync(c->down, BYTES, c->dev[1], BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
		OK(aclrtSynchronizeStream(stream));
		CHECK(memcmp(c->up, c->down, BYTES) == 0);
	}
	OK(aclrtDestroyStream(stream));
	OK(aclrtResetDevice(0));
}

static void copies(void)
{
	struct copier copiers[2];
	struct thread threads[2];
	for (int i = 0; i < 2; i++) {
		copiers[i] = (struct copier){(unsigned)(1 + 99 * i), scene.pin[i], scene.pin[2 + i], {scene.dev[i], scene.dev[2 + i]}};
		threads[i] = (struct thread){.body = copy, .arg = &copiers[i]};
		thread_start(&threads[i]);
	}
	for (int i = 0; i < 2; i++)
		thread_join(&threads[i]);
}

/* A thread serves the callbacks that another one launches, until 20 have run; it runs all of them itself. */
struct server {
	struct gate subscribed;
	aclrtStream stream;
	uint64_t id;
	int ran;
	bool elsewhere; /* a callback ran on another thread */
};

static void served(void *p)
{
	struct server *s = p;
	meet();
	s->ran++;
	s->elsewhere = s->elsewhere || (uint64_t)pthread_self() != s->id;
}

static void serve(void *p)
{
	struct server *s = p;
	OK(aclrtSetCurrentContext(scene.home));
	s->id = (uint64_t)pthread_self();
	OK(aclrtSubscribeReport(s->id, s->stream));
	gate_open(&s->subscribed);
	while (s->ran < 20)
		OK(aclrtProcessReport(-1));
	OK(aclrtUnSubscribeReport(s->id, s->stream));
}

static void callbacks(void)
{
	struct server server = {.ran = 0};
	struct thread thread = {.body = serve, .arg = &server};
	gate_make(&server.subscribed);
	OK(aclrtCreateStream(&server.stream));
	thread_start(&thread);
	gate_hold(&server.subscribed);
	for (int i = 0; i < 20; i++) {
		meet();
		OK(aclrtLaunchCallback(served, &server, i % 2 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK, server.stream));
	}
	thread_join(&thread);
	CHECK(server.ran == 20 && !server.elsewhere);
	OK(aclrtDestroyStream(server.stream));
	gate_drop(&server.subscribed);
}

void functions_threads(void)
{
	contexts();
	copies();
	callbacks();
}
