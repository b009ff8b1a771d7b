package model

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// PodReady reports whether a pod is ready.
func PodReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// NodeReady reports whether a node is ready.
func NodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Ended reports whether a pod has ended, by itself or not.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Phase returns the pod's phase as kubectl shows it.
func Phase(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "Terminating"
	}
	return string(pod.Status.Phase)
}

// JobLabels are labels of pods. Controllers set them if a workload consists of several objects. Otherwise the pod's
// controller is the workload.
//
//   - https://jobset.sigs.k8s.io/docs/reference/labels-and-annotations/
//   - https://lws.sigs.k8s.io/docs/reference/labels-annotations-and-environment-variables/
var JobLabels = []struct{ Label, Kind string }{
	{"jobset.sigs.k8s.io/jobset-name", "jobset"},
	{"leaderworkerset.sigs.k8s.io/name", "leaderworkerset"},
}
