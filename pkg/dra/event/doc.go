// Package event has the events of the driver as values: what people should know of a node or of a claim, and the stable
// reasons by which they find it. Package report makes them known.
package event
