// Package planted breaks the rule "clock": it gives another answer each time.
package planted

import "time"

func now() time.Time { return time.Now() }
