// Package statuspage shows the state of a driver and its node to people: its HCAs and their health, the claims, and the
// last events.
//
// A [Page] is data. The package writes it as tables for a terminal, and as JSON for programs. JSON also has the positions
// of HCAs and accelerators. The content comes from the kernel, from users' names and from error messages, so the tables
// escape all that moves a terminal's cursor.
//
// A [Log] keeps a bounded number of the last events.
package statuspage
