package blocks

// Usage is one entry of ipam: the node's block, with the addresses that pods have. A CNI plugin has no subnet and no
// block.
type Usage struct {
	IPAM   string `json:"ipam"`
	Subnet string `json:"subnet,omitempty"`
	Block  string `json:"block,omitempty"`
	// Problem is the reason why the node has no block, or why it is not known. Then Size is 0.
	Problem string `json:"problem,omitempty"`
	// Size is the number of addresses that pods can have. Addresses are those in use.
	Size      uint64    `json:"size"`
	Addresses []Address `json:"addresses"`
	// HCAs are the HCAs, as ibdev names, whose rail has the entry.
	HCAs []string `json:"hcas"`
}

// Address is an address of a pod.
type Address struct {
	Address   string `json:"address"`
	Interface string `json:"interface"` // in the pod
	Pod       string `json:"pod"`       // namespace/name
	Claim     string `json:"claim"`     // namespace/name
	Device    string `json:"device"`
}
