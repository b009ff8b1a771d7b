package publisher

import (
	"context"
	"maps"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// mirror is what the API server has of the driver's slices on the node: what a watch tells
// and what the server answers to writes, whichever is newer. It is a
// [cache.ReflectorStore]. Nobody changes the slices in it.
type mirror struct {
	changed chan struct{} // the watch told something new

	mu     sync.Mutex
	slices map[string]*resourceapi.ResourceSlice // by name; nil before the first list
}

func newMirror() *mirror { return &mirror{changed: make(chan struct{}, 1)} }

// follow watches until ctx ends.
func (m *mirror) follow(ctx context.Context, cfg Config) {
	client := cfg.Client.ResourceV1().ResourceSlices()
	selector := fields.Set{resourceapi.ResourceSliceSelectorDriver: cfg.Driver, resourceapi.ResourceSliceSelectorNodeName: cfg.Node}.String()
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return client.Watch(ctx, o)
		},
	}, cfg.Client)
	logger := klog.FromContext(ctx)
	cache.NewReflectorWithOptions(lw, &resourceapi.ResourceSlice{}, m, cache.ReflectorOptions{Logger: &logger, Name: "resourceslices"}).RunWithContext(ctx)
}

// latest returns the slices by name, nil before the first list.
func (m *mirror) latest() map[string]*resourceapi.ResourceSlice {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.slices)
}

// put takes a slice unless it is older than what is known, or the same.
func (m *mirror) put(s *resourceapi.ResourceSlice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.slices[s.Name]; known == nil || newer(s.ResourceVersion, known.ResourceVersion) {
		m.slices[s.Name] = s
	}
}

// replace puts a slice in the place of another one of the same version.
func (m *mirror) replace(s *resourceapi.ResourceSlice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.slices[s.Name]; known != nil && same(known, s) {
		m.slices[s.Name] = s
	}
}

func (m *mirror) remove(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.slices, name)
}

// newer compares resource versions. Those that cannot be compared are of a server that is
// none of ours: the later word counts.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

// Add implements cache.ReflectorStore.
func (m *mirror) Add(obj any) error {
	m.put(obj.(*resourceapi.ResourceSlice)) // the reflector lets no other type through
	notify(m.changed)
	return nil
}

// Update implements cache.ReflectorStore.
func (m *mirror) Update(obj any) error { return m.Add(obj) }

// Delete implements cache.ReflectorStore.
func (m *mirror) Delete(obj any) error {
	m.remove(obj.(*resourceapi.ResourceSlice).Name)
	notify(m.changed)
	return nil
}

// Replace implements cache.ReflectorStore. What was written after the list was made stays.
func (m *mirror) Replace(list []any, version string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh := make(map[string]*resourceapi.ResourceSlice, len(list))
	for _, obj := range list {
		s := obj.(*resourceapi.ResourceSlice)
		fresh[s.Name] = s
	}
	for name, known := range m.slices {
		listed := fresh[name]
		if listed == nil && newer(known.ResourceVersion, version) || listed != nil && newer(known.ResourceVersion, listed.ResourceVersion) {
			fresh[name] = known
		}
	}
	m.slices = fresh
	notify(m.changed)
	return nil
}

// Resync implements cache.ReflectorStore: a mirror needs none.
func (m *mirror) Resync() error { return nil }
