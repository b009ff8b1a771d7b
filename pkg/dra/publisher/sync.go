package publisher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
)

// pass makes the API server's slices match the wanted ones, once.
type pass struct {
	publisher *Publisher
	wanted    []resourceslice.Slice
	current   []*resourceapi.ResourceSlice // by index, nil for one to create
	obsolete  []*resourceapi.ResourceSlice
	changed   []bool // by index: to write
	pool      resourceapi.ResourcePool
	owner     *metav1.OwnerReference // of all slices that are written; nil to keep the present owners
}

// sync writes the slices that differ. It does nothing until the wanted slices and those of the API server are known. It
// is idempotent.
func (p *Publisher) sync(ctx context.Context) error {
	p.mu.Lock()
	wanted := p.wanted
	p.mu.Unlock()
	have := p.server.latest()
	if wanted == nil || have == nil {
		return nil
	}
	run := &pass{
		publisher: p, wanted: wanted, current: make([]*resourceapi.ResourceSlice, len(wanted)),
		changed: make([]bool, len(wanted)),
	}
	run.match(have)
	run.compare()
	// Obsolete slices are deleted first: even if the wanted slices are faulty, devices that do not exist must not stay
	// published.
	if err := run.removeObsolete(ctx); err != nil {
		return err
	}
	return run.write(ctx)
}

// generationLimit is the first invalid generation of a pool. A slice with such a generation is deleted, and the pool
// continues from the highest valid one. No publisher reaches the limit. But anyone who may write slices can write the
// last possible generation, and no newer one would exist. JSON readers represent all numbers up to the limit exactly.
const generationLimit = 1 << 53

// match finds the slice of each index, which is the beginning of the slice's name. A slice is obsolete in four cases:
// its pool is another one, its generation is older or invalid, its name has no such index, or another slice has the
// index.
func (r *pass) match(have map[string]*resourceapi.ResourceSlice) {
	r.pool = resourceapi.ResourcePool{Name: r.publisher.cfg.Node, ResourceSliceCount: int64(len(r.wanted))}
	for _, s := range have {
		if s.Spec.Pool.Name == r.pool.Name && s.Spec.Pool.Generation < generationLimit {
			r.pool.Generation = max(r.pool.Generation, s.Spec.Pool.Generation)
		}
	}
	for _, s := range have {
		i := indexOf(s.Name, len(r.wanted))
		if i < 0 || s.Spec.Pool.Name != r.pool.Name || s.Spec.Pool.Generation < r.pool.Generation ||
			s.Spec.Pool.Generation >= generationLimit || r.current[i] != nil {
			r.obsolete = append(r.obsolete, s)
			continue
		}
		r.current[i] = s
	}
}

// compare determines which slices to write, and whether they need a new generation. Without a new generation, an
// allocator may see some of the changes before the others. That is harmless unless the changes affect which slice has
// which devices, and what these exclude.
func (r *pass) compare() {
	changes, made, moved := 0, false, false
	for i, s := range r.current {
		want := r.spec(i)
		switch {
		case s == nil:
			r.changed[i], made = true, true
		case r.isSettled(i):
		case sameSpec(&s.Spec, &want):
			r.current[i] = r.share(i, s)
		default:
			r.changed[i] = true
			changes++
			moved = moved || !sameLayout(&s.Spec, &want)
		}
	}
	if made || moved && changes > 1 {
		r.pool.Generation++
		for i := range r.changed {
			r.changed[i] = true
		}
	}
}

// isSettled reports whether neither the wanted nor the stored slice changed since the last complete pass.
func (r *pass) isSettled(i int) bool {
	if i >= len(r.publisher.settled) {
		return false
	}
	s := &r.publisher.settled[i]
	return same(r.current[i], s.actual) && s.actual.Spec.Pool == r.pool &&
		equality.Semantic.DeepEqual(s.wanted, r.wanted[i])
}

func (r *pass) removeObsolete(ctx context.Context) error {
	for _, s := range r.obsolete {
		if s.Spec.Pool.Generation >= generationLimit {
			klog.FromContext(ctx).Info("Removing a ResourceSlice of a generation that no driver reaches",
				"slice", s.Name, "pool", s.Spec.Pool.Name, "generation", s.Spec.Pool.Generation, "managers", managers(s))
		}
		err := r.publisher.cfg.Client.ResourceV1().ResourceSlices().Delete(ctx, s.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion},
		})
		if err != nil && !answer.Gone(err, resourceapi.Resource("resourceslices"), s.Name) {
			return fmt.Errorf("delete resource slice %s: %w", s.Name, err)
		}
		r.publisher.server.remove(s.Name)
	}
	return nil
}

// managers returns the field managers of a slice: the names that its writers chose.
func managers(s *resourceapi.ResourceSlice) []string {
	var out []string
	for _, m := range s.ManagedFields {
		out = append(out, m.Manager)
	}
	return out
}

// write updates and creates slices, in their order.
func (r *pass) write(ctx context.Context) error {
	if slices.Contains(r.current, nil) {
		if err := r.readOwner(ctx); err != nil {
			return err
		}
	}
	done := make([]settled, 0, len(r.wanted))
	for i := range r.wanted {
		actual := r.current[i]
		if r.changed[i] {
			var err error
			if actual, err = r.store(ctx, i); err != nil {
				return err
			}
		}
		done = append(done, settled{r.wanted[i], actual})
	}
	r.publisher.settled = done
	return nil
}

// store writes one slice, and reports what the server has stored otherwise.
func (r *pass) store(ctx context.Context, i int) (*resourceapi.ResourceSlice, error) {
	wanted := r.object(i)
	client := r.publisher.cfg.Client.ResourceV1().ResourceSlices()
	var actual *resourceapi.ResourceSlice
	var err error
	if r.current[i] == nil {
		if actual, err = client.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("create resource slice %d: %w", i, err)
		}
	} else if actual, err = client.Update(ctx, wanted, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("update resource slice %s: %w", wanted.Name, err)
	}
	if err := answer.About(actual, "", cmp.Or(wanted.Name, actual.Name)); err != nil { // it is another object
		return nil, fmt.Errorf("write resource slice %d: %w", i, err)
	}
	r.publisher.server.put(actual)
	if sameSpec(&actual.Spec, &wanted.Spec) {
		return r.share(i, actual), nil
	}
	if field := changedField(&wanted.Spec, &actual.Spec); field != "" {
		r.publisher.cfg.Report(ctx, &ChangedError{Name: actual.Name, Field: field})
		return actual, nil
	}
	r.publisher.cfg.Report(ctx, &resourceslice.DroppedFieldsError{
		PoolName: r.pool.Name, SliceIndex: i, DesiredSlice: wanted, ActualSlice: actual,
	})
	return actual, nil
}

// share returns a slice of the server whose content is as wanted. Its attributes share the memory of the wanted
// attributes, because attributes are nearly all of a slice: 5 kB for each device.
func (r *pass) share(i int, s *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	shared := *s
	shared.Spec.Devices = slices.Clone(s.Spec.Devices)
	for j := range shared.Spec.Devices {
		shared.Spec.Devices[j].Attributes = r.wanted[i].Devices[j].Attributes
	}
	r.publisher.server.replace(&shared)
	return &shared
}

// object returns the slice to store: the current one with the wanted content, or a new one. The content is a copy,
// because encoding modifies quantities.
func (r *pass) object(i int) *resourceapi.ResourceSlice {
	s := resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{
		GenerateName: fmt.Sprintf("%0*x-%s-%s-", indexDigits(len(r.wanted)), i, r.publisher.cfg.Driver, r.publisher.cfg.Node),
	}}
	spec := r.spec(i)
	spec = *spec.DeepCopy()
	if r.current[i] != nil {
		s = *r.current[i]
		keepTimes(spec.Devices, s.Spec.Devices)
	}
	s.Spec = spec
	if r.owner != nil {
		s.OwnerReferences = []metav1.OwnerReference{*r.owner}
	}
	return &s
}

// indexDigits returns the number of digits of the index at the beginning of a name. The scheduler processes slices in
// the order of their names.
func indexDigits(count int) int { return max(5, len(strconv.FormatInt(int64(count-1), 16))) }

// indexOf returns the index in the name of a slice, a negative number if the name has no valid index for count slices.
func indexOf(name string, count int) int {
	digits, _, _ := strings.Cut(name, "-")
	i, err := strconv.ParseInt(digits, 16, 32)
	if err != nil || len(digits) != indexDigits(count) || int(i) >= count {
		return -1
	}
	return int(i)
}

// keepTimes copies to taints without a time the time of the same published taint.
func keepTimes(wanted, published []resourceapi.Device) {
	for _, d := range wanted {
		at := slices.IndexFunc(published, func(p resourceapi.Device) bool { return len(d.Taints) > 0 && p.Name == d.Name })
		if at < 0 {
			continue
		}
		for j := range d.Taints {
			t := &d.Taints[j]
			same := func(o resourceapi.DeviceTaint) bool {
				return o.Key == t.Key && o.Value == t.Value && o.Effect == t.Effect
			}
			if k := slices.IndexFunc(published[at].Taints, same); t.TimeAdded == nil && k >= 0 {
				t.TimeAdded = published[at].Taints[k].TimeAdded
			}
		}
	}
}
