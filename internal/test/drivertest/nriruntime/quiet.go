package nriruntime

import (
	"context"

	"github.com/containerd/nri/pkg/log"
)

// NRI has one logger for a process, which says each event.
func init() { log.Set(quiet{}) }

type quiet struct{}

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Infof(context.Context, string, ...any)  {}
func (quiet) Warnf(context.Context, string, ...any)  {}
func (quiet) Errorf(context.Context, string, ...any) {}
