/*
 * Every core function: something it does, and something it refuses. The argument chooses the part:
 * "init" begins with a process that has called nothing yet, "310P" is what only that product refuses, "core" the rest; "memory", "950", "310B", "A3" and
 * "RC" (a 310P) are what not every driver can do, on these products. "visit" is started by "memory". "marked" is what only a program does that is recorded.
 */
#include "proof.h"

struct proof proof;
struct scene scene;
atomic_int meetings;

void functions_init(void);
void functions_memory(void);
void functions_copies(void);
void functions_copies_950(void);
void functions_device(void);
void functions_context(void);
void functions_config(void);
void functions_stream(void);
void functions_event(void);
void functions_execution(void);
void functions_exception(void);
void functions_misc(void);
void functions_threads(void);
void functions_marks(void);
void functions_older(void);
void functions_overflow(void);
void functions_platform(void);
void functions_groups(void);
void functions_cmo(void);
void functions_barriers(void);
void functions_signals(void);
void functions_models(void);
void functions_counting(void);
void functions_pools(void);
void functions_kernels(void);
void functions_simt(void);
void functions_rt(void);
void functions_mapping(void);
void functions_links(void);
void functions_sharing(const char *self, bool a3);
void functions_visiting(char **keys);

static void functions_more(char **argv)
{
	if (strcmp(argv[1], "marked") == 0) {
		functions_marks();
	} else if (strcmp(argv[1], "kernels") == 0) {
		functions_kernels();
	} else if (strcmp(argv[1], "rt") == 0) {
		functions_rt();
	} else if (strcmp(argv[1], "950") == 0) {
		functions_counting();
		functions_copies_950();
		const char *driver = getenv("ROPEWAY_DRIVER");
		if (!driver || strcmp(driver, "cuda") != 0) /* its kernels are those of a CPU */
			functions_simt();
	} else if (strcmp(argv[1], "310B") == 0) {
		functions_barriers();
	} else if (strcmp(argv[1], "RC") == 0) {
		functions_groups();
	} else if (strcmp(argv[1], "A3") == 0) {
		functions_links();
		functions_sharing(argv[0], true);
	} else if (strcmp(argv[1], "visit") == 0) {
		functions_visiting(argv + 2);
	} else {
		functions_overflow();
		functions_cmo();
		functions_platform();
		functions_signals();
		functions_models();
		functions_pools();
		functions_mapping();
		functions_sharing(argv[0], false);
	}
}

int main(int argc, char **argv)
{
	CHECK(argc >= 2);
	if (strcmp(argv[1], "init") == 0) {
		functions_init();
		return 0;
	}
	scene_make();
	if (strcmp(argv[1], "310P") == 0) {
		functions_older();
		scene_drop();
		return 0;
	}
	if (strcmp(argv[1], "core") != 0) {
		functions_more(argv);
		scene_drop();
		return 0;
	}
	functions_memory();
	functions_device();
	functions_context();
	functions_config();
	functions_stream();
	functions_event();
	functions_execution();
	functions_exception();
	functions_misc();
	functions_threads();
	functions_copies();
	scene_drop();
	return 0;
}
