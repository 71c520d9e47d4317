/* Runs the test of every sentence and prints its document and number. The environment says on what product and in which mode. */
#include "seeds.h"
#include "seeds_list.h" /* made by the test from the table: prototypes, and sentences[] */

struct proof proof;
struct scene scene;
struct machine machine;
atomic_int meetings;

static bool among(const char *name, const char *const *names)
{
	while (*names && strcmp(name, *names) != 0)
		names++;
	return *names != NULL;
}

static const char *variable(const char *name, const char *otherwise)
{
	const char *value = getenv(name);
	return value && *value ? value : otherwise;
}

int main(void)
{
	static const char *const batch[] = {"A2", "A3", "950", NULL}, *const desc[] = {"A2", "A3", "950", "310B", NULL};
	static const char *const refuses[] = {"A2", "A3", NULL};
	machine.product = variable("ROPEWAY_PRODUCT", "A2");
	machine.rc = strcmp(variable("ROPEWAY_FORM", "EP"), "RC") == 0;
	machine.strict = strcmp(variable("ROPEWAY_STRICT", "0"), "1") == 0;
	machine.batch = among(machine.product, batch);
	machine.desc = among(machine.product, desc);
	machine.oldest = strcmp(machine.product, "310") == 0;
	machine.no_host_kind = among(machine.product, refuses);
	scene_make();
	for (size_t i = 0; i < sizeof sentences / sizeof sentences[0]; i++) {
		fprintf(stderr, "%s\n", sentences[i].id); /* what a failure is about */
		sentences[i].test();
		OK(synchronise());
		printf("%s\n", sentences[i].id);
	}
	scene_drop();
	return 0;
}
