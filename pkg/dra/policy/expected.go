package policy

import "github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"

// expected returns what the rule expects of an HCA, nothing for no rule. Only the cards of a rule with rails are alike,
// and only while the rule has all of them: a rule without rails may have cards of several networks.
func (r *rule) expected(numbered bool) health.Expected {
	if r == nil {
		return health.Expected{}
	}
	out := health.Expected{MinRateMbps: r.minRate * 1000, Unused: r.unused, MinPCIe: r.minPCIe}
	if r.rails > 0 {
		out.Peers, out.Alike = r.name, numbered
	}
	return out
}

// Expected returns what the policy expects of the HCAs, by name.
func (r Result) Expected() map[string]health.Expected {
	out := make(map[string]health.Expected, len(r.Decisions))
	for _, d := range r.Decisions {
		out[d.HCA.Name] = d.Expected
	}
	return out
}
