// Package policy applies a site's configuration to the HCAs of its nodes: which of them the driver
// publishes, for one claim or for many, with which shares and attributes.
//
// [Parse] reads the driver's policy (docs/policy.md). [Config.Apply]
// takes the snapshot of a host and the HCAs that claims hold. It returns a [Result]: a
// [Decision] for each HCA and each group of HCAs, with the reason.
// [Result.Slices] returns the node's slices.
//
// All functions are pure. A Config does not change after Parse, so another one
// can replace it at any time.
package policy
