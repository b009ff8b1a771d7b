// Package planted breaks the rule "methods": a type does everything, in two files, on values and on pointers.
package planted

type everything[K, V any] struct{}

type enough[T any] struct{}

func (everything[K, V]) value01() {}
func (everything[K, V]) value02() {}
func (everything[K, V]) value03() {}
func (everything[K, V]) value04() {}
func (everything[K, V]) value05() {}
func (everything[K, V]) value06() {}
func (everything[K, V]) value07() {}
func (everything[K, V]) value08() {}
func (everything[K, V]) value09() {}
func (everything[K, V]) value10() {}
func (everything[K, V]) value11() {}
func (everything[K, V]) value12() {}
func (everything[K, V]) value13() {}

func (*enough[T]) method01() {}
func (*enough[T]) method02() {}
func (*enough[T]) method03() {}
func (*enough[T]) method04() {}
func (*enough[T]) method05() {}
func (*enough[T]) method06() {}
func (*enough[T]) method07() {}
func (*enough[T]) method08() {}
func (*enough[T]) method09() {}
func (*enough[T]) method10() {}
func (*enough[T]) method11() {}
func (*enough[T]) method12() {}
func (*enough[T]) method13() {}
func (*enough[T]) method14() {}
func (*enough[T]) method15() {}
func (*enough[T]) method16() {}
func (*enough[T]) method17() {}
func (*enough[T]) method18() {}
func (*enough[T]) method19() {}
func (*enough[T]) method20() {}
func (*enough[T]) method21() {}
func (*enough[T]) method22() {}
func (*enough[T]) method23() {}
func (*enough[T]) method24() {}
func (*enough[T]) method25() {}
