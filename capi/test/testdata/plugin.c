/* A plug-in whose constructor calls back into the program that opens it. */
extern void rough_plugin(void);

__attribute__((constructor)) static void begin(void)
{
	rough_plugin();
}
