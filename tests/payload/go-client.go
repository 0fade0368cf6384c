// A client as Go programs are: its own resolver (GODEBUG=netdns=go), Happy Eyeballs, roots from SSL_CERT_FILE and SSL_CERT_DIR, HTTP/2
// where the server takes it. Prints a line for each URL: the protocol, the status and the body's first line, or the error.
//
//	go-client [-h2] URL…       -h2: offers HTTP/2 and nothing else
//	go-client -lookup NAME…    prints how many addresses each one has
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

func get(c *http.Client, url string) {
	r, err := c.Get(url)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	defer r.Body.Close()
	line, _ := bufio.NewReader(r.Body).ReadString('\n')
	fmt.Printf("%s %d %s\n", r.Proto, r.StatusCode, strings.TrimSpace(line))
}

func lookup(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	a, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(len(a))
}

func main() {
	h2 := flag.Bool("h2", false, "")
	names := flag.Bool("lookup", false, "")
	flag.Parse()
	c := &http.Client{Timeout: 15 * time.Second}
	if *h2 {
		c.Transport = &http.Transport{TLSClientConfig: &tls.Config{NextProtos: []string{"h2"}}}
	}
	for _, arg := range flag.Args() {
		if *names {
			lookup(arg)
		} else {
			get(c, arg)
		}
	}
}
