package hook

import "encoding/json"

// annotatedPod returns the UID of the pod and the name of the container in it, from the annotations
// that the container runtimes of Kubernetes write, or "" where they are unknown. A user can
// set any key on a pod, and an image's author on an image, and runtimes pass some on: so
// only those keys count that the runtime at hand writes over all others.
//
//   - containerd writes io.kubernetes.cri.* last (internal/cri/annotations). What a pod
//     has reaches the container where pod_annotations lets it.
//   - CRI-O writes the kubelet's labels last (internal/factory/container), so the kubelet's
//     keys are its own, and io.kubernetes.cri.* may be an image's. It is known by the
//     container's ID, which nobody knows before.
//
// Annotations are for people, so none of another kind is an error.
func annotatedPod(annotations json.RawMessage, id string) (podUID, container string) {
	var all map[string]any
	if json.Unmarshal(annotations, &all) != nil {
		return "", ""
	}
	text := func(key string) string {
		if s, ok := all[key].(string); ok && len(s) <= maxText {
			return s
		}
		return ""
	}
	if id != "" && text("io.kubernetes.cri-o.ContainerID") == id {
		return text("io.kubernetes.pod.uid"), text("io.kubernetes.container.name")
	}
	return text("io.kubernetes.cri.sandbox-uid"), text("io.kubernetes.cri.container-name")
}
