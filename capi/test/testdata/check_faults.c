/* Accesses of the host to closed memory: each is brought to the core once, with what it is, and then goes on unharmed. */
#include "check_faults.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "ropeway/check.h"

__attribute__((noinline)) static unsigned char read_byte(volatile unsigned char *p)
{
	return *p;
}

__attribute__((noinline)) static void write_byte(volatile unsigned char *p, unsigned char value)
{
	*p = value;
}

static int in_function(uint64_t address, const void *function)
{
	return address > (uintptr_t)function && address < (uintptr_t)function + 32;
}

static void reads(void)
{
	unsigned char *p = pinned(1);
	destination(p, 64);
	CHECK(seen()->call.function == ROPEWAY_aclrtMemcpyAsync && seen()->call.depth > 1);
	errno = 77;
	CHECK(read_byte(p + 10) == pattern(10));
	CHECK(errno == 77);
	CHECK(seen()->touches == 1 && seen()->findings == 1 && seen()->steps == 0);
	CHECK(seen()->address == (uintptr_t)p + 10 && !seen()->write);
	CHECK(in_function(seen()->access.stack[0], (void *)(uintptr_t)read_byte));
	CHECK(seen()->access.stack[0] == seen()->instruction + 1);
	CHECK(seen()->access.depth > 2); /* from here, and from main */
	CHECK(seen()->access.function == ROPEWAY_NO_CALL && seen()->access.thread != 0);
}

static void writes(void)
{
	unsigned char *p = pinned(1);
	source(p, 64);
	CHECK(read_byte(p + 3) == pattern(3)); /* a source may be read */
	CHECK(seen()->touches == 0);
	write_byte(p + 20, 99);
	CHECK(seen()->findings == 1 && seen()->write && seen()->address == (uintptr_t)p + 20);
	CHECK(in_function(seen()->access.stack[0], (void *)(uintptr_t)write_byte));
	CHECK(p[20] == 99);
}

/* On a page that is partly in flight, the rest can be used, and the page is closed again. */
static void outside(void)
{
	unsigned char *p = pinned(2);
	destination(p, 64);
	for (unsigned i = 1; i <= 5; i++) {
		CHECK(read_byte(p + 63 + i) == pattern(63 + i));
		CHECK(seen()->touches == i && seen()->steps == i && seen()->findings == 0);
	}
	write_byte(p + 100, 1);
	CHECK(seen()->steps == 6 && read_byte(p + 100) == 1);
	OK(aclrtSynchronizeStream(NULL));
	CHECK(read_byte(p) == pattern(0));
	uint64_t touches = seen()->touches;
	CHECK(read_byte(p + 1) == pattern(1) && seen()->touches == touches); /* it is open for good */
}

/* An access that begins outside of what is in flight and ends inside. */
static void partly(void)
{
	unsigned char *p = pinned(2);
	uint64_t value;
	destination(p + 64, 64);
	__asm__ volatile("" ::: "memory");
	value = *(volatile uint64_t *)(p + 60);
	CHECK(memcmp(&value, p + 60, 8) == 0);
#if defined(__x86_64__)
	CHECK(seen()->length == 8 && seen()->findings == 1);
	destination(p + 64, 64);
	__asm__ volatile("movups %0, %%xmm7" : : "m"(*(char(*)[16])(p + 52)) : "xmm7");
	CHECK(seen()->length == 16 && seen()->findings == 2);
	destination(p + 64, 64);
	__asm__ volatile("movups %%xmm7, %0" : "=m"(*(char(*)[16])(p + 48)) : : "memory"); /* just before */
	CHECK(seen()->length == 16 && seen()->findings == 2);
#endif
}

/* An access over the border of two closed pages. */
static void straddles(void)
{
	unsigned char *p = pinned(2);
	uint64_t want, got;
	memcpy(&want, p + PAGE - 3, 8);
	destination(p, PAGE + 64);
	OK(aclrtSynchronizeStream(NULL));
	got = *(volatile uint64_t *)(p + PAGE - 3);
	CHECK(got == want && seen()->findings == 0);
	destination(p, 64);
	destination(p + PAGE + 64, 64); /* one range is in flight: the second page is half so */
	got = *(volatile uint64_t *)(p + PAGE - 3);
	CHECK(got == want && seen()->findings == 0);
}

#if defined(__x86_64__)

/* Every register and flag is as it was, before and after the access. */
static void registers(void)
{
	unsigned char *p = pinned(1);
	static uint64_t after[16];
	static double floats[16][4], later[16][4];
	uint64_t flags;
	int wide = __builtin_cpu_supports("avx");
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 4; j++)
			floats[i][j] = i * 10 + j;
	for (int step = 0; step < 2; step++) {
		destination(p + 64, 64); /* the access is outside: it is stepped */
		if (!step)
			OK(aclrtSynchronizeStream(NULL)); /* or the page is opened */
		memset(after, 0, sizeof after);
		memset(later, 0, sizeof later);
		uint64_t x87 = 0, csr_before = 0, csr_after = 0;
#define LOAD(n) if (wide) __asm__ volatile("vmovupd %0, %%ymm" #n : : "m"(floats[n]) : "memory")
#define KEEP(n) if (wide) __asm__ volatile("vmovupd %%ymm" #n ", %0" : "=m"(later[n]) : : "memory")
		LOAD(8); LOAD(9); LOAD(10); LOAD(11); LOAD(12); LOAD(13); LOAD(14); LOAD(15);
		__asm__ volatile("stmxcsr %0" : "=m"(csr_before));
		__asm__ volatile("fldpi\n\t"
				 "movq $0x1111, %%rax\n\tmovq $0x2222, %%rbx\n\tmovq $0x3333, %%rcx\n\tmovq $0x4444, %%rdx\n\t"
				 "movq $0x5555, %%rsi\n\tmovq $0x8888, %%r8\n\tmovq $0x9999, %%r9\n\tmovq $0xaaaa, %%r10\n\t"
				 "movq $0xbbbb, %%r11\n\tmovq $0xcccc, %%r12\n\tmovq $0xdddd, %%r13\n\tmovq $0xeeee, %%r14\n\t"
				 "movq $0x7777, -8(%%rsp)\n\tmovq $0x6666, -120(%%rsp)\n\t" /* below the stack pointer */
				 "stc\n\t"
				 "movb 3(%%rdi), %%al\n\t"
				 "pushfq\n\tpopq %%r15\n\t"
				 "movq %%rax, %0\n\tmovq %%rbx, 8+%0\n\tmovq %%rcx, 16+%0\n\tmovq %%rdx, 24+%0\n\tmovq %%rsi, 32+%0\n\t"
				 "movq %%r8, 40+%0\n\tmovq %%r9, 48+%0\n\tmovq %%r10, 56+%0\n\tmovq %%r11, 64+%0\n\tmovq %%r12, 72+%0\n\t"
				 "movq %%r13, 80+%0\n\tmovq %%r14, 88+%0\n\tmovq -120(%%rsp), %%rax\n\tmovq %%rax, 96+%0\n\t"
				 "movq %%r15, %1\n\t"
				 "fstpl %2"
				 : "+m"(after), "=m"(flags), "=m"(x87)
				 : "D"(p)
				 : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc", "memory");
		KEEP(8); KEEP(9); KEEP(10); KEEP(11); KEEP(12); KEEP(13); KEEP(14); KEEP(15);
		__asm__ volatile("stmxcsr %0" : "=m"(csr_after));
		const uint64_t want[] = {0x1100 | pattern(3), 0x2222, 0x3333, 0x4444, 0x5555, 0x8888, 0x9999,
					 0xaaaa, 0xbbbb, 0xcccc, 0xdddd, 0xeeee, 0x6666};
		for (size_t i = 0; i < sizeof want / sizeof *want; i++)
			CHECK(after[i] == want[i]);
		double pi;
		memcpy(&pi, &x87, 8);
		CHECK(fabs(pi - 3.14159265358979) < 1e-12);
		CHECK(flags & 1 && !(flags & 0x100)); /* carry is set, the trap flag is not */
		CHECK(csr_before == csr_after);
		if (wide)
			CHECK(memcmp(floats[8], later[8], sizeof floats / 2) == 0);
		CHECK(seen()->touches == (uint64_t)step + 1 && seen()->steps == (uint64_t)step);
	}
}

/* rep movs and rep stos are not stepped element by element. */
static void repeats(void)
{
	unsigned char *p = pinned(4), *q = malloc(4 * PAGE);
	static const int at[] = {0, 1, 100};
	CHECK(q);
	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		void *to = q, *from = p + at[i];
		size_t n = 3 * PAGE;
		destination(p + 3 * PAGE + 200, 64);
		destination(p, 4 * PAGE);
		OK(aclrtSynchronizeStream(NULL));
		destination(p + 3 * PAGE + 200, 64); /* the last page is half in flight */
		uint64_t touches = seen()->touches;
		__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
		CHECK(n == 0 && from == p + at[i] + 3 * PAGE && to == q + 3 * PAGE);
		for (int j = 0; j < 3 * PAGE; j++)
			CHECK(q[j] == pattern((size_t)(j + at[i])));
		CHECK(seen()->findings == 0 && seen()->touches - touches < 8);
	}
	/* upwards into a page that is half in flight, by quarter words, and the other way round */
	void *to = p + 3 * PAGE - 64;
	size_t n = (64 + 192) / 8;
	uint64_t touches = seen()->touches;
	destination(p + 3 * PAGE + 200, 64);
	__asm__ volatile("rep stosq" : "+D"(to), "+c"(n) : "a"(0x0102030405060708) : "memory");
	CHECK(n == 0 && to == p + 3 * PAGE + 192 && seen()->findings == 0 && seen()->touches - touches < 4);
	OK(aclrtSynchronizeStream(NULL));
	CHECK(p[3 * PAGE - 64] == 8 && p[3 * PAGE + 191] == 1 && p[3 * PAGE + 192] == pattern(3 * PAGE + 192));
	/* downwards they are stepped */
	destination(p + 200, 64);
	to = p + 19;
	n = 10;
	__asm__ volatile("std\n\trep stosb\n\tcld" : "+D"(to), "+c"(n) : "a"(0x55) : "memory");
	CHECK(n == 0 && to == p + 9 && seen()->findings == 0);
	OK(aclrtSynchronizeStream(NULL));
	CHECK(p[10] == 0x55 && p[19] == 0x55 && p[9] == pattern(9) && p[20] == pattern(20));
	free(q);
}

/* How far an instruction reaches is known. Each is stepped: the page is partly in flight, elsewhere. */
static void sizes(void)
{
	unsigned char *p = pinned(1);
	int wide = __builtin_cpu_supports("avx2");
	destination(p + 2048, 64);
#define REACHES(size, instruction) \
	do { \
		__asm__ volatile(instruction \
				 : \
				 : "D"(p + 256), "S"((uint64_t)16) \
				 : "rax", "rbx", "rcx", "rdx", "r12", "xmm3", "xmm4", "xmm5", "xmm12", "cc", "memory"); \
		if (seen()->length != (size)) { \
			fprintf(stderr, "%s: %llu bytes\n", instruction, (unsigned long long)seen()->length); \
			exit(1); \
		} \
	} while (0)
	REACHES(1, "movb (%%rdi), %%al");
	REACHES(1, "movzbl 5(%%rdi,%%rsi), %%eax");
	REACHES(1, "sete (%%rdi)");
	REACHES(1, "cmpb $3, 1000(%%rdi)");
	REACHES(2, "movw %%ax, (%%rdi)");
	REACHES(2, "movswl (%%rdi,%%rsi,4), %%eax");
	REACHES(2, "pinsrw $1, (%%rdi), %%xmm3");
	REACHES(4, "addl $1, (%%rdi)");
	REACHES(4, "movl 4(%%rdi), %%r12d");
	REACHES(4, "movslq (%%rdi), %%rax");
	REACHES(4, "movss (%%rdi), %%xmm4");
	REACHES(4, "movd %%xmm4, (%%rdi)");
	REACHES(4, "cvtsi2sdl (%%rdi), %%xmm4");
	REACHES(4, "flds (%%rdi)\n\tfstp %%st(0)");
	REACHES(8, "lock xaddq %%rax, (%%rdi)");
	REACHES(8, "movq (%%rdi), %%r12");
	REACHES(8, "movq %%xmm12, 8(%%rdi)");
	REACHES(8, "movsd (%%rdi), %%xmm5");
	REACHES(8, "movhps (%%rdi), %%xmm5");
	REACHES(8, "imulq (%%rdi), %%rax");
	REACHES(8, "pushq (%%rdi)\n\tpopq %%rax");
	REACHES(10, "fldt (%%rdi)\n\tfstp %%st(0)");
	REACHES(16, "movups (%%rdi), %%xmm3");
	REACHES(16, "movdqa %%xmm3, (%%rdi)");
	REACHES(16, "paddd (%%rdi), %%xmm3");
	REACHES(16, "mulps 16(%%rdi), %%xmm3");
	REACHES(16, "movntps %%xmm3, (%%rdi)");
	if (wide) {
		REACHES(4, "vbroadcastss (%%rdi), %%ymm3");
		REACHES(8, "vmovsd (%%rdi), %%xmm3");
		REACHES(8, "vpmovzxbw (%%rdi), %%xmm3");
		REACHES(16, "vmovdqu (%%rdi), %%xmm12");
		REACHES(16, "vinserti128 $1, (%%rdi), %%ymm3, %%ymm4");
		REACHES(32, "vmovdqu (%%rdi,%%rsi,2), %%ymm12");
		REACHES(32, "vmovups %%ymm3, (%%rdi)");
		REACHES(32, "vpcmpeqb (%%rdi), %%ymm3, %%ymm4");
		REACHES(32, "vpshufb (%%rdi), %%ymm3, %%ymm4");
		REACHES(0, "vpcmpeqd %%ymm3, %%ymm3, %%ymm3\n\tvpmaskmovd (%%rdi), %%ymm3, %%ymm4"); /* a mask says how far */
	}
	CHECK(seen()->findings == 0);
}

#else

static void registers(void) {}
static void repeats(void) {}
static void sizes(void) {}

#endif

/* libc's copies, of all sizes and from all sides. */
static void copies(void)
{
	unsigned char *p = pinned(8), *q = malloc(8 * PAGE);
	CHECK(q);
	for (size_t n = 1; n < 3 * PAGE; n += n / 3 + 1) {
		for (size_t at = PAGE - 70; at < PAGE + 70; at += 23) {
			destination(p, 8 * PAGE);
			OK(aclrtSynchronizeStream(NULL));
			destination(p + at + n + 1, 64);
			memcpy(q, p + at, n);
			for (size_t i = 0; i < n; i++)
				CHECK(q[i] == pattern(at + i));
			memcpy(p + at, q, n);
			memmove(p + at, p + at, n);
			CHECK(memcmp(p + at, q, n) == 0);
			OK(aclrtSynchronizeStream(NULL));
		}
	}
	CHECK(seen()->findings == 0);
	free(q);
}

/* A thread that knows nothing of AscendCL, and has blocked every signal. */
static void *stranger(void *p)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	CHECK(read_byte((unsigned char *)p + 100) == pattern(100));
	CHECK(read_byte((unsigned char *)p + 5) == pattern(5));
	return NULL;
}

static void threads(void)
{
	unsigned char *p = pinned(1);
	for (int i = 0; i < 20; i++) {
		pthread_t t;
		destination(p, 64);
		CHECK(pthread_create(&t, NULL, stranger, p) == 0 && pthread_join(t, NULL) == 0);
		CHECK(seen()->findings == (uint64_t)i + 1 && seen()->steps == (uint64_t)i + 1);
	}
}

/* Several threads step on one page at once. */
static void *many(void *p)
{
	for (int i = 0; i < 300; i++) {
		CHECK(read_byte((unsigned char *)p + 100 + i) == pattern((size_t)(100 + i)));
		write_byte((unsigned char *)p + 2000 + i, (unsigned char)i);
	}
	return NULL;
}

static void hammer(void)
{
	unsigned char *p = pinned(1);
	pthread_t t[4];
	destination(p, 64);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&t[i], NULL, many, p) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	OK(aclrtSynchronizeStream(NULL));
	for (int i = 0; i < 300; i++)
		CHECK(p[2000 + i] == (unsigned char)i);
	CHECK(seen()->findings == 0);
}

/* Signals of the program come between the access and the end of its step. */
static volatile sig_atomic_t ticks;

static void tick(int signal)
{
	(void)signal;
	ticks++;
}

static void interrupted(void)
{
	unsigned char *p = pinned(1);
	struct sigaction a = {.sa_handler = tick, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	sigaction(SIGALRM, &a, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	destination(p, 64);
	for (int i = 0; ticks < 50; i++)
		CHECK(read_byte(p + 100 + i % 1000) == pattern((size_t)(100 + i % 1000)));
	setitimer(ITIMER_REAL, &never, NULL);
	CHECK(seen()->findings == 0);
}

/* A handler on its small stack, and a thread with hardly any stack left. */
static unsigned char *shared;

static void touching(int signal)
{
	(void)signal;
	CHECK(read_byte(shared + 100) == pattern(100));
}

static void small_stack(void)
{
	static char stack[16 << 10];
	stack_t s = {.ss_sp = stack, .ss_size = sizeof stack};
	struct sigaction a = {.sa_handler = touching, .sa_flags = SA_ONSTACK};
	shared = pinned(1);
	CHECK(sigaltstack(&s, NULL) == 0);
	sigaction(SIGUSR1, &a, NULL);
	destination(shared, 64);
	raise(SIGUSR1);
	raise(SIGUSR1);
	CHECK(seen()->steps == 2 && seen()->findings == 0);

	stack_t now;
	CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == stack && now.ss_size == sizeof stack);
}

static void *deep(void *p)
{
	CHECK(read_byte((unsigned char *)p + 100) == pattern(100));
	return NULL;
}

static void little_stack(void)
{
	unsigned char *p = pinned(1);
	pthread_attr_t a;
	pthread_t t;
	destination(p, 64);
	CHECK(pthread_attr_init(&a) == 0 && pthread_attr_setstacksize(&a, (size_t)sysconf(_SC_THREAD_STACK_MIN)) == 0);
	CHECK(pthread_create(&t, &a, deep, p) == 0 && pthread_join(t, NULL) == 0);
	CHECK(seen()->steps == 1 && seen()->findings == 0);
}

/* Inside a function of the program that the library calls. */
static void callback(void *p)
{
	CHECK(read_byte((unsigned char *)p + 7) == pattern(7));
	CHECK(seen()->access.function == ROPEWAY_NO_CALL);
	OK(aclrtSynchronizeStream(NULL)); /* a call inside the call */
	CHECK(seen()->call.function == ROPEWAY_aclrtSynchronizeStream);
}

static void callbacks(void)
{
	unsigned char *p = pinned(1);
	destination(p, 64);
	OK(aclrtLaunchHostFunc(NULL, callback, p));
	CHECK(seen()->findings == 1);
}

/* What the header offers. */
static void header(void)
{
	unsigned char *p = pinned(1);
	CHECK(ropeway_check_enabled());
	CHECK(!ropeway_check_in_flight(p, PAGE));
	destination(p, 64);
	CHECK(ropeway_check_in_flight(p, 1) && !ropeway_check_in_flight(p + 64, 64));
	ropeway_check_ignore_begin();
	CHECK(read_byte(p) == pattern(0));
	ropeway_check_ignore_end();
	CHECK(ropeway_check_findings() == 0);
	CHECK(read_byte(p) == pattern(0));
	CHECK(ropeway_check_findings() == 1);
	destination(p, 64);
	ropeway_check_complete(p, 64);
	CHECK(read_byte(p) == pattern(0) && ropeway_check_findings() == 1);
}

int main(int argc, char **argv)
{
	static const struct mode modes[] = {
		MODE(reads), MODE(writes), MODE(outside), MODE(partly), MODE(straddles), MODE(registers), MODE(repeats), MODE(sizes), MODE(copies),
		MODE(threads), MODE(hammer), MODE(interrupted), MODE(small_stack), MODE(little_stack), MODE(callbacks), MODE(header),
	};
	return run_mode(modes, sizeof modes / sizeof *modes, argc, argv);
}
