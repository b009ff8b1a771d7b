package rdma

import "slices"

// Difference says where two snapshots of a host differ. Problems do not count.
type Difference struct {
	// HCAs are the names of the HCAs that were added, removed or changed, in order.
	HCAs []string
	// Reshaped says that HCAs were added or removed, or that one changed in more than the
	// state of its links.
	Reshaped bool
	// Host says that the rdma_cm node or the netns mode changed.
	Host bool
}

// Empty reports whether the snapshots do not differ.
func (d Difference) Empty() bool { return len(d.HCAs) == 0 && !d.Host }

// Compare returns the difference of two snapshots. The older one may be nil. Two snapshots of one
// [Scanner] share their unchanged memory, so comparing them is cheap.
func Compare(older, newer *Snapshot) Difference {
	if older == newer {
		return Difference{}
	}
	if older == nil {
		older = &Snapshot{}
	}
	d := Difference{Host: older.NetnsMode != newer.NetnsMode || !equalPointers(older.RDMACM, newer.RDMACM)}
	a, b := older.HCAs, newer.HCAs
	for len(a)+len(b) > 0 {
		switch order := compareHeads(a, b); {
		case order < 0:
			d.HCAs, d.Reshaped = append(d.HCAs, a[0].Name), true
			a = a[1:]
		case order > 0:
			d.HCAs, d.Reshaped = append(d.HCAs, b[0].Name), true
			b = b[1:]
		default:
			if !a[0].Equal(&b[0]) {
				d.HCAs = append(d.HCAs, a[0].Name)
				d.Reshaped = d.Reshaped || !sameShape(a[0], b[0])
			}
			a, b = a[1:], b[1:]
		}
	}
	return d
}

// sameShape reports whether two HCAs differ at most in the state of their links.
func sameShape(a, b HCA) bool {
	a.Ports, b.Ports = withoutState(a.Ports), withoutState(b.Ports)
	return a.Equal(&b)
}

func withoutState(ports []Port) []Port {
	ports = slices.Clone(ports)
	for i := range ports {
		p := &ports[i]
		p.State, p.PhysState, p.RateMbps, p.LAG, p.LID = "", "", 0, LAG{}, ""
	}
	return ports
}

// compareHeads orders the first HCAs of two lists. An empty list comes last.
func compareHeads(a, b []HCA) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	case a[0].Name == b[0].Name:
		return 0
	}
	return a[0].sortKey().compare(b[0].sortKey())
}
