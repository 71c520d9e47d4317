/* Programs with several modes: the first argument names one. */
#ifndef MODES_H
#define MODES_H

#include <stdio.h>
#include <string.h>

struct mode {
	const char *name;
	void (*run)(void);
};

#define RUN_MODE(modes, argc, argv) \
	do { \
		for (size_t mode_i = 0; (argc) > 1 && mode_i < sizeof(modes) / sizeof(modes)[0]; mode_i++) \
			if (!strcmp((modes)[mode_i].name, (argv)[1])) { \
				(modes)[mode_i].run(); \
				return 0; \
			} \
		fprintf(stderr, "no such mode\n"); \
		return 2; \
	} while (0)

#endif
