package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func runControllers(ctx context.Context, args []string) error {
	// The command knows no context. It holds nothing that would have to be saved at the end.
	context.AfterFunc(ctx, func() { os.Exit(0) })
	command := app.NewControllerManagerCommand()
	command.SetArgs(append(args,
		"--controllers=garbage-collector-controller,namespace-controller",
		"--leader-elect=false",
		"--secure-port=0",
	))
	return command.Execute()
}

// controllers is the running controller-manager.
type controllers struct {
	command *exec.Cmd
	input   io.Closer
	done    chan error
}

// startControllers runs this binary once more, as controller-manager: both
// register the same global flags, so that they cannot share a process.
func startControllers(dir, kubeconfig string) (*controllers, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "controller-manager.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.Command(self, "controllers", "--kubeconfig", kubeconfig)
	command.Stdout, command.Stderr = log, log
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	c := &controllers{command, input, make(chan error, 1)}
	go func() {
		c.done <- command.Wait()
		close(c.done)
	}()
	return c, nil
}

// stop closes the input, upon which the process ends.
func (c *controllers) stop() {
	_ = c.input.Close()
	select {
	case <-c.done:
	case <-time.After(5 * time.Second):
		_ = c.command.Process.Kill()
	}
}
