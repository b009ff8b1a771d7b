package blocks

// Usage is the node's block of one entry of ipam, with the addresses that pods have.
type Usage struct {
	IPAM   string `json:"ipam"`
	Subnet string `json:"subnet"`
	Block  string `json:"block,omitempty"`
	// Problem is the reason why the node has no block. Then Size is 0.
	Problem string `json:"problem,omitempty"`
	// Size is the number of addresses that pods can have. Addresses are those in use.
	Size      uint64    `json:"size"`
	Addresses []Address `json:"addresses"`
}

// Address is an address of a pod.
type Address struct {
	Address   string `json:"address"`
	Interface string `json:"interface"` // in the pod
	Pod       string `json:"pod"`       // namespace/name
	Claim     string `json:"claim"`     // namespace/name
	Device    string `json:"device"`
}
