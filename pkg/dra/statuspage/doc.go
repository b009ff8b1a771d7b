// Package statuspage shows people what a driver knows of its node: a picture of the
// host, its HCAs and their health, the claims, and what happened last.
//
// A [Page] is data. It is written as HTML, as tables for a terminal, and as JSON for programs;
// each says the same. The HTML stands alone: it has no script, fetches nothing, and
// reads on light and on dark screens. Whatever stands in it comes from the kernel, from
// users' names and from error messages, so all of it is escaped, and [Handler] has the browser run
// and load nothing even if something slipped through.
//
// A [Log] keeps what happened last, and no more than that.
package statuspage
