// Package event has the events of the driver as values: what people should know about a node or a claim. The reasons
// are stable, because people and programs search for them. Package report writes events.
package event
