// Package sysfault lets the system calls of a program fail, one at a time, as a test
// wants it. The program is the real one and knows nothing of it.
//
// The kernel stops the program before each of its calls on files and asks a
// supervisor in the test's process what shall happen (seccomp user notification,
// seccomp_unotify(2)): the call goes on, or it returns an error without having
// happened. Since all threads ask the same supervisor, one after the other, the
// N-th call is a matter of counting, whichever thread it comes from; a tracer that
// counts for each thread, as strace does, cannot say that of a Go program.
//
//	s := sysfault.New(t)
//	command := s.Command(driver, args...) // run this instead of the program
//	shot := s.Arm(sysfault.Fault{N: 3, Match: inDir(dir), Do: sysfault.Error(unix.EIO)})
//	...                                    // what makes the program do something
//	call, fired := shot.Fired()
//
// close(2) is not among the calls: its error does not keep the kernel from closing,
// which cannot be had without the call.
//
// The command is a small program, launch, which installs the filter and becomes the one
// that is meant.
package sysfault
