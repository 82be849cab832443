package config

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func defaults() ServeFlags {
	return ServeFlags{Node: "1", Data: DefaultData, Listen: DefaultListen, Admin: DefaultAdmin, Safety: DefaultSafety, Dev: true}
}

func TestServeDefaultsAreALoneNode(t *testing.T) {
	s, err := defaults().Parse()
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Peers) > 0 || s.PeerListen != DefaultPeerListen || s.SafetyOff {
		t.Fatalf("got %+v, want a node without a list of peers", s)
	}
}

func TestServeTakesPeerListenFromPeers(t *testing.T) {
	f := defaults()
	f.Node, f.Peers, f.Safety, f.ScrubEvery = "2", "1=127.0.0.1:7001,2=127.0.0.1:7002,3=[::1]:7003", "off", time.Second
	s, err := f.Parse()
	if err != nil {
		t.Fatal(err)
	}
	if s.PeerListen != "127.0.0.1:7002" || len(s.Peers) != 3 || !s.SafetyOff || s.Node != 2 || s.ScrubEvery != time.Second {
		t.Fatalf("got %+v", s)
	}
}

func TestServeWithTLS(t *testing.T) {
	f := defaults()
	f.Dev, f.Listen, f.ListenTLS, f.TLSCert, f.TLSKey, f.TLSClientCA, f.Plain = false, Off, "0.0.0.0:5671", "c", "k", "ca", true
	s, err := f.Parse()
	if err != nil {
		t.Fatal(err)
	}
	if s.Listen != "" || s.ListenTLS != "0.0.0.0:5671" || s.TLSCert != "c" || s.TLSKey != "k" || s.TLSClientCA != "ca" || !s.Plain || s.Dev {
		t.Errorf("%+v", s)
	}
}

func TestServeInsecure(t *testing.T) {
	f := defaults()
	f.Dev, f.Listen, f.Insecure = false, "0.0.0.0:5672", true
	if s, err := f.Parse(); err != nil || !s.Insecure || s.Listen != "0.0.0.0:5672" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestServeOverWebSocket(t *testing.T) {
	f := defaults()
	f.Dev, f.Listen, f.ListenWS, f.WSOrigins, f.Insecure = false, Off, "0.0.0.0:80", "app.example.org, *.example.net:8443", true
	s, err := f.Parse()
	if err != nil || s.Listen != "" || s.ListenWS != "0.0.0.0:80" || len(s.WSOrigins) != 2 || s.WSOrigins[1] != "*.example.net:8443" {
		t.Errorf("%+v, %v", s, err)
	}
	f.ListenWS, f.Insecure, f.ListenWSS, f.TLSCert, f.TLSKey = "", false, "0.0.0.0:443", "c", "k"
	if s, err = f.Parse(); err != nil || s.ListenWSS != "0.0.0.0:443" || s.TLSCert != "c" || s.ListenTLS != "" {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestServeFaults: each fault names the flag, quotes the value, says why and what is allowed.
func TestServeFaults(t *testing.T) {
	three := "1=127.0.0.1:7001,2=127.0.0.1:7002,3=127.0.0.1:7003"
	for _, tc := range []struct {
		name  string
		set   func(*ServeFlags)
		wants []string
	}{
		{"node zero", func(f *ServeFlags) { f.Node = "0" }, []string{`--node "0"`, "1 to 65535"}},
		{"node word", func(f *ServeFlags) { f.Node = "first" }, []string{`--node "first"`}},
		{"node negative", func(f *ServeFlags) { f.Node = "-1" }, []string{`--node "-1"`}},
		{"node huge", func(f *ServeFlags) { f.Node = "65536" }, []string{`--node "65536"`}},
		{"no data", func(f *ServeFlags) { f.Data = "" }, []string{`--data ""`, "directory"}},
		{"certificate without TLS", func(f *ServeFlags) { f.TLSCert = "c.pem" }, []string{`--tls-cert "c.pem"`, "--listen-tls"}},
		{"key without TLS", func(f *ServeFlags) { f.TLSKey = "k.pem" }, []string{`--tls-key "k.pem"`, "--listen-tls"}},
		{"CA without TLS", func(f *ServeFlags) { f.TLSClientCA = "ca.pem" }, []string{`--tls-client-ca "ca.pem"`, "--listen-tls"}},
		{"TLS without a certificate", func(f *ServeFlags) { f.ListenTLS, f.TLSKey = "127.0.0.1:5671", "k" }, []string{`--tls-cert ""`, "PEM"}},
		{"TLS without a key", func(f *ServeFlags) { f.ListenTLS, f.TLSCert = "127.0.0.1:5671", "c" }, []string{`--tls-key ""`, "PEM"}},
		{"TLS for all with dev", func(f *ServeFlags) { f.ListenTLS, f.TLSCert, f.TLSKey = "0.0.0.0:5671", "c", "k" }, []string{`--listen-tls "0.0.0.0:5671"`, "without --dev"}},
		{"TLS by name", func(f *ServeFlags) { f.ListenTLS, f.TLSCert, f.TLSKey = "mq1:5671", "c", "k" }, []string{`--listen-tls "mq1:5671"`}},
		{"TLS at the same address", func(f *ServeFlags) { f.ListenTLS, f.TLSCert, f.TLSKey = f.Listen, "c", "k" }, []string{`--listen-tls`, "--listen has the same"}},
		{"plaintext for all without dev", func(f *ServeFlags) { f.Dev, f.Listen = false, "0.0.0.0:5672" }, []string{`--listen "0.0.0.0:5672"`, "--listen-tls"}},
		{"insecure with dev", func(f *ServeFlags) { f.Listen, f.Insecure = "0.0.0.0:5672", true }, []string{"--" + InsecureFlag, "--dev"}},
		{"insecure admin", func(f *ServeFlags) { f.Dev, f.Admin, f.Insecure = false, "0.0.0.0:8161", true }, []string{`--admin "0.0.0.0:8161"`}},
		{"no listener", func(f *ServeFlags) { f.Listen = Off }, []string{`--listen "off"`, "--listen-tls"}},
		{"WebSocket for all", func(f *ServeFlags) { f.Dev, f.ListenWS = false, "0.0.0.0:80" }, []string{`--listen-ws "0.0.0.0:80"`, "loopback"}},
		{"WebSocket with TLS for all with dev", func(f *ServeFlags) { f.ListenWSS, f.TLSCert, f.TLSKey = "0.0.0.0:443", "c", "k" }, []string{`--listen-wss "0.0.0.0:443"`, "loopback"}},
		{"WebSocket with TLS without a certificate", func(f *ServeFlags) { f.ListenWSS, f.TLSKey = "127.0.0.1:443", "k" }, []string{`--tls-cert ""`, "PEM"}},
		{"WebSocket at the same address", func(f *ServeFlags) { f.ListenWS = f.Listen }, []string{"--listen-ws", "--listen has the same"}},
		{"origin without WebSocket", func(f *ServeFlags) { f.WSOrigins = "a" }, []string{`--ws-origin "a"`, "--listen-ws"}},
		{"origin with a scheme", func(f *ServeFlags) { f.ListenWS, f.WSOrigins = "127.0.0.1:80", "a,https://b" }, []string{"--ws-origin", `"https://b" isn't a host`}},
		{"origin with a bad pattern", func(f *ServeFlags) { f.ListenWS, f.WSOrigins = "127.0.0.1:80", "[a" }, []string{"--ws-origin", `"[a" isn't a host`}},
		{"scrub too often", func(f *ServeFlags) { f.ScrubEvery = time.Millisecond }, []string{`--scrub-every "1ms"`, "1s to 2160h"}},
		{"scrub backwards", func(f *ServeFlags) { f.ScrubEvery = -time.Hour }, []string{`--scrub-every "-1h0m0s"`}},
		{"scrub too seldom", func(f *ServeFlags) { f.ScrubEvery = 2161 * time.Hour }, []string{`--scrub-every "2161h0m0s"`}},
		{"safety", func(f *ServeFlags) { f.Safety = "maybe" }, []string{`--safety "maybe"`, `"off"`}},
		{"listen open", func(f *ServeFlags) { f.Listen = "0.0.0.0:5672" }, []string{`--listen "0.0.0.0:5672"`, "loopback"}},
		{"listen all", func(f *ServeFlags) { f.Listen = ":5672" }, []string{`--listen ":5672"`, "loopback"}},
		{"listen no port", func(f *ServeFlags) { f.Listen = "127.0.0.1" }, []string{`--listen "127.0.0.1"`, "host:port"}},
		{"listen bad port", func(f *ServeFlags) { f.Listen = "127.0.0.1:70000" }, []string{`"70000"`}},
		{"admin open", func(f *ServeFlags) { f.Admin = "10.0.0.1:8161" }, []string{`--admin "10.0.0.1:8161"`}},
		{"admin name", func(f *ServeFlags) { f.Admin = "example.org:8161" }, []string{`"example.org"`}},
		{"peer listen open", func(f *ServeFlags) { f.PeerListen = "[::]:5673" }, []string{`--peer-listen "[::]:5673"`}},
		{"same address", func(f *ServeFlags) { f.Admin = f.Listen }, []string{`--admin "127.0.0.1:5672"`, "--listen"}},
		{"peers not pairs", func(f *ServeFlags) { f.Peers = "127.0.0.1:7001" }, []string{"--peers", "ID=ADDR"}},
		{"peers trailing comma", func(f *ServeFlags) { f.Peers = three + "," }, []string{`""`, "ID=ADDR"}},
		{"peers twice", func(f *ServeFlags) { f.Peers = "1=127.0.0.1:1,1=127.0.0.1:2,3=127.0.0.1:3" }, []string{"node 1 is named twice"}},
		{"peers same address", func(f *ServeFlags) { f.Peers = "1=127.0.0.1:1,2=127.0.0.1:1,3=127.0.0.1:3" }, []string{"two nodes have the address"}},
		{"peers two", func(f *ServeFlags) { f.Peers = "1=127.0.0.1:1,2=127.0.0.1:2" }, []string{"2 nodes", "one node or three"}},
		{"peers without us", func(f *ServeFlags) { f.Node, f.Peers = "4", three }, []string{"node 4"}},
		{"peers open", func(f *ServeFlags) { f.Peers = strings.Replace(three, "3=127.0.0.1", "3=10.1.1.1", 1) }, []string{`--peers "10.1.1.1:7003"`}},
		{"peers port zero", func(f *ServeFlags) { f.Peers = strings.Replace(three, "7003", "0", 1) }, []string{"can't know a port"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := defaults()
			tc.set(&f)
			_, err := f.Parse()
			if !errors.Is(err, ErrUsage) {
				t.Fatalf("got %v, want a usage error", err)
			}
			for _, want := range append(tc.wants, "allowed:") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoesn't say %s", err, want)
				}
			}
		})
	}
}

func TestServeReportsAllFaultsAtOnce(t *testing.T) {
	f := defaults()
	f.Node, f.Data, f.Listen = "x", "", "nowhere"
	_, err := f.Parse()
	if n := strings.Count(err.Error(), "allowed:"); n != 3 {
		t.Fatalf("%d faults in %v, want 3", n, err)
	}
}

// TestServeWithMembers: where the members stand in the directory, nodes may listen elsewhere than on loopback, and say where they are reached.
func TestServeWithMembers(t *testing.T) {
	f := defaults()
	f.Node, f.Dev, f.PeerListen = "", false, "0.0.0.0:7000"
	f.AdvertiseFlags = AdvertiseFlags{Name: "mq-1", Advertise: "mq1.example.org:5672", AdvertiseTLS: "[::1]:5671", AdvertisePeer: "10.0.0.1:7000"}
	s, err := f.Parse()
	if want := (Advertised{"mq-1", "mq1.example.org:5672", "[::1]:5671", "10.0.0.1:7000"}); err != nil || s.Node != 0 || s.PeerListen != "0.0.0.0:7000" || s.Advertised != want {
		t.Errorf("%+v, %v", s, err)
	}
	for flag, set := range map[string]func(*ServeFlags){
		"name":           func(f *ServeFlags) { f.Name = "a b" },
		"advertise":      func(f *ServeFlags) { f.Advertise = "0.0.0.0:5672" },
		"advertise-tls":  func(f *ServeFlags) { f.AdvertiseTLS = "mq1:0" },
		"advertise-peer": func(f *ServeFlags) { f.AdvertisePeer = "user@mq1:7000" },
		"peer-listen":    func(f *ServeFlags) { f.Peers = "1=127.0.0.1:7000" },
	} {
		f := f
		set(&f)
		if _, err := f.Parse(); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "--"+flag+" ") {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if addr, err := ReachableAt("peer-listen", "0.0.0.0:7000", "advertise-peer", ""); err == nil || !strings.Contains(err.Error(), "--advertise-peer") {
		t.Errorf("%s, %v", addr, err)
	}
	if addr, err := ReachableAt("peer-listen", "10.0.0.1:7000", "advertise-peer", ""); err != nil || addr != "10.0.0.1:7000" {
		t.Errorf("%s, %v", addr, err)
	}
}
