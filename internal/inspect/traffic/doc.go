// Package traffic tests HCAs by real traffic between the pods of a test.
//
// A test has these steps, each with a file of its own:
//
//   - [Plan] chooses pairs of HCAs, and which pairs run at once (plan.go).
//   - [Cluster] creates a Job that owns all, one claim and one sleeping pod a node, and removes them (objects.go).
//   - [Measure] runs perftest between the two pods of a pair, and counts its messages (measure.go, script.sh).
//   - [Judge] names the HCAs that are slow with peers that are good (judge.go).
//   - [Report] is the answer for people and programs (report.go), and [Record] keeps it in a ConfigMap for each node
//     (record.go).
//
// What pods print and what ConfigMaps say is of others: it is bounded and parsed strictly.
package traffic
