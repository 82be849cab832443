package config

import (
	"path"
	"strings"
)

// parseWS checks the listener for WebSocket without TLS (checkTLS has the other), and reads "app.example.org,*.example.org:8443".
func (s *Serve) parseWS(origins string) (faults []error) {
	if s.ListenWS != "" {
		check := Loopback
		if s.Insecure {
			check = address
		}
		if err := check("listen-ws", s.ListenWS); err != nil {
			faults = append(faults, err)
		}
	}
	if origins == "" {
		return faults
	}
	if s.ListenWS == "" && s.ListenWSS == "" {
		faults = append(faults, Fault("ws-origin", origins, "there is no listener for WebSocket", "--listen-ws or --listen-wss with it"))
	}
	for origin := range strings.SplitSeq(origins, ",") {
		origin = strings.TrimSpace(origin)
		if _, err := path.Match(origin, ""); err != nil || origin == "" || strings.ContainsAny(origin, "/ @") {
			faults = append(faults, Fault("ws-origin", origins, "\""+origin+"\" isn't a host", "hosts, split by commas, with a port where it isn't the scheme's own: app.example.org,*.example.net:8443"))
			continue
		}
		s.WSOrigins = append(s.WSOrigins, origin)
	}
	return faults
}
