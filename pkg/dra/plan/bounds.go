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
)

// The bounds of what one claim can make a driver write on its node, in bytes, and of what all claims of a node can. They are
// on a tmpfs: it is the node's memory. A claim of eight HCAs takes some 15 KiB; 32 devices with 16 addresses and 32 routes each
// take 200 KiB of record. docs/security.md has the table, with what others bound: status and events.
const (
	MaxRecord = 256 << 10 // the record of a claim
	MaxSpec   = 1 << 20   // its CDI spec
	MaxFiles  = 1 << 20   // the files that its containers read of their devices
	MaxNode   = 64 << 20  // all of that of all claims
)

// MaxError bounds the text of an error of Prepare, which goes to the log, to the kubelet and to events: what a user
// wrote may stand in it once for each of 32 requests.
const MaxError = 4 << 10

// maxUID is the length of the UIDs that the driver keeps. Those of the API server have 36; whose pod a claim is, its
// user may have written.
const maxUID = 64

// TooMuchError says that a claim would have the driver write more than a bound.
type TooMuchError struct{ error }

// CheckSize returns a TooMuchError if something that is written for a claim is larger than it may be.
func (p *Plan) CheckSize(what string, size, bound int) error {
	if size <= bound {
		return nil
	}
	return TooMuchError{fmt.Errorf("claim %s: its %s would have %d bytes, more than the %d that a claim may take of the node: "+
		"name fewer devices in spec.devices.requests, or fewer addresses and routes in the parameters in spec.devices.config", p.Claim(), what, size, bound)}
}

// check refuses what no API server checks of an allocated claim, and what would be a path, and the driver would write down.
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
		for part := range strings.SplitSeq(r.Request, "/") { // it is the name of a file, and a part of a path in containers
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

// podClaimName is how a pod calls a claim that was made for it, "" for any other. Of a claim that a user made by hand the
// annotation is the user's; in that of a template the control plane wrote the name of the pod's spec, which is a DNS label.
func podClaimName(claim *resourceapi.ResourceClaim) string {
	name := claim.Annotations[resourceapi.PodResourceClaimAnnotation]
	if ownerOf(claim) == "" || len(validation.IsDNS1123Label(name)) > 0 {
		return ""
	}
	return name
}

// Bounded returns the error with a text of at most MaxError bytes.
func Bounded(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) <= MaxError {
		return err
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

var errNodeFull = errors.New("the claims of this node take all that they may of its memory; unprepare some, or look for claims with unusually many devices, addresses or routes")

// CheckNode returns a TooMuchError if a claim would take more than is left of what all claims of a node may take.
func (p *Plan) CheckNode(others, size int) error {
	if others+size <= MaxNode {
		return nil
	}
	return TooMuchError{fmt.Errorf("claim %s: it needs %d bytes beside the %d of other claims, and %d are there for all: %w", p.Claim(), size, others, MaxNode, errNodeFull)}
}
