package vm

import (
	"context"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/image"
)

// MPIImage is the name of the container image in the archive that BuildMPI returns.
const MPIImage = image.MPIImage

// BuildMPI finds a docker-archive with Open MPI in the cache, or builds it from Debian's packages, which takes two
// minutes. Share its directory with the guest that is to load it.
func BuildMPI(ctx context.Context, o Options) (archive string, err error) {
	b, err := o.builder()
	if err != nil {
		return "", err
	}
	return b.EnsureMPI(ctx)
}
