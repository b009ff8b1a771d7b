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
	// answerTime is how long the server has to begin an answer. A watch begins at once,
	// and goes on for as long as it likes.
	answerTime = 30 * time.Second
	// slowTime is from when an answer is slow.
	slowTime = time.Second
)

var errNoAnswer = errors.New("the API server took the request and did not answer")

// observing tells Troubles of requests, and ends those that get no answer.
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
		// Who gives up at once knows of no trouble.
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
	o.troubles.Note(r.Context(), requestOf(r), reason, message)
	resp.Body = &cancelling{resp.Body, cancel}
	return resp, nil
}

// spreadRetry makes the wait up to twice as long that a server wants before the next try. It wants the same wait of
// all nodes, client-go and the driver keep to it, and otherwise all would come back in the same second, again and
// again.
func spreadRetry(header http.Header) {
	const field = "Retry-After"
	if seconds, err := strconv.Atoi(header.Get(field)); err == nil && seconds > 0 {
		header.Set(field, strconv.Itoa(seconds+rand.IntN(seconds+1)))
	}
}

type refusableKey struct{}

// Refusable is for requests that the server may refuse as invalid, since the caller has another way then: it is no
// trouble.
func Refusable(ctx context.Context) context.Context {
	return context.WithValue(ctx, refusableKey{}, true)
}

// WrappedRoundTripper lets client-go find the transport below.
func (o *observing) WrappedRoundTripper() http.RoundTripper { return o.next }

// cancelling frees a context when the body of the answer is done with.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close implements io.Closer.
func (c *cancelling) Close() error {
	defer c.cancel(nil)
	return c.ReadCloser.Close()
}
