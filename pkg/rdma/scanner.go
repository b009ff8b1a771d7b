package rdma

import (
	"cmp"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Scanner keeps the snapshot of one host current while devices are added, removed and changed. It
// knows the parts of sysfs that each HCA depends on. So an event causes only the reads of the
// affected HCAs, however many others there are.
//
// Snapshots share their unchanged parts: callers must not change them. A Scanner is for one
// goroutine at a time.
type Scanner struct {
	// Software asks RDMA netlink about a software HCA. It returns nil without an answer, and several goroutines call it.
	// It may be nil, and is set before the first scan.
	Software func(ibdev string) *Software

	sys     fs.ReadLinkFS
	host    hostPart
	nodes   nodeTable
	netdevs *netdevTable
	vfs     vfTable
	boards  boards
	cards   map[string]*card // by ibdev
	users   dependents
	listing []Problem // of class/infiniband
	order   []*card   // as in the snapshot
	snap    *Snapshot // nil before the first scan
}

// NewScanner returns a scanner of the host whose /sys is sys. It reads nothing yet.
func NewScanner(sys fs.ReadLinkFS) *Scanner {
	return &Scanner{sys: sys, vfs: vfTable{}, cards: map[string]*card{}, users: dependents{}, boards: boards{
		vpd: map[string]VPD{}, unread: map[string]string{}, others: map[string]*PCIFunction{},
	}}
}

// Scan reads the whole host, as [Discover] does. If nothing changed since the last Scan or
// Update, it returns the same snapshot (the same pointer) again.
func (s *Scanner) Scan() (*Snapshot, error) {
	if err := checkSysfs(s.sys); err != nil {
		return nil, err
	}
	r := &reader{sys: s.sys}
	s.host = readHost(s.sys)
	s.nodes = listNodes(s.sys)
	s.netdevs = listNetdevs(s.sys)
	p := newPass(s)
	p.whole = true
	ibdevs := NamesOf(r.list(classInfiniband)...)
	s.listing = r.problems
	for ibdev := range s.cards {
		if !ibdevs.Has(ibdev) {
			p.take(ibdev, nil)
		}
	}
	p.read(ibdevs)
	s.netdevs.whole = false
	return p.publish(), nil
}

// Update reads the named parts of the host again. Its result equals that of Scan if the
// caller names everything that changed. If nothing changed, it returns the same snapshot (the
// same pointer) again. The first Update is a Scan.
func (s *Scanner) Update(c Changes) (*Snapshot, error) {
	if c.All || s.snap == nil {
		return s.Scan()
	}
	if c.Host {
		s.host = readHost(s.sys)
	}
	p := newPass(s)
	ibdevs := NamesOf(c.IBDevs.Sorted()...)
	s.netdevsChanged(c.Netdevs, &ibdevs)
	s.functionsChanged(c.Functions, p, &ibdevs)
	s.nodesChanged(c.Nodes, &ibdevs)
	p.read(ibdevs)
	return p.publish(), nil
}

// netdevsChanged reads interfaces again and adds the HCAs whose ports may have gained or lost
// them.
func (s *Scanner) netdevsChanged(names Names, ibdevs *Names) {
	for _, name := range names.Sorted() {
		before, after := s.netdevs.refresh(name)
		s.users.ofNetdev(before, ibdevs)
		s.users.ofNetdev(after, ibdevs)
	}
}

// functionsChanged adds the HCAs on PCI functions. It also marks the affected PFs, so that the pass reads
// their links to VFs again.
func (s *Scanner) functionsChanged(addresses Names, p *pass, ibdevs *Names) {
	for address := range addresses {
		s.boards.forget(s.sys, address)
		p.pfs.Add(address)
		s.users.addTo(dependency{onFunction, address}, ibdevs)
		for _, c := range s.users[dependency{onFunction, address}] {
			p.pfs.Add(c.hca.PF)
		}
	}
}

// nodesChanged reads nodes again, including those of the given HCAs. It adds the HCAs that
// gained or lost one: when an HCA is renamed, its nodes move to the new name.
func (s *Scanner) nodesChanged(names Names, ibdevs *Names) {
	todo := NamesOf(names.Sorted()...)
	for ibdev := range *ibdevs {
		todo.Add(s.nodes.namesOf(ibdev)...)
	}
	for done := (Names{}); len(todo) > 0; {
		var next Names
		for _, name := range slices.Backward(todo.Sorted()) { // umad before issm
			done.Add(name)
			before, after := s.nodes.refresh(s.sys, name)
			for _, ibdev := range []string{before, after} {
				if ibdev != "" && !ibdevs.Has(ibdev) {
					ibdevs.Add(ibdev)
					next.Add(s.nodes.namesOf(ibdev)...)
				}
			}
		}
		for name := range done {
			delete(next, name)
		}
		todo = next
	}
}

// pass is the state of one Scan or Update.
type pass struct {
	*Scanner
	whole  bool          // the whole host is read
	before map[*card]HCA // the previous values of the HCAs that were read
	slots  Names         // slots whose HCAs need new discriminators
	pfs    Names         // PFs whose links to VFs must be read again
	bonds  Names         // HCAs on bonds whose card has got or lost another HCA
}

func newPass(s *Scanner) *pass {
	return &pass{Scanner: s, before: map[*card]HCA{}}
}

// read reads HCAs again, and computes the attributes that depend on several of them.
func (p *pass) read(ibdevs Names) {
	cards := p.readCards(ibdevs)
	maps.DeleteFunc(p.bonds, func(ibdev string, _ struct{}) bool { return ibdevs.Has(ibdev) })
	cards = append(cards, p.readCards(p.bonds)...)
	p.linkVFs()
	if p.whole {
		p.lookForDMA()
	}
	p.describe(cards)
	p.identify()
	for c, before := range p.before {
		if before.Equal(&c.hca) {
			c.hca = before // share its memory with older snapshots
		}
	}
}

// readCards reads HCAs and stores them.
func (p *pass) readCards(ibdevs Names) []*card {
	names := ibdevs.Sorted()
	cards := make([]*card, len(names))
	inParallel(len(cards), func(i int) { cards[i] = readCard(p.Scanner, names[i]) })
	for i, ibdev := range names {
		p.take(ibdev, cards[i])
	}
	return cards
}

// take replaces the stored HCA by the one that was read. nil means that it is gone.
func (p *pass) take(ibdev string, read *card) {
	old := p.cards[ibdev]
	from, to := "", "" // the device that carries it
	if old != nil {
		from = old.parent
	}
	if read != nil {
		to = read.parent
	}
	if from != to {
		p.users.addTo(dependency{onCard, PlaceOf(from).slot()}, &p.bonds)
		p.users.addTo(dependency{onCard, PlaceOf(to).slot()}, &p.bonds)
	}
	if old != nil {
		p.slots.Add(old.slot)
		p.users.remove(old)
		delete(p.cards, ibdev)
	}
	if read == nil {
		return
	}
	if old != nil {
		p.before[read] = old.hca
	} else {
		p.pfs.Add(read.hca.PF)
	}
	p.cards[ibdev] = read
	p.slots.Add(read.slot)
	p.users.add(read)
}

// linkVFs sets the index of VFs from the virtfnK links of their PFs.
func (p *pass) linkVFs() {
	for pf := range p.pfs {
		delete(p.vfs, pf)
	}
	for pf := range p.pfs {
		for _, c := range p.users[dependency{onVFLinks, pf}] {
			p.linkVF(c)
		}
	}
	for c := range p.before {
		p.linkVF(c)
	}
}

func (p *pass) linkVF(c *card) {
	if c.hca.Function == VF {
		c.hca.VFIndex = p.vfs.index(p.sys, c.hca.PF, c.hca.Identity.PCI)
	}
}

// identify sets the discriminators of HCAs that share a slot: an mlx5 function in switchdev
// mode, or a MANA function with its two devices. An unusable HCA does not count, so a
// management-only sub-device does not rename the usable device in its slot. Neither does a
// software HCA on an interface of a pod, which may have the name of one of the host.
func (p *pass) identify() {
	for slot := range p.slots {
		cards := p.users[dependency{inSlot, slot}]
		p.markSwitchHCAs(cards)
		counts := func(c *card) bool { return c.hca.Unusable() == nil && !c.hca.Foreign() }
		usable := 0
		for _, c := range cards {
			if counts(c) {
				usable++
			}
		}
		for _, c := range cards {
			d := ""
			if len(cards) > 1 && (usable != 1 || !counts(c)) {
				d = discriminator(c, cards)
			}
			c.setName(d)
		}
	}
}

// publish returns the snapshot of the current state. It is the previous one if nothing differs.
func (p *pass) publish() *Snapshot {
	s := p.Scanner
	s.order = s.order[:0]
	for _, c := range s.cards {
		if c.exists() {
			s.order = append(s.order, c)
		}
	}
	slices.SortFunc(s.order, func(a, b *card) int { return a.key.compare(b.key) })
	next := &Snapshot{
		HCAs: make([]HCA, len(s.order)), RDMACM: s.host.rdmaCM, NetnsMode: s.host.netnsMode, Problems: p.problems(),
		VPDProblems: s.boards.problems(),
	}
	for i, c := range s.order {
		next.HCAs[i] = c.hca
	}
	if s.snap == nil || !Compare(s.snap, next).Empty() || !slices.Equal(next.Problems, s.snap.Problems) ||
		!slices.Equal(next.VPDProblems, s.snap.VPDProblems) {
		s.snap = next
	}
	return s.snap
}

// problems collects the problems of all parts, in order of HCA and text.
func (s *Scanner) problems() []Problem {
	all := slices.Concat(s.host.problems, s.listing, s.nodes.problems, s.netdevs.problems)
	for _, n := range s.nodes.byName {
		all = append(all, n.problems...)
	}
	for _, c := range s.cards {
		all = append(all, c.files.problems...)
	}
	slices.SortFunc(all, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.IBDev, b.IBDev), strings.Compare(a.Message, b.Message))
	})
	return all
}
