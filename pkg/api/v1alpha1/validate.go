package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Validate returns the errors of a claim's configuration, without regard to its class.
func (c *HCAConfig) Validate() field.ErrorList { return c.Settings.validate(nil) }

// Validate returns the errors of a class's configuration. Defaults must be within the bounds, so
// that "allow" describes everything that claims can get.
func (c *HCAClassConfig) Validate() field.ErrorList {
	errs := validateNames(c.Allow.Nodes, rdma.NodeClasses, field.NewPath("allow", "nodes"))
	errs = append(errs, validateMemlock(c.Allow.MemlockMax, field.NewPath("allow", "memlockMax"))...)
	if c.Allow.MemlockMax != nil && *c.Allow.MemlockMax == MemlockInherit {
		errs = append(errs, field.Invalid(field.NewPath("allow", "memlockMax"), *c.Allow.MemlockMax,
			"want unlimited or a size in bytes"))
	}
	errs = append(errs, validateNames(c.Allow.Env, EnvWords, field.NewPath("allow", "env"))...)
	errs = append(errs, c.Allow.AllowMarks.validate(field.NewPath("allow"))...)
	errs = append(errs, c.Allow.LimitsMax.validate(field.NewPath("allow", "limitsMax"))...)
	errs = append(errs, c.Allow.Network.validate(field.NewPath("allow", "network"))...)
	errs = append(errs, c.Defaults.validate(field.NewPath("defaults"))...)
	if len(errs) > 0 {
		return errs
	}
	return c.Allow.Check(c.Defaults, field.NewPath("defaults"))
}

func (s *Settings) validate(path *field.Path) field.ErrorList {
	errs := validateNames(s.Nodes, rdma.NodeClasses, path.Child("nodes"))
	errs = append(errs, validateMemlock(s.Memlock, path.Child("memlock"))...)
	if s.OnUnusable != "" && !slices.Contains(OnUnusableWords, s.OnUnusable) {
		errs = append(errs, field.NotSupported(path.Child("onUnusable"), s.OnUnusable, OnUnusableWords))
	}
	errs = append(errs, s.Marks.validate(path)...)
	errs = append(errs, s.Limits.validate(path.Child("limits"))...)
	errs = append(errs, s.Network.validate(path.Child("network"))...)
	return append(errs, validateNames(s.Env, EnvWords, path.Child("env"))...)
}

// validateNames returns an error for each name that is not supported or a duplicate.
func validateNames[T ~string](names []string, supported []T, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, n := range names {
		if !slices.Contains(supported, T(n)) {
			errs = append(errs, field.NotSupported(path.Index(i), n, supported))
		}
		if slices.Contains(names[:i], n) {
			errs = append(errs, field.Duplicate(path.Index(i), n))
		}
	}
	return errs
}

func validateMemlock(m *Memlock, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	if len(*m) > maxQuantity {
		return field.ErrorList{field.TooLong(path, "", maxQuantity)}
	}
	if _, err := m.Bytes(); err != nil {
		return field.ErrorList{field.Invalid(path, *m, err.Error())}
	}
	return nil
}

// AllowedNodes returns the node groups that a claim may request.
func (a *Allow) AllowedNodes() []string {
	if a.Nodes != nil {
		return a.Nodes
	}
	return nodeNames(rdma.DefaultClasses)
}

func nodeNames(classes []rdma.NodeClass) []string {
	names := make([]string, len(classes))
	for i, c := range classes {
		names[i] = string(c)
	}
	return names
}

// Check returns an error for each setting that is not allowed. Both must be valid.
func (a *Allow) Check(s Settings, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, n := range s.Nodes {
		if !slices.Contains(a.AllowedNodes(), n) {
			errs = append(errs, field.Forbidden(path.Child("nodes").Index(i),
				n+" nodes are not allowed by the DeviceClass: its HCAClassConfig lists what is under allow.nodes"))
		}
	}
	for i, e := range s.Env {
		if a.Env != nil && !slices.Contains(a.Env, e) {
			errs = append(errs, field.Forbidden(path.Child("env").Index(i),
				e+" is not allowed by the DeviceClass: its HCAClassConfig lists what is under allow.env"))
		}
	}
	if s.Memlock != nil && a.MemlockMax != nil {
		want, _ := s.Memlock.Bytes()
		if limit, _ := a.MemlockMax.Bytes(); want > limit {
			errs = append(errs, field.Forbidden(path.Child("memlock"), string(*s.Memlock)+
				" is more than the DeviceClass allows: its HCAClassConfig has allow.memlockMax "+string(*a.MemlockMax)))
		}
	}
	errs = append(errs, a.AllowMarks.check(s.Marks, path)...)
	errs = append(errs, a.Network.check(s.Network, path.Child("network"))...)
	return append(errs, s.Limits.checkMax(a.LimitsMax, path.Child("limits"))...)
}
