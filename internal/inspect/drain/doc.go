// Package drain writes the DeviceTaintRules that take HCAs out of service, and removes them.
//
// [NewPlan] plans them. It changes and removes rules of kubectl rdma drain only ([model.IsDrain]):
// another rule under the same name is an error. Every write names the UID and the version that was read, so that a
// change of somebody else in between is an error and not overwritten.
package drain
