package webserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// How long an answer of the API server is valid, as with the kubelet's webhooks. An allowed user is checked again soon.
// A denied user may have received the right meanwhile.
const (
	keepYes  = time.Minute
	keepNo   = 10 * time.Second
	maxKept  = 1024
	maxToken = 8 << 10
)

// The time limit for the API server, how many readers the guard remembers, and for how long after their last allowed
// request.
const (
	reviewTime = 5 * time.Second
	maxReaders = 64
	keepReader = time.Hour
)

// guard allows only the requests that the API server allows. It stores hashes of tokens, and no token. Requests that
// were allowed recently have a queue of their own, so that unknown clients, however many, cannot take their places.
type guard struct {
	client    kubernetes.Interface
	strangers *queue
	regulars  *queue
	kept      *cache.LRUExpireCache // reply, by the hash of token and path
	readers   *cache.LRUExpireCache // requests that were allowed before, by the same hash
	salt      [sha256.Size]byte     // protects the hashes in a memory dump against precomputed tables
}

// reply is the answer to a request.
type reply struct {
	status  int
	message string
}

var (
	allowed = reply{status: http.StatusOK}
	errBusy = errors.New("too many requests wait for what the API server says of them: try again")
)

func newGuard(client kubernetes.Interface, now clock.PassiveClock) *guard {
	g := &guard{
		client: client, strangers: newQueue(maxWaitingOf), regulars: newQueue(maxWaiting),
		kept: cache.NewLRUExpireCacheWithClock(maxKept, now), readers: cache.NewLRUExpireCacheWithClock(maxReaders, now),
	}
	_, _ = rand.Read(g.salt[:]) // never fails
	return g
}

// protect returns a handler that calls next only for allowed requests.
func (g *guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := g.judge(r)
		rate(r.Context(), v == allowed)
		if v != allowed {
			if v.status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			http.Error(w, v.message, v.status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// judge returns the reply for a request. It asks the API server nothing if the request has no token.
func (g *guard) judge(r *http.Request) reply {
	token := tokenOf(r)
	if token == "" || len(token) > maxToken {
		return reply{http.StatusUnauthorized, "a bearer token of the cluster is needed"}
	}
	if r.Method != http.MethodGet {
		return reply{http.StatusMethodNotAllowed, "only GET is answered"}
	}
	key := sha256.Sum256(fmt.Appendf(g.salt[:], "%d %s %s", len(token), token, r.URL.Path))
	if v, ok := g.kept.Get(key); ok {
		return v.(reply)
	}
	v, err := g.inTurn(r, key, token)
	switch {
	case errors.Is(err, errBusy):
		return reply{http.StatusTooManyRequests, err.Error()}
	case err != nil:
		klog.FromContext(r.Context()).V(2).Info("Request not answered: the API server does not say whether it may be",
			"reason", err.Error())
		return reply{http.StatusServiceUnavailable, "the API server does not say whether this may be read"}
	}
	g.keep(key, v)
	return v
}

// inTurn asks the API server when it is the request's turn, unless another request has received the answer meanwhile.
func (g *guard) inTurn(r *http.Request, key [sha256.Size]byte, token string) (reply, error) {
	line := g.strangers
	if _, ok := g.readers.Get(key); ok {
		line = g.regulars
	}
	leave, err := line.enter(r.Context(), source(r.RemoteAddr))
	if err != nil {
		return reply{}, err
	}
	defer leave()
	if v, ok := g.kept.Get(key); ok {
		return v.(reply), nil
	}
	return g.ask(r.Context(), token, r.URL.Path)
}

func (g *guard) keep(key [sha256.Size]byte, v reply) {
	if v != allowed {
		g.kept.Add(key, v, keepNo)
		g.readers.Remove(key)
		return
	}
	g.kept.Add(key, v, keepYes)
	g.readers.Add(key, v, keepReader)
}

// tokenOf returns the bearer token of a request, or "".
func tokenOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// ask asks the API server who owns the token, and whether this user may get a path.
func (g *guard) ask(ctx context.Context, token, path string) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	who, err := g.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return reply{}, fmt.Errorf("review a token: %w; the driver needs create on tokenreviews", err)
	}
	if !who.Status.Authenticated {
		return reply{http.StatusUnauthorized, "the cluster does not know this token"}, nil
	}
	user := who.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	may, err := g.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return reply{}, fmt.Errorf("review the rights of %s: %w; the driver needs create on subjectaccessreviews",
			user.Username, err)
	}
	if !may.Status.Allowed {
		return reply{http.StatusForbidden, fmt.Sprintf("%s may not get %s: a ClusterRole with the verb get on this "+
			"nonResourceURL gives the right", user.Username, path)}, nil
	}
	return allowed, nil
}

// quiet returns a logger that discards net/http's messages about single connections: a port scan would fill the log.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
