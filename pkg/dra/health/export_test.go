package health

import resourceapi "k8s.io/api/resource/v1"

// Taints returns the taints of an HCA that is the only sick one.
func (p Policy) Taints(v Verdict) []resourceapi.DeviceTaint { return p.taints(v, v.Card) }

// ViewOf returns a view with verdicts.
func ViewOf(verdicts ...Verdict) *View {
	v := &View{verdicts: map[string]Verdict{}}
	for _, one := range verdicts {
		v.verdicts[one.Device] = one
	}
	return v
}
