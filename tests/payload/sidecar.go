// A sidecar as workerd's is, for the tests of images that are one: in a network of its own that it administers it takes every connection
// that leaves, by a mark, a route to the loopback and TPROXY, and every question for a name; workerd decides (docs/workerd.md). It does
// what the protocol says and no more, so that the kernel's part is real: rules by nft, routes by ip, transparent sockets.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	tcpAt     = "127.0.0.3:41209"
	dnsAt     = "127.0.0.9:5000"
	spareMark = 100 // of the sidecar's own questions for names
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "sidecar:", err)
		os.Exit(1)
	}
}

// ---- what it was told

var state struct {
	sync.Mutex
	port     int
	internet bool
	names    []string
}

func egressPort() int {
	state.Lock()
	defer state.Unlock()
	return state.port
}

func lookup(name string) (internet, allowed bool) {
	state.Lock()
	defer state.Unlock()
	for _, glob := range state.names {
		if ok, _ := path.Match(glob, name); ok || glob == "*" {
			allowed = true
		}
	}
	return state.internet, allowed
}

func take(body io.Reader) error {
	var m struct {
		Port     *int
		Internet *struct{ Enabled *bool }
		DNS      *struct{ AllowHostnames []string }
	}
	if err := json.NewDecoder(body).Decode(&m); err != nil {
		return err
	}
	if m.Port == nil && m.Internet == nil && m.DNS == nil {
		return errors.New("nothing is said")
	}
	state.Lock()
	defer state.Unlock()
	if m.Port != nil {
		state.port = *m.Port
	}
	if m.Internet != nil && m.Internet.Enabled != nil {
		state.internet = *m.Internet.Enabled
	}
	if m.DNS != nil && m.DNS.AllowHostnames != nil {
		state.names = m.DNS.AllowHostnames
	}
	return nil
}

// ---- certificates

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func (a *authority) sign(name string) *tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must(err)
	t := &x509.Certificate{SerialNumber: serial, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature}
	parent, signer := t, key
	if a.cert == nil {
		t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	} else {
		t.DNSNames, t.ExtKeyUsage = []string{name}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, signer)
	must(err)
	if a.cert == nil {
		a.key = key
		a.cert, err = x509.ParseCertificate(der)
		must(err)
		a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

var ca authority

// ---- the kernel

func transparent(oob bool) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_IP, syscall.IP_TRANSPARENT, 1)
			if err == nil && oob {
				err = syscall.SetsockoptInt(int(fd), syscall.SOL_IP, syscall.IP_RECVORIGDSTADDR, 1)
			}
		}); e != nil {
			return e
		}
		return err
	}
}

func marked(from *net.UDPAddr) net.Dialer {
	d := net.Dialer{Timeout: 5 * time.Second, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			if from != nil {
				must(syscall.SetsockoptInt(int(fd), syscall.SOL_IP, syscall.IP_TRANSPARENT, 1))
				must(syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
			}
			must(syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_MARK, spareMark))
		})
	}}
	if from != nil {
		d.LocalAddr = from
	}
	return d
}

func run(stdin string, argv ...string) {
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdin = strings.NewReader(stdin)
	if out, err := c.CombinedOutput(); err != nil {
		must(fmt.Errorf("%v: %w: %s", argv, err, out))
	}
}

func rules(subnet string) {
	own := []string{"127.0.0.0/8", subnet}
	addresses, err := net.InterfaceAddrs()
	must(err)
	for _, a := range addresses {
		if n := a.(*net.IPNet); n.IP.To4() != nil && !n.IP.IsLoopback() {
			own = append(own, (&net.IPNet{IP: n.IP.Mask(n.Mask), Mask: n.Mask}).String())
		}
	}
	run("", "ip", "rule", "add", "fwmark", "1", "table", "100")
	run("", "ip", "route", "add", "local", "default", "dev", "lo", "table", "100")
	run(fmt.Sprintf(`table ip sidecar {
	set own { type ipv4_addr; flags interval; auto-merge; elements = { %s } }
	chain leaves {
		type route hook output priority mangle;
		ct direction reply return
		ip daddr @own return
		meta mark %d return
		meta l4proto tcp meta mark set 1
		udp dport 53 meta mark set 1
	}
	chain comes {
		type filter hook prerouting priority mangle;
		ip daddr @own return
		meta mark %d return
		meta l4proto tcp socket transparent 1 meta mark set 1 accept
		meta l4proto tcp tproxy to %s meta mark set 1
		udp dport 53 tproxy to %s meta mark set 1
	}
}`, strings.Join(own, ", "), spareMark, spareMark, tcpAt, dnsAt), "nft", "-f", "-")
}

// ---- connections out

func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// The name in a hello, which is read and left where it is.
func serverName(r *bufio.Reader) (name string) {
	head, err := r.Peek(5)
	if err != nil || head[0] != 0x16 {
		return ""
	}
	hello, _ := r.Peek(5 + int(binary.BigEndian.Uint16(head[3:])))
	_ = tls.Server(onlyReads{bytes.NewReader(hello)}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name = h.ServerName
		return nil, errors.New("that was all")
	}}).Handshake()
	return name
}

type onlyReads struct{ io.Reader }

func (onlyReads) Write(b []byte) (int, error)      { return len(b), nil }
func (onlyReads) Close() error                     { return nil }
func (onlyReads) LocalAddr() net.Addr              { return nil }
func (onlyReads) RemoteAddr() net.Addr             { return nil }
func (onlyReads) SetDeadline(time.Time) error      { return nil }
func (onlyReads) SetReadDeadline(time.Time) error  { return nil }
func (onlyReads) SetWriteDeadline(time.Time) error { return nil }

// The Host of a request, which is left where it is.
func hostName(r *bufio.Reader) string {
	if first, err := r.Peek(1); err != nil || first[0] < 'A' || first[0] > 'Z' {
		return ""
	}
	for n := r.Buffered(); ; n++ {
		head, err := r.Peek(n)
		if at := bytes.Index(head, []byte("\r\n\r\n")); at >= 0 {
			q, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head[:at+4])))
			if err != nil {
				return ""
			}
			return strings.Split(q.Host, ":")[0]
		}
		if err != nil {
			return ""
		}
	}
}

type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.r.Read(p) }
func (b buffered) CloseWrite() error          { return b.Conn.(*net.TCPConn).CloseWrite() }

func join(a, b net.Conn) {
	var both sync.WaitGroup
	both.Add(2)
	copyTo := func(to, from net.Conn) {
		defer both.Done()
		_, _ = io.Copy(to, from)
		if w, ok := to.(interface{ CloseWrite() error }); ok {
			_ = w.CloseWrite()
		}
	}
	go copyTo(a, b)
	go copyTo(b, a)
	both.Wait()
	_ = a.Close()
	_ = b.Close()
}

func leave(host string, c net.Conn) {
	in := buffered{c, bufio.NewReaderSize(c, 32<<10)}
	to := c.LocalAddr().String()
	headers := "X-Proto: tcp\r\nConnection: close\r\nX-Forwarded-For: " + c.RemoteAddr().String() + "\r\n"
	name := serverName(in.r)
	if name != "" {
		headers += "X-Tls-Sni: " + name + "\r\n"
	} else if strings.HasSuffix(to, ":80") {
		if h := hostName(in.r); h != "" {
			headers += "X-Hostname: " + h + "\r\n"
		}
	}
	out, err := net.Dial("tcp", fmt.Sprintf("%s:%d", host, egressPort()))
	if err != nil {
		fmt.Fprintln(os.Stderr, "sidecar:", err)
		reset(c)
		return
	}
	fmt.Fprintf(out, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", to, to, headers)
	r := bufio.NewReader(out)
	answer, err := http.ReadResponse(r, &http.Request{Method: "CONNECT"})
	if err != nil || answer.StatusCode >= 300 {
		reset(c)
		_ = out.Close()
		return
	}
	if name != "" && answer.StatusCode == 200 {
		join(tls.Server(in, &tls.Config{Certificates: []tls.Certificate{*ca.sign(name)}}), buffered{out, r})
		return
	}
	join(in, buffered{out, r})
}

// ---- names

func reply(q []byte, end int, kind uint16, code byte) []byte {
	a := append([]byte{}, q[:end]...)
	a[2], a[3] = 0x84, code
	binary.BigEndian.PutUint16(a[6:], 0)
	binary.BigEndian.PutUint16(a[8:], 0)
	binary.BigEndian.PutUint16(a[10:], 0)
	if code == 0 && kind == 1 {
		binary.BigEndian.PutUint16(a[6:], 1)
		a = append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 11, 0, 0, 1)
	}
	return a
}

// The name that is asked for, its type, and where the question ends.
func question(q []byte) (name string, kind uint16, end int) {
	for end = 12; end < len(q) && q[end] != 0; end += 1 + int(q[end]) {
		if end+1+int(q[end]) > len(q) {
			return "", 0, 0
		}
		name += "." + strings.ToLower(string(q[end+1:end+1+int(q[end])]))
	}
	if end+5 > len(q) {
		return "", 0, 0
	}
	return strings.TrimPrefix(name, "."), binary.BigEndian.Uint16(q[end+1:]), end + 5
}

func ask(q []byte, server *net.UDPAddr) []byte {
	d := marked(nil)
	c, err := d.Dial("udp4", server.String())
	if err != nil {
		return nil
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = c.Write(q)
	b := make([]byte, 64<<10)
	n, _ := c.Read(b)
	return b[:n]
}

func answer(q []byte, from, server *net.UDPAddr) {
	name, kind, end := question(q)
	if end == 0 {
		return
	}
	internet, allowed := lookup(name)
	var a []byte
	if internet {
		a = ask(q, server)
	}
	if len(a) < 12 || (a[3]&0xf == 3 && allowed) {
		code := byte(3)
		if allowed {
			code = 0
		}
		a = reply(q, end, kind, code)
	}
	d := marked(server)
	if c, err := d.Dial("udp4", from.String()); err == nil {
		_, _ = c.Write(a)
		_ = c.Close()
	}
}

func serveNames() {
	l := net.ListenConfig{Control: transparent(true)}
	p, err := l.ListenPacket(context.Background(), "udp4", dnsAt)
	must(err)
	go func() {
		b, oob := make([]byte, 64<<10), make([]byte, 512)
		for {
			n, m, _, from, err := p.(*net.UDPConn).ReadMsgUDP(b, oob)
			must(err)
			messages, _ := syscall.ParseSocketControlMessage(oob[:m])
			for _, c := range messages {
				if c.Header.Level == syscall.SOL_IP && c.Header.Type == syscall.IP_RECVORIGDSTADDR && len(c.Data) >= 8 {
					server := &net.UDPAddr{IP: net.IP(append([]byte{}, c.Data[4:8]...)), Port: int(binary.BigEndian.Uint16(c.Data[2:]))}
					go answer(append([]byte{}, b[:n]...), from, server)
				}
			}
		}
	}()
}

// ---- workerd's side

func ingress(c net.Conn) {
	r := bufio.NewReader(c)
	q, err := http.ReadRequest(r)
	if err != nil {
		_ = c.Close()
		return
	}
	say := func(status, body string) {
		fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(body), body)
		_ = c.Close()
	}
	switch {
	case q.Method == "CONNECT":
		to, err := net.Dial("tcp", q.Header.Get("X-Dst-Addr"))
		if err != nil {
			say("400 Bad Request", err.Error())
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
		join(buffered{c, r}, to)
	case q.Method == "GET" && q.URL.Path == "/ca":
		say("200 OK", string(ca.pem))
	case q.Method == "PUT" && q.URL.Path == "/egress":
		if err := take(q.Body); err != nil {
			say("400 Bad Request", err.Error())
			return
		}
		fmt.Fprint(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
		_ = c.Close()
	default:
		say("404 Not Found", "")
	}
}

func serve(at string, control func(string, string, syscall.RawConn) error, each func(net.Conn)) {
	config := net.ListenConfig{Control: control}
	l, err := config.Listen(context.Background(), "tcp4", at)
	must(err)
	go func() {
		for {
			c, err := l.Accept()
			must(err)
			go each(c)
		}
	}()
}

func main() {
	port := flag.Int("http-egress-port", 0, "")
	at := flag.String("http-ingress-address", "0.0.0.0:39001", "")
	subnet := flag.String("docker-gateway-cidr", "", "")
	_ = flag.Bool("dns-enabled", false, "")
	_ = flag.Bool("tls-intercept", false, "")
	_ = flag.Bool("disable-ipv6", false, "")
	flag.Parse()
	state.port, state.internet, state.names = *port, true, []string{"*"}
	hosts, err := net.LookupHost("host.docker.internal")
	must(err)
	ca.sign("sidecar of a test")
	rules(*subnet)
	serveNames()
	serve(tcpAt, transparent(false), func(c net.Conn) { leave(hosts[0], c) })
	serve(*at, nil, ingress)
	select {}
}
