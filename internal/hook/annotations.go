package hook

import (
	"bytes"
	"encoding/json"
	"slices"
)

// annotatedPod returns the UID of the pod and the name of the container in the pod, "" if they are unknown. It must
// read only keys that the container runtime writes last: users can annotate pods, authors can annotate images, and
// runtimes pass some of these annotations on.
//
//   - containerd writes io.kubernetes.cri.* last (internal/cri/annotations). The option pod_annotations passes
//     annotations of the pod on.
//   - CRI-O writes the kubelet's labels last (internal/factory/container), but io.kubernetes.cri.* may come from the
//     image. The container's ID in the annotations identifies CRI-O, because nobody knows the ID before.
//
// Annotations of an unexpected type are no error: they are unknown. Only these keys are kept, because there may be
// millions.
func annotatedPod(annotations json.RawMessage, id string) (podUID, container string) {
	d := json.NewDecoder(bytes.NewReader(annotations))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return "", ""
	}
	text := map[string]string{}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return "", ""
		}
		if name, _ := key.(string); slices.Contains(podKeys, name) {
			text[name] = shortText(value) // the last one counts
		}
	}
	if id != "" && text[crioContainerID] == id {
		return text[crioPodUID], text[crioContainer]
	}
	return text[containerdPodUID], text[containerdContainer]
}

const (
	crioContainerID, crioPodUID, crioContainer = "io.kubernetes.cri-o.ContainerID", "io.kubernetes.pod.uid",
		"io.kubernetes.container.name"
	containerdPodUID, containerdContainer = "io.kubernetes.cri.sandbox-uid", "io.kubernetes.cri.container-name"
)

var podKeys = []string{crioContainerID, crioPodUID, crioContainer, containerdPodUID, containerdContainer}

// shortText returns a text of at most maxText bytes, "" for any other value.
func shortText(value json.RawMessage) (s string) {
	if json.Unmarshal(value, &s) != nil || len(s) > maxText {
		return ""
	}
	return s
}
