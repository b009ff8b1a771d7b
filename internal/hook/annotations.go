package hook

// annotations are what the container runtimes of Kubernetes say of a container. A user can
// set any key on a pod, and an image's author on an image, and runtimes pass some on: so
// only those keys count that the runtime at hand writes over all others.
//
//   - containerd writes io.kubernetes.cri.* last (internal/cri/annotations). What a pod
//     has reaches the container where pod_annotations lets it.
//   - CRI-O writes the kubelet's labels last (internal/factory/container), so the kubelet's
//     keys are its own, and io.kubernetes.cri.* may be an image's. It is known by the
//     container's ID, which nobody knows before.
type annotations struct {
	crioID            string
	crioUID, crioName string
	containerdUID     string
	containerdName    string
}

// of returns the pod's UID and the container's name in the pod, "" where they are not known.
func (a annotations) of(id string) (podUID, container string) {
	if id != "" && a.crioID == id {
		return a.crioUID, a.crioName
	}
	return a.containerdUID, a.containerdName
}

// key is where a key's text goes, nil for all others.
func (a *annotations) key(name string) *string {
	switch name {
	case "io.kubernetes.cri-o.ContainerID":
		return &a.crioID
	case "io.kubernetes.pod.uid":
		return &a.crioUID
	case "io.kubernetes.container.name":
		return &a.crioName
	case "io.kubernetes.cri.sandbox-uid":
		return &a.containerdUID
	case "io.kubernetes.cri.container-name":
		return &a.containerdName
	}
	return nil
}

// annotations are for people, so none of another kind is an error.
func (s *scanner) annotations() (a annotations, err error) {
	if s.peek() != '{' {
		return a, s.skip(1) // none
	}
	err = s.object(func(name string) error {
		into := a.key(name)
		if into == nil || s.peek() != '"' {
			return s.skip(2)
		}
		text, whole, err := s.str(maxText)
		if !whole {
			text = ""
		}
		*into = text
		return err
	})
	return a, err
}
