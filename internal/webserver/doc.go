// Package webserver is the HTTP server of a program in the network namespace of the node.
// A node can have two instances of the program for a moment.
//
// # Hand-over
//
// During a rolling update the new instance starts while the old one serves. It tries to
// bind the address again and again, and has it a moment after the old one let it go. It
// does not share the address (SO_REUSEPORT): the kernel would spread requests over both,
// so that counters would jump back and forth between those of one process and of the other, each
// jump a reset for Prometheus. A server that cannot bind holds up nothing else.
//
// # Who may read
//
// On a loopback address everyone on the node: plain HTTP. On any other one, TLS and the
// rules of Kubernetes' own components: the request has a bearer token that the API server
// knows (TokenReview), of someone who may get the path (SubjectAccessReview of a
// non-resource URL). A browser sends it as the password of Basic authentication. Answers of
// the API server are kept for a minute at most, by a hash of the token.
//
// # Strangers
//
// What strangers do must not keep a reader out. Tokens that the server does not know wait in a
// queue, in which a source of requests has few places, and those that were let in before have
// a queue of their own (queue.go). For a connection too many, one is closed that has read
// nothing, of the source with the most (connections.go).
package webserver
