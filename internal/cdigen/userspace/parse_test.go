package userspace

import (
	"maps"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/elftest"
)

func TestGLIBC(t *testing.T) {
	for version, want := range map[string]string{
		"GLIBC_2.2.5": "2.2", "GLIBC_2.34": "2.34", "GLIBC_PRIVATE": "", "GLIBC_ABI_DT_RELR": "", "IBVERBS_1.1": "",
		"GLIBC_": "",
	} {
		if got, _ := parseGLIBC(version); got.String() != want {
			t.Errorf("%s is %q, want %q", version, got, want)
		}
	}
	test.Eq(t, "2.34", newestGLIBC([]string{"GLIBC_2.4", "GLIBC_2.34", "GLIBC_2.9"}).String(), test.Sprint("newest"))
}

// FuzzFind gives Find a damaged libibverbs, cache and list of names.
func FuzzFind(f *testing.F) {
	h := debian()
	f.Add(h.verbs().Build(), elftest.LDConfig([][2]string{{"libibverbs.so.1", "/lib/x"}}), "driver mlx5\n")
	f.Add([]byte("\x7fELF"), []byte{}, " driver /x\n#\n")
	whole := h.files
	f.Fuzz(func(t *testing.T, library, cache []byte, names string) {
		h.files = maps.Clone(whole)
		h.put(multiarchDir+"/libibverbs.so.1.0", library)
		h.put("etc/ld.so.cache", cache)
		h.put("etc/libibverbs.d/mlx5.driver", []byte(names))
		if plan, err := h.find("rxe"); (plan == nil) == (err == nil) {
			t.Errorf("plan %v, error %v", plan, err)
		}
	})
}
