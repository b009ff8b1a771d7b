package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(GroupVersion, &HCAConfig{}, &HCAClassConfig{})
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Strict: true})
}()

// Decode reads opaque parameters, strictly, and validates them. It returns an
// *HCAConfig or an *HCAClassConfig.
func Decode(raw []byte) (runtime.Object, error) {
	if len(raw) == 0 {
		return nil, fmt.Errorf("parameters are empty: want apiVersion %s and kind %s or %s", GroupVersion, HCAConfigKind, HCAClassConfigKind)
	}
	obj, gvk, err := decoder.Decode(raw, nil, nil)
	if err != nil {
		if runtime.IsMissingKind(err) || runtime.IsMissingVersion(err) || runtime.IsNotRegisteredError(err) {
			return nil, fmt.Errorf("want apiVersion %s and kind %s or %s: %w", GroupVersion, HCAConfigKind, HCAClassConfigKind, err)
		}
		return nil, err
	}
	switch c := obj.(type) {
	case *HCAConfig:
		return c, c.Validate().ToAggregate()
	case *HCAClassConfig:
		return c, c.Validate().ToAggregate()
	}
	return nil, fmt.Errorf("unexpected kind %s", gvk)
}
