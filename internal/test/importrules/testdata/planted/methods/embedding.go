package planted

import "context"

// embedding has 13 methods of its own, 13 of its field, and 2 functions.
type embedding struct{ *half }

type half struct{}

func takesContext(context.Context, *embedding) {}
func takesValue(embedding)                     {}

func (half) method01() {}
func (half) method02() {}
func (half) method03() {}
func (half) method04() {}
func (half) method05() {}
func (half) method06() {}
func (half) method07() {}
func (half) method08() {}
func (half) method09() {}
func (half) method10() {}
func (half) method11() {}
func (half) method12() {}
func (half) method13() {}

func (*embedding) own01() {}
func (*embedding) own02() {}
func (*embedding) own03() {}
func (*embedding) own04() {}
func (*embedding) own05() {}
func (*embedding) own06() {}
func (*embedding) own07() {}
func (*embedding) own08() {}
func (*embedding) own09() {}
func (*embedding) own10() {}
func (*embedding) own11() {}
func (*embedding) own12() {}
func (*embedding) own13() {}
