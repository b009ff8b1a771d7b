package configure

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
)

const dockerRestart = "systemctl restart docker"

// planDocker plans the edit of daemon.json.
func planDocker(root string, target runtimes.Target, user runtimeconf.User) (*Plan, error) {
	now, err := runtimeconf.Read(runtimeconf.Host{ReadLinkFS: hostfs.DirFS(root)}, target, user)
	if err != nil && !errors.Is(err, runtimeconf.ErrBroken) {
		return nil, err
	}
	if now.Rootless && now.On && now.ReadsUnlinked() {
		return unchanged(now, target), nil
	}
	if now.Rootless {
		return nil, refusef("you run a rootless dockerd; it sees /etc/cdi as a symbolic link, which CDI libraries before "+
			"%s do not follow: write the specs to a directory of yours (cdi-gen generate --to DIR), set \"features\": "+
			"{\"cdi\": true} and \"cdi-spec-dirs\": [\"DIR\"] in %s, and run systemctl --user restart docker; or "+
			"configure the dockerd of root: sudo cdi-gen configure docker", runtimes.FollowsLink, now.Main)
	}
	plan, err := edited(root, now.Main, dockerRestart, docker{target.OnByDefault})
	if err != nil {
		return nil, err
	}
	if plan.Path == "" {
		if !now.On {
			return nil, refusef("%s turns CDI off: remove the setting there (cdi-spec-dirs: [\"\"], or a flag of dockerd)",
				cmp.Or(now.OnFile, now.Main))
		}
		return unchanged(now, target), nil
	}
	instead := map[string][]byte{plan.Path: plan.New}
	after, err := runtimeconf.Read(runtimeconf.Host{ReadLinkFS: hostfs.DirFS(root), Instead: instead}, target, user)
	if err != nil {
		return nil, refusef("with \"features\": {\"cdi\": true} in it, %w", err)
	}
	if !after.On {
		return nil, refusef("a flag of the running dockerd or of docker.service, or cdi-spec-dirs: [\"\"] in %s, "+
			"turns CDI off: remove that first", now.Main)
	}
	plan.Notes, plan.Dirs = otherDirs(after, target), after.Dirs
	return plan, nil
}

// docker edits daemon.json. onByDefault says whether the release reads specs without the setting.
type docker struct{ onByDefault bool }

const (
	cdiFeature = "features.cdi"
	space      = " \t\r\n"
)

// enable implements editor.
func (d docker) enable(old []byte) ([]byte, error) {
	if len(bytes.TrimSpace(old)) == 0 {
		if d.onByDefault {
			return old, nil
		}
		return []byte("{\n  \"features\": {\n    \"cdi\": true\n  }\n}\n"), nil
	}
	tree, err := decodeDocker(old)
	if err != nil {
		return nil, err
	}
	features, _ := tree["features"].(map[string]any)
	switch on, set := features["cdi"]; {
	case on == true, !set && d.onByDefault:
		return old, nil
	case features == nil && tree["features"] != nil:
		return nil, refusef("features is no object; dockerd would not start with it: repair it first")
	case features == nil:
		tree["features"] = map[string]any{"cdi": true}
		return checkDocker(addFeatures(old), nil, tree)
	}
	features["cdi"] = true
	text, err := sjson.SetBytes(old, cdiFeature, true)
	return checkDocker(ending(text, old), err, tree)
}

// addFeatures adds a member to an object, in the form that people write.
func addFeatures(object []byte) []byte {
	end := bytes.LastIndexByte(object, '}')
	text := bytes.Clone(bytes.TrimRight(object[:end], space)) // object stays: it becomes the backup
	if !bytes.HasSuffix(text, []byte("{")) {
		text = append(text, ',')
	}
	text = append(text, "\n  \"features\": {\n    \"cdi\": true\n  }\n"...)
	return append(text, object[end:]...)
}

// ending gives a text the white space at the end of the old one. Package sjson sometimes drops it.
func ending(text, old []byte) []byte {
	return append(bytes.TrimRight(text, space), old[len(bytes.TrimRight(old, space)):]...)
}

// disable implements editor.
func (docker) disable(current, backup []byte) ([]byte, error) {
	tree, err := decodeDocker(current)
	if err != nil {
		return nil, err
	}
	features, _ := tree["features"].(map[string]any)
	if features["cdi"] != true {
		return current, nil // somebody has taken it back
	}
	if was := gjson.GetBytes(backup, cdiFeature); was.Exists() {
		features["cdi"] = was.Value()
		text, err := sjson.SetRawBytes(current, cdiFeature, []byte(was.Raw))
		return checkDocker(ending(text, current), err, tree)
	}
	path := cdiFeature
	delete(features, "cdi")
	if len(features) == 0 && !gjson.GetBytes(backup, "features").Exists() {
		path = "features"
		delete(tree, path)
	}
	text, err := sjson.DeleteBytes(current, path)
	return checkDocker(ending(text, current), err, tree)
}

func decodeDocker(text []byte) (map[string]any, error) {
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, refusef("it is no JSON object (%w); dockerd would not start with it: repair it first", err)
	}
	if tree == nil {
		return nil, refusef("it is null and no JSON object: repair it first")
	}
	return tree, nil
}

// checkDocker returns an edited text if it says exactly what it should.
func checkDocker(text []byte, err error, want map[string]any) ([]byte, error) {
	if err == nil {
		var got map[string]any
		if err = json.Unmarshal(text, &got); err == nil && reflect.DeepEqual(got, want) {
			return text, nil
		}
	}
	return nil, refusef("it cannot be edited without changing anything else (the same name twice?): "+
		"set \"features\": {\"cdi\": true} yourself (%v)", err)
}
