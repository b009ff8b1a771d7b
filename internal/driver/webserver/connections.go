package webserver

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// maxConnections is the maximum number of open connections of a server. A node has only a few readers.
const maxConnections = 64

// connections is a listener that bounds the number of open connections. It accepts every new connection, and closes
// another one if there are too many. It closes the oldest connection that has read nothing yet, of the source with the
// most such connections. So a source with many connections cannot displace those of others. It closes connections of
// readers last.
type connections struct {
	net.Listener

	mu   sync.Mutex
	open []*connection // the oldest first
}

// connection is a connection of a server.
type connection struct {
	net.Conn
	owner  *connections
	from   netip.Prefix
	reader atomic.Bool // its last request was allowed
}

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, owner: l, from: source(conn.RemoteAddr().String())}
	if surplus := l.add(c); surplus != nil {
		_ = surplus.Conn.Close() // its handler gets an error, and closes it as well
	}
	return c, nil
}

// add adds a connection, and returns the connection to close for it, or nil.
func (l *connections) add(c *connection) (surplus *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, c)
	if len(l.open) <= maxConnections {
		return nil
	}
	candidates := slices.DeleteFunc(slices.Clone(l.open), func(c *connection) bool { return c.reader.Load() })
	if len(candidates) == 0 {
		candidates = l.open
	}
	count := map[netip.Prefix]int{}
	for _, c := range candidates {
		count[c.from]++
	}
	for _, c := range candidates {
		if surplus == nil || count[c.from] > count[surplus.from] {
			surplus = c
		}
	}
	l.forget(surplus)
	return surplus
}

// forget removes a connection from the list. The caller must hold the lock.
func (l *connections) forget(c *connection) {
	l.open = slices.DeleteFunc(l.open, func(o *connection) bool { return o == c })
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.owner.mu.Lock()
	c.owner.forget(c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// connectionKey is the key of the connection in the context of a request.
type connectionKey struct{}

func withConnection(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// rate records in a request's connection whether the request was allowed.
func rate(ctx context.Context, let bool) {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok {
		c.reader.Store(let)
	}
}
