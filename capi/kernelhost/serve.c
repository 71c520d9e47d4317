/*
 * A process that runs kernels. Its first thread takes orders; others, as many as there are processors, make the calls. A launch whose
 * calls are made at the same time has threads of its own.
 *
 * `mu` guards the list of jobs and what is said of them here; it is not held while a kernel runs.
 */
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct job {
	ropeway_run *run;  /* immutable, and so are id and calls */
	uint64_t id;
	uint64_t calls;
	int error;         /* guarded by mu, as all that follows; why it could not be run */
	uint64_t joined;   /* threads that were given it */
	int users;         /* threads that are in it */
	struct job *next;
} job;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static job *first, **last = &first; /* jobs with calls that no thread has taken */
static int channel;
static int threads, most, idle; /* guarded by mu */

enum { SIGNAL_STACK = 256 << 10, STACK = 8 << 20 };

/* Ends a job that nothing is in and nothing will join. */
static void end(job *j)
{
	ropeway_answer a = {.id = j->id, .error = j->error};
	free(j);
	answer(channel, &a, NULL, 0);
}

/* A kernel that uses up its stack is caught on another one. */
static void own_signal_stack(void)
{
	void *p = mmap(NULL, SIGNAL_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t s = {.ss_sp = p, .ss_size = SIGNAL_STACK};
	if (p != MAP_FAILED)
		sigaltstack(&s, NULL);
}

static void drop_signal_stack(void)
{
	stack_t s = {.ss_flags = SS_DISABLE}, was;
	if (!sigaltstack(&s, &was) && was.ss_sp)
		munmap(was.ss_sp, was.ss_size);
}

static void leave(job *j)
{
	pthread_mutex_lock(&mu);
	int over = !--j->users;
	pthread_mutex_unlock(&mu);
	if (over)
		end(j);
}

/* Takes a job out of the list, if it is there. mu is held. */
static void unlist(job *j)
{
	for (job **at = &first; *at; at = &(*at)->next)
		if (*at == j) {
			if (!(*at = j->next))
				last = at;
			return;
		}
}

static void *work(void *none)
{
	(void)none;
	own_signal_stack();
	pthread_mutex_lock(&mu);
	for (;;) {
		idle++;
		while (!first)
			pthread_cond_wait(&more, &mu);
		idle--;
		job *j = first;
		j->users++;
		if (++j->joined == j->calls)
			unlist(j);
		pthread_mutex_unlock(&mu);
		ropeway_kernel_run(j->run, NULL);
		pthread_mutex_lock(&mu);
		unlist(j); /* no call is left, or it has failed */
		pthread_mutex_unlock(&mu);
		leave(j);
		pthread_mutex_lock(&mu);
	}
	return NULL;
}

static void *work_together(void *data)
{
	own_signal_stack();
	job *j = data;
	ropeway_kernel_run(j->run, NULL);
	leave(j);
	drop_signal_stack();
	return NULL;
}

static int begin_thread(void *(*f)(void *), void *data)
{
	pthread_attr_t how;
	pthread_t t;
	pthread_attr_init(&how);
	pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&how, STACK);
	int error = pthread_create(&t, &how, f, data);
	pthread_attr_destroy(&how);
	return error;
}

/* Shares a job among the threads that there are. */
static void spread(job *j)
{
	pthread_mutex_lock(&mu);
	for (uint64_t want = j->calls < (uint64_t)most ? j->calls : (uint64_t)most; threads < most && (uint64_t)idle < want; want--) {
		if (begin_thread(work, NULL)) {
			if (!threads)
				j->error = EAGAIN;
			break;
		}
		threads++;
	}
	int error = j->error;
	if (!error) {
		*last = j;
		last = &j->next;
		j->calls > 1 ? pthread_cond_broadcast(&more) : pthread_cond_signal(&more);
	}
	pthread_mutex_unlock(&mu);
	if (error)
		end(j);
}

/* Gives each call of a job a thread of its own. */
static void together(job *j)
{
	uint64_t n = j->calls < ROPEWAY_MOST_BLOCKS ? j->calls : ROPEWAY_MOST_BLOCKS;
	j->run->together = n == j->calls;
	j->users = 1; /* this one */
	for (uint64_t i = 0; i < n; i++) {
		pthread_mutex_lock(&mu);
		j->users++;
		pthread_mutex_unlock(&mu);
		int error = begin_thread(work_together, j);
		if (error) {
			pthread_mutex_lock(&mu);
			j->users--;
			j->error = error;
			pthread_mutex_unlock(&mu);
			ropeway_kernel_stop(j->run);
			break;
		}
	}
	leave(j);
}

static int run(ropeway_run *r, uint64_t id, int at_once)
{
	uint64_t calls = (uint64_t)r->blocks * (r->per[0] + r->per[1]);
	job *j = calls ? calloc(1, sizeof *j) : NULL;
	if (!j)
		return calls ? ENOMEM : 0;
	*j = (job){.run = r, .id = id, .calls = calls};
	at_once ? together(j) : spread(j);
	return -1;
}

/* Ends a run early; at once, if no thread has begun it. */
static void stop(ropeway_run *r)
{
	ropeway_kernel_stop(r);
	pthread_mutex_lock(&mu);
	job *j = first;
	while (j && j->run != r)
		j = j->next;
	int over = j && !j->users;
	if (over)
		unlist(j);
	pthread_mutex_unlock(&mu);
	if (over)
		end(j);
}

static int processors(void)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof set, &set))
		return (int)sysconf(_SC_NPROCESSORS_ONLN);
	return CPU_COUNT(&set);
}

_Noreturn void serve(int socket, char *runs, uint64_t bytes)
{
	channel = socket;
	most = processors() > 0 ? processors() : 1;
	atexit(ropeway_kernel_exits);
	if (ropeway_kernel_prepare())
		_exit(1);
	static message m;
	while (receive(socket, &m)) {
		ropeway_answer a = {.id = m.asked.id};
		ropeway_run *r = (ropeway_run *)(runs + m.asked.a * ROPEWAY_RUN_BYTES);
		int known = m.asked.a < bytes / ROPEWAY_RUN_BYTES;
		switch (m.asked.what) {
		case ROPEWAY_ASK_MAP:
			a.error = map(&m);
			break;
		case ROPEWAY_ASK_UNMAP:
			a.error = unmap(&m);
			break;
		case ROPEWAY_ASK_RUN:
			a.error = known ? run(r, m.asked.id, m.asked.b != 0) : EINVAL;
			break;
		case ROPEWAY_ASK_STOP:
			if (known)
				stop(r);
			break;
		default:
			a.error = ENOSYS;
		}
		for (int i = 0; i < MOST_FILES; i++)
			if (m.files[i] >= 0)
				close(m.files[i]);
		if (a.error >= 0)
			answer(socket, &a, NULL, 0);
	}
	_exit(0); /* at once, whatever kernels still do */
}
