package hook_test

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
)

// container is a process on a host without CAP_SYS_RESOURCE.
type container struct{ limit record.Rlimit }

func (c *container) Limit() (record.Rlimit, error) { return c.limit, nil }

func (c *container) SetLimit(l record.Rlimit) error {
	if l.Hard > c.limit.Hard {
		return unix.EPERM
	}
	c.limit = l
	return nil
}

func ExampleRaise() {
	c := &container{record.Rlimit{Soft: 64 << 10, Hard: 8 << 20}}
	for _, text := range []string{"1Mi", "1Mi", "unlimited"} {
		want, err := args.ParseSize(text)
		if err != nil {
			fmt.Println(err)
			return
		}
		result, err := hook.Raise(c, want, args.Clamp)
		fmt.Println(result.Outcome, result.After, err)
	}
	// Output:
	// raised 1 MiB (hard limit 8 MiB) <nil>
	// already 1 MiB (hard limit 8 MiB) <nil>
	// clamped 8 MiB (hard limit 8 MiB) <nil>
}
