package apiclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	// answerTime is how long the server may take to begin an answer. It does not limit a watch, which begins at
	// once and may last for any time.
	answerTime = 30 * time.Second
	// slowTime is the duration from which on an answer is slow.
	slowTime = time.Second
)

var errNoAnswer = errors.New("the API server took the request and did not answer")

// observing reports requests to Troubles, and ends requests without an answer.
type observing struct {
	next     http.RoundTripper
	troubles *Troubles
	patience time.Duration
}

// RoundTrip implements http.RoundTripper.
func (o *observing) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	impatience := time.AfterFunc(o.patience, func() { cancel(errNoAnswer) })
	began := time.Now()
	resp, err := o.next.RoundTrip(r.WithContext(ctx))
	impatience.Stop()
	if err != nil {
		if errors.Is(context.Cause(ctx), errNoAnswer) {
			err = fmt.Errorf("%w within %v", errNoAnswer, o.patience)
		}
		cancel(nil)
		// A caller that gives up at once does not show a trouble.
		if r.Context().Err() == nil || errors.Is(r.Context().Err(), context.DeadlineExceeded) &&
			time.Since(began) >= slowTime {
			o.troubles.Note(r.Context(), requestOf(r), reasonOf(err), err.Error())
		}
		return nil, err
	}
	reason, message := reasonOfStatus(resp, time.Since(began))
	spreadRetry(resp.Header)
	if reason == Invalid && r.Context().Value(refusableKey{}) != nil {
		reason, message = Well, ""
	}
	if !r.URL.Query().Has("dryRun") { // such a request is a question, and a refusal is an answer
		o.troubles.Note(r.Context(), requestOf(r), reason, message)
	}
	resp.Body = &cancelling{resp.Body, cancel}
	return resp, nil
}

// spreadRetry makes the wait before a retry up to twice as long as the server requests. The server requests the same
// wait from all nodes, and client-go and the driver obey it. Without the spread, all nodes would return in the same
// second, again and again.
func spreadRetry(header http.Header) {
	const field = "Retry-After"
	if seconds, err := strconv.Atoi(header.Get(field)); err == nil && seconds > 0 {
		header.Set(field, strconv.Itoa(seconds+rand.IntN(seconds+1)))
	}
}

type refusableKey struct{}

// Refusable marks requests that the server may refuse as invalid because the caller has an alternative. Such a refusal
// is not a trouble.
func Refusable(ctx context.Context) context.Context {
	return context.WithValue(ctx, refusableKey{}, true)
}

// WrappedRoundTripper returns the wrapped transport, for client-go.
func (o *observing) WrappedRoundTripper() http.RoundTripper { return o.next }

// cancelling cancels a context when the body of the answer is closed.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close implements io.Closer.
func (c *cancelling) Close() error {
	defer c.cancel(nil)
	return c.ReadCloser.Close()
}
