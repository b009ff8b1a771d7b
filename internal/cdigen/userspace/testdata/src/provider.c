/* A provider: NAME is what it registers. */
void verbs_register_driver_34(const char *name);

__attribute__((constructor)) static void drv__register_driver(void) { verbs_register_driver_34(NAME); }

int mlx5dv_is_supported(void) { return 1; }
