package rdma_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The user device of the machine, and its card.
const (
	hfiDevice = "sys/devices/virtual/hfi1_user/hfi1_0/"
	hfiClass  = "-- sys/class/hfi1_user/hfi1_0 -> ../../devices/virtual/hfi1_user/hfi1_0 --\n"
	hfiCard   = "-- sys/bus/pci/drivers/hfi1/0000:5e:00.0 -> ../../../../devices/pci0000:5d/0000:5d:00.0/0000:5e:00.0 --\n"
)

// TestPSM: an Omni-Path HCA has the user device of its name. Under another name it has the only one of the only card;
// with a second card nobody knows which is whose, so it has none.
func TestPSM(t *testing.T) {
	rename := []string{"/infiniband/hfi1_0", "/infiniband/opap94s0", "/ibdev --\nhfi1_0\n", "/ibdev --\nopap94s0\n"}
	second := []string{hfiCard, hfiCard + strings.ReplaceAll(hfiCard, "5e:00.0 ", "5f:00.0 ")}
	for _, tc := range []struct {
		name, ibdev string
		change      []string
		want        bool
	}{
		{"name of the kernel", "hfi1_0", nil, true},
		{"name of the kernel, two cards", "hfi1_0", second, true},
		{"renamed", "opap94s0", rename, true},
		{"renamed, two cards", "opap94s0", append(second, rename...), false},
		{"renamed, two user devices", "opap94s0", append([]string{hfiClass, hfiClass +
			strings.ReplaceAll(hfiClass, "hfi1_0", "hfi1_1")}, rename...), false},
		{"module without user devices", "hfi1_0", []string{hfiClass, ""}, false},
	} {
		h := hca(t, variant(t, "omnipath-hfi1", tc.change...), tc.ibdev)
		switch {
		case (h.PSM != nil) != tc.want:
			t.Errorf("%s: user device %+v, want one: %t", tc.name, h.PSM, tc.want)
		case tc.want && (h.PSM.Path() != "/dev/hfi1_0" || h.PSM.Major != 242):
			t.Errorf("%s: user device %+v", tc.name, *h.PSM)
		}
	}
	for _, h := range discover(t, "hgx-h100").HCAs {
		test.Nil(t, h.PSM, test.Sprintf("%s has a user device of Omni-Path", h.IBDev))
	}
}

// TestVerifyPSM: a user device with another number is another card's.
func TestVerifyPSM(t *testing.T) {
	h := hca(t, discover(t, "omnipath-hfi1"), "hfi1_0")
	test.NoError(t, rdma.Verify(variantFS(t, "omnipath-hfi1"), h))
	err := rdma.Verify(variantFS(t, "omnipath-hfi1", "-- "+hfiDevice+"dev --\n242:0", "-- "+hfiDevice+"dev --\n242:1"), h)
	test.True(t, errors.Is(err, rdma.ErrChanged) &&
		strings.Contains(err.Error(), "hfi1_0 is 242:1 now, and was 242:0"), test.Sprintf("Verify says %v", err))
}
