/* A libibverbs that only loads providers, as rdma-core's
   libibverbs/dynamic_driver.c does. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>

void verbs_register_driver_34(const char *name) { printf("provider %s\n", name); }

static void load_driver(const char *name)
{
	char path[512];

	snprintf(path, sizeof path, PROVIDER_DIR "/lib%s-rdmav34.so", name);
	if (!dlopen(path, RTLD_NOW))
		printf("couldn't load driver '%s': %s\n", name, dlerror());
}

int ibv_load_drivers(void)
{
	const char *config = "/etc/libibverbs.d";
	DIR *dir = opendir(config);
	struct dirent *entry;

	if (!dir) {
		printf("couldn't open config directory '%s'\n", config);
		return 1;
	}
	while ((entry = readdir(dir))) {
		char path[512], name[64];
		FILE *file;

		snprintf(path, sizeof path, "%s/%s", config, entry->d_name);
		file = fopen(path, "r");
		if (file && fscanf(file, "driver %63s", name) == 1)
			load_driver(name);
		if (file)
			fclose(file);
	}
	return 0;
}
