package loop_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// TestSignal: changes before a look count as one, and none is lost.
func TestSignal(t *testing.T) {
	s := loop.NewSignal()
	for range 3 {
		s.Set()
	}
	<-s
	select {
	case <-s:
		t.Error("three changes before a look count as more than one")
	default:
	}
	s.Set()
	<-s
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		for _, tc := range []struct {
			d, took time.Duration
			want    bool
		}{{-1, 0, true}, {time.Second, time.Second, true}, {time.Hour, time.Minute, false}, {0, time.Minute, false}} {
			got := loop.Sleep(ctx, tc.d)
			if took := time.Since(began); got != tc.want || took != tc.took {
				t.Errorf("a wait of %v ended after %v with %v, want %v with %v", tc.d, took, got, tc.took, tc.want)
			}
		}
	})
}
