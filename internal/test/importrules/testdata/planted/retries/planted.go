// Package planted breaks the rule "retries": its waits end, and grow by numbers of its own.
package planted

import "k8s.io/apimachinery/pkg/util/wait"

var use = wait.Backoff{Factor: 3}
