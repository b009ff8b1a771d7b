// Package planted breaks the rule "links": an interface of a pod is larger than the library's buffer.
package planted

import "github.com/vishvananda/netlink"

var list = netlink.LinkList
