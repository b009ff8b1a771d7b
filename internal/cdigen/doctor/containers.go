package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/usable"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// LookCommand is the hidden command of cdi-gen that calls AnswerLooks.
const LookCommand = "look-into-containers"

// Bounds of the time for looks. A container that answers takes a few milliseconds.
const (
	maxLook  = 10 * time.Second
	maxLooks = 4 * maxLook // for all containers
)

// lookQuestion are the containers to look into.
type lookQuestion struct {
	PIDs   []int
	HCAs   []args.HCA
	Enough args.Size // locked memory that is sure to do
}

// lookAnswer is what was found of one container.
type lookAnswer struct {
	usable.Look
	Error string // why nothing was found
	Ended bool   // with Error: because the container has ended
}

// AnswerLooks reads a question, looks into its containers, and writes an answer for each, in order.
func AnswerLooks(question io.Reader, answers io.Writer) error {
	var q lookQuestion
	if err := json.NewDecoder(question).Decode(&q); err != nil {
		return fmt.Errorf("read which containers to look into: %w", err)
	}
	out := json.NewEncoder(answers)
	for _, pid := range q.PIDs {
		var a lookAnswer
		var err error
		if a.Look, err = usable.LookInto(pid, q.HCAs, q.Enough); err != nil {
			a.Error, a.Ended = err.Error(), isEnded(err)
		}
		if err := out.Encode(a); err != nil {
			return fmt.Errorf("write what was found in a container: %w", err)
		}
	}
	return nil
}

// askLooks looks into containers, and returns an answer for each. A child looks, and another one goes on after a
// container that does not answer: its file systems are its owner's. Nobody waits for the end of a child, because not even
// a signal ends a process that waits for an answer of FUSE.
func askLooks(ctx context.Context, q lookQuestion, patience time.Duration) []lookAnswer {
	ctx, cancel := context.WithTimeout(ctx, maxLooks)
	defer cancel()
	all, answers := q.PIDs, make([]lookAnswer, 0, len(q.PIDs))
	for len(answers) < len(all) {
		q.PIDs = all[len(answers):]
		if err := askChild(ctx, q, patience, func(a lookAnswer) { answers = append(answers, a) }); err != nil {
			answers = append(answers, lookAnswer{Error: err.Error()})
		}
	}
	return answers
}

// askChild starts a child, and calls answered until one answer is missing.
func askChild(ctx context.Context, q lookQuestion, patience time.Duration, answered func(lookAnswer)) error {
	if ctx.Err() != nil {
		return errors.New("no time is left: the files of other containers did not answer")
	}
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	child := exec.Command("/proc/self/exe", LookCommand)
	child.Stdin, child.Stdout = bytes.NewReader(text), w
	err = child.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("start a child that looks into containers: %w", err)
	}
	defer func() {
		child.Process.Kill()
		go child.Wait() // it may never end
	}()
	answers := json.NewDecoder(r)
	for range q.PIDs {
		var a lookAnswer
		end, _ := ctx.Deadline()
		if next := time.Now().Add(patience); next.Before(end) {
			end = next
		}
		err := r.SetReadDeadline(end)
		if err == nil {
			err = answers.Decode(&a)
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errors.New("its files did not answer in time")
		case err != nil:
			return fmt.Errorf("the child that looked into it ended: %w", err)
		}
		answered(a)
	}
	return nil
}
