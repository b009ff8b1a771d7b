package doctor

import "testing"

// The modalias of the kernel and the IDs of an incomplete sysfs say the same.
func TestModalias(t *testing.T) {
	const lost = "0000:61:00.0"
	f := newFake(t, "none")
	f.function(lost, "15B3", "1021", "020700", "")
	f.sys("bus/pci/devices/"+lost+"/subsystem_vendor", "0x15b3")
	f.sys("bus/pci/devices/"+lost+"/subsystem_device", "0x0023")
	f.sys("bus/pci/devices/0000:62:00.0/modalias", "pci:v000015B3d00001021sv000015B3sd00000023bc02sc07i00")
	r := &reader{Host: &Host{Sys: f.machine.OpenFS()}, unseen: unseen{}}
	want := r.pciFunction("0000:62:00.0")
	got := r.pciFunction(lost)
	got.address = want.address
	if got != want || want.class != "020700" || want.vendor != "15b3" || want.device != "1021" {
		t.Errorf("from IDs %+v\nfrom modalias %+v", got, want)
	}
}
