// Package invariants says what must be true of a node's files whatever happened to the
// driver: faults, kills, restarts, other hardware.
//
// It looks at the files as the kubelet's and the runtime's side does, with a reading of
// its own of records, specs and sysfs, so that a mistake of the driver's own code does
// not hide itself.
//
//	always   every spec in the CDI directory can be loaded, and leads to the HCAs of its
//	         claim (but for the moment in which the kernel's names have moved and the
//	         driver has not heard of it); no HCA is in two claims, unless both share it or
//	         only watch it; nobody else's files, no half files
//	at rest  besides, a claim that was answered has its record, each record its spec,
//	         and each spec its record, as far as the hardware is there; what was ended
//	         has neither
package invariants
