package e2e

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// door is an address through which a host reaches the API server, or not.
type door struct {
	t       *testing.T
	address string // of the door
	server  string // of the API server

	mu       sync.Mutex
	listener net.Listener
	isOpen   bool
	conns    map[net.Conn]bool
	thawed   chan struct{} // closed unless frozen
}

// newDoor returns a closed one.
func newDoor(t *testing.T) *door {
	t.Helper()
	server, err := url.Parse(cluster.Config.Host)
	done(t, err)
	d := &door{t: t, address: "127.0.0.1:0", server: server.Host, conns: map[net.Conn]bool{}, thawed: make(chan struct{})}
	close(d.thawed)
	d.open() // to get an address
	d.close()
	t.Cleanup(d.close)
	return d
}

// kubeconfig returns the path of one that leads through the door. With a
// token it is that of a service account, else the administrator's.
func (d *door) kubeconfig(token string) string { return kubeconfigOf(d.t, "https://"+d.address, token) }

func kubeconfigOf(t *testing.T, server, token string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	done(t, err)
	for _, c := range config.Clusters {
		c.Server = server
	}
	if token != "" {
		for name := range config.AuthInfos {
			config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
		}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	done(t, clientcmd.WriteToFile(*config, path))
	return path
}

// open lets connections through.
func (d *door) open() {
	d.t.Helper()
	listener, err := net.Listen("tcp", d.address)
	done(d.t, err)
	d.mu.Lock()
	d.listener, d.address, d.isOpen = listener, listener.Addr().String(), true
	d.mu.Unlock()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go d.pass(conn)
		}
	}()
}

// close ends what goes through and lets nothing in.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isOpen = false
	d.listener.Close()
	for conn := range d.conns {
		conn.Close()
	}
	clear(d.conns)
}

// freeze takes what comes and passes nothing on until thaw, as an API server
// does that was stopped by SIGSTOP.
func (d *door) freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.thawed = make(chan struct{})
}

func (d *door) thaw() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.thawed)
}

func (d *door) pass(inside net.Conn) {
	defer inside.Close()
	outside, err := net.Dial("tcp", d.server)
	if err != nil {
		return
	}
	defer outside.Close()
	if !d.add(inside, outside) {
		return
	}
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{inside, outside}, {outside, inside}} {
		go func() {
			_, _ = io.Copy(way[0], slow{way[1], d})
			ended <- struct{}{}
		}()
	}
	<-ended
}

// add notes connections to close with the door, and says whether it is open.
func (d *door) add(conns ...net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range conns {
		d.conns[conn] = true
	}
	return d.isOpen
}

// slow reads what has come once the door is not frozen.
type slow struct {
	net.Conn
	door *door
}

func (s slow) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.door.mu.Lock()
	thawed := s.door.thawed
	s.door.mu.Unlock()
	<-thawed
	return n, err
}
