package hook

import "encoding/json"

// annotatedPod returns the UID of the pod and the name of the container in the pod, "" if they are unknown. It must
// read only keys that the container runtime writes last: users can annotate pods, authors can annotate images, and
// runtimes pass some of these annotations on.
//
//   - containerd writes io.kubernetes.cri.* last (internal/cri/annotations). The option pod_annotations passes
//     annotations of the pod on.
//   - CRI-O writes the kubelet's labels last (internal/factory/container), but io.kubernetes.cri.* may come from the
//     image. The container's ID in the annotations identifies CRI-O, because nobody knows the ID before.
//
// Annotations of an unexpected type are no error: they are unknown.
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
