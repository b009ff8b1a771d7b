package image

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// MPIImage is the name of the container image that the MPI job of the examples names.
const MPIImage = "registry.example.com/mpi:1"

const mpiFile = "mpi.tar"

// mpiPackages are those of the recipe in docs/mpi.md.
var mpiPackages = []string{"openmpi-bin", "python3-mpi4py", "ibverbs-providers", "openssh-server"}

// mpiArchive has of these packages what the job runs: 74 of 425 MB.
var mpiArchive = archive{
	name: MPIImage,
	file: mpiFile,
	programs: []string{
		"/bin/busybox", "/usr/bin/mpirun", "/usr/bin/orted", "/usr/bin/python3", "/usr/bin/ssh", "/usr/sbin/sshd",
		"/usr/lib/x86_64-linux-gnu/libgcc_s.so.1", // loaded when a thread ends
	},
	trees: append([]string{
		"/etc/openmpi", "/usr/share/openmpi", "/usr/lib/x86_64-linux-gnu/openmpi/lib",
		"/usr/lib/x86_64-linux-gnu/pmix2/lib/pmix",
		"/usr/lib/python3.11", "/usr/lib/python3/dist-packages/mpi4py",
	}, providerDirs...),
	// Plug-ins for other networks load libraries of 20 MB.
	skip: regexp.MustCompile(`ucx|mtl_psm|btl_openib|btl_usnic|oshmem|spml|scoll|sshmem|` +
		`/usr/lib/python3.11/(pydoc_data|lib2to3|unittest|idlelib|tkinter|ensurepip|distutils)|` +
		`\.pxd$|mpi4py/include|\.a$`),
}

// mpiDir is the directory of the cache for the image of this recipe.
func (b *Builder) mpiDir() string {
	recipe := fmt.Sprint(format, b.Mirror, mpiPackages, mpiArchive.programs, mpiArchive.trees, mpiArchive.skip, dpkgConfig)
	sum := sha256.Sum256([]byte(recipe))
	return filepath.Join(b.Cache, fmt.Sprintf("mpi-%s-%x", release, sum[:6]))
}

// EnsureMPI returns the docker-archive of MPIImage. It builds the image if the cache lacks it.
func (b *Builder) EnsureMPI(ctx context.Context) (string, error) {
	archive := filepath.Join(b.mpiDir(), mpiFile)
	if err := Check(); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(b.Cache, buildLock))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	err = b.replace(b.mpiDir(), func(w *work) error {
		return w.do(ctx, []step{
			{"install the base system of Debian " + release, w.bootstrap},
			{"install Open MPI", func(ctx context.Context) error {
				return w.install(ctx, append([]string{"busybox-static"}, mpiPackages...))
			}},
			{"make the container image", func(ctx context.Context) error { return w.makeArchive(ctx, mpiArchive) }},
		})
	})
	if err != nil {
		return "", fmt.Errorf("build the container image with Open MPI: %w", err)
	}
	return archive, nil
}
