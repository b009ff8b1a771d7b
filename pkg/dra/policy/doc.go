// Package policy is what a site says about the HCAs of its nodes: which of them are
// published, for one claim alone or for many, with which shares and attributes.
//
// [Parse] reads the driver's configuration file (docs/policy.md). [Config.Apply]
// takes the snapshot of a host, and what claims hold of it, and returns a
// [Result]: a [Decision] for each HCA, with its reason, and for each group of HCAs.
// [Result.Slices] is what the node publishes then.
//
// Everything here is a pure function. A Config does not change after Parse, so a
// new one can replace it at any time.
package policy
