package model

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// SortEvents sorts events by their last time, oldest first.
func SortEvents(events []corev1.Event) {
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return LastTime(&a).Compare(LastTime(&b)) })
}

// LastTime returns the last time of an event, from any of its fields.
func LastTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}

// Reporter returns the component that an event names as its writer. The API server does not check it: who may create
// events in a namespace can name any.
func Reporter(e *corev1.Event) string { return cmp.Or(e.Source.Component, e.ReportingController) }

// NothingPublished is the reason of the event of a driver that publishes nothing: such a node has no ResourceSlice.
const NothingPublished = "NoRDMADevices"
