// Package rdmamaptest opens rdmamap on any number of fixture machines in one test process, which package rdmamap
// refuses to a program.
package rdmamaptest

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/rdmamap"
	"github.com/rdma-dev/dra-driver-rdma/internal/rdmamap/internal/wrap"
)

// Open returns the map of the host below hostRoot, for instance of a machine that was extracted there. Maps of several
// roots may be used side by side, from parallel tests too: each call sets the library's roots under one lock.
func Open(tb testing.TB, hostRoot string) *rdmamap.Map {
	tb.Helper()
	m, err := wrap.New(hostRoot)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}
