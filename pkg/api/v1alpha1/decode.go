package v1alpha1

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(GroupVersion, &HCAConfig{}, &HCAClassConfig{})
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Strict: true})
}()

// Decode decodes opaque parameters strictly, and validates them. It returns an
// *HCAConfig or an *HCAClassConfig.
func Decode(raw []byte) (runtime.Object, error) {
	if len(raw) > resourceapi.OpaqueParametersMaxLength { // an API server of another version may have another limit
		return nil, fmt.Errorf("parameters are %d bytes: want at most %d", len(raw), resourceapi.OpaqueParametersMaxLength)
	}
	kinds := fmt.Sprintf("want apiVersion %s and kind %s or %s", GroupVersion, HCAConfigKind, HCAClassConfigKind)
	if len(raw) == 0 {
		return nil, fmt.Errorf("parameters are empty: %s", kinds)
	}
	obj, gvk, err := decoder.Decode(raw, nil, nil)
	if err != nil {
		if runtime.IsMissingKind(err) || runtime.IsMissingVersion(err) || runtime.IsNotRegisteredError(err) {
			return nil, fmt.Errorf("%s: %w", kinds, err)
		}
		if strict, ok := runtime.AsStrictDecodingError(err); ok && len(strict.Errors()) > maxErrors {
			err = fmt.Errorf("strict decoding error: %w", shorten(strict.Errors()))
		}
		return nil, err
	}
	switch c := obj.(type) {
	case *HCAConfig:
		return c, report(c.Validate())
	case *HCAClassConfig:
		return c, report(c.Validate())
	}
	return nil, fmt.Errorf("unexpected kind %s", gvk)
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
