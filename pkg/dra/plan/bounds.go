package plan

import (
	"errors"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// These constants bound, in bytes, what the driver writes on its node for one claim, and for all claims of the node.
// The files are on a tmpfs, so they take the node's memory. A claim of eight HCAs takes some 15 KiB. 32 devices with 16
// addresses and 32 routes each take 200 KiB of record. docs/dev/threats.md has the table, including the bounds of
// others on status and events.
const (
	MaxRecord = 256 << 10 // the record of a claim
	MaxSpec   = 1 << 20   // its CDI spec
	MaxFiles  = 1 << 20   // the files about devices for its containers
	MaxNode   = 64 << 20  // record, spec and files of all claims together
)

// MaxError bounds the text of an error of Prepare. The text goes to the log, to the kubelet and to events, and may have
// a user's text once for each of 32 requests.
const MaxError = 4 << 10

// maxUID bounds the length of the UIDs that the driver stores. UIDs of the API server have 36 characters, but a user
// may have written the owner reference of a claim.
const maxUID = 64

// TooMuchError means that the driver would have to write more for a claim than a bound allows.
type TooMuchError struct{ error }

// CheckSize returns a TooMuchError if size exceeds the bound. The error names what was measured.
func (p *Plan) CheckSize(what string, size, bound int) error {
	if size <= bound {
		return nil
	}
	return TooMuchError{fmt.Errorf("claim %s: its %s would have %d bytes, more than the %d that a claim may take of the node: "+
		"name fewer devices in spec.devices.requests, or fewer addresses and routes in the parameters in spec.devices.config", p.Claim(), what, size, bound)}
}

// check validates the parts of an allocated claim that the driver writes down or uses in paths. No API server validates
// them.
func check(claim *resourceapi.ResourceClaim) error {
	var errs field.ErrorList
	owners := field.NewPath("metadata", "ownerReferences")
	for i, o := range claim.OwnerReferences {
		if isPod(&o) {
			errs = append(errs, checkUID(o.UID, owners.Index(i).Child("uid"))...)
		}
	}
	status := field.NewPath("status")
	errs = append(errs, checkUID(claim.UID, field.NewPath("metadata", "uid"))...)
	if n := len(claim.Status.ReservedFor); n > resourceapi.ResourceClaimReservedForMaxSize {
		errs = append(errs, field.TooMany(status.Child("reservedFor"), n, resourceapi.ResourceClaimReservedForMaxSize))
	}
	for i, c := range claim.Status.ReservedFor {
		errs = append(errs, checkUID(c.UID, status.Child("reservedFor").Index(i).Child("uid"))...)
	}
	results := status.Child("allocation", "devices", "results")
	if n := len(claim.Status.Allocation.Devices.Results); n > resourceapi.AllocationResultsMaxSize {
		errs = append(errs, field.TooMany(results, n, resourceapi.AllocationResultsMaxSize))
	}
	for i, r := range claim.Status.Allocation.Devices.Results {
		for part := range strings.SplitSeq(r.Request, "/") { // it becomes a file name, and part of a path in containers
			for _, problem := range validation.IsDNS1123Label(part) {
				errs = append(errs, field.Invalid(results.Index(i).Child("request"), r.Request, problem))
			}
		}
	}
	return errs.ToAggregate()
}

func checkUID(uid types.UID, path *field.Path) field.ErrorList {
	foreign := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	}
	switch {
	case len(uid) > maxUID:
		return field.ErrorList{field.TooLong(path, "", maxUID)}
	case strings.ContainsFunc(string(uid), foreign):
		return field.ErrorList{field.Invalid(path, uid, "want the UID of an object: letters, digits and -")}
	}
	return nil
}

func isPod(o *metav1.OwnerReference) bool { return o.APIVersion == "v1" && o.Kind == "Pod" }

// podClaimName returns the name in the pod of a claim that was made for this pod from a template, "" for any other
// claim. A user can set the annotation on a claim made by hand. On a claim from a template, the control plane wrote it:
// a name in the pod's spec, which is a DNS label.
func podClaimName(claim *resourceapi.ResourceClaim) string {
	name := claim.Annotations[resourceapi.PodResourceClaimAnnotation]
	if ownerOf(claim) == "" || len(validation.IsDNS1123Label(name)) > 0 {
		return ""
	}
	return name
}

// Bounded returns the error with its text on one line, escaped, and cut to at most MaxError bytes: it may repeat what
// others wrote, and stands in logs and in events of the kubelet.
func Bounded(err error) error {
	if err == nil {
		return nil
	}
	text := text.Terminal(strings.ReplaceAll(err.Error(), "\n", "; "))
	if len(text) <= MaxError {
		if text == err.Error() {
			return err
		}
		return boundedError{text, err}
	}
	const cut = " ... (the rest of this error is left out)"
	return boundedError{strings.ToValidUTF8(text[:MaxError-len(cut)], "") + cut, err}
}

type boundedError struct {
	text string
	err  error
}

func (e boundedError) Error() string { return e.text }
func (e boundedError) Unwrap() error { return e.err }

var errNodeFull = errors.New("the claims of this node use all the memory that they may use: " +
	"delete pods with claims, or look for claims with unusually many devices, addresses or routes")

// CheckNode returns a TooMuchError if the claim and the other claims together exceed the bound of the node. The sizes
// are in bytes.
func (p *Plan) CheckNode(others, size int) error {
	if others+size <= MaxNode {
		return nil
	}
	return TooMuchError{fmt.Errorf("claim %s: it needs %d bytes, other claims have %d, and the limit for all is %d: %w",
		p.Claim(), size, others, MaxNode, errNodeFull)}
}
