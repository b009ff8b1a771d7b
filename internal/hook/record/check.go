package record

// Kind is what a check looks at.
type Kind string

// The kinds.
const (
	Provider   Kind = "provider"   // libibverbs has a working provider for the kernel driver of the HCA
	Permission Kind = "permission" // the container's user may open the node
	Memlock    Kind = "memlock"    // the process gets the locked memory that was asked for
	Variables  Kind = "variables"  // variables of libraries name HCAs that the container has
)

// Kinds are all kinds.
var Kinds = []Kind{Provider, Permission, Memlock, Variables}

// Result is the result of a check.
type Result string

// The results.
const (
	OK         Result = "ok"
	Unusable   Result = "unusable"
	NotChecked Result = "not-checked" // Message says why
)

// Results are all results.
var Results = []Result{OK, Unusable, NotChecked}

// Check is one check of a container's use of its HCAs.
type Check struct {
	Kind    Kind   `json:"kind"`
	HCA     string `json:"hca,omitempty"` // the kernel's name, "" if the check concerns all HCAs
	Result  Result `json:"result"`
	Message string `json:"message"`          // what was looked at, and what it is
	Remedy  string `json:"remedy,omitempty"` // what to do, of an unusable HCA
	// Fails means that --on-unusable fail keeps the container from starting.
	Fails bool `json:"-"`
}

// String is for people.
func (c Check) String() string {
	text := string(c.Kind)
	if c.HCA != "" {
		text += " of " + c.HCA
	}
	text += ": " + c.Message
	if c.Remedy != "" {
		text += ": " + c.Remedy
	}
	return text
}
