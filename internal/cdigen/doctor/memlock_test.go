package doctor

import (
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

func TestParseLimits(t *testing.T) {
	for _, in := range []string{"", "Max cpu time unlimited unlimited seconds\n", "Max locked memory\n",
		"Max locked memory  many  many  bytes\n"} {
		test.Nil(t, parseLimits(in), test.Sprintf("%q", in))
	}
	got := parseLimits("Max locked memory         65536                unlimited            bytes     \n")
	if got == nil || got.soft != 65536 || got.hard != args.Unlimited {
		t.Errorf("got %+v", got)
	}
}
