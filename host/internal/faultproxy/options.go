package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"
)

// options are the flags of the command.
type options struct {
	kubeconfig    string
	kubeconfigOut string
	listen        string
	control       string
	rules         string
	stopWithStdin bool
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the API server (required)")
	flags.StringVar(&o.kubeconfigOut, "kubeconfig-out", "", "file to write: the kubeconfig of the proxy, without a user (required)")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "loopback address of the proxy; port 0 takes a free one")
	flags.StringVar(&o.control, "control", "127.0.0.1:0", "loopback address of the control interface; port 0 takes a free one")
	flags.StringVar(&o.rules, "rules", "", "file with the first rules, one per line")
	flags.BoolVar(&o.stopWithStdin, "stop-with-stdin", false,
		"stop when standard input is closed, for programs that start a proxy as their child")
}

func (o *options) validate() error {
	switch {
	case o.kubeconfig == "":
		return errors.New("--kubeconfig is required: name the kubeconfig of the API server")
	case o.kubeconfigOut == "":
		return errors.New("--kubeconfig-out is required: name the file to write for clients of the proxy")
	}
	if err := loopback(o.listen); err != nil {
		return fmt.Errorf("--listen: %w: who reaches it acts with the credentials of --kubeconfig", err)
	}
	if err := loopback(o.control); err != nil {
		return fmt.Errorf("--control: %w: who reaches it can signal processes", err)
	}
	return nil
}

// loopback refuses addresses that other machines may reach.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not an address: want for example 127.0.0.1:8443", address)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%q is not a loopback address such as 127.0.0.1:8443", address)
	}
	return nil
}
