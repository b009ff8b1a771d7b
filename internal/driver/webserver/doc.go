// Package webserver is the HTTP server of a program in the network namespace of the node. For a moment, a node can have
// two instances of the program.
//
// # Hand-over
//
// During a rolling update the new instance starts while the old one still serves. The new instance retries to bind the
// address, and succeeds a moment after the old one has released it. The instances do not share the address
// (SO_REUSEPORT), because the kernel would then spread requests over both. Counters would jump back and forth between
// the values of the two processes, and Prometheus would treat each jump as a reset. A server that cannot bind delays
// nothing else.
//
// # Who may read
//
// On a loopback address, everyone on the node may read over plain HTTP. On any other address the server uses TLS and
// the rules of Kubernetes' own components. The request must have a bearer token that the API server authenticates
// (TokenReview). The token's user must have the right to get the path (SubjectAccessReview of a non-resource URL). The
// server caches answers of the API server for at most one minute, by a hash of the token.
//
// # Hosts
//
// The server answers only requests to its own hosts (host.go). Otherwise a page in the browser of a user of the node could
// read a loopback address by DNS rebinding.
//
// # Unauthenticated clients
//
// Unauthenticated clients must not keep a reader out. Requests with unknown tokens wait in a queue, where each source
// has only a few places. Requests that were allowed before have a queue of their own (queue.go). If there are too many
// connections, the server closes one that has read nothing, of the source with the most such connections
// (connections.go).
package webserver
