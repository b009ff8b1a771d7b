// Package nodestatus is the one description of a node: its HCAs with their health, what is published of them and why,
// the claims, and the last events.
//
// A [Status] is data. The package writes it as tables for a terminal, and as JSON or YAML for programs. These also have
// the positions of HCAs and accelerators. The content comes from the kernel, from users' names and from error messages,
// so the tables escape all that moves a terminal's cursor.
//
// A [Log] keeps a bounded number of the last events.
package nodestatus
