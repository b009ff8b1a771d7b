package runtimes

import (
	"errors"
	"io"
	"os"
	"slices"
	"testing"
)

// asUser is the front of a command line for the ordinary user of the guest, without a
// login session, with the given limits of locked memory.
func asUser(limit string) []string {
	return slices.Concat(lockedMemory(limit), []string{
		"setpriv", "--reuid=1000", "--regid=1000", "--init-groups", "--inh-caps=-all",
		"env", "--chdir=/home/user", "HOME=/home/user", "XDG_RUNTIME_DIR=/run/user/1000",
	})
}

// prepareUser gives the user a runtime directory and the image.
func prepareUser(t *testing.T) {
	t.Helper()
	const dir = "/run/user/1000"
	if err := errors.Join(os.MkdirAll("/run/user", 0o755), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(os.Getenv("TOOLS_ARCHIVE"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create("/home/user/tools.tar")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	must(t, append(asUser("65536:65536"), "podman", "load", "--input", "tools.tar")...)
}

// Rootless podman reads the spec and runs the hook, as the user: it can raise the soft
// limit up to the user's hard limit and no further. What an administrator gives the
// user as the hard limit is therefore what counts.
func TestRootlessPodman(t *testing.T) {
	prepareUser(t)
	script := look + `ibv_rc_pingpong -d rxe0 -g 1 -s 1048576 -n 1 127.0.0.1 2>&1`
	for _, c := range []struct {
		name, limit string
		want        []string
	}{
		{"a hard limit of 8 MiB: raised to it, and enough", "65536:8388608", []string{"memlock soft 8192 hard 8192", "Couldn't connect"}},
		{"a hard limit of 64 KiB: nothing can be done", "65536:65536", []string{"memlock soft 64 hard 64", "Couldn't register MR"}},
		{"an unlimited hard limit: unlimited", "65536:unlimited", []string{"memlock soft unlimited hard unlimited", "Couldn't connect"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, runtime := range ociRuntimes {
				// The pingpong has no partner: it either fails to register its memory,
				// or gets as far as connecting.
				r := run(slices.Concat(asUser(c.limit), podmanRun(runtime, "--rm", "--network", "none", "--device", "rdma.dev/hca=rxe0"), sh(script))...)
				t.Logf("%s: %s", runtime, r.out)
				wants(t, runtime, r.out, append(c.want, "user 1000 capabilities 0000000000000000", "nodes rdma_cm "+uverbs(t, "rxe0")+" \n", "devices rxe0 \n")...)
			}
		})
	}
	t.Run("no device", func(t *testing.T) {
		out := must(t, slices.Concat(asUser("65536:8388608"), podmanRun("crun", "--rm", "--network", "none"), sh(look+probe(number(t, "infiniband_verbs", uverbs(t, "rxe0")))))...)
		t.Log(out)
		wants(t, "container", out, "nodes \n", "devices \n", "memlock soft 64 hard 8192", "mknod")
	})
}
