// Package leaf derives from several sources to which leaf switch each port of a host's HCAs is connected. It does so
// over time: a value that the scheduler sees does not change with every announcement.
//
// A wrong leaf is worse than none: it puts the pods of a job apart, and nobody notices. So a value that is ambiguous,
// too long or too old is absent, and a reason says why.
//
//	sources ─► Resolve: a Reading for each port ─► Model: what counts, for 10 minutes ─► View, for each HCA
//
// VFs and SFs have the leaf of their PF's port, and a bond that of its members, if they agree. While a claim holds an
// HCA, its interface may be in a pod, where no source sees it: then its leaf stays. See docs/adr/0057.
//
// The package reads nothing and has no clock: the caller passes what it has read, with the time.
package leaf
