// Package planted breaks the rule "read": a FIFO keeps it waiting.
package planted

import "os"

var read = os.ReadFile
