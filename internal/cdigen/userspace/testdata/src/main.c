/* An application that links libibverbs and a direct-verbs library. */
int ibv_load_drivers(void);
int mlx5dv_is_supported(void);

int main(void) { return !mlx5dv_is_supported() || ibv_load_drivers(); }
