/*
 * The rules of the copy family: group memory-copy of the table. The argument names the machine that the environment asks
 * for, ROPEWAY_PRODUCT and ROPEWAY_FORM: each knows its own part of the rules.
 */
#include "proof.h"

struct proof proof;
struct scene scene;
atomic_int meetings;

void rules_copy(const char *machine);
void rules_async(const char *machine);
void rules_batch(const char *machine);
void rules_batch_async(const char *machine);
void rules_plane(const char *machine);
void rules_descriptor(const char *machine);
void rules_fill(const char *machine);
void rules_capture(const char *machine);

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	scene_make();
	rules_copy(argv[1]);
	rules_async(argv[1]);
	rules_batch(argv[1]);
	rules_batch_async(argv[1]);
	rules_plane(argv[1]);
	rules_descriptor(argv[1]);
	rules_fill(argv[1]);
	rules_capture(argv[1]);
	scene_drop();
	return 0;
}
