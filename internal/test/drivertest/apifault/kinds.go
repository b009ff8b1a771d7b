package apifault

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// Down answers nothing: the connection is reset.
func Down(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // which closes the connection as well
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // at worst the client sees an end instead of a reset
	}
	conn.Close()
}

// Hang takes a request and never answers it, as a server does that stands still.
func Hang(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body) // a server does not see that a client goes before it has read all
	<-r.Context().Done()
}

// Mostly does something to all but each n-th request, which the server answers.
func Mostly(n int64, do func(http.ResponseWriter, *http.Request, http.Handler)) func(http.ResponseWriter, *http.Request, http.Handler) {
	var count atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		if count.Add(1)%n == 0 {
			server.ServeHTTP(w, r)
			return
		}
		do(w, r, server)
	}
}

// Slow answers after a time.
func Slow(d time.Duration) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		select {
		case <-r.Context().Done():
		case <-time.After(d):
			server.ServeHTTP(w, r)
		}
	}
}

// reasons are the words of the API for what it answers.
var reasons = map[int]metav1.StatusReason{
	http.StatusUnauthorized:        metav1.StatusReasonUnauthorized,
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
}

// Status refuses with an HTTP status. One that is too busy says when to come back.
func Status(code int) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(&metav1.Status{ // the client may have gone
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: int32(code), Reason: reasons[code], Message: "refused by the test",
		})
	}
}

// Strange is an answer that says nothing about the object of a request.
type Strange struct {
	Name string
	Do   func(http.ResponseWriter, *http.Request, http.Handler)
}

// Answers of others than an API server that serves the object. None of them says that the object does not exist. The
// first three differ in kind: no Status, a Status, an object. The very first is that of a proxy, and of an API server
// that does not serve the group.
var Answers = []Strange{
	{"a page", Says(http.StatusNotFound, "text/plain; charset=utf-8", "404 page not found\n")},
	{"a Status without an object", Says(http.StatusNotFound, "application/json", `{"kind": "Status", "apiVersion": "v1",
		"status": "Failure", "message": "the server could not find the requested resource", "reason": "NotFound",
		"details": {}, "code": 404}`)},
	{"an object without a name", Says(http.StatusOK, "application/json", `{}`)},
	{"HTML", Says(http.StatusNotFound, "text/html", "<html><body><h1>404 Not Found</h1></body></html>")},
	{"nothing", Says(http.StatusNotFound, "application/json", "")},
	{"no Status", Says(http.StatusNotFound, "application/json", `{"message": "no Route matched with those values"}`)},
	{"a Status about the namespace", Says(http.StatusNotFound, "application/json", `{"kind": "Status", "apiVersion": "v1",
		"status": "Failure", "message": "namespaces \"team-a\" not found", "reason": "NotFound",
		"details": {"name": "team-a", "kind": "namespaces"}, "code": 404}`)},
	{"a Status about another object", Says(http.StatusNotFound, "application/json", `{"kind": "Status", "apiVersion": "v1",
		"status": "Failure", "message": "resourceclaims.resource.k8s.io \"x\" not found", "reason": "NotFound",
		"details": {"name": "x", "group": "resource.k8s.io", "kind": "resourceclaims"}, "code": 404}`)},
	{"success", Says(http.StatusOK, "application/json", `{"kind": "Status", "apiVersion": "v1", "status": "Success"}`)},
	{"another object", Says(http.StatusOK, "application/json", `{"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1",
		"metadata": {"name": "x", "namespace": "team-a", "uid": "x", "resourceVersion": "1"}}`)},
}

// Some returns an answer of each kind, and all with TEST_LONG. Package answer is tested with all of them.
func Some() []Strange {
	if needs.IsLong() {
		return Answers
	}
	return Answers[:3]
}

// Says answers with a text.
func Says(code int, contentType, text string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body) // the client may have gone
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

// Expired refuses every request that does not have a token.
func Expired(token string) func(http.ResponseWriter, *http.Request, http.Handler) {
	refuse := Status(http.StatusUnauthorized)
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		if r.Header.Get("Authorization") == "Bearer "+token {
			server.ServeHTTP(w, r)
			return
		}
		refuse(w, r, server)
	}
}

// Drop has the server store slices without some of their fields, as one does that does
// not know them or has their feature gate off.
func Drop(drop func(*resourceapi.ResourceSlice)) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client went
		}
		slice := &resourceapi.ResourceSlice{}
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, slice); err == nil {
			drop(slice)
			slice.TypeMeta = metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"}
			if body, err = json.Marshal(slice); err != nil {
				panic(err) // it was decoded a moment ago
			}
			r.Header.Set("Content-Type", "application/json")
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		server.ServeHTTP(w, r)
	}
}

// Together answers requests when that many are waiting for it.
func Together(n int) func(http.ResponseWriter, *http.Request, http.Handler) {
	var waiting atomic.Int64
	complete := make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		if waiting.Add(1) == int64(n) {
			close(complete)
		}
		select {
		case <-complete:
			server.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}
}

// Claims is a Match: requests for claims.
func Claims(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/resourceclaims/")
}

// Writes is a Match: requests that change slices.
func Writes(r *http.Request) bool { return r.Method == http.MethodPost || r.Method == http.MethodPut }
