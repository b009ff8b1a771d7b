// Package faults holds tests of the driver as a program, with trouble of every kind: each of
// its system calls on files fails or is the last before a kill, each request to the API
// server fails in each way, and the kubelet gives up at each point.
//
// Nothing is sampled: the first call fails, then the second, until none is left. The tests are
// no part of package dra, since they need processors, and those there wait: side by side they
// take less time.
package faults
