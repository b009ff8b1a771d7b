// Package published follows what the API server has of the driver's slices, for tests
// that run inside the virtual machine: what is wrong with a device is published, and one
// that a claim holds never leaves.
package published

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// patience is for emulated time.
const patience = 5 * time.Minute

// Pool is what the API server has of the driver's slices, as a watch tells it.
type Pool struct {
	client kubernetes.Interface

	mu      sync.Mutex
	slices  map[string]*resourceapi.ResourceSlice
	at      time.Time // of the last change
	changed chan struct{}
	held    string   // a device that must never leave
	lost    []string // when it did, and how
}

// Follow follows the slices until the test ends.
func Follow(t *testing.T, client kubernetes.Interface) *Pool {
	t.Helper()
	p := &Pool{client: client, slices: map[string]*resourceapi.ResourceSlice{}, changed: make(chan struct{})}
	of := p.client.ResourceV1().ResourceSlices()
	const driver = "spec.driver=rdma.dev"
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				o.FieldSelector = driver
				return of.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.FieldSelector = driver
				return of.Watch(ctx, o)
			},
		},
		ObjectType: &resourceapi.ResourceSlice{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { p.set(o.(*resourceapi.ResourceSlice)) },
			UpdateFunc: func(_, o any) { p.set(o.(*resourceapi.ResourceSlice)) },
			DeleteFunc: func(o any) { p.remove(o) },
		},
	})
	go informer.RunWithContext(t.Context())
	return p
}

func (p *Pool) set(s *resourceapi.ResourceSlice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slices[s.Name] = s
	p.note("an update of slice " + s.Name)
}

func (p *Pool) remove(o any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
	if err != nil {
		panic(err) // the informer hands out nothing else
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.slices, key)
	p.note("the end of slice " + key)
}

// note wakes those who wait, and notes a device that left.
func (p *Pool) note(what string) {
	p.at = time.Now()
	if p.held != "" && p.find(p.held) == nil {
		p.lost = append(p.lost, what)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Pool) find(device string) *resourceapi.Device {
	for _, s := range p.slices {
		if i := slices.IndexFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return d.Name == device }); i >= 0 {
			return &s.Spec.Devices[i]
		}
	}
	return nil
}

// Hold makes sure that a device stays published until the test ends.
func (p *Pool) Hold(t *testing.T, device string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = device
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		test.Nil(t, p.lost, test.Sprintf("%s, which a claim holds, left the slices with %q", device, p.lost))
		p.held = ""
	})
}

// Await waits until a device, nil if it is not published, is as it should be, and
// returns when the API server said so.
func (p *Pool) Await(t *testing.T, device string, so func(*resourceapi.Device) error) time.Time {
	t.Helper()
	timeout := time.After(patience)
	for {
		p.mu.Lock()
		err, at, changed := so(p.find(device)), p.at, p.changed
		p.mu.Unlock()
		if err == nil {
			return at
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("still after %s: %s %v", patience, device, err)
		}
	}
}

// Slice returns the slice with a device.
func (p *Pool) Slice(device string) *resourceapi.ResourceSlice {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.slices {
		if slices.ContainsFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return d.Name == device }) {
			return s
		}
	}
	return nil
}

// Tainted wants a device with just these taints, as "port-down". What only informs does
// not count.
func Tainted(want ...string) func(*resourceapi.Device) error {
	return func(d *resourceapi.Device) error {
		if d == nil {
			return fmt.Errorf("is not published")
		}
		var got []string
		for _, taint := range d.Taints {
			if taint.Effect != resourceapi.DeviceTaintEffectNone {
				got = append(got, strings.TrimPrefix(taint.Key, "rdma.dev/"))
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("has taints %v, want %v", got, want)
		}
		return nil
	}
}

// Called wants a device with an attribute of a value, and with just these taints.
func Called(attribute resourceapi.QualifiedName, value string, taints ...string) func(*resourceapi.Device) error {
	return func(d *resourceapi.Device) error {
		if err := Tainted(taints...)(d); err != nil {
			return err
		}
		if got := d.Attributes[attribute].StringValue; got == nil || *got != value {
			return fmt.Errorf("has no %s of %q", attribute, value)
		}
		return nil
	}
}

// Unpublished wants no such device.
func Unpublished(d *resourceapi.Device) error {
	if d != nil {
		return fmt.Errorf("is published")
	}
	return nil
}

// Changed is closed at the next change.
func (p *Pool) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}
