// Package model has the objects of a cluster, with indexes, and the rules of Kubernetes for giving devices to claims.
package model

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// Cluster has the objects of a cluster. The package does not change them.
type Cluster struct {
	Nodes   []corev1.Node
	Pods    []corev1.Pod
	Slices  []resourceapi.ResourceSlice
	Claims  []resourceapi.ResourceClaim
	Classes []resourceapi.DeviceClass
	// Rules are the DeviceTaintRules. The scheduler adds their taints to the devices that they select.
	Rules []resourceapi.DeviceTaintRule
	// UserPods are pods that may have claims, nil if they were not read. Pods are those of the driver.
	UserPods []corev1.Pod
	// Templates are nil if they were not read. Events are Warnings about pods, all of one
	// node, or those of drivers that publish nothing.
	Templates []resourceapi.ResourceClaimTemplate
	Events    []corev1.Event
	// Minor is the minor version of the API server's Kubernetes, 0 if it was not seen.
	Minor int
	// Now is when it was read.
	Now time.Time
	// Unread is what could not be read. A kind that is there may exist in any number, whatever its list says.
	Unread UnreadKinds
	// DriverNamespace is the namespace of the driver if the user names it, else "": see driverPods.
	DriverNamespace string
}
