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

// maxConnections is how many connections a server has at a time. A node has a few readers.
const maxConnections = 64

// connections is a listener that bounds how many connections there are. A new one is always taken: another one is
// closed for it. That is the oldest that has read nothing yet, of the source with the most of those, so that who holds
// many connections takes none away from others. Readers come last.
type connections struct {
	net.Listener

	mu   sync.Mutex
	open []*connection // the oldest first
}

// connection is one of a server's.
type connection struct {
	net.Conn
	owner  *connections
	from   netip.Prefix
	reader atomic.Bool // its last request was let in
}

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, owner: l, from: source(conn.RemoteAddr().String())}
	if surplus := l.add(c); surplus != nil {
		_ = surplus.Conn.Close() // who serves it finds out, and closes it as well
	}
	return c, nil
}

// add returns the connection to be closed for a new one, if any.
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

// forget takes a connection off the list. The caller holds the lock.
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

// connectionKey is where the context of a request has its connection.
type connectionKey struct{}

func withConnection(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// rate remembers of a request's connection whether the request was let in.
func rate(ctx context.Context, let bool) {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok {
		c.reader.Store(let)
	}
}
