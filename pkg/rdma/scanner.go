package rdma

import (
	"cmp"
	"io/fs"
	"slices"
	"strings"
)

// Scanner keeps the picture of one host right while devices come, go and change. It
// remembers which part of sysfs each HCA was made of, so that an event costs the
// reads of the HCAs that it is about, however many others there are.
//
// The snapshots it returns are its caller's to share, not to change: they have in
// common what did not change between them. A Scanner is for one goroutine at a time.
type Scanner struct {
	sys     fs.ReadLinkFS
	host    hostPart
	nodes   nodeTable
	netdevs *netdevTable
	vfs     vfTable
	cards   map[string]*card // by ibdev
	users   dependents
	trouble map[string]*card // those with problems, by ibdev
	listing []Problem        // of class/infiniband
	order   []*card          // as in the snapshot
	snap    *Snapshot        // nil before the first scan
}

// NewScanner returns a scanner of the host whose /sys is sys. It reads nothing yet.
func NewScanner(sys fs.ReadLinkFS) *Scanner {
	return &Scanner{sys: sys, vfs: vfTable{}, cards: map[string]*card{}, users: dependents{}, trouble: map[string]*card{}}
}

// Scan reads the whole host, as [Discover] does. If nothing changed since the last
// Scan or Update, it returns the very snapshot that was returned then.
func (s *Scanner) Scan() (*Snapshot, error) {
	if err := checkSysfs(s.sys); err != nil {
		return nil, err
	}
	r := &reader{sys: s.sys}
	s.host = readHost(s.sys)
	s.nodes = listNodes(s.sys)
	s.netdevs = listNetdevs(s.sys)
	p := newPass(s)
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

// Update reads anew what may have changed since the last Scan or Update, and returns
// what Scan would return, provided that everything that changed is named. If nothing
// did, it returns the very snapshot that was returned last. The first Update is a
// Scan.
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

// netdevsChanged reads interfaces anew and adds the HCAs whose ports may have or lose
// them.
func (s *Scanner) netdevsChanged(names Names, ibdevs *Names) {
	for _, name := range names.Sorted() {
		before, after := s.netdevs.refresh(name)
		s.users.ofNetdev(before, ibdevs)
		s.users.ofNetdev(after, ibdevs)
	}
}

// functionsChanged adds the HCAs on PCI functions. Where one is a VF, or has VFs, the
// numbers of the VFs are read anew.
func (s *Scanner) functionsChanged(addresses Names, p *pass, ibdevs *Names) {
	for address := range addresses {
		p.pfs.Add(address)
		s.users.of(dependency{onFunction, address}, ibdevs)
		for _, c := range s.users[dependency{onFunction, address}] {
			p.pfs.Add(c.hca.PF)
		}
	}
}

// nodesChanged reads nodes anew, and those of the given HCAs, and adds the HCAs that
// lost or got one: with a rename of an HCA its nodes go to the new name.
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

// pass is one Scan or Update at work.
type pass struct {
	*Scanner
	before  map[*card]HCA // what was known of HCAs that were read
	slots   Names         // whose HCAs have to be told apart anew
	pfs     Names         // whose links to VFs have to be read anew
	changed bool          // some HCA is not what it was
	reorder bool          // the HCAs have to be sorted again
}

func newPass(s *Scanner) *pass {
	return &pass{Scanner: s, before: map[*card]HCA{}}
}

// read reads HCAs anew, and works out what depends on several of them.
func (p *pass) read(ibdevs Names) {
	names := ibdevs.Sorted()
	cards := make([]*card, len(names))
	inParallel(len(cards), func(i int) { cards[i] = readCard(p.sys, p.netdevs, &p.nodes, names[i]) })
	for i, ibdev := range names {
		p.take(ibdev, cards[i])
	}
	p.linkVFs()
	p.identify()
	for c, before := range p.before {
		if before.Equal(&c.hca) {
			c.hca = before // shares its memory
			continue
		}
		p.changed = true
		p.reorder = p.reorder || before.sortKey() != c.key
	}
}

// take puts an HCA that was read in place of what was known of it, nil if it is gone.
func (p *pass) take(ibdev string, read *card) {
	c := p.cards[ibdev]
	if c == nil && read == nil {
		return
	}
	if c == nil {
		c = &card{}
		p.cards[ibdev] = c
		p.changed, p.reorder = true, true
		p.pfs.Add(read.hca.PF)
	} else {
		p.slots.Add(c.slot)
		p.users.remove(c)
		p.before[c] = c.hca
	}
	delete(p.trouble, ibdev)
	if read == nil {
		delete(p.cards, ibdev)
		p.changed, p.reorder = true, true
		return
	}
	*c = *read // stays where it is in the order
	p.slots.Add(c.slot)
	p.users.add(c)
	if len(c.problems) > 0 {
		p.trouble[ibdev] = c
	}
}

// linkVFs gives VFs their index, which is in the virtfnK links of the PF.
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
	if c.hca.Function != VF {
		return
	}
	k := p.vfs.index(p.sys, c.hca.PF, c.hca.Identity.PCI)
	if !equalPointers(k, c.hca.VFIndex) {
		c.hca.VFIndex = k
		p.changed = p.changed || !p.isRead(c)
	}
}

// isRead reports whether an HCA will be compared with what was known of it.
func (p *pass) isRead(c *card) bool {
	_, ok := p.before[c]
	return ok
}

// identify tells apart the HCAs that share a slot: an mlx5 function in switchdev
// mode, or a MANA function with its two devices. An HCA that no program can use does
// not count, so that a management-only sub-device does not rename the device beside
// it.
func (p *pass) identify() {
	for slot := range p.slots {
		cards := p.users[dependency{inSlot, slot}]
		p.markSwitchHCAs(cards)
		usable := 0
		for _, c := range cards {
			if c.hca.Unusable() == nil {
				usable++
			}
		}
		for _, c := range cards {
			d := ""
			if len(cards) > 1 && (usable != 1 || c.hca.Unusable() != nil) {
				d = discriminator(c, cards)
			}
			if c.hca.Identity.Discriminator != d {
				c.setName(d)
				p.changed = p.changed || !p.isRead(c)
				p.reorder = p.reorder || !p.isRead(c)
			}
		}
	}
}

// publish makes the snapshot of what is known now.
func (p *pass) publish() *Snapshot {
	s, problems := p.Scanner, p.problems()
	if s.snap != nil && !p.changed && s.host.same(s.snap) && sameProblems(problems, s.snap.Problems) {
		return s.snap
	}
	if p.reorder || s.snap == nil {
		s.order = s.order[:0]
		for _, c := range s.cards {
			if c.exists() {
				s.order = append(s.order, c)
			}
		}
		slices.SortFunc(s.order, func(a, b *card) int { return a.key.compare(b.key) })
	}
	next := &Snapshot{HCAs: make([]HCA, len(s.order)), RDMACM: s.host.rdmaCM, NetnsMode: s.host.netnsMode, Problems: problems}
	for i, c := range s.order {
		next.HCAs[i] = c.hca
	}
	s.snap = next
	return next
}

// problems collects what could not be read, in order of HCA and text.
func (s *Scanner) problems() []Problem {
	all := slices.Concat(s.host.problems, s.listing, s.nodes.problems, s.netdevs.problems)
	for _, n := range s.nodes.trouble {
		all = append(all, n.problems...)
	}
	for _, c := range s.trouble {
		all = append(all, c.problems...)
	}
	slices.SortFunc(all, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.IBDev, b.IBDev), strings.Compare(a.Message, b.Message))
	})
	return all
}

func sameProblems(a, b []Problem) bool {
	return slices.EqualFunc(a, b, func(x, y Problem) bool { return x.IBDev == y.IBDev && x.Message == y.Message })
}
