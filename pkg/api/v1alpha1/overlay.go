package v1alpha1

import "reflect"

// Overlay replaces the fields of s that over sets.
func (s *Settings) Overlay(over Settings) {
	s.Network.makeRoom(over.Network)
	overlay(s, over)
}

// Overlay replaces the fields of n that over sets.
func (n *Network) Overlay(over Network) {
	n.makeRoom(over)
	overlay(n, over)
}

// makeRoom clears addresses and IPAM if over sets one of them: they exclude each other, so one replaces the other.
func (n *Network) makeRoom(over Network) {
	if over.Addresses != nil || over.IPAM != "" {
		n.Addresses, n.IPAM = nil, ""
	}
}

// Overlay replaces the fields of m that over sets.
func (m *Marks) Overlay(over Marks) { overlay(m, over) }

// Overlay replaces the fields of a that over sets.
func (a *Allow) Overlay(over Allow) { overlay(a, over) }

// overlay replaces the fields of a struct that over sets, also in the structs within. An empty list is set, nil is not.
func overlay[T any](to *T, over T) { overlayFields(reflect.ValueOf(to).Elem(), reflect.ValueOf(over)) }

func overlayFields(to, over reflect.Value) {
	for i := range to.NumField() {
		switch field := over.Field(i); {
		case field.Kind() == reflect.Struct:
			overlayFields(to.Field(i), field)
		case !field.IsZero():
			to.Field(i).Set(field)
		}
	}
}
