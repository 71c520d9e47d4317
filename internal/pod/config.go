package pod

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a pod file.
const (
	MaxServer      = 1022 // the largest server number; 1023 means none
	DefaultTimeout = 10 * time.Second
	leastTimeout   = 50 * time.Millisecond
	leastKey       = 32 // least bytes of a key
	mostKey        = 4096
	mostFile       = 1 << 20
)

// Config describes a pod, and the server that this process is on.
type Config struct {
	Pod     uint32        // number of the pod
	Self    int           // index of Servers
	Servers []Server      // in the order of the file
	Timeout time.Duration // longest time without progress of a copy, and longest time of connecting
	Devices string        // RDMA devices, as in mlx5_0:1; "": the one that has the address
	// Transport is the way to other servers.
	Transport Transport
	Plain     bool // copies between machines are not encrypted
	// Connections is the most connections for the copies of one link.
	Connections int

	key []byte
}

// Transport is a way between servers.
type Transport string

const (
	// TransportAuto is RDMA if there is an adapter, Unix sockets on one machine, else TCP.
	TransportAuto Transport = "auto"
	TransportTCP  Transport = "tcp" // also on one machine
	// TransportUCX is TCP by UCX. It lets any host that can connect to the ports of UCX write to any memory of the
	// process.
	TransportUCX Transport = "ucx-tcp"
)

const mostConnections = mostLanes

// Server is a server of a pod.
type Server struct {
	ID      int
	Address netip.Addr
	Ports   [2]uint16 // first and last port of its processes; 0 for any
}

// Me returns the server that this process is on.
func (c *Config) Me() Server { return c.Servers[c.Self] }

// Has reports whether there is a server with number id.
func (c *Config) Has(id int) bool {
	_, ok := c.server(id)
	return ok
}

// server returns the server with number id.
func (c *Config) server(id int) (Server, bool) {
	for _, s := range c.Servers {
		if s.ID == id {
			return s, true
		}
	}
	return Server{}, false
}

// Read reads a pod file. self is the number of this server; if it is "", this is the server whose address this machine
// has.
func Read(file, self string) (*Config, error) {
	text, err := readBounded(file, mostFile)
	if err != nil {
		return nil, err
	}
	c, keyFile, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if !filepath.IsAbs(keyFile) {
		keyFile = filepath.Join(filepath.Dir(file), keyFile)
	}
	if c.key, err = readKey(keyFile); err != nil {
		return nil, err
	}
	if c.Self, err = c.find(self); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// readBounded reads a file of at most the given number of bytes, whatever its reported size.
func readBounded(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s: more than %d bytes", file, most)
	}
	return text, err
}

// publishedKey is a former placeholder in the manifest for Kubernetes. It is long enough to be a key, and so has to be
// refused.
const publishedKey = "replace-this-by-what-ropeway-pod-init-writes-to-pod.key"

// readKey reads a key. Only its owner and group may have permission to read it.
func readKey(file string) ([]byte, error) {
	i, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if i.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("%s: everybody on this machine can read the key; chmod 600", file)
	}
	key, err := readBounded(file, mostKey)
	if err != nil {
		return nil, err
	}
	key = bytes.TrimSpace(key)
	switch {
	case string(key) == publishedKey:
		return nil, fmt.Errorf("%s: everybody knows this key, it was in docs/pod.md; ropeway pod init makes one", file)
	case len(key) < leastKey:
		return nil, fmt.Errorf("%s: a key has %d bytes or more, this one has %d; ropeway pod init makes one", file,
			leastKey, len(key))
	}
	return key, nil
}

// find returns the index of the server that this process is on.
func (c *Config) find(self string) (int, error) {
	if self != "" {
		id, err := strconv.Atoi(self)
		if err != nil {
			return 0, fmt.Errorf("%q is not the number of a server", self)
		}
		for i, s := range c.Servers {
			if s.ID == id {
				return i, nil
			}
		}
		return 0, fmt.Errorf("there is no server %d", id)
	}
	found := -1
	for i, s := range c.Servers {
		if _, ok := deviceOf(s.Address); !ok {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("this machine has the addresses of servers %d and %d; "+
				"ROPEWAY_POD_SERVER says which one a process is on",
				c.Servers[found].ID, s.ID)
		}
		found = i
	}
	if found < 0 {
		return 0, errors.New("this machine has none of the addresses; " +
			"ROPEWAY_POD_SERVER says which server a process is on")
	}
	return found, nil
}

// deviceOf returns the network device that has an address.
func deviceOf(a netip.Addr) (string, bool) {
	all, err := net.Interfaces()
	if err != nil {
		return "", false
	}
	for _, i := range all {
		list, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, x := range list {
			n, ok := x.(*net.IPNet)
			if !ok {
				continue
			}
			if has, ok := netip.AddrFromSlice(n.IP); ok && has.Unmap() == a || a.IsLoopback() &&
				n.Contains(a.AsSlice()) {
				return i.Name, true
			}
		}
	}
	return "", false
}

// parse parses a pod file, and returns the name of the key file. It accepts only the part of YAML that such a file
// needs.
//
//	pod: 7                  # optional, and so are timeout, transport, encryption, connections and devices
//	key: pod.key
//	timeout: 10s
//	servers:
//	  - {id: 0, address: 10.0.0.1}
//	  - {id: 1, address: 10.0.0.2, ports: 7700-7799}
func parse(text []byte) (*Config, string, error) {
	c := &Config{Timeout: DefaultTimeout, Transport: TransportAuto, Connections: min(max(runtime.NumCPU()/2, 1), 4)}
	keyFile, inServers := "", false
	seen := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if i := strings.Index(line, "#"); i >= 0 {
			line = line[:i]
		}
		entry := strings.TrimSpace(line)
		if entry == "" || entry == "---" {
			continue
		}
		bad := func(err error) (*Config, string, error) { return nil, "", fmt.Errorf("line %d: %w", n, err) }
		if strings.HasPrefix(entry, "- ") {
			if !inServers {
				return bad(errors.New("a list is expected after servers: only"))
			}
			s, err := parseServer(strings.TrimSpace(entry[2:]))
			if err != nil {
				return bad(err)
			}
			if _, twice := c.server(s.ID); twice {
				return bad(fmt.Errorf("server %d is there twice", s.ID))
			}
			c.Servers = append(c.Servers, s)
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			return bad(fmt.Errorf("%q: write a server on one line, as in - {id: 0, address: 10.0.0.1}", entry))
		}
		name, value, ok := strings.Cut(entry, ":")
		value = unquote(strings.TrimSpace(value))
		if !ok || seen[name] {
			return bad(fmt.Errorf("%q is no entry, or is there twice", entry))
		}
		seen[name], inServers = true, false
		var err error
		switch name {
		case "pod":
			var p uint64
			p, err = strconv.ParseUint(value, 0, 31)
			c.Pod = uint32(p)
		case "key":
			keyFile = value
		case "timeout":
			if c.Timeout, err = time.ParseDuration(value); err == nil && c.Timeout < leastTimeout {
				err = fmt.Errorf("timeout %v is less than %v", c.Timeout, leastTimeout)
			}
		case "devices":
			c.Devices = value
		case "transport":
			c.Transport = Transport(value)
			if !slices.Contains([]Transport{TransportAuto, TransportTCP, TransportUCX}, c.Transport) {
				err = fmt.Errorf("transport %q is not one of auto, tcp, ucx-tcp", value)
			}
		case "encryption":
			if c.Plain = value == "none"; !c.Plain && value != "tls" {
				err = fmt.Errorf("encryption %q is not one of tls, none", value)
			}
		case "connections":
			if c.Connections, err = strconv.Atoi(value); err == nil &&
				(c.Connections < 1 || c.Connections > mostConnections) {
				err = fmt.Errorf("connections %d is not 1 to %d", c.Connections, mostConnections)
			}
		case "servers":
			if inServers = true; value != "" {
				err = errors.New("servers: is followed by lines that begin with a dash")
			}
		default:
			err = fmt.Errorf("%q is not one of pod, key, timeout, transport, encryption, connections, devices, "+
				"servers", name)
		}
		if err != nil {
			return bad(err)
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, "", lines.Err()
	case keyFile == "":
		return nil, "", errors.New("key: is missing, the name of the file with the pod's key")
	case len(c.Servers) == 0:
		return nil, "", errors.New("servers: is missing, or empty")
	}
	return c, keyFile, nil
}

// parseServer reads {id: 0, address: 10.0.0.1, ports: 7700-7799}.
func parseServer(text string) (s Server, err error) {
	inner, begins := strings.CutPrefix(text, "{")
	inner, ends := strings.CutSuffix(inner, "}")
	if !begins || !ends {
		return s, fmt.Errorf("%q: a server is written {id: 0, address: 10.0.0.1}", text)
	}
	s.ID = -1
	for _, part := range strings.Split(inner, ",") {
		name, value, _ := strings.Cut(part, ":")
		value = unquote(strings.TrimSpace(value))
		switch strings.TrimSpace(name) {
		case "id":
			if s.ID, err = strconv.Atoi(value); err == nil && (s.ID < 0 || s.ID > MaxServer) {
				err = fmt.Errorf("id %d is not 0 to %d", s.ID, MaxServer)
			}
		case "address":
			s.Address, err = ParseAddress(value)
		case "ports":
			s.Ports, err = parsePorts(value)
		default:
			err = fmt.Errorf("%q is not one of id, address, ports", name)
		}
		if err != nil {
			return s, err
		}
	}
	if s.ID < 0 || !s.Address.IsValid() {
		return s, fmt.Errorf("%q: a server has an id and an address", text)
	}
	return s, nil
}

// ParseAddress reads the address of a server.
func ParseAddress(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, fmt.Errorf("%q is not an IP address", text)
	}
	if a = a.Unmap(); a.IsUnspecified() {
		return a, fmt.Errorf("address %s cannot be reached by other servers", text)
	}
	return a, nil
}

func parsePorts(value string) (p [2]uint16, err error) {
	lo, hi, is := strings.Cut(value, "-")
	if !is {
		hi = lo
	}
	first, err1 := strconv.ParseUint(strings.TrimSpace(lo), 10, 16)
	last, err2 := strconv.ParseUint(strings.TrimSpace(hi), 10, 16)
	if err1 != nil || err2 != nil || first == 0 || last < first {
		return p, fmt.Errorf("ports: %q is no port and no range like 7700-7799", value)
	}
	return [2]uint16{uint16(first), uint16(last)}, nil
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}
