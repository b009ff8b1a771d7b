// Package planted breaks the rule "quantity": a user's number stops it.
package planted

import "k8s.io/apimachinery/pkg/api/resource"

var parse = resource.ParseQuantity
