package publisher

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func sliceOf(text string) *resourceapi.ResourceSlice {
	name, version, _ := strings.Cut(text, "@")
	return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
}

// TestMirror: the newest word on each slice counts, whoever brings it.
func TestMirror(t *testing.T) {
	m := newMirror()
	test.Nil(t, m.latest(), test.Sprint("before the first list something is known"))
	list := func(version string, texts ...string) func() {
		return func() {
			var items []any
			for _, text := range texts {
				items = append(items, sliceOf(text))
			}
			_ = m.Replace(items, version)
		}
	}
	watch := func(text string) func() { return func() { _ = m.Update(sliceOf(text)) } }
	write := func(text string) func() { return func() { m.put(sliceOf(text)) } }
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"a list", list("5", "a@3", "b@5"), "a@3 b@5"},
		{"a change", watch("a@6"), "a@6 b@5"},
		{"the answer to a write", write("a@8"), "a@8 b@5"},
		{"the watch tells of an older one", watch("a@7"), "a@8 b@5"},
		{"and of that", watch("a@8"), "a@8 b@5"},
		{"one is made", write("c@9"), "a@8 b@5 c@9"},
		{"a list from before", list("8", "a@7", "b@5"), "a@8 b@5 c@9"},
		{"a list from after it was deleted", list("10", "a@8"), "a@8"},
		{"versions grow by digits", watch("a@10"), "a@10"},
		{"deleted", func() { _ = m.Delete(sliceOf("a@11")) }, ""},
		{"deleted again", func() { _ = m.Delete(sliceOf("a@11")) }, ""},
	} {
		step.do()
		var got []string
		for _, s := range m.latest() {
			got = append(got, s.Name+"@"+s.ResourceVersion)
		}
		slices.Sort(got)
		must.Eq(t, step.want, strings.Join(got, " "), must.Sprintf("after %s: %v", step.what, got))
	}
	got := m.latest()
	test.True(t, got != nil && len(slices.Collect(maps.Keys(got))) == 0,
		test.Sprintf("no slice is %v, want an empty list", got))
}
