// What the Go runtime does by system calls of its own choice, each of which has a fallback for kernels that refuse it: splice between
// connections, copy_file_range and sendfile of files, MPTCP of listeners, pidfds of children, a timer for each profiled thread.
// Prints a line for each: its name and "ok", or the error.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/pprof"
	"time"
)

const size = 1 << 20

var data = bytes.Repeat([]byte("0123456789abcdef"), size/16)

func same(got []byte, err error) error {
	if err == nil && !bytes.Equal(got, data) {
		return errors.New("other bytes")
	}
	return err
}

// A connection whose other end sends data and closes.
func source(network, address string) (net.Conn, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	go func() {
		defer l.Close()
		if c, err := l.Accept(); err == nil {
			c.Write(data)
			c.Close()
		}
	}()
	return net.Dial(network, l.Addr().String())
}

// A connection of which the other end keeps what comes.
func sink() (net.Conn, chan []byte, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	got := make(chan []byte, 1)
	go func() {
		defer l.Close()
		if c, err := l.Accept(); err == nil {
			b, _ := io.ReadAll(c)
			got <- b
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	return c, got, err
}

func copyToConn(from io.Reader) error {
	to, got, err := sink()
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	to.Close()
	return same(<-got, err)
}

func file(name string) (*os.File, error) {
	if err := os.WriteFile(name, data, 0o600); err != nil {
		return nil, err
	}
	return os.Open(name)
}

func tcpToTCP() error {
	c, err := source("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	return copyToConn(c)
}

func unixToTCP() error {
	c, err := source("unix", "/tmp/go-copy.sock")
	if err != nil {
		return err
	}
	return copyToConn(c)
}

func fileToTCP() error {
	f, err := file("/tmp/go-copy.1")
	if err != nil {
		return err
	}
	return copyToConn(f)
}

func fileToFile() error {
	f, err := file("/tmp/go-copy.2")
	if err != nil {
		return err
	}
	to, err := os.Create("/tmp/go-copy.3")
	if err != nil {
		return err
	}
	if _, err = io.Copy(to, f); err != nil {
		return err
	}
	return same(os.ReadFile("/tmp/go-copy.3"))
}

func tcpToFile() error {
	c, err := source("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	to, err := os.Create("/tmp/go-copy.4")
	if err != nil {
		return err
	}
	if _, err = io.Copy(to, c); err != nil {
		return err
	}
	return same(os.ReadFile("/tmp/go-copy.4"))
}

func child() error {
	out, err := exec.Command("/proc/self/exe", "child").Output()
	if err == nil && string(out) != "a child\n" {
		err = fmt.Errorf("%q", out)
	}
	return err
}

func profile() error {
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		return err
	}
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
	}
	pprof.StopCPUProfile()
	return nil
}

func main() {
	if len(os.Args) > 1 {
		fmt.Println("a child")
		return
	}
	for _, t := range []struct {
		name string
		run  func() error
	}{
		{"tcp to tcp", tcpToTCP}, {"unix to tcp", unixToTCP}, {"file to tcp", fileToTCP}, {"file to file", fileToFile},
		{"tcp to file", tcpToFile}, {"child", child}, {"profile", profile},
	} {
		if err := t.run(); err != nil {
			fmt.Println(t.name+":", err)
		} else {
			fmt.Println(t.name + ": ok")
		}
	}
}
