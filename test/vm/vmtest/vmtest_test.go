package vmtest

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// What test2json says of a run in which one test passes, one fails, one is skipped, and
// the machine ends during the last.
const events = `{"Action":"start"}
{"Action":"output","Output":"set-up\n"}
{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"run","Test":"TestA/one"}
{"Action":"output","Test":"TestA/one","Output":"    a_test.go:1: words\n"}
{"Action":"fail","Test":"TestA/one","Elapsed":1.5}
{"Action":"skip","Test":"TestA/two","Elapsed":0}
{"Action":"fail","Test":"TestA","Elapsed":2}
{"Action":"pass","Test":"TestB","Elapsed":0.1}
{"Action":"run","Test":"TestC"}
{"Action":"output","Test":"TestC","Output":"=== RUN   TestC\n"}
`

func TestRead(t *testing.T) {
	root := &node{}
	must.NoError(t, root.read(strings.NewReader(events)))
	var got []string
	for _, n := range root.subtests {
		got = append(got, n.path+"="+n.action)
		for _, s := range n.subtests {
			got = append(got, s.path+"="+s.action)
		}
	}
	test.Eq(t, "TestA=fail TestA/one=fail TestA/two=skip TestB=pass TestC=", strings.Join(got, " "))
	test.Eq(t, "set-up\n", root.text(), test.Sprint("the package"))
	if one := root.find("TestA/one"); one.text() != "    a_test.go:1: words\n" || one.elapsed != 1.5 {
		t.Errorf("%+v", one)
	}
	test.Error(t, root.read(strings.NewReader("no JSON\n")), test.Sprint("garbage is accepted"))
}
