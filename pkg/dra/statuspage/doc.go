// Package statuspage shows the state of a driver and its node to people: a picture of the
// host, its HCAs and their health, the claims, and the last events.
//
// A [Page] is data. The package writes it as HTML, as tables for a terminal, and as JSON for
// programs, with the same content. The HTML has no script, loads nothing, and is readable on
// light and on dark screens. Its content comes from the kernel, from users' names and from
// error messages, so the package escapes all of it. In addition, [Handler] forbids the browser to
// run or load anything.
//
// A [Log] keeps a bounded number of the last events.
package statuspage
