// Package event has the events of the driver as values: what people should know of a node or of a claim. Their
// reasons are stable: people and programs look for them. Package report makes events known.
package event
