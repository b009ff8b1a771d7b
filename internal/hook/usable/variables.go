package usable

import (
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// variables checks the variables in which libraries look for the names of HCAs. An HCA that is excluded may be missing.
func (c *Container) variables(hcas []args.HCA, nodes []string) []finding.Finding {
	var checks []finding.Finding
	var own []string
	env := c.Process.environment()
	for _, v := range []struct {
		name  string
		parse func(string) []string
	}{
		{"NCCL_IB_HCA", ncclNames}, {"UCX_NET_DEVICES", ucxNames}, {"NVSHMEM_HCA_LIST", ncclNames},
	} {
		names := v.parse(env.get(v.name))
		if len(names) == 0 {
			continue
		}
		if own == nil {
			var reason string
			if own, reason = c.ownHCAs(hcas, nodes); reason != "" {
				return append(checks, record.Variables.Found(finding.NotSeen, reason))
			}
		}
		var missing []string
		for _, name := range names {
			has := func(hca string) bool { return strings.HasPrefix(hca, name) } // NCCL takes the beginning of a name, too
			if !slices.ContainsFunc(own, has) {
				missing = append(missing, name)
			}
		}
		check := record.Variables.Found(finding.OK, v.name+" names HCAs of the container")
		if len(missing) > 0 {
			check.Severity = finding.Warning
			check.Message = v.name + " names " + list(missing) + ", which the container does not have: it has " + list(own)
			check.Remedy = "remove " + v.name + " from the manifest: the driver can set it (env: [nccl, ucx]); " +
				"or request these HCAs"
		}
		checks = append(checks, check)
	}
	return checks
}

// ownHCAs returns the HCAs of all nodes that the container has, of all its claims and devices. reason says why they are
// not known.
func (c *Container) ownHCAs(hcas []args.HCA, nodes []string) (own []string, reason string) {
	for _, node := range nodes {
		if !strings.HasPrefix(node, "uverbs") {
			continue
		}
		if i := slices.IndexFunc(hcas, func(h args.HCA) bool { return h.Node == node }); i >= 0 {
			own = append(own, hcas[i].IBDev)
			continue
		}
		if strings.Trim(node[len("uverbs"):], "0123456789") != "" {
			return nil, "the node " + quote(node) + " is not the kernel's"
		}
		text, err := readFile(c.Sys+"/class/infiniband_verbs/"+node+"/ibdev", 4096)
		if err != nil {
			return nil, "the HCA of the node " + node + " is not known: " + err.Error()
		}
		own = append(own, strings.TrimSpace(string(text)))
	}
	slices.Sort(own)
	return own, ""
}

// maxNames bounds the names of a variable.
const maxNames = 128

// ncclNames returns the names in NCCL_IB_HCA and NVSHMEM_HCA_LIST: a list of HCA[:PORT]. "^" excludes them, "=" asks
// for whole names.
func ncclNames(value string) []string {
	if strings.HasPrefix(value, "^") {
		return nil
	}
	return names(strings.TrimPrefix(value, "="), func(item string) string {
		name, _, _ := strings.Cut(item, ":")
		return name
	})
}

// ucxNames returns the HCAs in UCX_NET_DEVICES: a list of HCA:PORT and of network interfaces. "^" excludes them.
func ucxNames(value string) []string {
	if strings.HasPrefix(value, "^") {
		return nil
	}
	return names(value, func(item string) string {
		name, port, ok := strings.Cut(item, ":")
		if !ok || port == "" || strings.Trim(port, "0123456789") != "" {
			return ""
		}
		return name
	})
}

func names(value string, name func(item string) string) (out []string) {
	for item := range strings.SplitSeq(value, ",") {
		n := name(strings.TrimSpace(item))
		if n != "" && !strings.ContainsAny(n, "*?[]") && len(out) < maxNames && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// list names the first texts of the container.
func list(names []string) string {
	const most = 8
	if len(names) == 0 {
		return "none"
	}
	var quoted []string
	for _, n := range names[:min(len(names), most)] {
		quoted = append(quoted, quote(n))
	}
	if len(names) > most {
		quoted = append(quoted, "...")
	}
	return strings.Join(quoted, ", ")
}
