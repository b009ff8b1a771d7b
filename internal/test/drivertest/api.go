package drivertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The requests that a driver makes, as API.Count and API.Fail name them.
const (
	GetNode     = "GET nodes"
	GetClaim    = "GET resourceclaims"
	ListSlices  = "LIST resourceslices"
	WatchSlices = "WATCH resourceslices"
	CreateSlice = "POST resourceslices"
	UpdateSlice = "PUT resourceslices"
	DeleteSlice = "DELETE resourceslices"
	CreateEvent = "POST events"
	PatchEvent  = "PATCH events"
	ApplyStatus = "PATCH resourceclaims/status"
	PutStatus   = "PUT resourceclaims/status"
	// DryRun is a dry run, which the API server refuses: the driver asks whether the chart's policies bind it.
	DryRun = "DRY RUN"
)

// GetClaimOf is the request for that one claim, as API.Fail names it.
func GetClaimOf(c *resourceapi.ResourceClaim) string { return GetClaim + " " + c.Name }

// NodeName is the node that the API server knows.
const NodeName = "node1"

// API is an API server with what a driver needs of one.
type API struct {
	server *httptest.Server

	mu       sync.Mutex
	revision int64
	node     corev1.Node
	noNode   bool
	claims   map[types.NamespacedName]*resourceapi.ResourceClaim
	slices   map[string]*resourceapi.ResourceSlice
	events   []corev1.Event
	log      []watchEvent
	oldest   int64         // the version from which on a watch may begin
	changed  chan struct{} // closed when the log grows
	counts   map[string]int
	open     int // requests that have no answer yet, watches aside
	failing  map[string]int
	gatesOff map[string]bool
	held     map[string]chan struct{}
	latency  time.Duration
	lastWord time.Time // of the last write to a slice
	access   access
}

// NewAPI starts an API server with a node of containerd 2.
func NewAPI(t testing.TB) *API {
	a := &API{
		claims: map[types.NamespacedName]*resourceapi.ResourceClaim{}, slices: map[string]*resourceapi.ResourceSlice{},
		changed: make(chan struct{}), counts: map[string]int{}, failing: map[string]int{}, gatesOff: map[string]bool{}, held: map[string]chan struct{}{},
	}
	a.node = corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: NodeName, UID: "6a1e2c9a-0000-4000-8000-00000000000a"},
	}
	a.SetRuntime("containerd://2.1.0")
	mux := http.NewServeMux()
	for pattern, h := range map[string]handler{
		"GET /api/v1/nodes/{name}": {GetNode, a.getNode},
		"GET /apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}":          {GetClaim, a.getClaim},
		"PATCH /apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}/status": {ApplyStatus, a.applyStatus},
		"PUT /apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}/status":   {PutStatus, a.putStatus},
		"GET /apis/resource.k8s.io/v1/resourceslices":                                        {ListSlices, a.listSlices},
		"POST /apis/resource.k8s.io/v1/resourceslices":                                       {CreateSlice, a.createSlice},
		"PUT /apis/resource.k8s.io/v1/resourceslices/{name}":                                 {UpdateSlice, a.updateSlice},
		"DELETE /apis/resource.k8s.io/v1/resourceslices/{name}":                              {DeleteSlice, a.deleteSlice},
		"POST /api/v1/namespaces/{namespace}/events":                                         {CreateEvent, a.createEvent},
		"PATCH /api/v1/namespaces/{namespace}/events/{name}":                                 {PatchEvent, a.patchEvent},
		"POST /apis/authentication.k8s.io/v1/tokenreviews":                                   {ReviewToken, a.reviewToken},
		"POST /apis/authorization.k8s.io/v1/subjectaccessreviews":                            {ReviewAccess, a.reviewAccess},
	} {
		mux.HandleFunc(pattern, a.serve(h))
	}
	mux.HandleFunc("/", a.serve(handler{"unknown", http.NotFound})) // as an API server that does not serve a group
	a.server = httptest.NewServer(mux)
	t.Cleanup(func() { a.server.CloseClientConnections(); a.server.Close() })
	return a
}

// Config is how to reach the server, without a limit of the client's own.
func (a *API) Config() *rest.Config { return &rest.Config{Host: a.server.URL, QPS: -1} }

// Client returns a client of the server.
func (a *API) Client(t testing.TB) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(a.Config())
	must.NoError(t, err)
	return client
}

// Kubeconfig writes a kubeconfig file for the server and returns its path.
func (a *API) Kubeconfig(t testing.TB) string {
	t.Helper()
	path := filepath.Join(TempDir(t), "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "k", "cluster": {"server": %q}}],
"contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
"users": [{"name": "u", "user": {}}]}`, a.server.URL)
	must.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// SetRuntime says which container runtime the node has.
func (a *API) SetRuntime(version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.node.Status.NodeInfo.ContainerRuntimeVersion = version
}

// ChangeNode changes the node.
func (a *API) ChangeNode(change func(*corev1.Node)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.node)
}

// AddClaim creates a claim, or replaces the one of that name.
func (a *API) AddClaim(claims ...*resourceapi.ResourceClaim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range claims {
		c = c.DeepCopy()
		c.TypeMeta = metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"}
		c.ResourceVersion = a.nextRevision()
		a.claims[nameOf(c)] = c
	}
}

// RemoveClaim deletes a claim.
func (a *API) RemoveClaim(c *resourceapi.ResourceClaim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.claims, nameOf(c))
}

func nameOf(c *resourceapi.ResourceClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}

// Slices returns the slices in order of their names, which is that of the pool.
func (a *API) Slices() []resourceapi.ResourceSlice {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []resourceapi.ResourceSlice
	for _, name := range slices.Sorted(maps.Keys(a.slices)) {
		out = append(out, *a.slices[name].DeepCopy())
	}
	return out
}

// WipeSlices deletes all slices, as a kubelet does that starts.
func (a *API) WipeSlices() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, s := range a.slices {
		delete(a.slices, name)
		a.announce("DELETED", s)
	}
}

// Cut ends all connections, and no watch goes on where it was: its versions are too old.
func (a *API) Cut() {
	a.mu.Lock()
	a.log, a.oldest = nil, a.revision
	a.mu.Unlock()
	a.server.CloseClientConnections()
}

// Events returns the events that were recorded.
func (a *API) Events() []corev1.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}

// Count returns how many requests of a kind came in.
func (a *API) Count(request string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[request]
}

// Requests returns the numbers of all requests.
func (a *API) Requests() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.counts)
}

// Writes returns how many requests changed something.
func (a *API) Writes() int {
	n := 0
	for request, count := range a.Requests() {
		if !strings.HasPrefix(request, "GET ") && request != ListSlices && request != WatchSlices && request != DryRun {
			n += count
		}
	}
	return n
}

// LastSliceWrite returns when a slice was last written.
func (a *API) LastSliceWrite() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lastWord
}

// Fail answers requests of a kind with an HTTP status, until it is 0.
func (a *API) Fail(request string, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing[request] = status
}

// SetLatency lets each request wait that long before it is served, as one does that goes
// over a network to a server with a disk.
func (a *API) SetLatency(latency time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.latency = latency
}

type handler struct {
	request string
	do      func(http.ResponseWriter, *http.Request)
}

// serve counts a request, and lets it fail if it is to.
func (a *API) serve(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request := h.request
		if request == ListSlices && r.URL.Query().Get("watch") != "" {
			request = WatchSlices
		}
		if r.URL.Query().Has("dryRun") {
			request = DryRun
		}
		a.mu.Lock()
		a.counts[request]++
		if request != WatchSlices {
			a.open++
			defer a.answered()
		}
		status, gate, latency := a.failing[request], a.held[request], a.latency
		a.mu.Unlock()
		time.Sleep(latency)
		if gate != nil {
			select {
			case <-gate:
			case <-r.Context().Done():
			}
		}
		if request == DryRun {
			refuse(w, r, http.StatusForbidden, metav1.StatusReasonForbidden, "the driver may not write a ResourceSlice of another node")
			return
		}
		if status != 0 {
			fail(w, r, status, request)
			return
		}
		h.do(w, r)
	}
}

func (a *API) answered() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
}

// Open returns how many requests have no answer yet, watches aside.
func (a *API) Open() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open
}

func fail(w http.ResponseWriter, r *http.Request, status int, request string) {
	reason := metav1.StatusReasonInternalError
	if status == http.StatusForbidden {
		reason = metav1.StatusReasonForbidden
	}
	refuse(w, r, status, reason, request+" fails, as the test wants it")
}

func notFound(w http.ResponseWriter, r *http.Request) {
	refuse(w, r, http.StatusNotFound, metav1.StatusReasonNotFound, r.URL.Path+" not found")
}

// refuse answers with a Status about the object of the request, as an API server does.
func refuse(w http.ResponseWriter, r *http.Request, code int, reason metav1.StatusReason, message string) {
	answer(w, code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message, Details: detailsOf(r.URL.Path),
	})
}

// objectPath has the parts of the paths of objects: group, resource, name and subresource.
var objectPath = regexp.MustCompile(`^(?:/api|/apis/([^/]+))/v1(?:/namespaces/[^/]+)?/([a-z]+)(?:/([^/]+))?(?:/[a-z]+)?$`)

func detailsOf(path string) *metav1.StatusDetails {
	m := objectPath.FindStringSubmatch(path)
	if m == nil {
		return nil
	}
	return &metav1.StatusDetails{Group: m[1], Kind: m[2], Name: m[3]}
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // the client may have gone
}

func (a *API) nextRevision() string {
	a.revision++
	return strconv.FormatInt(a.revision, 10)
}
