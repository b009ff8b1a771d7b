package nri

import "context"

// quiet is a logger for the stub that discards all messages. The stub logs each event. The driver's own log contains
// the important ones.
type quiet struct{}

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Infof(context.Context, string, ...any)  {}
func (quiet) Warnf(context.Context, string, ...any)  {}
func (quiet) Errorf(context.Context, string, ...any) {}
