package runtimes

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// hostFiles returns the sums of all files in /etc.
func hostFiles(t *testing.T) string {
	t.Helper()
	return inside.Must(t, "sh", "-c", "find /etc -type f -exec sha256sum {} + | sort -k 2")
}

// unchanged runs a test, and asserts that /etc is as before at its end. The test begins with one configuration file,
// or without that file.
func unchanged(t *testing.T, name, content string, test func(*testing.T)) {
	t.Helper()
	if content != "" {
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if err == nil {
			err = os.WriteFile(name, []byte(content), 0o644)
		}
		must.NoError(t, err)
		t.Cleanup(func() { os.Remove(name) })
	}
	before := hostFiles(t)
	test(t)
	if after := hostFiles(t); after != before {
		t.Errorf("/etc before:\n%s\nafter:\n%s", before, after)
	}
}

// has runs a container with rxe0 and asserts that it has this device and unlimited locked memory.
func (e *engine) has(t *testing.T) {
	t.Helper()
	out := inside.Must(t, append(e.run("configured", "--device", "rdma.dev/hca=rxe0"), look)...)
	t.Log(out)
	unprivileged(t, "container", out, "rxe0")
}

// TestConfigureDocker: on a host whose Docker has CDI off, containers get their devices after configure, and none after
// --undo. Then the host is as before. A Docker Engine 29 without configuration needs no change.
func TestConfigureDocker(t *testing.T) {
	const file = "/etc/docker/daemon.json"
	// The dockerd of the tests is built from Docker's Go module, which calls release 29 v2.0.0-beta.24.
	configure := []string{"cdi-gen", "configure", "docker", "--runtime-version", "29"}
	unchanged(t, file, "", func(t *testing.T) {
		inside.Wants(t, "configure", inside.Must(t, configure...), "needs no change")
	})
	unchanged(t, file, "{\n  \"features\": {\"cdi\": false}\n}\n", func(t *testing.T) {
		refuses := func(t *testing.T) {
			docker.start(t)
			r := inside.Run(append(docker.run("off", "--device", "rdma.dev/hca=rxe0"), "true")...)
			test.NotEq(t, 0, r.Code, test.Sprint("a container starts with the device"))
			t.Log(r.Out)
		}
		out := inside.Must(t, configure...)
		t.Log(out)
		inside.Wants(t, "configure", out, `+  "features": {"cdi": true}`, file+" written", "next: systemctl restart docker")
		t.Run("configured", func(t *testing.T) {
			docker.start(t)
			docker.serves(t)
			inside.Must(t, "docker", "load", "--input", os.Getenv("DRIVER_ARCHIVE"))
			said := inside.Must(t, "docker", "run", "--rm", "--network", "none", os.Getenv("DRIVER_IMAGE"), "version")
			inside.Wants(t, "driver", said, "dra-driver ")
		})
		out = inside.Must(t, "cdi-gen", "configure", "docker", "--undo")
		t.Log(out)
		inside.Wants(t, "undo", out, file+" is as before")
		t.Run("as before", refuses)
	})
}

// TestConfigureContainerd: containerd starts with what configure writes, and --undo takes it back. containerd 2.4
// ignores enable_cdi, and ctr reads the specs itself, so containers have the device in any case.
func TestConfigureContainerd(t *testing.T) {
	needs.Long(t, "TestContainerd has the devices, and TestConfigureDocker a runtime that configure turns on")
	const file = "/etc/containerd/config.toml"
	t.Setenv("PATH", os.Getenv("CLUSTER_PATH")+":"+os.Getenv("PATH"))
	unchanged(t, file, "", func(t *testing.T) {
		inside.Wants(t, "configure", inside.Must(t, "cdi-gen", "configure", "containerd"), "needs no change")
	})
	// Releases before 2.3 had a setting for CDI. This one ignores it.
	off := "version = 3\n[plugins.\"io.containerd.cri.v1.runtime\"]\n  enable_cdi = false # no devices here\n"
	unchanged(t, file, off, func(t *testing.T) {
		inside.Wants(t, "configure", inside.Must(t, "cdi-gen", "configure", "containerd"), "needs no change")
		t.Run("configured", func(t *testing.T) {
			containerd.start(t)
			containerd.has(t)
			// As docs/install.md has it.
			inside.Must(t, "ctr", "--namespace", "k8s.io", "images", "import", os.Getenv("DRIVER_ARCHIVE"))
			images := inside.Must(t, "ctr", "--namespace", "k8s.io", "images", "list", "--quiet")
			inside.Wants(t, "images", images, os.Getenv("DRIVER_IMAGE"))
		})
	})
	// The file of a release with the setting is edited, and taken back.
	unchanged(t, file, off, func(t *testing.T) {
		out := inside.Must(t, "cdi-gen", "configure", "containerd", "--runtime-version", "2.2.1")
		t.Log(out)
		inside.Wants(t, "configure", out, "+  enable_cdi = true # set by cdi-gen configure", file+" written")
		t.Log(inside.Must(t, "cdi-gen", "configure", "containerd", "--undo"))
	})
}

// TestConfigurePodman: podman needs nothing, and configure says so. TestPodmanTraffic has its containers.
func TestConfigurePodman(t *testing.T) {
	unchanged(t, "", "", func(t *testing.T) {
		inside.Wants(t, "configure", inside.Must(t, "cdi-gen", "configure", "podman"),
			"podman reads CDI specs without any configuration, from /etc/cdi and /var/run/cdi")
		inside.Wants(t, "undo", inside.Must(t, "cdi-gen", "configure", "podman", "--undo"), "nothing to undo")
	})
}

// TestPodmanLoads: podman loads the driver's image.
func TestPodmanLoads(t *testing.T) {
	needs.Long(t, "TestConfigureDocker loads the archive, which has one form for all engines")
	inside.Must(t, "podman", "load", "--input", os.Getenv("DRIVER_ARCHIVE"))
	said := inside.Must(t, "podman", "run", "--rm", "--network", "none", os.Getenv("DRIVER_IMAGE"), "version")
	inside.Wants(t, "driver", said, "dra-driver ")
}

// TestPodmanOldLibrary: podman 4.3 panics on a kind with one letter, whatever device it is asked for, and does not
// follow a linked directory. cdi-gen says both.
func TestPodmanOldLibrary(t *testing.T) {
	run := append(podmanRun("crun", "--rm", "--network", "none", "--device", "rdma.dev/hca=rxe0"), sh("true")...)
	spec := filepath.Join(specDir, "x.yaml")
	text := "cdiVersion: 0.3.0\nkind: a.com/b\ndevices: [{name: one, containerEdits: {env: [A=b]}}]\n"
	must.NoError(t, os.WriteFile(spec, []byte(text), 0o644))
	defer os.Remove(spec)
	inside.Wants(t, "podman", inside.Run(run...).Out, "panic: runtime error")
	inside.Wants(t, "validate", inside.Run("cdi-gen", "validate", spec).Out, "panics on it")
	must.NoError(t, os.Remove(spec))
	inside.Must(t, "podman", "rm", "--all", "--force") // what the panic left
	real := specDir + ".real"
	must.NoError(t, errors.Join(os.Rename(specDir, real), os.Symlink(real, specDir)))
	defer func() {
		test.NoError(t, errors.Join(os.Remove(specDir), os.Rename(specDir+".real", specDir)))
	}()
	inside.Wants(t, "podman", inside.Run(run...).Out, "unresolvable CDI devices rdma.dev/hca=rxe0")
	inside.Wants(t, "devices", inside.Run("cdi-gen", "devices").Out, "is a symbolic link")
}
