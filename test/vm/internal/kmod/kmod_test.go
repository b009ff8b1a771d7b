package kmod_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/kmod"
)

// As depmod writes it for Linux 6.12.
const dep = `kernel/lib/crc32.ko.xz:
kernel/drivers/infiniband/core/ib_core.ko.xz: kernel/lib/crc32.ko.xz
kernel/drivers/infiniband/core/ib_uverbs.ko.xz: kernel/drivers/infiniband/core/ib_core.ko.xz kernel/lib/crc32.ko.xz
kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz: kernel/drivers/infiniband/core/ib_uverbs.ko.xz kernel/drivers/infiniband/core/ib_core.ko.xz kernel/lib/crc32.ko.xz
kernel/fs/nls/nls-utf8.ko:
`

func ExampleIndex_Files() {
	files, err := kmod.Parse(dep, "").Files("rdma_rxe")
	fmt.Println(strings.Join(files, "\n"), err)
	// Output:
	// kernel/lib/crc32.ko.xz
	// kernel/drivers/infiniband/core/ib_core.ko.xz
	// kernel/drivers/infiniband/core/ib_uverbs.ko.xz
	// kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz <nil>
}

func TestFiles(t *testing.T) {
	x := kmod.Parse(dep, "kernel/drivers/virtio/virtio_pci.ko\n")
	for _, c := range []struct {
		names []string
		want  int
		err   string
	}{
		{[]string{"virtio_pci"}, 0, ""},
		{[]string{"nls_utf8"}, 1, ""},
		{[]string{"ib_uverbs", "rdma_rxe", "ib_uverbs"}, 4, ""},
		{[]string{"ib_uverbs", "siw"}, 0, `the module "siw"`},
	} {
		files, err := x.Files(c.names...)
		if len(files) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: %v, %v", c.names, files, err)
		}
		test.Eq(t, len(files), len(slices.Compact(slices.Sorted(slices.Values(files)))),
			test.Sprintf("%v: a file twice: %v", c.names, files))
	}
}

func TestRead(t *testing.T) {
	dir := fstest.MapFS{"modules.dep": {Data: []byte(dep)}, "modules.builtin": {Data: []byte("kernel/fs/fuse.ko\n")}}
	x, err := kmod.Read(dir)
	must.NoError(t, err)
	if _, err := x.Files("fuse", "ib_core"); err != nil {
		t.Error(err)
	}
	for _, missing := range []string{"modules.dep", "modules.builtin"} {
		without := fstest.MapFS{}
		for name, file := range dir {
			if name != missing {
				without[name] = file
			}
		}
		if _, err := kmod.Read(without); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}
