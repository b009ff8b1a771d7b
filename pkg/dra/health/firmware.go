package health

import "fmt"

// Reporter is a devlink health reporter of a card's firmware.
type Reporter struct {
	Name string
	// Failed says that the driver has found an error which no recovery has ended.
	Failed bool
	// Errors and Recoveries are their numbers since the driver was loaded.
	Errors, Recoveries uint64
}

// Reporters returns the names of the devlink health reporters of firmware, as mlx5, bnxt, ice and qed have them. The
// others, such as tx and rx, report a queue that a program or a network has stopped.
func Reporters() []string { return []string{"fw", "fw_fatal"} }

// judgeFirmware judges the health reporters of a card's firmware. The condition cannot begin without one that failed.
func judgeFirmware(reporters []Reporter, known bool) judgement {
	firmware := probe{Firmware, 0}
	if !known {
		return judgement{firmware, unknown, ""}
	}
	var notes []string
	for _, r := range reporters {
		if r.Failed {
			notes = append(notes, fmt.Sprintf("the firmware is in error: devlink health reporter %s has had %d errors and %d "+
				"recoveries: look at dmesg, update the firmware or replace the card", r.Name, r.Errors, r.Recoveries))
		}
	}
	return judge(len(notes) > 0, Firmware, 0, join(notes))
}
