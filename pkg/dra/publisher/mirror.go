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

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// mirror holds the driver's slices of the node as the API server has them. Its sources are a watch and the server's
// answers to writes; the newer version counts. It implements [cache.ReflectorStore] and is safe for concurrent use.
// Callers must not modify its slices.
type mirror struct {
	changed loop.Signal // the watch reported a change

	mu     sync.Mutex
	slices map[string]*resourceapi.ResourceSlice // by name; nil before the first list
	end    context.CancelFunc                    // of the watch
}

func newMirror() *mirror { return &mirror{changed: loop.NewSignal(), end: func() {}} }

// selector returns the field selector of the driver's slices of the node.
func (c *Config) selector() string {
	return fields.Set{
		resourceapi.ResourceSliceSelectorDriver: c.Driver, resourceapi.ResourceSliceSelectorNodeName: c.Node,
	}.String()
}

// follow keeps the mirror up to date until ctx ends. After forget it begins again with a list.
func (m *mirror) follow(ctx context.Context, cfg Config) {
	for ctx.Err() == nil {
		watching, end := context.WithCancel(ctx)
		m.mu.Lock()
		m.end = end
		m.mu.Unlock()
		m.watch(watching, cfg)
		end()
	}
}

// forget drops all slices. They are unknown until the server has listed them again.
func (m *mirror) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slices = nil
	m.end()
}

// watch keeps the mirror up to date until ctx ends.
func (m *mirror) watch(ctx context.Context, cfg Config) {
	lw := cache.ToListWatcherWithWatchListSemantics(cfg.listWatch(), cfg.Client)
	logger := klog.FromContext(ctx)
	options := cache.ReflectorOptions{Logger: &logger, Name: "resourceslices"}
	cache.NewReflectorWithOptions(lw, &resourceapi.ResourceSlice{}, m, options).RunWithContext(ctx)
}

// listWatch lists and watches the driver's slices of the node.
func (c *Config) listWatch() *cache.ListWatch {
	client, selector := c.Client.ResourceV1().ResourceSlices(), c.selector()
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return answer.Listed(client.List(ctx, o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return client.Watch(ctx, o)
		},
	}
}

// latest returns the slices by name, nil before the first list. The caller owns the map.
func (m *mirror) latest() map[string]*resourceapi.ResourceSlice {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.slices)
}

// put stores a slice unless the mirror has the same or a newer version. Before the first list it does nothing: the list
// will have the slice.
func (m *mirror) put(s *resourceapi.ResourceSlice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.slices == nil {
		return
	}
	if known := m.slices[s.Name]; known == nil || newer(s.ResourceVersion, known.ResourceVersion) {
		m.slices[s.Name] = s
	}
}

// replace stores a slice in place of one of the same version.
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

// newer reports whether resource version a is newer than b. If they cannot be compared, it returns true, so that the
// later answer counts. Kubernetes API servers have comparable versions.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

// Add implements cache.ReflectorStore.
func (m *mirror) Add(obj any) error {
	m.put(obj.(*resourceapi.ResourceSlice)) // the reflector lets no other type through
	m.changed.Set()
	return nil
}

// Update implements cache.ReflectorStore.
func (m *mirror) Update(obj any) error { return m.Add(obj) }

// Delete implements cache.ReflectorStore.
func (m *mirror) Delete(obj any) error {
	m.remove(obj.(*resourceapi.ResourceSlice).Name)
	m.changed.Set()
	return nil
}

// Replace implements cache.ReflectorStore. Slices that were written after the list was made stay.
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
	m.changed.Set()
	return nil
}

// Resync implements cache.ReflectorStore. It does nothing.
func (m *mirror) Resync() error { return nil }
