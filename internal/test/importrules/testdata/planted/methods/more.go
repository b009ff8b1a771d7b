package planted

func (*everything[K, V]) pointer01() {}
func (*everything[K, V]) pointer02() {}
func (*everything[K, V]) pointer03() {}
func (*everything[K, V]) pointer04() {}
func (*everything[K, V]) pointer05() {}
func (*everything[K, V]) pointer06() {}
func (*everything[K, V]) pointer07() {}
func (*everything[K, V]) pointer08() {}
func (*everything[K, V]) pointer09() {}
func (*everything[K, V]) pointer10() {}
func (*everything[K, V]) pointer11() {}
func (*everything[K, V]) pointer12() {}
func (*everything[K, V]) pointer13() {}
