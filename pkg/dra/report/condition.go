package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// The condition of an allocated device that says whether the containers can use it, with its reasons. It is absent
// while nothing was checked.
const (
	conditionUsable = "Usable"
	reasonChecked   = "Checked"
	reasonUnusable  = "Unusable"      // by a kind of check that only a newer hook knows
	reasonDropped   = "ChecksDropped" // the condition is not known
)

// unusableReasons are the reasons of a condition Usable that is false. If several kinds of checks found an HCA
// unusable, the first of record.Kinds counts.
var unusableReasons = map[string]string{
	record.Provider.ID: "ProviderUnusable", record.Permission.ID: "PermissionDenied",
	record.Memlock.ID: "LockedMemoryLow", record.Variables.ID: "VariablesWrong",
}

// container identifies a container of a claim over its restarts.
type container struct {
	pod  types.UID
	name string
}

const (
	// maxChecked bounds the containers of a claim whose checks are kept. A claim has few, unless many pods share it.
	maxChecked = 64
	// maxCheckBytes bounds the checks of a node. JSON may make six bytes of one, and the next driver reads 16 MiB.
	maxCheckBytes = 2 << 20
	// checksBatch is how long the driver collects checks before it stores them for the next one.
	checksBatch = 5 * time.Second
)

// checked are the last checks of the containers of one claim.
type checked map[container]start

// dropped is the key of what says that checks of a claim were dropped. No container has an empty pod and this name.
var dropped = container{name: "(others)"}

// size is about the memory that a start takes.
func (s start) size() int {
	n := 128 + len(s.id)
	for _, c := range s.checks {
		n += 96 + len(strings.Join(c.Subjects, "")) + len(c.Message) + len(c.Remedy)
	}
	return n
}

// start has the checks of one start of a container. Each device with limits has a hook of its own.
type start struct {
	id     string // of the container at the runtime, another one after a restart
	checks []finding.Finding
}

// memoryChecks is the name of the checks of running containers in Memory. A container is checked once, when it starts,
// so the next driver could not learn them again.
const memoryChecks = "checks"

// rememberedStart is the form of a start in Memory.
type rememberedStart struct {
	Claim     types.UID         `json:"claim"`
	Pod       types.UID         `json:"pod,omitempty"`
	Container string            `json:"container,omitempty"`
	ID        string            `json:"id"`
	Checks    []finding.Finding `json:"checks,omitempty"`
}

// checks keeps what the hook found of running containers, for the condition Usable, also of the next driver. It is safe
// for concurrent use.
type checks struct {
	memory    Memory
	forgetful sync.Once // the log says that they cannot be stored

	store func() // schedules remember, nil for nobody

	mu    sync.Mutex
	dirty bool                  // they differ from what is stored
	of    map[types.UID]checked // by claim
	bytes map[types.UID]int     // of each claim
	total int                   // of all claims
}

// add adds what the hook found of a container of a claim.
func (k *checks) add(uid types.UID, hooked record.Report) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := container{types.UID(hooked.PodUID), hooked.Container}
	now := start{id: hooked.ID}
	if before := k.of[uid][c]; before.id == hooked.ID {
		now.checks = before.checks
	}
	for _, check := range hooked.Checks {
		if check.Severity != finding.NotSeen { // it has no part in a condition
			now.checks = append(slices.Clip(now.checks), check)
		}
	}
	k.keep(uid, c, now)
	k.schedule()
}

// schedule has the checks stored for the next driver soon, once for many reports. The caller holds mu.
func (k *checks) schedule() {
	k.dirty = true
	if k.store != nil {
		k.store()
	}
}

// keep keeps a start of a container, if there is room. What the node has no room for is dropped from the claim with the
// most, so that one user's checks displace nobody else's. The caller holds mu.
func (k *checks) keep(uid types.UID, c container, now start) {
	if k.of[uid] == nil {
		k.of[uid] = checked{}
	}
	if _, known := k.of[uid][c]; !known && len(k.of[uid]) >= maxChecked {
		c, now = dropped, start{}
	}
	k.set(uid, c, &now)
	for k.total > maxCheckBytes {
		largest, most := uid, 0
		for claim, n := range k.bytes {
			if n > most || n == most && claim < largest {
				largest, most = claim, n
			}
		}
		for victim := range k.of[largest] {
			k.set(largest, victim, nil)
			break
		}
		k.set(largest, dropped, &start{})
	}
}

// set replaces a start of a container, or drops it. The caller holds mu.
func (k *checks) set(uid types.UID, c container, now *start) {
	change := 0
	if before, known := k.of[uid][c]; known {
		change -= before.size() + len(c.name) + len(c.pod)
		delete(k.of[uid], c)
	}
	if now != nil {
		change += now.size() + len(c.name) + len(c.pod)
		k.of[uid][c] = *now
	}
	k.bytes[uid] += change
	k.total += change
}

// drop forgets a claim. The caller holds mu.
func (k *checks) drop(uid types.UID) {
	k.total -= k.bytes[uid]
	delete(k.bytes, uid)
	delete(k.of, uid)
}

// end drops the checks of a claim that has ended.
func (k *checks) end(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.of[uid]; known {
		k.drop(uid)
		k.schedule()
	}
}

// claim returns the checks of a claim, by container. Nobody changes them.
func (k *checks) claim(uid types.UID) checked {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.of[uid])
}

// remember stores all checks for the next driver, if they changed.
func (k *checks) remember() {
	all, dirty := k.all()
	if k.memory == nil || !dirty {
		return
	}
	if err := k.memory.Remember(memoryChecks, all); err != nil {
		k.forgetful.Do(func() {
			klog.Background().Error(err, "After a restart the driver will not know what containers can use")
		})
	}
}

// all returns all checks, sorted, and whether they changed since the last call.
func (k *checks) all() (all []rememberedStart, dirty bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	dirty, k.dirty = k.dirty, false
	if !dirty {
		return nil, false
	}
	all = []rememberedStart{}
	for claim, starts := range k.of {
		for of, last := range starts {
			all = append(all, rememberedStart{claim, of.pod, of.name, last.id, last.checks})
		}
	}
	slices.SortFunc(all, func(a, b rememberedStart) int {
		return cmp.Or(cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	})
	return all, true
}

// newChecks takes over the checks that the driver before has stored. The driver also works without them: a stored
// condition Usable stays.
func newChecks(memory Memory) *checks {
	k := &checks{memory: memory, of: map[types.UID]checked{}, bytes: map[types.UID]int{}}
	if memory == nil {
		return k
	}
	var all []rememberedStart
	if _, err := memory.Recall(memoryChecks, &all); err != nil {
		klog.Background().Error(err, "The driver does not know what running containers can use")
	}
	for _, r := range all {
		k.keep(r.Claim, container{r.Pod, r.Container}, start{r.ID, r.Checks})
	}
	return k
}

// only drops the checks of other claims than those of the plans: they ended while no driver was there.
func (k *checks) only(plans []*plan.Plan) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid := range k.of {
		if !slices.ContainsFunc(plans, func(p *plan.Plan) bool { return p.UID == uid }) {
			k.drop(uid)
		}
	}
}

// Checked keeps what the hook found of a container of a claim, for the condition Usable.
func (s *ClaimStatus) Checked(uid types.UID, hooked record.Report) {
	if s != nil && len(hooked.Checks) > 0 {
		s.checks.add(uid, hooked)
	}
}

// condition returns the condition Usable of a device with these HCAs, nil if nothing was checked.
func (all checked) condition(hcas []HCAData) *metav1.Condition {
	c := metav1.Condition{Type: conditionUsable}
	var good, bad []string
	var kinds []string
	_, lost := all[dropped]
	for of, last := range all {
		for _, check := range last.checks {
			mine := func(h HCAData) bool { return check.Subjects == nil || slices.Contains(check.Subjects, h.IBDev) }
			if !slices.ContainsFunc(hcas, mine) {
				continue
			}
			switch words := "container " + of.name + ": " + check.String(); {
			case check.Severity == finding.OK:
				good = append(good, words)
			case check.Severity.Bad():
				bad = append(bad, words)
				kinds = append(kinds, check.ID)
			}
		}
	}
	switch {
	case bad != nil:
		c.Status, c.Message = metav1.ConditionFalse, joined(bad)
		for _, k := range record.Kinds.Kinds {
			if slices.Contains(kinds, k.ID) {
				c.Reason = cmp.Or(c.Reason, unusableReasons[k.ID])
			}
		}
		c.Reason = cmp.Or(c.Reason, reasonUnusable)
	case lost:
		c.Status, c.Reason = metav1.ConditionUnknown, reasonDropped
		c.Message = "the driver does not keep what it found of all containers: the claim has too many, or their checks are too long"
	case good != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reasonChecked, joined(good)
	default:
		return nil
	}
	return &c
}

// The condition of an allocated device that says whether its HCAs are as good as they should be (docs/health.md), with
// the reason for good ones. The reason for others is that of the event, such as RDMAPortSlow. The condition is absent
// until an HCA of the device is sick for the first time, so a claim on HCAs that are well costs no write.
const (
	conditionHealthy = "Healthy"
	reasonRecovered  = "Recovered"
)

// healthyCondition returns the condition Healthy of a device, without its time, and whether it has one. stored is the
// one that the API server has. The message is that of the beginning of each fault, so it changes only when a fault
// begins or ends. Of an absent HCA nothing is known, and what is stored stays.
func healthyCondition(hcas []string, judged *health.View, stored *metav1.Condition) (metav1.Condition, bool) {
	c := metav1.Condition{Type: conditionHealthy, Status: metav1.ConditionUnknown}
	var texts []string
	for _, name := range hcas {
		v, judgedOne := judged.Verdict(name)
		faults, known := v.Sick()
		if !judgedOne || !known {
			if stored == nil {
				return c, false
			}
			return *stored, true
		}
		for _, f := range faults {
			texts = append(texts, cmp.Or(v.IBDev, v.Device)+": "+f.Began)
			c.Reason = cmp.Or(c.Reason, f.Condition.Reason())
			if f.Condition != health.Unmonitored { // whose link nobody can see may be well
				c.Status = metav1.ConditionFalse
			}
		}
	}
	switch {
	case texts != nil:
		c.Message = joined(texts)
	case stored != nil:
		c.Status, c.Reason = metav1.ConditionTrue, reasonRecovered
	default:
		return c, false
	}
	return c, true
}

// joined makes one message of several, without duplicates: pods that share a claim have containers of the same names.
func joined(texts []string) string {
	slices.Sort(texts)
	return health.Cut(text.Terminal(strings.Join(slices.Compact(texts), "; ")))
}
