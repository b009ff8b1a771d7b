package v1alpha1

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
)

// Decode decodes opaque parameters strictly, and validates them. It returns an
// *HCAConfig or an *HCAClassConfig.
func Decode(raw []byte) (any, error) {
	if len(raw) > resourceapi.OpaqueParametersMaxLength { // an API server of another version may have another limit
		return nil, fmt.Errorf("parameters are %d bytes: want at most %d", len(raw), resourceapi.OpaqueParametersMaxLength)
	}
	kinds := fmt.Sprintf("want apiVersion %s and kind %s or %s", GroupVersion, HCAConfigKind, HCAClassConfigKind)
	if len(raw) == 0 {
		return nil, fmt.Errorf("parameters are empty: %s", kinds)
	}
	var meta metav1.TypeMeta
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &meta); err != nil {
		return nil, fmt.Errorf("read apiVersion and kind: %w", err)
	}
	var config interface{ Validate() field.ErrorList }
	switch meta {
	case metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: HCAConfigKind}:
		config = &HCAConfig{}
	case metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: HCAClassConfigKind}:
		config = &HCAClassConfig{}
	default:
		return nil, fmt.Errorf("apiVersion %q and kind %q are unknown: %s", meta.APIVersion, meta.Kind, kinds)
	}
	foreign, err := json.UnmarshalStrict(raw, config)
	if err != nil {
		return nil, err
	}
	if len(foreign) > 0 {
		return nil, fmt.Errorf("strict decoding error: %w", shorten(foreign))
	}
	return config, report(config.Validate())
}

// report returns the first errors of a list, and the number of the others.
func report(list field.ErrorList) error {
	if len(list) <= maxErrors {
		return list.ToAggregate()
	}
	errs := make([]error, len(list))
	for i, e := range list {
		errs[i] = e
	}
	return shorten(errs)
}

// maxErrors bounds the reported errors of one object.
const maxErrors = 10

func shorten(errs []error) error {
	more := len(errs) - maxErrors
	if more <= 0 {
		return utilerrors.NewAggregate(errs)
	}
	return utilerrors.NewAggregate(append(errs[:maxErrors:maxErrors], fmt.Errorf("and %d more", more)))
}
