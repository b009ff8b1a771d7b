package runtimes

import (
	"os"
	"slices"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// Rootless podman reads the spec and runs the hook, as the user: it can raise the soft
// limit up to the user's hard limit and no further. What an administrator gives the
// user as the hard limit is therefore what counts.
func TestRootlessPodman(t *testing.T) {
	inside.PrepareUser(t, os.Getenv("TOOLS_ARCHIVE"))
	script := look + `ibv_rc_pingpong -d rxe0 -g 1 -s 1048576 -n 1 127.0.0.1 2>&1`
	for _, c := range []struct {
		name, limit, runtime string
		want                 []string
	}{
		{"a hard limit of 8 MiB: raised to it, and enough", "65536:8388608", "runc",
			[]string{"memlock soft 8192 hard 8192", "Couldn't connect"}},
		{"a hard limit of 64 KiB: nothing can be done", "65536:65536", "crun",
			[]string{"memlock soft 64 hard 64", "Couldn't register MR"}},
		{"an unlimited hard limit: unlimited", "65536:unlimited", "",
			[]string{"memlock soft unlimited hard unlimited", "Couldn't connect"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			oci := []string{c.runtime}
			if c.runtime == "" {
				needs.Long(t, "8 MiB is a limit that is raised, too")
			}
			if needs.IsLong() {
				oci = inside.Runtimes
			}
			for _, runtime := range oci {
				// The pingpong has no partner: it either fails to register its memory,
				// or gets as far as connecting.
				r := inside.Run(slices.Concat(inside.AsUser(c.limit),
					podmanRun(runtime, "--rm", "--network", "none", "--device", "rdma.dev/hca=rxe0"), sh(script))...)
				t.Logf("%s: %s", runtime, r.Out)
				inside.Wants(t, runtime, r.Out, append(c.want, "user 1000 capabilities 0000000000000000",
					"nodes rdma_cm "+uverbs(t, "rxe0")+" \n", "devices rxe0 \n")...)
			}
		})
	}
	t.Run("no device", func(t *testing.T) {
		needs.Long(t, "TestPodmanWithoutDevice has a container without one; a user's opens no more")
		out := inside.Must(t, slices.Concat(inside.AsUser("65536:8388608"), podmanRun("crun", "--rm", "--network", "none"),
			sh(look+probe(number(t, "infiniband_verbs", uverbs(t, "rxe0")))))...)
		t.Log(out)
		inside.Wants(t, "container", out, "nodes \n", "devices \n", "memlock soft 64 hard 8192", "mknod")
	})
}
