package usable

import (
	"slices"
	"strconv"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// Container is a container whose use of HCAs is checked.
type Container struct {
	Root    *Root
	Process Process
	Sys     string // the host's sysfs: /sys
}

// OpenBundle opens the container of an OCI bundle before its process starts. pid is its init process. The caller must
// close the result.
func OpenBundle(pid int, bundle string) (*Container, error) {
	p, path, err := ReadBundle(bundle, pid)
	if err != nil {
		return nil, err
	}
	root, err := OpenRoot(pid, path)
	if err != nil {
		return nil, err
	}
	return &Container{Root: root, Process: p, Sys: "/sys"}, nil
}

// Close closes the root.
func (c *Container) Close() { c.Root.Close() }

// maxHCAs bounds the HCAs that are checked. A host has up to 16, and up to a thousand virtual functions.
const maxHCAs = 32

// Check checks those of the HCAs whose node the container has. The result has a check of each kind for each of them.
func (c *Container) Check(hcas []args.HCA) []finding.Finding {
	nodes, err := c.Nodes()
	if err != nil {
		return nil
	}
	libraries := &libraries{root: c.Root, env: c.Process.environment(), results: map[string]finding.Finding{}}
	var checks []finding.Finding
	for _, h := range hcas {
		if !slices.Contains(nodes, h.Node) || len(checks) >= 2*maxHCAs {
			continue
		}
		checks = append(checks, libraries.check(h), c.permission(h))
	}
	if len(checks) > 0 {
		checks = append(checks, c.variables(hcas, nodes)...)
	}
	return checks
}

// Nodes lists the entries of the container's /dev/infiniband.
func (c *Container) Nodes() ([]string, error) { return c.Root.entries(nodeDir, maxNodes) }

// nodeDir has the nodes of HCAs, at most maxNodes.
const (
	nodeDir  = "dev/infiniband"
	maxNodes = 5000
)

// maxQuoted bounds a text of the container in a message.
const maxQuoted = 200

// quote makes a text of the container harmless.
func quote(s string) string {
	if len(s) > maxQuoted {
		s = s[:maxQuoted] + "..."
	}
	return strconv.QuoteToASCII(s)
}
